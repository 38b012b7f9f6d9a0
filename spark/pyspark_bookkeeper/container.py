"""The first process of the Spark image: starts the program that Kubernetes asks for.

Spark's own scheduler starts its pods with the single argument `executor` (and, in cluster mode, `driver` with what to
submit), and says everything else in environment variables; pip's Spark brings no script for that. Any other words are a
command. This process becomes the program, so that signals reach it.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

EXECUTOR = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
JAVA_OPTION = "SPARK_JAVA_OPT_"
USAGE = 2


def command(words: Sequence[str], environment: Mapping[str, str], spark_home: Path) -> list[str]:
    """Return the program that `words` mean. Raises KeyError naming what an executor should have been told."""
    match words:
        case ["executor", *_]:
            return _executor(environment, spark_home)
        case ["driver", *rest]:
            bind = f"spark.driver.bindAddress={environment['SPARK_DRIVER_BIND_ADDRESS']}"
            return [str(spark_home / "bin" / "spark-submit"), "--conf", bind, "--deploy-mode", "client", *rest]
        case _:
            return list(words)


def _executor(environment: Mapping[str, str], spark_home: Path) -> list[str]:
    numbered = sorted(
        (int(name.removeprefix(JAVA_OPTION)), value)
        for name, value in environment.items()
        if name.startswith(JAVA_OPTION) and name.removeprefix(JAVA_OPTION).isdigit()
    )
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    java = Path(environment["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in environment else "java"
    told = {
        "--driver-url": "SPARK_DRIVER_URL",
        "--executor-id": "SPARK_EXECUTOR_ID",
        "--cores": "SPARK_EXECUTOR_CORES",
        "--app-id": "SPARK_APPLICATION_ID",
        "--hostname": "SPARK_EXECUTOR_POD_IP",
        "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
        "--podName": "SPARK_EXECUTOR_POD_NAME",
    }
    class_path = f"{environment.get('SPARK_CONF_DIR', '/opt/spark/conf')}:{spark_home / 'jars'}/*"
    return [
        str(java),
        *(value for _, value in numbered),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        class_path,
        EXECUTOR,
        *(word for flag, name in told.items() for word in (flag, environment[name])),
    ]


def main() -> int:
    """Replace this process by the program. Returns only when that fails."""
    import pyspark

    try:
        argv = command(sys.argv[1:], os.environ, Path(pyspark.__file__).parent)
        if not argv:
            print("container: say what to run, e.g. python3 -m pyspark_bookkeeper --help", file=sys.stderr)
            return USAGE
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.execvp(argv[0], argv)
    except KeyError as missing:
        print(f"container: {missing.args[0]} is not set, which Spark's scheduler does for its pods", file=sys.stderr)
    except OSError as error:
        print(f"container: {argv[0]} cannot be run: {error.strerror}", file=sys.stderr)
    return USAGE


if __name__ == "__main__":
    sys.exit(main())
