"""The source against real bookies, without a JVM: planned, pickled and read as Spark does it."""

import dataclasses
import datetime as dt
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import spark_ledgers
import spark_support
from bookie import blocking
from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.blocking import BlockingClient
from bookie.client import Client, DigestType
from bookie.metadata import lost_entries
from bookie.ports.metadata_store import ANY_VERSION
from local_support import LocalFleet
from pyspark_bookkeeper import fleet as clients
from pyspark_bookkeeper import options, planning, schema
from pyspark_bookkeeper.batch import EntryPartition, EntryReader
from pyspark_bookkeeper.options import ClusterConnection
from pyspark_bookkeeper.partitions import Piece
from spark_ledgers import payload

IDS = StructType([StructField("ledger_id", LongType()), StructField("entry_id", LongType())])


def read(fleet: LocalFleet, ledgers: object, **options: Any) -> list[dict[str, object]]:
    return spark_support.rows(fleet.uri, ledgers=str(ledgers), **options)


def entries(fleet: LocalFleet, ledgers: object, **options: Any) -> list[int]:
    return [row["entry_id"] for row in read(fleet, ledgers, **options)]  # type: ignore[misc]


# ---- what a query gets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("digest", list(DigestType))
def test_every_entry_is_read_with_its_content(fleet: LocalFleet, client: BlockingClient, digest: DigestType) -> None:
    one = spark_ledgers.write(client, 700, digest_type=digest)
    other = spark_ledgers.write(client, 3, digest_type=digest)

    found = read(fleet, f"{one},{other}", minPartitions="3")

    wanted = [(ledger, entry) for ledger, count in ((one, 700), (other, 3)) for entry in range(count)]
    assert sorted((row["ledger_id"], row["entry_id"]) for row in found) == wanted
    assert all(row["value"] == payload(row["ledger_id"], row["entry_id"]) for row in found)  # type: ignore[arg-type]


def test_a_fleet_without_an_option_about_ledgers_is_read_whole(fleet: LocalFleet, client: BlockingClient) -> None:
    ledger = spark_ledgers.write(client, 2)

    found = spark_support.rows(fleet.uri, columns="ledger_id", failOnDataLoss="false")

    assert Counter(row["ledger_id"] for row in found)[ledger] == 2


def test_optional_columns_tell_of_the_entry_and_of_its_ledger(fleet: LocalFleet, client: BlockingClient) -> None:
    ledger = spark_ledgers.write(client, 3)

    found = read(fleet, ledger, columns="entry_id,length,last_add_confirmed,ledger_ctime,error")

    assert [row["length"] for row in found] == [20, 40, 60]
    assert {row["last_add_confirmed"] for row in found} == {2}
    assert {row["error"] for row in found} == {None}
    made = found[0]["ledger_ctime"]
    assert isinstance(made, dt.datetime)
    assert abs(dt.datetime.now(dt.UTC) - made) < dt.timedelta(minutes=10)


def test_batches_are_bounded_by_bytes_and_small_ledgers_share_one(fleet: LocalFleet, client: BlockingClient) -> None:
    large = spark_ledgers.write(client, 100, size_bytes=10_000)
    small = [spark_ledgers.write(client, 5) for _ in range(4)]

    of_large = list(spark_support.batches(fleet.uri, ledgers=str(large), maxBytesPerBatch="50000"))
    of_small = list(spark_support.batches(fleet.uri, ledgers=",".join(map(str, small))))

    assert [batch.num_rows for batch in of_large] == [5] * 20
    assert [batch.num_rows for batch in of_small] == [20]


def test_a_query_for_ids_fetches_no_entry(fleet: LocalFleet, client: BlockingClient) -> None:
    ledger = spark_ledgers.write(client, 1_000)
    nobody = BookieId("127.0.0.1:1")
    spark_ledgers.point_at(client, ledger, nobody)

    reader, planned, _ = spark_support.plan(fleet.uri, ledgers=str(ledger), schema=IDS)
    found = [row for part in planned for row in spark_support.rows_of(reader, part)]

    assert found == [{"ledger_id": ledger, "entry_id": entry} for entry in range(1_000)]


