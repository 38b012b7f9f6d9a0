"""A small Spark session for tests: quick to start, quiet, and with the settings that our own jobs use.

And Spark without Spark: `rows` does what its planner and its workers do with our source, in this process.
"""

from __future__ import annotations

import contextlib
import pickle
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import wait_support
from bookie.blocking import BlockingReader
from pyspark_bookkeeper import DefaultSource, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2
JVM_END_TIMEOUT_S = 30
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
def spark_session(
    folder: Path, extra: Mapping[str, str] | None = None, *, cores: int = CORES
) -> Iterator[SparkSession]:
    """A session on `local[cores]` until the end of the block. One at a time in a process."""
    try:
        with session.open_session("tests", master=f"local[{cores}]", conf=conf(folder, extra)) as spark:
            yield spark
    finally:
        _end_jvm()


def _end_jvm() -> None:
    """Spark keeps its half a gigabyte of Java until our process ends; it goes when its standard input does."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    try:
        process.wait(timeout=JVM_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._gateway = SparkContext._jvm = None


def rows(uri: str, *, schema: StructType | None = None, **options: str) -> list[dict[str, Any]]:
    """What Spark would read, without Spark: every step as it makes them, each object pickled where Spark pickles it."""
    return [row for batch in batches(uri, schema=schema, **options) for row in batch.to_pylist()]


def batches(uri: str, *, schema: StructType | None = None, **options: str) -> Iterator[pa.RecordBatch]:
    """The same as record batches, checked against the schema that Spark compares them with."""
    reader, planned, wanted = plan(uri, schema=schema, **options)
    expected = to_arrow_schema(wanted, timezone="UTC")
    for partition in planned:
        for batch in _batches_of(reader, partition):
            assert batch.schema.equals(expected), f"Spark wants {expected}, got {batch.schema}"
            yield batch


def rows_of(reader: DataSourceReader, partition: InputPartition) -> list[dict[str, Any]]:
    """What one task reads."""
    return [row for batch in _batches_of(reader, partition) for row in batch.to_pylist()]


def _batches_of(reader: DataSourceReader, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    for batch in reader.read(partition):
        assert isinstance(batch, pa.RecordBatch)
        yield batch


def plan(
    uri: str, *, schema: StructType | None = None, **options: str
) -> tuple[DataSourceReader, list[InputPartition], StructType]:
    """A reader as it arrives in a task, and the partitions that were planned on the driver."""
    source = DefaultSource({"metadataserviceuri": uri, **{name.lower(): text for name, text in options.items()}})
    wanted = source.schema() if schema is None else schema
    reader = source.reader(wanted)
    planned = reader.partitions()
    return pickle.loads(pickle.dumps(reader)), pickle.loads(pickle.dumps(planned)), wanted


def wait_confirmed(reader: BlockingReader, last: int) -> None:
    """Return once the bookies tell that the ledger is confirmed up to `last`: a writer tells them when it pauses."""
    wait_support.wait_until(lambda: reader.read_last_confirmed() >= last, f"LAC {last}", timeout_s=30)
