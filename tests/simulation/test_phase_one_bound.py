"""Whole boots with `phaseOne=bound`: the bound after the claim, the doubt before the cookie, examining beside serving
(docs/decisions/0021-phase-one-in-constant-time.md). What both forms share is in test_integrity_boot.py."""

from __future__ import annotations

import dataclasses

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.units import NS_PER_MS
from bookie.client.write.writer import LedgerWriter
from bookie.integrity.options import BOUND, SCAN
from bookie.metadata import ledger, paths, serde
from bookie.metadata.ledger import LedgerMetadata
from bookie.sim.cluster import INDEX, ROOT, VOLUMES, BookieNode, ClientNode, SimCluster
from bookie.sim.disk_image import StoreImage
from bookie.sim.node import ProcessEnd
from bookie.sim.znodes import Tree
from bookie.storage import doubt
from bookie.storage.doubt import Doubt
from bookie.storage.store import EntryStore
from sim_support import on_cluster
from story_support import story

THEIRS = ledger.new_ledger(
    ensemble_size=3, write_quorum=3, ack_quorum=2, bookies=(BookieId("b7"), BookieId("b8"), BookieId("b9"))
)
OPEN_THEIRS, CLOSED_THEIRS = THEIRS, THEIRS.closed(EntryId(3), 40)


def lay(cluster: SimCluster, count: int, record: LedgerMetadata = CLOSED_THEIRS, *, first: int = 10_000) -> None:
    """Put the records of `count` ledgers of other bookies into the metadata store."""
    for number in range(first, first + count):
        lay_one(cluster, LedgerId(number), record)


def lay_one(cluster: SimCluster, ledger_id: LedgerId, record: LedgerMetadata) -> None:
    path = paths.ledger_path(ROOT, ledger_id)
    data = serde.dump_ledger(record)
    cluster.simulation.keeper.tree.create(path, data, now_ms=0, owner=0, sequential=False, parents=True)


async def written(app: ClientNode, *, close: bool = True) -> LedgerWriter:
    async def work() -> LedgerWriter:
        writer = await app.client.create(password=b"secret")
        for number in range(12):
            await writer.append(b"entry %d" % number)
        if close:
            await writer.close()
        return writer

    return await app(work())


def member_of(cluster: SimCluster, writer: LedgerWriter) -> BookieNode:
    metadata = cluster.metadata_of(writer.id)
    assert metadata is not None
    return cluster.bookies[metadata.last_segment.bookies[0]]


def store_of(bookie: BookieNode) -> EntryStore:
    assert bookie.process is not None
    assert bookie.process.boot.store is not None
    return bookie.process.boot.store


def indexes(bookie: BookieNode) -> list[StoreImage]:
    return [store for path in VOLUMES for store in bookie.node.image.volumes[path].root.stores()]


def durable_doubt(bookie: BookieNode) -> Doubt:
    """What a power cut at this very moment would leave of the doubt."""
    (index,) = indexes(bookie)
    return doubt.unpack(index.durable.get(b"Mdoubt"))


async def lost(cluster: SimCluster, bookie: BookieNode, *volumes: str) -> None:
    bookie.crash()
    bookie.wipe(*volumes)
    sign = paths.process(ROOT, BookieId(bookie.name))
    await cluster.until(lambda: sign not in cluster.simulation.keeper.tree.nodes, "its session ended")


async def pause(cluster: SimCluster, milliseconds: float) -> None:
    await cluster.simulation.loop.sleep_ns(int(milliseconds * NS_PER_MS))


@story(on_cluster, 41, bookies=4, phase_one=BOUND)
async def test_the_doubt_and_a_note_that_names_it_are_on_disk_at_the_moment_the_cookie_changes(
    cluster: SimCluster,
) -> None:
    app = await cluster.client("app")
    writer = await written(app)
    bookie = member_of(cluster, writer)
    cookie_path = paths.cookie(ROOT, BookieId(bookie.name))
    seen: list[tuple[Doubt, set[bool]]] = []

    def look(path: str) -> None:
        if path == cookie_path:
            notes = [bookie.node.image.volumes[volume].root.names.get("REPAIR") for volume in VOLUMES]
            named = {b'"doubt_epoch": 2' in bytes(note.durable) for note in notes}  # type: ignore[union-attr,arg-type]
            seen.append((durable_doubt(bookie), named))

    await lost(cluster, bookie)
    cluster.simulation.keeper.observers.append(look)
    bookie.start()
    await cluster.until_ready(bookie.name)

    assert seen == [(Doubt(2, writer.id + 1, writer.id + 1), {True})]


