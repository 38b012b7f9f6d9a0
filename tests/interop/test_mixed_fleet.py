"""Official bookies and ours in one ensemble: both clients write across them, lose members, and recover."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import java_fleet_support
import java_support
import local_support
import soak_support
import wait_support
from bookie import blocking
from bookie.base.ids import LedgerId
from bookie.blocking import BlockingClient, BlockingWriter
from java_fleet_support import JudgedFleet
from java_support import JavaClient

pytestmark = pytest.mark.java

# Of five bookies four hold a ledger, three each entry: when one dies there is exactly one to take its place.
SHAPE = {"ensemble": 4, "write": 3, "ack": 2}
# Entries before the death, at once after it, and at most (60 s of waiting are 1,200 steps).
BEFORE, STEP, MOST = 40, 4, 6_000


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


def writer_on(client: BlockingClient, bookie_id: str, shape: dict[str, int]) -> BlockingWriter:
    """The writer of a ledger that has the bookie, of which the client may hear later than others do."""
    made: list[BlockingWriter] = []

    def is_on_it() -> bool:
        made.append(client.create(**shape))
        return bookie_id in made[-1].metadata.last_segment.bookies

    wait_support.wait_until(is_on_it, f"a ledger on {bookie_id}", timeout_s=60)
    return made[-1]


def append_until_changed(
    client: BlockingClient, ledger: int, payloads: list[bytes], append: Callable[[list[bytes]], object]
) -> int:
    """Append a few at a time until the ledger has a new ensemble, and a few more; how many entries it has then.

    An acknowledged entry needs two of three, so that the loss of a bookie may be noticed a little later.
    """
    count = BEFORE

    def is_changed() -> bool:
        nonlocal count
        append(payloads[count : count + STEP])
        count += STEP
        return len(ensembles(client, ledger)) > 1

    wait_support.wait_until(is_changed, "a new ensemble", timeout_s=60)
    append(payloads[count : count + STEP])
    return count + STEP


def test_the_official_client_writes_across_and_one_of_ours_dies(
    java_fleet: JudgedFleet, official: JavaClient, client: BlockingClient, ours: str, tmp_path: Path
) -> None:
    everywhere = {*java_fleet.bookie_ids, ours}
    with local_support.one_bookie(java_fleet.uri, tmp_path / "mortal") as mortal:
        written = java_support.create_on(official, mortal.bookie_id, **SHAPE)
        left = java_support.create_on(official, mortal.bookie_id, **SHAPE)
        payloads = list(java_support.payloads(written["ledger"], MOST))
        official.append(written["handle"], payloads[:BEFORE])
        official.append(left["handle"], payloads[:BEFORE])
        official.ask("forget", handle=left["handle"])
        mortal.kill()
        count = append_until_changed(
            client, written["ledger"], payloads, lambda more: official.append(written["handle"], more)
        )
        official.ask("close", handle=written["handle"])

    before, *_, after = ensembles(client, written["ledger"])
    assert mortal.bookie_id in before
    assert set(after) == everywhere
    assert read_all(client, written["ledger"], count - 1) == payloads[:count]
    left_id = left["ledger"]
    assert read_all(client, left_id, BEFORE - 1) == payloads[:BEFORE]  # our recovery, of a ledger that lost a member
    assert client.metadata(LedgerId(left_id)).is_closed
    reader = official.ask("open", ledger=written["ledger"])
    assert official.read(reader["handle"], 0, count - 1) == payloads[:count]


def test_our_client_writes_across_and_an_official_one_dies(
    java_fleet: JudgedFleet, official: JavaClient, client: BlockingClient, ours: str, tmp_path: Path
) -> None:
    everywhere = {*java_fleet.bookie_ids, ours}
    with contextlib.ExitStack() as life:
        (mortal,) = life.enter_context(java_fleet_support.bookies(java_fleet.uri, tmp_path, 1))
        shape = {"ensemble_size": SHAPE["ensemble"], "write_quorum": SHAPE["write"], "ack_quorum": SHAPE["ack"]}
        written, left = (writer_on(client, mortal, shape) for _ in range(2))
        payloads = list(java_support.payloads(written.id, MOST))
        for writer in (written, left):
            writer.append_many(payloads[:BEFORE])
        life.close()
        count = append_until_changed(client, written.id, payloads, written.append_many)
        written.close()

    before, *_, after = ensembles(client, written.id)
    assert mortal in before
    assert set(after) == everywhere
    reader = official.ask("open", ledger=written.id)
    assert official.read(reader["handle"], 0, count - 1) == payloads[:count]
    recovered = official.ask("open", ledger=left.id)  # their recovery, of a ledger that lost a member
    assert (recovered["last"], recovered["closed"]) == (BEFORE - 1, True)
    assert official.read(recovered["handle"], 0, BEFORE - 1) == payloads[:BEFORE]
    assert read_all(client, written.id, count - 1) == payloads[:count]


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


def test_nothing_acknowledged_is_lost_when_bookies_of_both_kinds_are_killed(tmp_path: Path) -> None:
    with soak_support.soaking(tmp_path, seed=1, official=2) as soak:
        soak.start_writing(200.0)
        rounds = [soak.kill_one() for _ in range(3)]
        verdict = soak.verify()

    kinds = {done.how_after == soak_support.OFFICIAL for done in rounds}
    assert kinds == {True, False}, "the seed draws both kinds"
    assert verdict["clean"], verdict
    assert verdict["verified"] == verdict["acknowledged"] > 300