# ---- which entries ---------------------------------------------------------------------------------------------------


def test_offsets_bound_what_is_read(fleet: LocalFleet, client: BlockingClient) -> None:
    ledger = spark_ledgers.write(client, 10)

    assert entries(fleet, ledger, startingOffsets=f'{{"{ledger}": 7}}') == [7, 8, 9]
    assert entries(fleet, ledger, endingOffsets=f'{{"{ledger}": 2}}') == [0, 1]
    assert entries(fleet, ledger, startingOffsets=f'{{"{ledger}": 4}}', endingOffsets=f'{{"{ledger}": 4}}') == []


def test_an_offset_behind_the_end_is_data_loss(fleet: LocalFleet, client: BlockingClient) -> None:
    ledger = spark_ledgers.write(client, 10)
    beyond = f'{{"{ledger}": 12}}'

    with pytest.raises(errors.NoSuchEntry, match=f"ledger {ledger} is confirmed up to entry 9, endingOffsets says 12"):
        entries(fleet, ledger, endingOffsets=beyond)

    assert len(entries(fleet, ledger, endingOffsets=beyond, failOnDataLoss="false")) == 10


def test_ledgers_are_selected_by_what_their_writers_said_of_them(fleet: LocalFleet, client: BlockingClient) -> None:
    ledger = spark_ledgers.write(client, 2, custom={"app": b"unique", "env": b"test"})
    spark_ledgers.write(client, 2, custom={"app": b"unique", "env": b"prod"})

    found = spark_support.rows(fleet.uri, ledgerFilter="app=unique,env=test")

    assert {row["ledger_id"] for row in found} == {ledger}


def test_ledgers_are_selected_by_their_age(fleet: LocalFleet, client: BlockingClient) -> None:
    ledger = spark_ledgers.write(client, 2)
    made_ms = client.metadata(ledger).ctime_ms

    assert entries(fleet, ledger, startingTimestamp=str(made_ms)) == [0, 1]
    assert entries(fleet, ledger, startingTimestamp=str(made_ms + 1)) == []


def test_ids_come_from_a_file_of_lines_or_of_parquet(fleet: LocalFleet, client: BlockingClient, tmp_path: Path) -> None:
    ledgers = sorted(spark_ledgers.write(client, 1) for _ in range(2))
    lines, table = tmp_path / "ids.txt", tmp_path / "ids.parquet"
    lines.write_text("".join(f"{ledger}\n" for ledger in ledgers))
    pyarrow.parquet.write_table(pa.table({"ledger_id": [*ledgers, *ledgers]}), table)

    for path in (lines, table):
        found = spark_support.rows(fleet.uri, ledgerIdsFrom=str(path))
        assert sorted(row["ledger_id"] for row in found) == ledgers


# ---- writers and readers ---------------------------------------------------------------------------------------------


def test_an_open_ledger_is_read_to_its_last_confirmed_entry_and_its_writer_goes_on(
    fleet: LocalFleet, client: BlockingClient
) -> None:
    with client.create(ensemble_size=3, write_quorum=2, ack_quorum=2) as writer:
        writer.append_many([payload(writer.id, entry) for entry in range(100)])
        with client.open_no_recovery(writer.id) as reader:
            spark_support.wait_confirmed(reader, 99)

        found = entries(fleet, writer.id)
        writer.append_many([b"more"] * 100)

        assert found == list(range(100))
        assert client.metadata(writer.id).state.name == "OPEN"
    assert client.metadata(writer.id).last_entry == 199


