"""Official bookies and ours in one ensemble: both clients write across them, lose members, and recover."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import java_fleet_support
import java_support
import local_support
from bookie import blocking
from bookie.base.ids import LedgerId
from bookie.blocking import BlockingClient
from java_fleet_support import JudgedFleet
from java_support import JavaClient

pytestmark = pytest.mark.java

# Of five bookies four hold a ledger, three each entry: when one dies there is exactly one to take its place.
SHAPE = {"ensemble": 4, "write": 3, "ack": 2}


@pytest.fixture(scope="module")
def ours(java_fleet: JudgedFleet) -> Iterator[str]:
    """A bookie of ours that stays, beside the three official ones; its id."""
    with local_support.one_bookie(java_fleet.uri, java_fleet.folder / "ours") as bookie:
        yield bookie.bookie_id


@pytest.fixture(scope="module")
def official(java_fleet: JudgedFleet, ours: str) -> Iterator[JavaClient]:
    """The official client of the mixed fleet."""
    with java_support.JavaClient(java_fleet.uri, java_fleet.folder / "mixed.log") as client:
        yield client


@pytest.fixture(scope="module")
def client(java_fleet: JudgedFleet, ours: str) -> Iterator[BlockingClient]:
    """Our client of the mixed fleet."""
    with blocking.connect(java_fleet.uri, request_timeout_ms=8_000) as connected:
        yield connected


def ensembles(client: BlockingClient, ledger: int) -> list[tuple[str, ...]]:
    return [tuple(segment.bookies) for segment in client.metadata(LedgerId(ledger)).segments]


def read_all(client: BlockingClient, ledger: int, last: int) -> list[bytes]:
    with client.open(LedgerId(ledger)) as reader:
        assert reader.last_confirmed == last
        return [entry.payload for entry in reader.read(0, last)]


def test_the_official_client_writes_across_and_one_of_ours_dies(
    java_fleet: JudgedFleet, official: JavaClient, client: BlockingClient, ours: str, tmp_path: Path
) -> None:
    everywhere = {*java_fleet.bookie_ids, ours}
    with local_support.one_bookie(java_fleet.uri, tmp_path / "mortal") as mortal:
        written = java_support.create_on(official, mortal.bookie_id, **SHAPE)
        left = java_support.create_on(official, mortal.bookie_id, **SHAPE)
        payloads = list(java_support.payloads(written["ledger"], 80))
        official.append(written["handle"], payloads[:40])
        official.append(left["handle"], payloads[:40])
        official.ask("forget", handle=left["handle"])
        mortal.kill()
        official.append(written["handle"], payloads[40:])
        official.ask("close", handle=written["handle"])

    before, *_, after = ensembles(client, written["ledger"])
    assert mortal.bookie_id in before
    assert set(after) == everywhere
    assert read_all(client, written["ledger"], 79) == payloads
    assert read_all(client, left["ledger"], 39) == payloads[:40]  # our recovery, of a ledger that lost a member
    assert client.metadata(LedgerId(left["ledger"])).is_closed
    reader = official.ask("open", ledger=written["ledger"])
    assert official.read(reader["handle"], 0, 79) == payloads


def test_our_client_writes_across_and_an_official_one_dies(
    java_fleet: JudgedFleet, official: JavaClient, client: BlockingClient, ours: str, tmp_path: Path
) -> None:
    everywhere = {*java_fleet.bookie_ids, ours}
    with contextlib.ExitStack() as life:
        (mortal,) = life.enter_context(java_fleet_support.bookies(java_fleet.uri, tmp_path, 1))
        shape = {"ensemble_size": SHAPE["ensemble"], "write_quorum": SHAPE["write"], "ack_quorum": SHAPE["ack"]}
        writers = (client.create(**shape) for _ in range(60))
        written, left = (
            next(writer for writer in writers if mortal in writer.metadata.last_segment.bookies) for _ in range(2)
        )
        payloads = list(java_support.payloads(written.id, 80))
        for writer in (written, left):
            writer.append_many(payloads[:40])
        life.close()
        written.append_many(payloads[40:])
        written.close()

    before, *_, after = ensembles(client, written.id)
    assert mortal in before
    assert set(after) == everywhere
    reader = official.ask("open", ledger=written.id)
    assert official.read(reader["handle"], 0, 79) == payloads
    recovered = official.ask("open", ledger=left.id)  # their recovery, of a ledger that lost a member
    assert (recovered["last"], recovered["closed"]) == (39, True)
    assert official.read(recovered["handle"], 0, 39) == payloads[:40]
    assert read_all(client, written.id, 79) == payloads


@pytest.mark.parametrize("version", [2, 3])
def test_every_entry_reaches_bookies_of_both_kinds(
    java_fleet: JudgedFleet, official: JavaClient, client: BlockingClient, ours: str, version: int
) -> None:
    with official.guest(f"mixed v{version}", v2=version == 2) as guest:
        made = guest.ask("create", ensemble=4, write=4, ack=4)
        payloads = list(java_support.payloads(made["ledger"], 20))
        guest.append(made["handle"], payloads)
        guest.ask("close", handle=made["handle"])

        (ensemble,) = ensembles(client, made["ledger"])
        assert set(ensemble) == {*java_fleet.bookie_ids, ours}
        assert read_all(client, made["ledger"], 19) == payloads
        reader = guest.ask("open", ledger=made["ledger"])
        assert guest.read(reader["handle"], 0, 19) == payloads
