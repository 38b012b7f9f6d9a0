"""The source inside Spark: what users type, what they see, and what they are told when it fails."""

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pyspark_bookkeeper
import spark_ledgers
import spark_support
from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.blocking import BlockingClient
from local_support import LocalFleet
from pyspark_bookkeeper import DefaultSource, failures
from spark_ledgers import payload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]


def load(spark: "SparkSession", fleet: LocalFleet, **options: Any) -> "DataFrame":
    return spark.read.format("bookkeeper").options(metadataServiceUri=fleet.uri, **options).load()


# ---- what users type -------------------------------------------------------------------------------------------------


def test_a_ledger_is_a_dataframe_with_no_registration(
    spark: "SparkSession", fleet: LocalFleet, client: BlockingClient
) -> None:
    ledger = spark_ledgers.write(client, 1_000)

    frame = load(spark, fleet, ledgers=ledger, minPartitions=2)

    assert frame.schema.simpleString() == "struct<ledger_id:bigint,entry_id:bigint,value:binary>"
    assert frame.rdd.getNumPartitions() == 2
    found = frame.selectExpr("entry_id", "CAST(value AS STRING) AS text").orderBy("entry_id").collect()
    assert [row.text.encode() for row in found] == [payload(ledger, entry) for entry in range(1_000)]


def test_a_session_that_cannot_find_the_source_is_told_of_it(
    spark: "SparkSession", fleet: LocalFleet, client: BlockingClient
) -> None:
    ledger = spark_ledgers.write(client, 3)
    session = spark.newSession()

    pyspark_bookkeeper.register(session)

    assert load(session, fleet, ledgers=ledger).count() == 3


def test_a_ledger_is_a_table_in_sql(spark: "SparkSession", fleet: LocalFleet, client: BlockingClient) -> None:
    ledger = spark_ledgers.write(client, 10)
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW orders USING bookkeeper "
        f"OPTIONS (metadataServiceUri '{fleet.uri}', ledgers '{ledger}')"
    )

    (row,) = spark.sql("SELECT count(*) AS entries, sum(length(value)) AS bytes FROM orders").collect()

    assert (row.entries, row.bytes) == (10, 200)


def test_the_schema_of_the_query_is_all_that_is_built(
    spark: "SparkSession", fleet: LocalFleet, client: BlockingClient
) -> None:
    ledger = spark_ledgers.write(client, 100)
    source = spark.read.format("bookkeeper").options(metadataServiceUri=fleet.uri, ledgers=ledger)

    frame = source.schema("entry_id long, last_add_confirmed long").load()

    assert frame.columns == ["entry_id", "last_add_confirmed"]
    assert frame.count() == 100
    assert {row.last_add_confirmed for row in frame.collect()} == {99}


def test_a_query_that_selects_nothing_gives_no_rows(
    spark: "SparkSession", fleet: LocalFleet, client: BlockingClient
) -> None:
    """Spark asks for a partition of its own making then."""
    ledger = spark_ledgers.write(client, 5)

    assert load(spark, fleet, ledgers=ledger, startingOffsets=f'{{"{ledger}": 5}}').collect() == []


def test_the_metadata_views_are_tables_too(spark: "SparkSession", fleet: LocalFleet, client: BlockingClient) -> None:
    ledger = spark_ledgers.write(client, 100, custom={"app": b"joined"})
    ledgers = load(spark, fleet, view="ledgers", ledgerFilter="app=joined")
    replicas, bookies = load(spark, fleet, view="replicas"), load(spark, fleet, view="bookies")

    joined = ledgers.join(replicas, "ledger_id").join(bookies, "bookie_id").groupBy("ledger_id", "zone")
    found = joined.sum("entries").collect()

    assert {row.ledger_id for row in found} == {ledger}
    assert sum(row["sum(entries)"] for row in found) == 200
    (whole,) = ledgers.selectExpr("segments[0].bookies AS bookies", "CAST(custom['app'] AS STRING) AS app").collect()
    assert (len(whole.bookies), whole.app) == (3, "joined")


def test_a_worker_keeps_its_client_from_task_to_task(spark: "SparkSession", fleet: LocalFleet) -> None:
    uri = fleet.uri

    def ask(_: object) -> tuple[int, int]:
        from pyspark_bookkeeper import fleet as clients
        from pyspark_bookkeeper.options import ClusterConnection

        return os.getpid(), id(clients.client(ClusterConnection(uri)))

    answers = [spark.sparkContext.parallelize([0], 1).map(ask).collect()[0] for _ in range(5)]

    # Spark has a worker a core, and lets idle ones take turns.
    workers = {pid for pid, _ in answers}
    assert len(workers) <= spark_support.CORES
    assert len(set(answers)) == len(workers)


# ---- what users are told ---------------------------------------------------------------------------------------------