def test_a_task_reads_as_far_as_was_planned_though_the_bookies_know_of_less(fleet: LocalFleet) -> None:
    """Another covering set may answer with an older LAC: what was planned counts, nobody is asked again."""
    query = options.parse({"metadataServiceUri": fleet.uri})
    reader = EntryReader(query, schema.of(query))
    with blocking.connect(fleet.uri, explicit_lac_ms=0) as silent, silent.create(ensemble_size=3) as writer:
        writer.append_many([payload(writer.id, entry) for entry in range(50)])
        piece = Piece(writer.id, 0, 50, 49, 0, 0, writer.metadata.segments[0].bookies[0])

        found = spark_support.rows_of(reader, EntryPartition((piece,)))

    assert [row["entry_id"] for row in found] == list(range(50))


def test_an_empty_ledger_is_no_rows(fleet: LocalFleet, client: BlockingClient) -> None:
    assert read(fleet, spark_ledgers.write(client, 0)) == []


# ---- bad input -------------------------------------------------------------------------------------------------------


def test_a_password_is_taken_from_a_file_or_from_the_environment(
    fleet: LocalFleet, client: BlockingClient, password_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = spark_ledgers.write(client, 2, password=b"secret")
    monkeypatch.setenv("ORDERS_PASSWORD", "secret")

    assert entries(fleet, ledger, passwordFile=str(password_file)) == [0, 1]
    assert entries(fleet, ledger, passwordEnv="ORDERS_PASSWORD") == [0, 1]


def test_a_wrong_password_is_told_with_the_ledger_and_without_the_password(
    fleet: LocalFleet, client: BlockingClient, password_file: Path, tmp_path: Path
) -> None:
    ledger = spark_ledgers.write(client, 2, password=b"another")

    with pytest.raises(errors.Unauthorized) as caught:
        read(fleet, ledger, passwordFile=str(password_file))
    assert str(caught.value) == f"ledger {ledger}: the password in {password_file} is wrong"

    with pytest.raises(errors.Unauthorized, match=f"ledger {ledger} has a password: name the file"):
        read(fleet, ledger)
    with pytest.raises(errors.BadInput, match="nowhere cannot be read here: No such file"):
        read(fleet, ledger, passwordFile=str(tmp_path / "nowhere"))
    with pytest.raises(errors.BadInput, match="the environment variable NOWHERE is not set"):
        read(fleet, ledger, passwordEnv="NOWHERE")


def test_an_unknown_ledger_is_told_unless_losses_are_accepted(fleet: LocalFleet) -> None:
    with pytest.raises(errors.LedgerMissing, match="ledger 987654 does not exist in the cluster at zk"):
        read(fleet, 987654)

    assert read(fleet, 987654, failOnDataLoss="false") == []
    assert read(fleet, 987654, failOnDataLoss="false", view="ledgers") == []
    assert read(fleet, "987654-987660") == []  # a range is what there is in it


def test_a_ledger_deleted_while_it_is_read_is_told_unless_losses_are_accepted(
    fleet: LocalFleet, client: BlockingClient
) -> None:
    ledger = spark_ledgers.write(client, 10)
    strict, planned, _ = spark_support.plan(fleet.uri, ledgers=str(ledger))
    lenient, _, _ = spark_support.plan(fleet.uri, ledgers=str(ledger), failOnDataLoss="false")
    client.delete(ledger)

    with pytest.raises(errors.LedgerMissing, match=f"ledger {ledger} was deleted after the query was planned"):
        list(strict.read(planned[0]))
    assert list(lenient.read(planned[0])) == []


def test_a_ledger_whose_entries_go_while_they_are_read_was_deleted(fleet: LocalFleet, client: BlockingClient) -> None:
    """Bookies drop a deleted ledger's entries in their own time; here one is missing from the start."""
    bookies = [BookieId(one.bookie_id) for one in fleet.bookies[:2]]
    ledger = spark_ledgers.plant(client, bookies, 9, lambda entry, _, body: None if entry == 3 else body)
    reader, planned, _ = spark_support.plan(fleet.uri, ledgers=str(ledger), maxBytesPerBatch="1")
    rows = reader.read(planned[0])
    next(rows)

    client.delete(ledger)

    with pytest.raises(errors.LedgerMissing, match=f"ledger {ledger} was deleted after the query was planned"):
        list(rows)


def test_a_flipped_bit_on_one_replica_is_read_around(fleet: LocalFleet, client: BlockingClient) -> None:
    bookies = [BookieId(one.bookie_id) for one in fleet.bookies[:2]]
    ledger = spark_ledgers.plant(
        client, bookies, 9, lambda entry, bookie, body: spark_ledgers.flip_bit(body) if bookie == bookies[0] else body
    )

    assert [row["value"] for row in read(fleet, ledger)] == [payload(ledger, entry) for entry in range(9)]


def test_a_flipped_bit_on_every_replica_is_told_skipped_or_shown(fleet: LocalFleet, client: BlockingClient) -> None:
    bookies = [BookieId(one.bookie_id) for one in fleet.bookies[:2]]
    ledger = spark_ledgers.plant(
        client, bookies, 9, lambda entry, _, body: spark_ledgers.flip_bit(body) if entry in (4, 8) else body
    )

    with pytest.raises(errors.DigestMismatch, match=f"ledger {ledger} entry 4 is corrupt on every replica"):
        read(fleet, ledger)
    assert entries(fleet, ledger, onCorrupt="skip") == [0, 1, 2, 3, 5, 6, 7]
    shown = read(fleet, ledger, onCorrupt="emit")
    assert [row["entry_id"] for row in shown] == list(range(9))
    assert [row["entry_id"] for row in shown if row["value"] is None] == [4, 8]
    assert "CRC32C digest does not match" in str(shown[4]["error"])
    assert shown[5]["error"] is None


def test_an_entry_that_every_replica_denies_is_told_unless_losses_are_accepted(
    fleet: LocalFleet, client: BlockingClient
) -> None:
    bookies = [BookieId(one.bookie_id) for one in fleet.bookies[:2]]
    ledger = spark_ledgers.plant(client, bookies, 9, lambda entry, _, body: None if entry == 3 else body)

    with pytest.raises(errors.NoSuchEntry, match=f"ledger {ledger} entry 3 was acknowledged, and every replica denies"):
        read(fleet, ledger)
    assert entries(fleet, ledger, failOnDataLoss="false") == [0, 1, 2, 4, 5, 6, 7, 8]


def test_an_unreachable_bookie_is_told_with_ledger_and_entry(
    fleet: LocalFleet, client: BlockingClient, closed_port: int
) -> None:
    bookies = [BookieId(fleet.bookies[0].bookie_id)]
    ledger = spark_ledgers.plant(client, bookies, 2, lambda _, __, body: body)
    spark_ledgers.point_at(client, ledger, BookieId(f"127.0.0.1:{closed_port}"))

    with pytest.raises(errors.BookieUnavailable, match=f"ledger {ledger} entry 0 cannot be read now: .*{closed_port}"):
        read(fleet, ledger)


@pytest.mark.slow
def test_an_unreachable_metadata_store_is_told_with_its_address(closed_port: int) -> None:
    uri = f"zk+hierarchical://127.0.0.1:{closed_port}/ledgers"
    hasty: dict[str, Any] = {"bookkeeper.client.sessionTimeoutMs": "1000"}

    with pytest.raises(errors.MetadataError, match=f"127.0.0.1:{closed_port} did not answer .*is ZooKeeper running"):
        spark_support.rows(uri, **hasty)


def test_a_file_of_ids_that_is_none_is_told(fleet: LocalFleet, tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    path.write_text("1\nseven\n")

    with pytest.raises(errors.BadInput, match=r"ledgerIdsFrom: .*ids.txt cannot be used: ledger id 'seven'"):
        spark_support.rows(fleet.uri, ledgerIdsFrom=str(path))


@pytest.mark.parametrize("policy", ["fail", "skip", "emit"])
def test_an_entry_whose_good_replica_is_only_out_of_reach_is_an_error_whatever_is_done_about_corrupt_ones(
    fleet: LocalFleet, client: BlockingClient, closed_port: int, policy: str
) -> None:
    """Unknown is never a skip: the other copy is whole, and comes back with its bookie."""
    bookies = [BookieId(one.bookie_id) for one in fleet.bookies[:2]]
    ledger = spark_ledgers.plant(
        client,
        bookies,
        5,
        lambda entry, bookie, body: spark_ledgers.flip_bit(body) if (entry, bookie) == (3, bookies[1]) else body,
    )
    assert len(entries(fleet, ledger, onCorrupt=policy, startingOffsets="earliest")) == 5
    spark_ledgers.point_at(client, ledger, BookieId(f"127.0.0.1:{closed_port}"))

    with pytest.raises(errors.BookieError, match=f"ledger {ledger} entry 3 cannot be read now: .*another replica is"):
        read(fleet, ledger, onCorrupt=policy)


def test_what_the_options_leave_out_is_told(
    fleet: LocalFleet, client: BlockingClient, caplog: pytest.LogCaptureFixture
) -> None:
    bookies = [BookieId(one.bookie_id) for one in fleet.bookies[:2]]

    def spoil(entry: int, _: BookieId, body: bytes) -> bytes | None:
        return spark_ledgers.flip_bit(body) if entry in (2, 3) else None if entry == 5 else body

    ledger = spark_ledgers.plant(client, bookies, 7, spoil)

    assert entries(fleet, ledger, onCorrupt="skip", failOnDataLoss="false") == [0, 1, 4, 6]
    assert f"3 entries are left out, as the options allow; the first: ledger {ledger} entry 2: " in caplog.text


@pytest.fixture
def unreadable(client: BlockingClient) -> Iterator[LedgerId]:
    """A ledger whose record somebody overwrote with what is no record."""
    ledger = spark_ledgers.write(client, 3, custom={"app": b"spoilt"})

    async def spoil(one: Client) -> None:
        ledgers = one.shared.ledgers
        await ledgers.store.put(ledgers.path(ledger), b"no record at all", ANY_VERSION)

    client.run(spoil)
    yield ledger
    client.delete(ledger)


def test_one_record_that_nobody_can_read_does_not_fail_a_query_over_the_fleet(
    fleet: LocalFleet, client: BlockingClient, unreadable: LedgerId, caplog: pytest.LogCaptureFixture
) -> None:
    whole = spark_ledgers.write(client, 2, custom={"app": b"beside"})

    found = spark_support.rows(fleet.uri, ledgerFilter="app=beside")

    assert {row["ledger_id"] for row in found} == {whole}
    assert "1 ledgers are left out, since their metadata cannot be read" in caplog.text
    assert f"the first is ledger {unreadable}: " in caplog.text
    rows = {row["ledger_id"]: row for row in spark_support.rows(fleet.uri, view="ledgers")}
    assert rows[unreadable]["state"] == "UNREADABLE"
    assert rows[unreadable]["ensemble_size"] is None
    (told,) = [
        row["error"]
        for row in spark_support.rows(fleet.uri, view="ledgers", columns="ledger_id,error")
        if row["ledger_id"] == unreadable
    ]
    assert told
    assert spark_support.rows(fleet.uri, view="replicas", ledgerFilter="app=beside")


def test_a_record_that_nobody_can_read_fails_the_query_that_names_it_or_wants_it_to(
    fleet: LocalFleet, unreadable: LedgerId
) -> None:
    for given in ({"ledgers": str(unreadable)}, {"onUnreadableLedger": "fail", "ledgerFilter": "app=none"}):
        for view in ("entries", "ledgers", "replicas"):
            with pytest.raises(errors.BadInput, match=f"the metadata of ledger {unreadable} cannot be read"):
                spark_support.rows(fleet.uri, view=view, **given)


@pytest.fixture
def odd(client: BlockingClient) -> Iterator[Callable[..., LedgerId]]:
    """Makes closed ledgers of three entries whose records say what no client of ours writes."""
    made: list[LedgerId] = []

    def make(**fields: Any) -> LedgerId:
        made.append(spark_ledgers.write(client, 3, custom={"app": b"odd"}))

        async def change(one: Client) -> None:
            ledgers = one.shared.ledgers
            stored, version = await ledgers.get(made[-1])
            await ledgers.put(made[-1], dataclasses.replace(stored, **fields), version)

        client.run(change)
        return made[-1]

    yield make
    for ledger in made:
        client.delete(ledger)


def test_a_record_of_more_entries_than_can_be_is_as_one_that_nobody_can_read(
    fleet: LocalFleet,
    client: BlockingClient,
    odd: Callable[..., LedgerId],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Any client can write one; the driver ran out of memory over the tasks of every query."""
    endless = odd(last_entry=2**62)

    assert spark_support.rows(fleet.uri, ledgerFilter="app=odd") == []
    assert f"the first is ledger {endless}: it claims entries up to {2**62}" in caplog.text
    with pytest.raises(errors.BadInput, match=f"the metadata of ledger {endless} cannot be read: it claims"):
        read(fleet, endless)
    assert [row["last_entry"] for row in read(fleet, endless, view="ledgers")] == [2**62]


@pytest.mark.parametrize("ctime_ms", [-1, -(2**63), 253_402_300_800_000, 2**62])
def test_a_time_that_no_calendar_has_is_null(fleet: LocalFleet, odd: Callable[..., LedgerId], ctime_ms: int) -> None:
    """Of one ledger it was a traceback of every query over the fleet."""
    ledger = odd(ctime_ms=ctime_ms, stores_ctime=True)

    assert [row["ctime"] for row in read(fleet, ledger, view="ledgers")] == [None]
    assert [row["ledger_ctime"] for row in read(fleet, ledger, columns="ledger_ctime")] == [None] * 3


def test_a_ledger_of_unknown_age_that_a_timestamp_leaves_out_is_told(
    fleet: LocalFleet, odd: Callable[..., LedgerId], caplog: pytest.LogCaptureFixture
) -> None:
    ledger = odd(ctime_ms=-1, stores_ctime=True)

    assert entries(fleet, ledger, startingTimestamp="2020-01-31") == []
    assert (
        f"do not say when they were created (to read them, name them with ledgers): the first is ledger {ledger}"
        in (caplog.text)
    )


def test_an_offset_of_a_ledger_that_the_query_does_not_read_is_told(fleet: LocalFleet) -> None:
    with pytest.raises(errors.BadInput, match="startingOffsets or endingOffsets names ledger 999999, which the query"):
        spark_support.rows(fleet.uri, ledgerFilter="app=nobody", startingOffsets='{"999999": 5}')
    assert not spark_support.rows(
        fleet.uri, ledgerFilter="app=nobody", startingOffsets='{"999999": 5}', failOnDataLoss="false"
    )


def test_entries_that_a_person_declared_lost_are_told_in_that_person_s_words(
    fleet: LocalFleet, client: BlockingClient, caplog: pytest.LogCaptureFixture
) -> None:
    """They were told with "run the audit", which calls such a ledger whole; and counted as owed by their bookies."""
    bookies = [BookieId(one.bookie_id) for one in fleet.bookies[:2]]
    ledger = spark_ledgers.plant(client, bookies, 9, lambda entry, _, body: None if entry == 3 else body)
    lost = lost_entries.Act("ann", "disk\nburnt", 1, (), ((EntryId(3), EntryId(3)),))

    async def declare(one: Client) -> None:
        ledgers = one.shared.ledgers
        stored, version = await ledgers.get(ledger)
        await ledgers.put(ledger, stored.with_custom(lost_entries.KEY, lost_entries.dump([lost])), version)

    client.run(declare)

    with pytest.raises(errors.NoSuchEntry) as raised:
        read(fleet, ledger)
    assert str(raised.value) == (
        f"ledger {ledger} entry 3 was acknowledged, and declared lost by ann: disk\\nburnt; to read on, set "
        "failOnDataLoss=false"
    )
    assert entries(fleet, ledger, failOnDataLoss="false") == [0, 1, 2, 4, 5, 6, 7, 8]
    assert f"the first: ledger {ledger} entry 3: it was declared lost by ann" in caplog.text
    promised = read(fleet, ledger, view="replicas")
    assert [(row["first_entry"], row["last_entry"], row["entries"]) for row in promised] == [(0, 8, 8)] * 2


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (["a"], "ledger id 'a' in column ledger_id"),
        ([1, None], "ledger id None in column ledger_id"),
        ([1.5], "ledger id 1.5 in column"),
        ([True], "ledger id True in column"),
        ([-5], "ledger id -5 in column"),
        (pa.array([2**64 - 1], pa.uint64()), "ledger id 18446744073709551615 in column"),
        (None, "No match for FieldRef.Name"),
    ],
)
def test_a_table_of_ids_that_is_none_is_told(tmp_path: Path, column: list[object] | pa.Array | None, said: str) -> None:
    path = tmp_path / "ids.parquet"
    pyarrow.parquet.write_table(pa.table({"x": [1]} if column is None else {"ledger_id": column}), path)

    with pytest.raises(errors.BadInput, match=f"ledgerIdsFrom: .*ids.parquet cannot be used: {said}") as raised:
        planning._ids_in(str(path))
    assert "\n" not in str(raised.value)


def test_a_list_of_ids_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    path.write_bytes(b"\xef\xbb\xbf7\r\n8\r\n")

    assert planning._ids_in(str(path)) == [7, 8]


# ---- metadata views --------------------------------------------------------------------------------------------------


def test_the_view_of_ledgers_tells_their_metadata(fleet: LocalFleet, client: BlockingClient) -> None:
    ledger = spark_ledgers.write(client, 5, custom={"app": b"views"})
    metadata = client.metadata(ledger)

    (row,) = spark_support.rows(fleet.uri, view="ledgers", ledgers=str(ledger))

    assert (row["state"], row["last_entry"], row["length"], row["digest"]) == ("CLOSED", 4, 100, "CRC32C")
    assert (row["ensemble_size"], row["write_quorum"], row["ack_quorum"]) == (3, 2, 2)
    assert row["segments"] == [{"first_entry": 0, "bookies": list(metadata.segments[0].bookies)}]
    assert row["custom"] == [("app", b"views")]


def test_a_view_of_a_named_ledger_that_is_gone_or_spoilt_since_the_plan_says_so(
    fleet: LocalFleet, client: BlockingClient, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark keeps the plan: the next query on the DataFrame had no rows of it, and no word."""
    ledger = spark_ledgers.write(client, 3)
    (tmp_path / "ids").write_text(f"{ledger}\n")

    def plan(view: str, **given: str) -> Callable[[], list[dict[str, Any]]]:
        reader, planned, _ = spark_support.plan(fleet.uri, view=view, **given)
        return lambda: [row for one in planned for row in spark_support.rows_of(reader, one)]

    def spoil_of(one: Client) -> Any:
        ledgers = one.shared.ledgers
        return ledgers.store.put(ledgers.path(ledger), b"no record at all", ANY_VERSION)

    named = [plan("replicas", ledgers=str(ledger)), plan("replicas", ledgerIdsFrom=str(tmp_path / "ids"))]
    listed, ranged = plan("ledgers", ledgers=str(ledger)), plan("replicas", ledgers=f"{ledger}-{ledger + 1}")
    careless = plan("replicas", ledgers=str(ledger), failOnDataLoss="false")
    client.run(spoil_of)

    for rows in named:
        with pytest.raises(errors.BadInput, match=f"the metadata of ledger {ledger} cannot be read"):
            rows()
    assert [row["state"] for row in listed()] == ["UNREADABLE"]
    assert ranged() == []
    assert f"the first is ledger {ledger}" in caplog.text
    client.delete(ledger)
    for rows in (*named, listed):
        with pytest.raises(errors.LedgerMissing, match=f"ledger {ledger} was deleted after the query was planned"):
            rows()
    assert (ranged(), careless()) == ([], [])


def test_the_view_of_replicas_counts_what_each_bookie_should_hold(fleet: LocalFleet, client: BlockingClient) -> None:
    ledger = spark_ledgers.write(client, 100)

    found = spark_support.rows(fleet.uri, view="replicas", ledgers=str(ledger))

    wanted = Counter(
        bookie
        for entry in range(100)
        for bookie in client.metadata(ledger).write_set(entry)  # type: ignore[arg-type]
    )
    assert {row["bookie_id"]: row["entries"] for row in found} == wanted
    assert {(row["first_entry"], row["last_entry"]) for row in found} == {(0, 99)}


def test_the_view_of_bookies_tells_zones_and_disks(fleet: LocalFleet) -> None:
    found = spark_support.rows(fleet.uri, view="bookies")

    assert [row["bookie_id"] for row in found] == sorted(one.bookie_id for one in fleet.bookies)
    assert {row["state"] for row in found} == {"writable"}
    assert {row["zone"] for row in found} == {"zone-1", "zone-2", "zone-3"}
    assert all(0 < row["free_bytes"] <= row["total_bytes"] for row in found)


# ---- the clients of a process ----------------------------------------------------------------------------------------


def test_all_tasks_of_a_process_share_one_client(fleet: LocalFleet) -> None:
    ours = clients.client(ClusterConnection(fleet.uri))

    assert clients.client(ClusterConnection(fleet.uri)) is ours
    other = clients.client(ClusterConnection(fleet.uri, (("request_timeout_ms", 7_000),)))
    assert other is not ours
    other.close()
    assert clients.client(ClusterConnection(fleet.uri, (("request_timeout_ms", 7_000),))) is not other


FORKING = """
import os, sys
from pyspark_bookkeeper import fleet
from pyspark_bookkeeper.options import ClusterConnection
connection = ClusterConnection(sys.argv[1])
parents = fleet.client(connection)
ledgers = list(parents.ledgers())
child = os.fork()
if child == 0:
    ours = fleet.client(connection)
    is_right = ours is not parents and list(ours.ledgers()) == ledgers
    fleet.close_all()
    os._exit(0 if is_right else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert fleet.client(connection) is parents
assert list(parents.ledgers()) == ledgers
print(len(ledgers))
"""


@pytest.mark.slow
def test_who_forks_gets_a_client_of_its_own_and_leaves_the_parents_alone(
    fleet: LocalFleet, client: BlockingClient
) -> None:
    """And a process that never closes its clients ends all the same."""
    spark_ledgers.write(client, 1)

    done = subprocess.run(
        [sys.executable, "-c", FORKING, fleet.uri], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 0


def test_a_snapshot_takes_ids_from_a_listing_of_the_same_client(fleet: LocalFleet, client: BlockingClient) -> None:
    """The ids come from an iterator that asks the very loop on which the records are read."""
    ours = clients.client(ClusterConnection(fleet.uri))
    ledger = spark_ledgers.write(client, 1)

    found = {one: version for one, _, version in ours.snapshot(ours.ledgers())}

    assert found[LedgerId(ledger)] == client.run(lambda one: _version(one, ledger))


async def _version(client: object, ledger_id: LedgerId) -> int:
    _, version = await client.shared.ledgers.get(ledger_id)  # type: ignore[attr-defined]
    return int(version)
