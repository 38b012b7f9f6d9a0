"""What the Spark image runs for the words that Kubernetes gives it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_bookkeeper import container

HOME = Path("/spark")
TOLD = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1g",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
    "SPARK_EXECUTOR_POD_NAME": "audit-exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_JAVA_OPT_10": "-Dten",
    "SPARK_JAVA_OPT_2": "-Dtwo",
}


def test_an_executor_is_the_class_of_spark_s_scheduler_with_what_it_was_told() -> None:
    argv = container.command(["executor"], TOLD, HOME)

    assert argv[:5] == ["java", "-Dtwo", "-Dten", "-Xms1g", "-Xmx1g"]
    assert argv[5:8] == ["-cp", "/opt/spark/conf:/spark/jars/*", container.EXECUTOR]
    flags = dict(zip(argv[8::2], argv[9::2], strict=True))
    assert flags["--driver-url"] == TOLD["SPARK_DRIVER_URL"]
    assert flags["--hostname"] == "10.0.0.2"
    assert flags["--podName"] == "audit-exec-3"
    assert flags["--resourceProfileId"] == "0"


def test_an_executor_takes_the_java_of_java_home() -> None:
    assert container.command(["executor"], {**TOLD, "JAVA_HOME": "/jre"}, HOME)[0] == "/jre/bin/java"


def test_a_driver_submits_what_follows() -> None:
    argv = container.command(["driver", "--class", "X", "job.py"], {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.9"}, HOME)

    assert argv == [
        *("/spark/bin/spark-submit", "--conf", "spark.driver.bindAddress=10.0.0.9", "--deploy-mode", "client"),
        *("--class", "X", "job.py"),
    ]


def test_other_words_are_a_command_of_their_own() -> None:
    assert container.command(["python3", "-m", "x"], {}, HOME) == ["python3", "-m", "x"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "say what to run"),
        (["executor"], "SPARK_EXECUTOR_MEMORY is not set"),
        (["/no/such/program"], "/no/such/program cannot be run"),
    ],
)
def test_what_cannot_be_run_is_told_in_one_sentence(words: list[str], complaint: str) -> None:
    environment = {name: text for name, text in os.environ.items() if not name.startswith("SPARK_")}

    done = subprocess.run(
        [sys.executable, "-m", "pyspark_bookkeeper.container", *words],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )

    assert done.returncode == container.USAGE
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1