def told(frame: "Any") -> str:
    """The sentence for what happens when the query runs."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  # Spark has many
        frame().collect()
    return failures.sentence(caught.value)


def test_a_query_that_cannot_be_planned_is_told_why(
    spark: "SparkSession", fleet: LocalFleet, client: BlockingClient, closed_port: int
) -> None:
    ledger = spark_ledgers.write(client, 2, password=b"secret")
    nowhere = f"zk+hierarchical://127.0.0.1:{closed_port}/ledgers"
    hasty = {"metadataServiceUri": nowhere, "bookkeeper.client.sessionTimeoutMs": "1000"}

    assert told(lambda: load(spark, fleet, ledger=ledger)) == (
        "bookkeeper source: there is no option ledger (did you mean ledgers?)"
    )
    assert told(lambda: load(spark, fleet, ledgers=ledger)).startswith(f"ledger {ledger} has a password: name the file")
    assert told(lambda: load(spark, fleet, ledgers=ledger, passwordFile=__file__)) == (
        f"ledger {ledger}: the password in {__file__} is wrong"
    )
    assert told(lambda: load(spark, fleet, ledgers="987654")).startswith("ledger 987654 does not exist")
    assert told(lambda: spark.read.format("bookkeeper").options(**hasty).load()).startswith(
        f"the metadata store at 127.0.0.1:{closed_port} did not answer within 1 s"
    )


def test_a_task_that_fails_tells_the_ledger_and_the_entry(
    spark: "SparkSession", fleet: LocalFleet, client: BlockingClient, closed_port: int
) -> None:
    bookies = [BookieId(one.bookie_id) for one in fleet.bookies[:2]]
    rotten = spark_ledgers.plant(
        client, bookies, 5, lambda entry, _, body: spark_ledgers.flip_bit(body) if entry == 3 else body
    )
    unreachable = spark_ledgers.plant(client, bookies[:1], 2, lambda _, __, body: body)
    spark_ledgers.point_at(client, unreachable, BookieId(f"127.0.0.1:{closed_port}"))

    assert told(lambda: load(spark, fleet, ledgers=rotten)).startswith(
        f"ledger {rotten} entry 3 is corrupt on every replica that answered: bookie "
    )
    assert told(lambda: load(spark, fleet, ledgers=unreachable)).startswith(
        f"ledger {unreachable} entry 0 cannot be read now: "
    )
    shown = load(spark, fleet, ledgers=rotten, onCorrupt="emit").where("error IS NOT NULL").collect()
    assert [(row.entry_id, row.value) for row in shown] == [(3, None)]


def test_a_dataframe_is_planned_once_and_says_so_when_a_ledger_is_gone(
    spark: "SparkSession", fleet: LocalFleet, client: BlockingClient
) -> None:
    ledger = spark_ledgers.write(client, 5, custom={"app": b"planned"})
    frame = load(spark, fleet, ledgerFilter="app=planned")
    assert frame.count() == 5

    spark_ledgers.write(client, 7, custom={"app": b"planned"})
    client.delete(ledger)

    assert told(lambda: frame).startswith(f"ledger {ledger} was deleted after the query was planned: load() the Data")
    assert load(spark, fleet, ledgerFilter="app=planned").count() == 7


def test_what_the_source_cannot_do_is_told_in_a_sentence(spark: "SparkSession", fleet: LocalFleet) -> None:
    source = DefaultSource({"metadataserviceuri": fleet.uri})
    frame = spark.range(3).selectExpr("id AS ledger_id")

    for refused in (source.streamReader, lambda schema: source.streamWriter(schema, False)):
        with pytest.raises(errors.BadInput, match=r"bookkeeper source: ledgers are (read in batches|only read): "):
            refused(source.schema())
    with pytest.raises(Exception) as caught:  # noqa: PT011  # Spark has many
        frame.write.format("bookkeeper").mode("append").options(metadataServiceUri=fleet.uri).save()
    assert (
        failures.sentence(caught.value) == "bookkeeper source: ledgers are only read: write them with bookie.blocking"
    )


# ---- programs --------------------------------------------------------------------------------------------------------


def test_the_example_answers_its_questions(
    spark: "SparkSession", fleet: LocalFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the session that is here: another would cost half a minute."""
    example = runpy.run_path(str(ROOT / "examples" / "pipeline.py"))

    example["write_orders"](fleet.uri)
    example["ask"](spark, fleet.uri)

    printed = capsys.readouterr().out
    assert "|Basel|  2000|" in printed
    assert "|      1999|" in printed
    assert fleet.bookies[0].bookie_id in printed


def test_a_program_that_fails_in_spark_ends_with_one_sentence_and_1(
    spark: "SparkSession", fleet: LocalFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught, failures.told("job"):
        load(spark, fleet, ledgers="987654").count()

    assert caught.value.code == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("job: ledger 987654 does not exist in the cluster at zk")


def run_example(uri: str, **environment: str) -> str:
    """The last words of `examples/pipeline.py`, which fails before it starts Spark."""
    done = subprocess.run(
        [sys.executable, "examples/pipeline.py", uri],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    return done.stderr.splitlines()[-1]


def test_a_program_without_java_says_so_and_fails(fleet: LocalFleet, tmp_path: Path) -> None:
    said = run_example(fleet.uri, PATH=str(tmp_path), JAVA_HOME="")

    assert said.startswith("pipeline: Spark needs Java 17, which is neither on PATH nor in JAVA_HOME")


def test_a_program_with_another_python_in_its_workers_says_so_and_fails(fleet: LocalFleet, tmp_path: Path) -> None:
    """A Python without our package: this one, told to leave the installed packages out."""
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    other.chmod(0o755)

    said = run_example(fleet.uri, PYSPARK_PYTHON=str(other), PYTHONPATH="")

    assert said.startswith(f"pipeline: PYSPARK_PYTHON is {other}, which lacks this package (ModuleNotFound")


def test_a_program_whose_workers_have_no_python_says_so_and_fails(fleet: LocalFleet, tmp_path: Path) -> None:
    said = run_example(fleet.uri, PYSPARK_PYTHON=str(tmp_path / "none"))

    assert said.startswith(f"pipeline: PYSPARK_PYTHON is {tmp_path}/none, which cannot be run (No such file")