@story(on_cluster, 42, bookies=4, phase_one=BOUND)
async def test_a_ledger_that_is_made_in_the_instant_of_the_claim_is_below_the_bound(cluster: SimCluster) -> None:
    """Until then an earlier process may have acknowledged entries of it; from then on it is this bookie no more."""
    bookie = member_of(cluster, await written(await cluster.client("app")))
    record = paths.incarnation(ROOT, BookieId(bookie.name))
    claims: list[str] = []

    def make(path: str) -> None:
        if path == record and not claims:
            claims.append(path)
            lay_one(cluster, LedgerId(77_777), OPEN_THEIRS)

    await lost(cluster, bookie)
    cluster.simulation.keeper.observers.append(make)
    bookie.start()
    await cluster.until_ready(bookie.name)

    assert claims
    assert durable_doubt(bookie).bound == 77_778


@story(on_cluster, 43, bookies=4, phase_one=BOUND)
async def test_it_serves_before_it_has_examined_anything_and_denies_nothing_meanwhile(cluster: SimCluster) -> None:
    app = await cluster.client("app")
    writer = await written(app)
    bookie = member_of(cluster, writer)
    lay(cluster, 3_000)
    await lost(cluster, bookie)
    bookie.start()
    await cluster.until_ready(bookie.name)

    store = store_of(bookie)
    assert store.doubt.rest > 12_000
    for ledger_id in (writer.id, LedgerId(10_001), LedgerId(5)):
        with pytest.raises(errors.UnknownLedgerState):
            await app(app.client.bookies.read(BookieId(bookie.name), ledger_id, EntryId(0)))
    status = (await cluster.until_repaired(bookie.name), bookie.process.boot.progress)[1]  # type: ignore[union-attr]
    assert (store.doubt.is_over, status.scanned >= 3_001, status.is_done) == (True, True, True)
    assert await store.entry_ranges(writer.id) == [(0, 11)]
    with pytest.raises(errors.NoSuchLedger):
        await app(app.client.bookies.read(BookieId(bookie.name), LedgerId(5), EntryId(0)))
    facts = store.facts(LedgerId(10_001))
    assert facts is not None
    assert (facts.is_fenced, facts.is_limbo) == (True, False)


@pytest.mark.parametrize("how", [ProcessEnd.POWER_CUT, ProcessEnd.KILL])
@pytest.mark.parametrize("then", [SCAN, BOUND])
@story(on_cluster, 44, bookies=4, phase_one=BOUND)
async def test_a_restart_in_the_middle_of_examining_goes_on_there_whatever_the_setting_says_then(
    cluster: SimCluster, *, then: str, how: ProcessEnd
) -> None:
    app = await cluster.client("app")
    writer = await written(app)
    bookie = member_of(cluster, writer)
    lay(cluster, 4_000, OPEN_THEIRS)
    await lost(cluster, bookie)
    bookie.start()
    await cluster.until(lambda: bookie.is_ready and store_of(bookie).doubt.rest < 13_000, "in the middle")
    before = durable_doubt(bookie)
    bookie.crash(how)
    bookie.settings = dataclasses.replace(bookie.settings, phase_one=then, journal_write_data=True)
    bookie.start()
    await cluster.until_ready(bookie.name)

    assert 10_000 < before.rest < 13_000
    assert store_of(bookie).doubt.rest <= before.rest
    await cluster.until_repaired(bookie.name)
    assert store_of(bookie).doubt.is_over
    assert await store_of(bookie).entry_ranges(writer.id) == [(0, 11)]


