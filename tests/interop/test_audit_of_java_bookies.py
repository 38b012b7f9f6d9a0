"""The audit of official Java bookies: the same truth as of ours; and what one says that cannot tell its entries."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import java_fleet_support
import port_support
import wait_support
from bookie import blocking
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import Client
from bookie.metadata import paths
from bookie.metadata.ledger import new_ledger
from bookie.wire.digest import Digest, DigestType
from java_fleet_support import JudgedFleet
from pyspark_bookkeeper.audit.compare import MISSING, UNREACHABLE, ReplicaFinding
from pyspark_bookkeeper.audit.inspector import LedgerInspector, Rules, UnitResult

pytestmark = [pytest.mark.java, pytest.mark.slow]

LEDGERS, ENTRIES = 30, 7
RULES = Rules(grace_ms=0, second_look_ms=100)
DIGEST = Digest(DigestType.CRC32C, b"")
ROOT = java_fleet_support.ROOT


async def audit(client: Client) -> UnitResult:
    zones = {record.bookie_id: record.zone for record in await client.admin.bookies()}
    ids = [ledger_id async for ledger_id in client.ledgers()]
    return await LedgerInspector(client, zones, RULES).audit(ids)


async def write(client: Client) -> list[LedgerId]:
    ids = []
    for _ in range(LEDGERS):
        async with await client.create(ensemble_size=3, write_quorum=2, ack_quorum=2) as writer:
            await writer.append_many([b"payload"] * ENTRIES)
        ids.append(writer.id)
    return ids


async def lose_one_entry(client: Client, ensemble: tuple[BookieId, ...]) -> LedgerId:
    """A closed ledger on two bookies, the second of which never got entry 3."""
    metadata = new_ledger(ensemble_size=2, write_quorum=2, ack_quorum=2, bookies=ensemble, ctoken=7)
    ledger_id = await client.shared.ledgers.create(metadata.closed(EntryId(ENTRIES - 1), 0))
    for entry in map(EntryId, range(ENTRIES)):
        body = b"".join(DIGEST.seal(ledger_id, entry, entry - 1, 0, b"payload"))
        for bookie in ensemble:
            if (entry, bookie) != (3, ensemble[1]):
                await client.bookies.add(bookie, ledger_id, entry, body, DIGEST.master_key)
    return ledger_id


def wait_registered(client: blocking.BlockingClient, count: int) -> None:
    """A Java bookie opens its port before it registers."""

    def are_there() -> bool:
        return len(client.run(lambda one: one.admin.bookies())) == count

    wait_support.wait_until(are_there, f"{count} registered bookies", timeout_s=60.0)


def expected_of(bookie: BookieId, client: blocking.BlockingClient, ids: list[LedgerId]) -> dict[int, int]:
    """How many entries each ledger gives the bookie."""
    counts: dict[int, int] = {}
    for ledger_id in ids:
        metadata = client.metadata(ledger_id)
        held = sum(bookie in metadata.write_set(EntryId(entry)) for entry in range(metadata.last_entry + 1))
        if held:
            counts[ledger_id] = held
    return counts


@pytest.fixture(scope="module")
def home(folder: Path) -> Path:
    home = folder / "audited"
    home.mkdir()
    return home


def test_a_java_bookie_that_lost_its_disk_lacks_exactly_what_the_metadata_gives_it(home: Path) -> None:
    storage = java_fleet_support.SORTED_STORAGE
    ports = port_support.free_ports(1)
    third = BookieId(f"127.0.0.1:{ports[0]}")
    with (
        java_fleet_support.zookeeper(home) as uri,
        java_fleet_support.bookies(uri, home, 2, storage=storage) as two,
        blocking.connect(uri, request_timeout_ms=20_000) as client,
    ):
        pair = (BookieId(two[0]), BookieId(two[1]))
        with java_fleet_support.bookies(uri, home, 1, ports=ports, storage=storage):
            wait_registered(client, 3)
            ids = client.run(write)
            whole = client.run(audit)
            planted = client.run(lambda one: lose_one_entry(one, pair))
            damaged = client.run(audit)
        shutil.rmtree(home / f"java-bookie-{ports[0]}")
        client.run(lambda one: one.shared.ledgers.store.delete(paths.cookie(ROOT, third)))  # Java would not start
        with java_fleet_support.bookies(uri, home, 1, ports=ports, storage=storage):
            wait_registered(client, 3)
            emptied = client.run(audit)
        promised = expected_of(third, client, ids)

    lost = ReplicaFinding(planted, pair[1], MISSING, 3, 3, 1)
    assert whole.findings == []
    assert whole.figures["ledgers", "closed"] == LEDGERS
    assert damaged.findings == [lost]
    assert lost in emptied.findings
    others = [one for one in emptied.findings if one != lost]
    assert {(one.kind, one.bookie) for one in others} == {(MISSING, third)}
    assert {one.ledger: one.count for one in others} == promised
    assert len(others) == len(promised) == LEDGERS


def test_a_java_bookie_that_cannot_tell_its_entries_is_unreachable_and_says_why(java_fleet: JudgedFleet) -> None:
    with blocking.connect(java_fleet.uri, request_timeout_ms=4_000) as client:

        async def write_one(one: Client) -> LedgerId:
            async with await one.create() as writer:
                await writer.append_many([b"payload"] * ENTRIES)
            return writer.id

        wait_registered(client, len(java_fleet.bookie_ids))
        ledger_id = client.run(write_one)
        zones = {BookieId(bookie): "" for bookie in java_fleet.bookie_ids}
        result = client.run(lambda one: LedgerInspector(one, zones, RULES).audit([ledger_id]))

    assert {(one.kind, one.count) for one in result.findings} == {(UNREACHABLE, ENTRIES)}
    assert {one.bookie for one in result.findings} == set(java_fleet.bookie_ids)
    assert all("DbLedgerStorage" in one.reason for one in result.findings)
