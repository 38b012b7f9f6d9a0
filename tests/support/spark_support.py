"""A small Spark session for tests: quick to start, quiet, and with the settings that our own jobs use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_bookkeeper import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2
# JVM settings hold for the first session of a process only: every test session of a process must use these.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"


def conf(folder: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a test session is configured with; `folder` takes what Spark would leave in the working directory."""
    return {
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": JVM_OPTIONS,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "ERROR",
        **(extra or {}),
    }


@contextlib.contextmanager
def spark_session(folder: Path, extra: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session on `local[2]` until the end of the block. One at a time in a process."""
    with session.open_session("tests", master=f"local[{CORES}]", conf=conf(folder, extra)) as spark:
        yield spark