@story(on_cluster, 45, bookies=4, phase_one=BOUND)
async def test_a_second_loss_while_it_examines_begins_a_new_epoch_and_bound(cluster: SimCluster) -> None:
    app = await cluster.client("app")
    writer = await written(app)
    bookie = member_of(cluster, writer)
    lay(cluster, 4_000, OPEN_THEIRS)
    await lost(cluster, bookie)
    bookie.start()
    await cluster.until(lambda: bookie.is_ready and store_of(bookie).doubt.rest < 13_000, "in the middle")
    first = durable_doubt(bookie)
    lay(cluster, 1, OPEN_THEIRS, first=20_000)
    # Journal and entry logs go, and the index stays, with all that was examined before.
    await lost(cluster, bookie, "/journal", "/ledgers")
    bookie.start()
    await cluster.until_ready(bookie.name)

    second = durable_doubt(bookie)
    assert (second.epoch > first.epoch, second.bound) == (True, 20_001)
    assert second.rest > first.rest
    await cluster.until_repaired(bookie.name)
    assert await store_of(bookie).entry_ranges(writer.id) == [(0, 11)]


@story(on_cluster, 46, bookies=4, phase_one=BOUND)
async def test_an_index_that_lost_its_doubt_without_its_volume_is_noticed(cluster: SimCluster) -> None:
    """The note on every volume names the doubt: without it phase one is done again, before anything is served."""
    app = await cluster.client("app")
    writer = await written(app)
    bookie = member_of(cluster, writer)
    lay(cluster, 4_000, OPEN_THEIRS)
    await lost(cluster, bookie)
    bookie.start()
    await cluster.until_ready(bookie.name)
    bookie.crash(ProcessEnd.KILL)
    (index,) = indexes(bookie)
    for rows in (index.durable, index.values):
        del rows[b"Mdoubt"]
    bookie.start()
    await cluster.until_ready(bookie.name)

    assert durable_doubt(bookie).bound == 14_000
    assert store_of(bookie).doubt.rest > 0
    with pytest.raises(errors.UnknownLedgerState):
        await app(app.client.bookies.read(BookieId(bookie.name), writer.id, EntryId(0)))
    await cluster.until_repaired(bookie.name)


@story(on_cluster, 47, bookies=4, phase_one=BOUND)
async def test_a_scan_after_a_loss_ends_an_earlier_doubt(cluster: SimCluster) -> None:
    bookie = member_of(cluster, await written(await cluster.client("app")))
    lay(cluster, 4_000, OPEN_THEIRS)
    await lost(cluster, bookie)
    bookie.start()
    await cluster.until_ready(bookie.name)
    await lost(cluster, bookie, INDEX)
    bookie.settings = dataclasses.replace(bookie.settings, phase_one=SCAN)
    bookie.start()
    await cluster.until_ready(bookie.name)

    assert store_of(bookie).doubt.is_over
    assert bookie.process.boot.progress.scanned > 4_000  # type: ignore[union-attr]
    bookie.crash(ProcessEnd.KILL)
    bookie.settings = dataclasses.replace(bookie.settings, journal_write_data=True)
    bookie.start()
    await cluster.until_ready(bookie.name)
    await cluster.until_repaired(bookie.name)


@story(on_cluster, 48, bookies=4, phase_one=BOUND)
async def test_a_new_bookie_looks_at_every_ledger_and_so_does_one_that_crashed(cluster: SimCluster) -> None:
    """A new one in doubt would refuse the writers that bring it in; and a crash loses no fence."""
    bookie = member_of(cluster, await written(await cluster.client("app")))
    assert bookie.process is not None
    assert bookie.process.boot.store is not None
    assert durable_doubt(bookie) == Doubt()
    bookie.crash(ProcessEnd.KILL)
    bookie.start()
    await cluster.until_ready(bookie.name)

    assert bookie.process.boot.progress.scanned == 1
    assert durable_doubt(bookie) == Doubt()


@story(on_cluster, 49, bookies=4, phase_one=BOUND)
async def test_a_writer_whose_ledger_is_in_doubt_changes_its_ensemble_and_lives(cluster: SimCluster) -> None:
    app = await cluster.client("app")
    writer = await written(app, close=False)
    bookie = member_of(cluster, writer)
    lay(cluster, 4_000)
    await lost(cluster, bookie)
    bookie.start()
    await cluster.until_ready(bookie.name)
    for number in range(12, 30):
        await app(writer.append(b"entry %d" % number))
    await cluster.until_repaired(bookie.name)
    await app(writer.close())

    async def back() -> list[bytes]:
        async with await app.client.open(writer.id, b"secret") as reader:
            return [bytes(entry.payload) for entry in await reader.read(0, 29)]

    assert await app(back()) == [b"entry %d" % number for number in range(30)]


async def cost_of_a_boot(cluster: SimCluster, count: int) -> tuple[int, float]:
    """(what the boot asked of the metadata store, virtual seconds) until a lost bookie serves among `count` ledgers."""
    bookie = member_of(cluster, await written(await cluster.client("app")))
    lay(cluster, count)
    await lost(cluster, bookie)
    await pause(cluster, 1_000)
    for name, other in cluster.bookies.items():
        if name != bookie.name:
            other.crash()  # so that only this one asks
    cluster.clients["app"].crash()
    await pause(cluster, 30_000)
    keeper, loop = cluster.simulation.keeper, cluster.simulation.loop
    calls, began_ns = keeper.calls, loop.now_ns
    bookie.start()
    await cluster.until(lambda: bookie.is_ready, "ready")
    return keeper.calls - calls, (loop.now_ns - began_ns) / 1e9


BESIDE_A_BOOT = 4  # calls that come just before or after the turn in which the bookie serves, by chance of the delays


@pytest.mark.parametrize("phase_one", [SCAN, BOUND])
def test_what_a_boot_asks_grows_with_the_cluster_in_one_form_alone(phase_one: str) -> None:
    costs = []
    for count in (10, 2_000):
        cluster = SimCluster(50, bookies=4, phase_one=phase_one)
        costs.append(cluster.run(lambda it, count=count: cost_of_a_boot(it, count)))  # type: ignore[misc]
    (few_calls, few_s), (many_calls, many_s) = costs
    if phase_one == SCAN:
        assert many_calls >= few_calls + 1_990 - BESIDE_A_BOOT
    else:
        assert abs(many_calls - few_calls) <= BESIDE_A_BOOT
        assert many_s <= 1.2 * few_s


class Many(Tree):
    """A tree that has, beside its nodes, a closed ledger of others under each id below `count`. None of them is a node,
    so ten million cost nothing."""

    def __init__(self, tree: Tree, count: int) -> None:
        super().__init__(tree._on_change)
        self.nodes, self.commits = tree.nodes, tree.commits
        self._count = count

    def children(self, path: str) -> list[str]:
        """2, 4 and 4 digits of the id make the path (spec/metadata.md#M8)."""
        digits = path.removeprefix(ROOT).replace("/", "")
        is_ours = path.startswith(ROOT) and (digits.isdecimal() or not digits) and len(digits) in (0, 2, 6)
        if not is_ours:
            return super().children(path)
        known = super().children(path) if path in self.nodes else []
        width, below = (2, 10**8) if not digits else (4, 10**4) if len(digits) == 2 else (4, 1)
        base = int(digits or "0") * below * 10**width
        end = min(-(-(self._count - base) // below), 10**width)
        letter = "L" if below == 1 else ""
        return sorted({*known, *(f"{letter}{number:0{width}d}" for number in range(end))})


async def cost_among_many(cluster: SimCluster, count: int) -> tuple[int, float]:
    bookie = cluster.bookies["bookie-0"]
    for other in cluster.bookies.values():
        other.crash()
    bookie.wipe()
    await pause(cluster, 30_000)
    keeper, loop = cluster.simulation.keeper, cluster.simulation.loop
    keeper.tree = Many(keeper.tree, count)
    calls, began_ns = keeper.calls, loop.now_ns
    bookie.start()
    await cluster.until(lambda: bookie.is_ready, "ready")
    assert durable_doubt(bookie) == Doubt(2, count, count)
    return keeper.calls - calls, (loop.now_ns - began_ns) / 1e9


def test_a_boot_by_a_bound_costs_the_same_among_ten_million_ledgers() -> None:
    costs = []
    for count in (10_000, 1_000_000, 10_000_000):
        cluster = SimCluster(51, bookies=3, phase_one=BOUND)
        costs.append(cluster.run(lambda it, count=count: cost_among_many(it, count)))  # type: ignore[misc]

    calls, seconds = [each for each, _ in costs], [each for _, each in costs]
    assert max(calls) <= min(calls) + BESIDE_A_BOOT
    assert max(seconds) <= 1.2 * min(seconds)
    assert max(seconds) < 5
