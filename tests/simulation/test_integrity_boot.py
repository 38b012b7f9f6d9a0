"""Whole boots in the simulated world: every verdict, a cut between any two steps, rivals, swapped and old disks.

The bookies, clients and the metadata store's port are the product's own; the oracle and the wiretap of the simulator
watch the protocol's promises in every one of these tests.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

import volumes_support
from bookie.base import errors
from bookie.base.ids import BookieId, BootEpoch, EntryId, Incarnation, LedgerId
from bookie.base.units import NS_PER_MS
from bookie.client.write.writer import LedgerWriter
from bookie.integrity import volumes
from bookie.integrity.options import BOUND, SCAN
from bookie.metadata import cookie, paths, serde
from bookie.metadata.ledger import LedgerState
from bookie.metadata.position import load_position
from bookie.ports.admin import OPERATOR_EPOCH_MAX, Aside, Contents, Grant, State, StorageReport, Verdict
from bookie.sim.cluster import INDEX, JOURNAL, LEDGERS, ROOT, VOLUMES, BookieNode, ClientNode, SimCluster
from bookie.sim.disk_image import DirImage, Image
from bookie.sim.node import ProcessEnd
from bookie.storage.index import ledger_key
from bookie.storage.journal.format import FIRST_GROUP
from bookie.storage.ledgers import unpack_row
from bookie.storage.store import EntryStore, LedgerFacts
from sim_support import on_cluster
from story_support import story

GATED = "gated"
# Phase one looks at every ledger before the bookie serves, or doubts all of them and examines them later.
EITHER_FORM = pytest.mark.parametrize("phase_one", [SCAN, BOUND])
CUT_MS = 4  # between two cuts of a boot
CUTS_MAX = 100  # no boot here takes so long
CUTS_WITHIN_MIN = 18  # of claim, marks, cookie, sentinels and marker: each is cut, most of them more than once
BOOTS_OVER = 3  # so many cuts find a bookie that serves; then the boots are over before the cut


def payload(number: int) -> bytes:
    return b"entry %d" % number


async def written(app: ClientNode, count: int = 12, *, close: bool = True, **options: Any) -> LedgerWriter:
    """A ledger with `count` acknowledged entries."""

    async def work() -> LedgerWriter:
        writer = await app.client.create(password=b"secret", **options)
        for number in range(count):
            await writer.append(payload(number))
        if close:
            await writer.close()
        return writer

    return await app(work())


async def read_back(app: ClientNode, ledger_id: LedgerId, count: int) -> None:
    """Every entry reads back with the same bytes."""

    async def work() -> list[bytes]:
        async with await app.client.open(ledger_id, b"secret") as reader:
            assert reader.last_entry == count - 1
            return [bytes(entry.payload) for entry in await reader.read(0, count - 1)]

    assert await app(work()) == [payload(number) for number in range(count)]


def member_of(cluster: SimCluster, writer: LedgerWriter, slot: int = 0) -> BookieNode:
    metadata = cluster.metadata_of(writer.id)
    assert metadata is not None
    return cluster.bookies[metadata.last_segment.bookies[slot]]


async def back(cluster: SimCluster, bookie: BookieNode) -> None:
    """Start it; grant what it waits for; return when nothing is left to repair."""
    if not bookie.is_running:
        bookie.start()
    await cluster.until(
        lambda: bookie.is_ready or bookie.state is State.WAITING_GRANT or not bookie.is_running,
        f"{bookie.name} ready or waiting",
    )
    assert bookie.is_running, bookie.ended
    if bookie.state is State.WAITING_GRANT:
        await bookie.grant()
    await cluster.until_ready(bookie.name)
    await cluster.until_repaired(bookie.name)


async def its_session_ended(cluster: SimCluster, bookie: BookieNode) -> None:
    """The sign of its last process is gone: a boot has nobody to wait for."""
    sign = paths.process(ROOT, BookieId(bookie.name))
    await cluster.until(lambda: sign not in cluster.simulation.keeper.tree.nodes, "its session ended")


async def pause(cluster: SimCluster, milliseconds: float) -> None:
    await cluster.simulation.loop.sleep_ns(int(milliseconds * NS_PER_MS))


def contents_of(image: Image) -> list[tuple[str, bytes]]:
    """Every file of the machine's volumes with its bytes."""
    return [(path, bytes(file.data)) for path in VOLUMES for path, file in sorted(image.volumes[path].root.files(path))]


async def held_with(cluster: SimCluster, bookie: BookieNode, verdict: Verdict) -> str:
    """Start it; it is held for `verdict`, alive, with its data port closed, and writes nothing. Returns the reason."""
    before = contents_of(bookie.node.image)
    bookie.start()
    await cluster.until(lambda: bookie.state is State.HELD, f"{bookie.name} held")
    await pause(cluster, 10_000)
    report = await bookie.report()
    assert (report.state, report.verdict, report.data_port_open) == (State.HELD, verdict, False)
    assert contents_of(bookie.node.image) == before
    with pytest.raises(errors.GrantRefused) as refused:
        await bookie.node.do(bookie.process.admin.grant(grant_for(report)))  # type: ignore[union-attr]
    assert refused.value.reason == "not_waiting"
    return report.reason


def grant_for(report: StorageReport) -> Grant:
    return Grant(
        grant_id="given by hand",
        bookie_id=report.bookie_id,
        pod_uid=report.pod_uid,
        evidence_hash=report.evidence_hash,
        cookie_version=report.cookie_version,
        new_incarnation=Incarnation(report.incarnation + 1),
        operator_epoch=9,
        ttl_ms=60_000,
        issued_by="a test",
    )


# ---- loss and grant --------------------------------------------------------------------------------------------------


@EITHER_FORM
@story(on_cluster, 1, bookies=4, regeneration=GATED, given=("phase_one",))
async def test_a_bookie_with_empty_volumes_waits_alive_and_writes_nothing_until_it_is_granted(
    cluster: SimCluster,
) -> None:
    app = await cluster.client("app")
    writer = await written(app)
    bookie = member_of(cluster, writer)
    bookie.crash()
    bookie.wipe()
    bookie.start()
    await cluster.until(lambda: bookie.state is State.WAITING_GRANT, "waiting")
    await pause(cluster, 30_000)

    report = await bookie.report()
    assert (report.verdict, report.cookie_present, report.data_port_open) == (Verdict.LOST, True, False)
    assert [volume.contents for volume in report.volumes] == [Contents.EMPTY] * 3
    assert contents_of(bookie.node.image) == []
    assert report.evidence_hash == (await bookie.report()).evidence_hash

    await back(cluster, bookie)
    healed = await bookie.report()
    assert (healed.verdict, healed.incarnation, healed.grant_id[:6]) == (Verdict.HEALTHY, 2, "grant-")
    assert {volume.sentinel.incarnation for volume in healed.volumes if volume.sentinel} == {2}
    status = bookie.process.boot.progress.snapshot(State.SERVING)  # type: ignore[union-attr]
    assert (status.done, status.entries_copied, status.ledgers_limbo) == (True, 12, 0)
    await read_back(app, writer.id, 12)


@story(on_cluster, 2, bookies=4, regeneration=GATED)
async def test_a_grant_for_a_situation_that_changed_is_refused_and_the_next_one_works(cluster: SimCluster) -> None:
    writer = await written(await cluster.client("app"))
    bookie = member_of(cluster, writer)
    bookie.crash()
    bookie.wipe()
    bookie.start()
    await cluster.until(lambda: bookie.state is State.WAITING_GRANT, "waiting")
    old = grant_for(await bookie.report())
    bookie.crash()
    bookie.wipe(JOURNAL)
    bookie.start()
    await cluster.until(lambda: bookie.state is State.WAITING_GRANT, "waiting again")
    assert bookie.process is not None
    same_pod = dataclasses.replace(old, pod_uid=(await bookie.report()).pod_uid)
    for stale, reason in (
        (old, "wrong_pod"),
        (same_pod, "evidence_changed"),
    ):  # each start is a pod of its own here
        with pytest.raises(errors.GrantRefused) as refused:
            await bookie.node.do(bookie.process.admin.grant(stale))
        assert refused.value.reason == reason
    assert contents_of(bookie.node.image) == []
    good = grant_for(await bookie.report())
    await bookie.node.do(bookie.process.admin.grant(good))
    await bookie.node.do(bookie.process.admin.grant(good))  # its sender may not have heard the answer
    await cluster.until_repaired(bookie.name)


@story(on_cluster, 2, bookies=4, regeneration=GATED)
async def test_a_refused_grant_moves_no_epoch_whatever_epoch_it_names(cluster: SimCluster) -> None:
    bookie = member_of(cluster, await written(await cluster.client("app")))
    bookie.crash()
    bookie.wipe()
    bookie.start()
    await cluster.until(lambda: bookie.state is State.WAITING_GRANT, "waiting")
    good = grant_for(await bookie.report())
    forged = (
        dataclasses.replace(good, evidence_hash="guessed", operator_epoch=OPERATOR_EPOCH_MAX),
        dataclasses.replace(good, cookie_version=good.cookie_version + 1, operator_epoch=2**31 - 2),
        dataclasses.replace(good, operator_epoch=OPERATOR_EPOCH_MAX + 1),
        dataclasses.replace(good, operator_epoch=2**64 - 1),
    )
    assert bookie.process is not None
    for grant in forged:
        with pytest.raises(errors.GrantRefused):
            await bookie.node.do(bookie.process.admin.grant(grant))
        assert (await bookie.report()).operator_epoch_seen == 0

    await bookie.node.do(bookie.process.admin.grant(good))
    await cluster.until_repaired(bookie.name)
    assert (await bookie.report()).operator_epoch_seen == good.operator_epoch


@story(on_cluster, 2, bookies=4, regeneration=GATED)
async def test_a_new_life_names_who_granted_it_in_its_record_for_as_long_as_it_lasts(cluster: SimCluster) -> None:
    bookie = member_of(cluster, await written(await cluster.client("app")))
    path = paths.incarnation(ROOT, BookieId(bookie.name))
    bookie.crash()
    bookie.wipe()
    bookie.start()
    await cluster.until(lambda: bookie.state is State.WAITING_GRANT, "waiting")
    grant = dataclasses.replace(grant_for(await bookie.report()), given_by="local: ada@home")
    assert bookie.process is not None
    await bookie.node.do(bookie.process.admin.grant(grant))
    await cluster.until_repaired(bookie.name)
    bookie.crash()
    await back(cluster, bookie)

    record = cookie.load_incarnation(cluster.simulation.keeper.tree.get(path).data)
    assert (record.granted_by, (await bookie.report()).granted_by) == ("local: ada@home", "local: ada@home")


@pytest.mark.parametrize("poison", [OPERATOR_EPOCH_MAX + 1, 2**63, 2**64 - 1])
@story(on_cluster, 2, bookies=4, regeneration=GATED)
async def test_an_epoch_that_no_operator_gives_is_void_in_the_record_and_the_next_grant_replaces_it(
    cluster: SimCluster, *, poison: int
) -> None:
    bookie = member_of(cluster, await written(await cluster.client("app")))
    bookie.crash()
    bookie.wipe()
    poison_record(cluster, bookie, poison)
    bookie.start()
    await cluster.until(lambda: bookie.state is State.WAITING_GRANT, "waiting")

    report = await bookie.report()
    assert report.operator_epoch_seen == 0
    assert bookie.process is not None
    await bookie.node.do(bookie.process.admin.grant(grant_for(report)))
    await cluster.until_repaired(bookie.name)
    assert (await bookie.report()).operator_epoch_seen == 9


class Cuts:
    """The times, in ms after a boot begins, at which to cut it: each later than the one before, until boots are over by
    then. How long a boot takes is for the product to say, not for these tests."""

    def __init__(self) -> None:
        self.count = 0
        self._over = 0

    def __iter__(self) -> Iterator[int]:
        while self._over < BOOTS_OVER:
            assert self.count < CUTS_MAX, "the boot never ends"
            self.count += 1
            yield (self.count - 1) * CUT_MS
        assert self.count - self._over >= CUTS_WITHIN_MIN, "the cuts do not lie in the boot"

    def met(self, bookie: BookieNode) -> None:
        """Look whether this boot is over. Call it before the cut."""
        self._over += bookie.is_ready


def poison_record(cluster: SimCluster, bookie: BookieNode, epoch: int) -> None:
    """What a release that believed refused grants may have left in the metadata store."""
    tree, path = cluster.simulation.keeper.tree, paths.incarnation(ROOT, BookieId(bookie.name))
    found = tree.get(path)
    record = dataclasses.replace(cookie.load_incarnation(found.data), operator_epoch=epoch)
    tree.put(path, cookie.dump_incarnation(record), found.version, now_ms=0)


@pytest.mark.slow
@pytest.mark.parametrize("how", [ProcessEnd.POWER_CUT, ProcessEnd.KILL])
@EITHER_FORM
@story(on_cluster, 3, bookies=4, regeneration=GATED, given=("phase_one",))
async def test_a_regeneration_cut_between_any_two_steps_goes_on_and_heals(
    cluster: SimCluster, *, how: ProcessEnd
) -> None:
    app = await cluster.client("app")
    closed = await written(app)
    abandoned = await written(await cluster.client("gone"), close=False)
    cluster.clients["gone"].crash()
    bookie = member_of(cluster, closed)
    cuts = Cuts()
    for cut_ms in cuts:
        bookie.crash(how)
        bookie.wipe()
        await its_session_ended(cluster, bookie)  # what is cut is the work, not the waiting for it
        bookie.start()
        await cluster.until(lambda: bookie.state is State.WAITING_GRANT, "waiting")
        await bookie.grant()
        await pause(cluster, cut_ms)
        cuts.met(bookie)
        bookie.crash(how)
        await back(cluster, bookie)
        report = await bookie.report()
        assert report.verdict is Verdict.HEALTHY, report.reason
        await held_entries(cluster, bookie, closed.id, 12)
    assert report.incarnation >= cuts.count
    await read_back(app, closed.id, 12)
    await read_back(app, abandoned.id, 12)


@story(on_cluster, 4, bookies=4, regeneration=GATED)
async def test_every_mark_is_on_disk_at_the_moment_the_cookie_changes(cluster: SimCluster) -> None:
    app = await cluster.client("app")
    closed, open_ = await written(app), await written(app, close=False)
    bookie = member_of(cluster, closed)
    named = [writer.id for writer in (closed, open_) if _names(cluster, writer, bookie)]
    cookie_path = paths.cookie(ROOT, BookieId(bookie.name))
    seen: list[dict[LedgerId, LedgerFacts | None]] = []

    def look(path: str) -> None:
        if path == cookie_path:
            seen.append({ledger_id: durable_facts(bookie, ledger_id) for ledger_id in named})

    cluster.simulation.keeper.observers.append(look)

    bookie.crash()
    bookie.wipe()
    await back(cluster, bookie)

    assert len(seen) == 1
    assert closed.id in seen[0]
    for facts in seen[0].values():
        assert facts is not None
        assert facts.is_limbo
    found = seen[0][closed.id]
    assert found is not None
    assert found.is_fenced


def _names(cluster: SimCluster, writer: LedgerWriter, bookie: BookieNode) -> bool:
    metadata = cluster.metadata_of(writer.id)
    return metadata is not None and metadata.names(BookieId(bookie.name))


def durable_facts(bookie: BookieNode, ledger_id: LedgerId) -> LedgerFacts | None:
    """What a power cut at this very moment would leave of a ledger's facts."""
    for path in VOLUMES:
        for store in bookie.node.image.volumes[path].root.stores():
            row = store.durable.get(ledger_key(ledger_id))
            if row is not None:
                return unpack_row(ledger_id, row).facts()
    return None


def store_of(bookie: BookieNode) -> EntryStore:
    assert bookie.process is not None
    assert bookie.process.boot.store is not None
    return bookie.process.boot.store


def facts_of(bookie: BookieNode, ledger_id: LedgerId) -> LedgerFacts:
    facts = store_of(bookie).facts(ledger_id)
    assert facts is not None
    return facts


async def held_entries(cluster: SimCluster, bookie: BookieNode, ledger_id: LedgerId, count: int) -> None:
    """The bookie itself holds the ledger, whole, out of limbo, and it is fenced there."""
    metadata = cluster.metadata_of(ledger_id)
    assert metadata is not None
    if metadata.names(BookieId(bookie.name)):
        assert await store_of(bookie).entry_ranges(ledger_id) == [(0, count - 1)]
        facts = facts_of(bookie, ledger_id)
        assert (facts.is_fenced, facts.is_limbo) == (True, False)


@pytest.mark.slow
def test_a_first_boot_cut_between_any_two_steps_begins_again() -> None:
    async def story(cluster: SimCluster) -> None:
        cuts = Cuts()
        for cut_ms in cuts:
            bookie = cluster.bookies[f"bookie-{cuts.count - 1}"]
            bookie.start()
            await pause(cluster, cut_ms + 1)
            cuts.met(bookie)
            bookie.crash()
            await back(cluster, bookie)
            report = await bookie.report()
            assert (report.verdict, report.incarnation) == (Verdict.HEALTHY, 1), report.reason

    cluster = SimCluster(4, bookies=CUTS_MAX, regeneration=GATED)

    async def without_starting() -> None:
        await cluster.format()
        await story(cluster)

    cluster.simulation.run(without_starting())


@pytest.mark.slow
@story(on_cluster, 5, bookies=4)
async def test_an_unclean_boot_cut_between_any_two_steps_keeps_its_protection(cluster: SimCluster) -> None:
    app = await cluster.client("app")
    writer = await written(app)
    bookie = member_of(cluster, writer)
    cuts = Cuts()
    for cut_ms in cuts:
        bookie.crash()
        await its_session_ended(cluster, bookie)
        bookie.start()
        await pause(cluster, cut_ms)
        cuts.met(bookie)
        bookie.crash()
        await back(cluster, bookie)
        await held_entries(cluster, bookie, writer.id, 12)
    await read_back(app, writer.id, 12)
    assert (await bookie.report()).incarnation == 1


@story(on_cluster, 5, bookies=4, regeneration=GATED)
async def test_an_unclean_stop_is_known_until_every_mark_is_on_disk(cluster: SimCluster) -> None:
    """The power goes while phase one waits for the metadata: the next boot must find that the stop before was unclean,
    as no mark says it yet (CONFORMANCE.md#B31)."""
    app = await cluster.client("app")
    writer = await written(app)
    bookie = member_of(cluster, writer)
    bookie.crash()
    await its_session_ended(cluster, bookie)
    bookie.start()
    await cluster.until(lambda: bookie.state is State.FENCING, "phase one has begun")
    cluster.partition(bookie.name, "zk")
    await pause(cluster, 1_000)
    assert bookie.state is State.FENCING
    facts = durable_facts(bookie, writer.id)
    assert facts is None or not facts.is_limbo, "the marks were made before the power went"

    bookie.crash()
    cluster.heal()
    await back(cluster, bookie)

    assert bookie.process is not None
    assert bookie.process.boot.progress.done_count == 1
    await held_entries(cluster, bookie, writer.id, 12)
    await read_back(app, writer.id, 12)


# ---- verdicts ------------------------------------------------------------------------------------------------------


@story(on_cluster, 6, bookies=4, regeneration=GATED)
async def test_a_crash_without_journaled_data_is_repaired_without_a_grant(cluster: SimCluster) -> None:
    app = await cluster.client("app")
    writer = await written(app)
    bookie = member_of(cluster, writer)
    bookie.crash()
    bookie.start()
    await cluster.until_ready(bookie.name)
    assert bookie.process is not None
    await cluster.until_repaired(bookie.name)
    assert bookie.process.boot.progress.limbo == 0
    assert bookie.process.boot.progress.done_count == 1
    assert (await bookie.report()).incarnation == 1
    await read_back(app, writer.id, 12)


@story(on_cluster, 7, bookies=4, regeneration=GATED)
async def test_an_orderly_stop_needs_no_repair(cluster: SimCluster) -> None:
    writer = await written(await cluster.client("app"))
    bookie = member_of(cluster, writer)
    bookie.stop()
    await cluster.until(lambda: not bookie.is_running, "stopped")
    await back(cluster, bookie)
    assert bookie.process is not None
    assert bookie.process.boot.progress.scanned == 0
    assert (await bookie.report()).boot_epoch == 2


@story(on_cluster, 7, bookies=4, regeneration=GATED)
async def test_an_index_that_is_gone_from_a_whole_volume_is_not_made_anew(cluster: SimCluster) -> None:
    """fsck put it into lost+found, say. Cookie and sentinel are there, so nobody asks integrity to doubt anything."""
    writer = await written(await cluster.client("app"))
    bookie = member_of(cluster, writer)
    bookie.stop()
    await cluster.until(lambda: not bookie.is_running, "stopped")
    current = bookie.node.image.volumes[INDEX].root.names["current"]
    assert isinstance(current, DirImage)
    current.change("index", "", None)
    bookie.start()
    await cluster.until(lambda: bookie.is_ready or not bookie.is_running, "the end of its boot")
    assert isinstance(bookie.ended, errors.CorruptFile)


@story(on_cluster, 8, bookies=4, journal_write_data=True, regeneration=GATED)
async def test_journaled_data_needs_no_repair_after_a_crash(cluster: SimCluster) -> None:
    app = await cluster.client("app")
    writer = await written(app)
    bookie = member_of(cluster, writer)
    bookie.crash()
    await back(cluster, bookie)
    assert bookie.process is not None
    assert bookie.process.boot.progress.scanned == 0
    await read_back(app, writer.id, 12)


@story(on_cluster, 9, bookies=4, regeneration=GATED)
async def test_protection_still_runs_when_the_journal_was_switched_on_after_the_crash(cluster: SimCluster) -> None:
    """spec/bp46.md#T20: what counts is how the crashed process ran, not how this one is configured."""
    writer = await written(await cluster.client("app"))
    bookie = member_of(cluster, writer)
    bookie.crash()
    bookie.settings = dataclasses.replace(bookie.settings, journal_write_data=True)
    await back(cluster, bookie)
    assert bookie.process is not None
    assert bookie.process.boot.progress.done_count == 1
    bookie.crash()  # from now on the journal is trusted
    await back(cluster, bookie)
    assert bookie.process.boot.progress.scanned == 0


@EITHER_FORM
@story(on_cluster, 10, bookies=4, regeneration=GATED, given=("phase_one",))
async def test_one_lost_volume_of_three_is_granted_and_what_it_held_comes_back(cluster: SimCluster) -> None:
    """spec/bp46.md#T15: with the entry logs gone and the index kept, Java believes that everything is present."""
    app = await cluster.client("app")
    writer = await written(app)
    bookie = member_of(cluster, writer)
    for lost in (LEDGERS, INDEX, JOURNAL):
        bookie.stop()
        await cluster.until(lambda: not bookie.is_running, "stopped")
        bookie.wipe(lost)
        bookie.start()
        await cluster.until(lambda: bookie.state is State.WAITING_GRANT, "waiting")
        report = await bookie.report()
        assert report.verdict is Verdict.LOST
        assert lost.strip("/") in report.reason
        await back(cluster, bookie)
        await held_entries(cluster, bookie, writer.id, 12)
    await read_back(app, writer.id, 12)


@story(on_cluster, 11, bookies=4, regeneration="local")
async def test_a_volume_that_went_back_in_time_is_held(cluster: SimCluster) -> None:
    writer = await written(await cluster.client("app"))
    bookie = member_of(cluster, writer)
    bookie.stop()
    await cluster.until(lambda: not bookie.is_running, "stopped")
    snapshot = volumes_support.snapshot(bookie.node.image, LEDGERS)
    await back(cluster, bookie)
    bookie.crash()
    volumes_support.put_back(bookie.node.image, snapshot)
    reason = await held_with(cluster, bookie, Verdict.STALE)
    assert "went back in time" in reason


@pytest.mark.parametrize("full", VOLUMES)
@story(on_cluster, 20, bookies=4, regeneration=GATED)
async def test_a_grant_that_finds_no_room_for_sentinels_changes_nothing_and_the_next_one_heals(
    cluster: SimCluster, *, full: str
) -> None:
    app = await cluster.client("app")
    writer = await written(app)
    bookie = member_of(cluster, writer)
    bookie.crash()
    bookie.wipe()
    volume = bookie.node.image.volumes[full]
    room, volume.total_bytes = volume.total_bytes, volume.used_bytes
    path = paths.cookie(ROOT, BookieId(bookie.name))
    before = cluster.simulation.keeper.tree.nodes[path].data

    bookie.start()
    await cluster.until(lambda: bookie.state is State.WAITING_GRANT, "waiting")
    await bookie.grant()
    await cluster.until(lambda: not bookie.is_running, "it ends")

    assert isinstance(bookie.ended, errors.DiskFull)
    assert full in str(bookie.ended)
    assert cluster.simulation.keeper.tree.nodes[path].data == before
    volume.total_bytes = room
    await back(cluster, bookie)
    assert (await bookie.report()).incarnation == 2, "one new life, however often it was granted"
    await held_entries(cluster, bookie, writer.id, 12)


async def granted_with_what_it_has(cluster: SimCluster, bookie: BookieNode) -> None:
    """Start it; it holds itself, until a grant gives up what its old volumes lack; wait until it is repaired."""
    await held_with(cluster, bookie, Verdict.STALE)
    await bookie.grant(accepts_stale=True)
    await cluster.until_ready(bookie.name)
    await cluster.until_repaired(bookie.name)


@pytest.mark.parametrize("volumes", [(LEDGERS,), (INDEX,), (JOURNAL,), VOLUMES], ids=lambda one: "".join(one))
@EITHER_FORM
@story(on_cluster, 17, bookies=4, regeneration=GATED, given=("phase_one",))
async def test_volumes_of_an_earlier_boot_are_repaired_under_a_grant_that_gives_up_what_they_lack(
    cluster: SimCluster, *, volumes: tuple[str, ...]
) -> None:
    app = await cluster.client("app")
    bookie = member_of(cluster, await written(app))
    bookie.stop()
    await cluster.until(lambda: not bookie.is_running, "stopped")
    old = [volumes_support.snapshot(bookie.node.image, path) for path in volumes]
    await back(cluster, bookie)
    writers = await six(cluster, app, bookie)
    bookie.crash()
    for volume in old:
        volumes_support.put_back(bookie.node.image, volume)
    await its_session_ended(cluster, bookie)

    await granted_with_what_it_has(cluster, bookie)

    report = await bookie.report()
    assert (report.incarnation, report.verdict) == (2, Verdict.HEALTHY)
    await is_whole(cluster, app, bookie, writers)


@story(on_cluster, 38, bookies=4, regeneration=GATED, journal_write_data=True)
async def test_a_log_of_an_earlier_boot_that_ends_before_what_the_index_has_is_read_and_not_believed(
    cluster: SimCluster,
) -> None:
    """The log is there, and shorter than the index says: only a look at the bytes tells."""
    app = await cluster.client("app")
    bookie = member_of(cluster, await written(app))
    await bookie.node.do(store_of(bookie).flush())
    old = volumes_support.snapshot(bookie.node.image, LEDGERS)
    writers = await six(cluster, app, bookie)
    await bookie.node.do(store_of(bookie).flush())
    bookie.stop()
    await cluster.until(lambda: not bookie.is_running, "stopped")
    await back(cluster, bookie)
    bookie.crash()
    volumes_support.put_back(bookie.node.image, old)
    await its_session_ended(cluster, bookie)

    await granted_with_what_it_has(cluster, bookie)

    assert await answers(await cluster.client("asker"), bookie, writers) == {"it"}


@EITHER_FORM
@story(on_cluster, 18, bookies=4, regeneration=GATED, given=("phase_one",))
async def test_what_went_back_in_time_denies_nothing_from_the_first_request_on(cluster: SimCluster) -> None:
    """Nobody else is there to copy from: it says that it does not know."""
    app, asker = await cluster.client("app"), await cluster.client("asker")
    bookie = member_of(cluster, await written(app))
    bookie.stop()
    await cluster.until(lambda: not bookie.is_running, "stopped")
    old = [volumes_support.snapshot(bookie.node.image, path) for path in VOLUMES]
    await back(cluster, bookie)
    writers = await six(cluster, app, bookie)
    for one in cluster.bookies.values():
        one.crash()
    for volume in old:
        volumes_support.put_back(bookie.node.image, volume)
    await its_session_ended(cluster, bookie)

    await held_with(cluster, bookie, Verdict.STALE)
    await bookie.grant(accepts_stale=True)
    await cluster.until_ready(bookie.name)

    found = await answers(asker, bookie, writers)
    assert "UnknownLedgerState" in found
    assert found <= {"UnknownLedgerState", "BookieUnavailable"}, found


@EITHER_FORM
@story(on_cluster, 19, bookies=4, regeneration=GATED, given=("phase_one",))
async def test_a_rollback_repair_cut_between_any_two_steps_goes_on_and_heals(cluster: SimCluster) -> None:
    app = await cluster.client("app")
    bookie = member_of(cluster, await written(app))
    bookie.stop()
    await cluster.until(lambda: not bookie.is_running, "stopped")
    old = [volumes_support.snapshot(bookie.node.image, path) for path in (LEDGERS, INDEX)]
    await back(cluster, bookie)
    writers = await six(cluster, app, bookie)
    bookie.crash()
    for volume in old:
        volumes_support.put_back(bookie.node.image, volume)

    waits = (State.HELD, State.WAITING_GRANT)
    for cut in range(CUTS_MAX):
        await its_session_ended(cluster, bookie)
        bookie.start()
        await cluster.until(lambda: bookie.is_ready or bookie.state in waits, "it waits or serves")
        if bookie.state in waits:
            await bookie.grant(accepts_stale=True)
        await pause(cluster, cut * CUT_MS)
        if bookie.is_ready:
            break
        bookie.crash()
    assert bookie.is_ready
    await cluster.until_repaired(bookie.name)
    await is_whole(cluster, app, bookie, writers)


@story(on_cluster, 12, bookies=4)
async def test_the_disk_of_the_life_before_is_held(cluster: SimCluster) -> None:
    writer = await written(await cluster.client("app"))
    bookie = member_of(cluster, writer)
    bookie.crash()
    old = [volumes_support.snapshot(bookie.node.image, path) for path in VOLUMES]
    bookie.wipe()
    await back(cluster, bookie)
    bookie.crash()
    for volume in old:
        volumes_support.put_back(bookie.node.image, volume)
    assert "incarnation 1" in await held_with(cluster, bookie, Verdict.STALE)


@story(on_cluster, 13, bookies=4)
async def test_the_volume_of_another_bookie_is_held_and_left_alone(cluster: SimCluster) -> None:
    """spec/bp46.md#T16: Java's stamping adopts it."""
    one, other = cluster.bookies["bookie-0"], cluster.bookies["bookie-1"]
    one.crash()
    other.crash()
    volumes_support.put_back(one.node.image, volumes_support.snapshot(other.node.image, LEDGERS))
    assert "bookie-1" in await held_with(cluster, one, Verdict.FOREIGN)


@story(on_cluster, 14, bookies=4)
async def test_files_that_are_not_ours_are_held_and_left_alone(cluster: SimCluster) -> None:
    bookie = cluster.bookies["bookie-0"]
    bookie.crash()
    bookie.wipe()
    world = bookie.node.begin()

    async def plant() -> None:
        file = await world.disk.open(f"{LEDGERS}/precious.txt", create=True)
        await file.append([b"somebody's"])
        await file.close()

    await bookie.node.do(plant())
    bookie.node.end(ProcessEnd.EXIT)
    assert "precious.txt" in await held_with(cluster, bookie, Verdict.UNKNOWN_CONTENT)


@pytest.mark.parametrize("dead", VOLUMES)
@pytest.mark.parametrize("others_lost", [False, True])
@story(on_cluster, 14, bookies=4)
async def test_a_disk_that_answers_nothing_at_the_start_is_held_until_it_answers(
    cluster: SimCluster, *, dead: str, others_lost: bool
) -> None:
    """Not lost, not even where a bookie takes its identity back by itself (spec/operator.md#V14)."""
    writer = await written(await cluster.client("app"))
    bookie = member_of(cluster, writer)
    bookie.crash()
    if others_lost:
        bookie.wipe(*(path for path in VOLUMES if path != dead))
    bookie.node.disk_faults.fails_reads_path = dead

    reason = await held_with(cluster, bookie, Verdict.UNREADABLE)

    assert "input/output error" in reason
    volume = (await bookie.report()).volume(dead.rsplit("/", 1)[-1])
    assert volume is not None
    assert (volume.contents, volume.sentinel) == (Contents.UNREADABLE, None)
    bookie.node.disk_faults.fails_reads_path = ""
    await cluster.until_ready(bookie.name)
    await cluster.until_repaired(bookie.name)
    assert (await bookie.report()).incarnation == (2 if others_lost else 1)
    await held_entries(cluster, bookie, writer.id, 12)


@pytest.mark.parametrize("silent", VOLUMES)
@pytest.mark.parametrize("is_wiped", [False, True])
@story(on_cluster, 14, bookies=4)
async def test_a_disk_that_does_not_say_which_it_is_is_held_whatever_is_read_from_it(
    cluster: SimCluster, *, silent: str, is_wiped: bool
) -> None:
    """Not lost, not even where it reads as empty and a bookie takes its identity back by itself."""
    writer = await written(await cluster.client("app"))
    bookie = member_of(cluster, writer)
    bookie.crash()
    if is_wiped:
        bookie.wipe(silent)
    bookie.node.disk_faults.is_silent_path = silent

    reason = await held_with(cluster, bookie, Verdict.UNREADABLE)

    assert "the disk does not answer" in reason
    bookie.node.disk_faults.is_silent_path = ""
    await cluster.until_ready(bookie.name)
    await cluster.until_repaired(bookie.name)
    assert (await bookie.report()).incarnation == (2 if is_wiped else 1)
    await held_entries(cluster, bookie, writer.id, 12)


@story(on_cluster, 14, bookies=4)
async def test_a_disk_that_answers_nothing_while_its_bookie_serves_is_an_error_of_the_look(cluster: SimCluster) -> None:
    """The boot is over, and the store decides what becomes of the bookie."""
    bookie = cluster.bookies["bookie-0"]
    assert (await bookie.report()).state.serves
    bookie.node.disk_faults.fails_reads_path = LEDGERS

    with pytest.raises(errors.StorageFailed, match="input/output error"):
        await bookie.node.do(bookie.process.admin.storage_report(fresh=True))  # type: ignore[union-attr]

    bookie.node.disk_faults.fails_reads_path = ""
    assert (await bookie.report()).state.serves


@pytest.mark.parametrize("wiped", [False, True])
@story(on_cluster, 15, bookies=4)
async def test_a_deleted_cookie_does_not_make_a_known_bookie_new(cluster: SimCluster, *, wiped: bool) -> None:
    """The delete-the-cookie workaround, which turns a lost disk into silent data loss elsewhere (spec/bp46.md#R11)."""
    writer = await written(await cluster.client("app"))
    bookie = member_of(cluster, writer)
    bookie.crash()
    if wiped:
        bookie.wipe()
    cluster.simulation.keeper.tree.delete(paths.cookie(ROOT, BookieId(bookie.name)), -1)
    assert "restore the cookie" in await held_with(cluster, bookie, Verdict.COOKIE_MISSING)


def order(number: int, *, is_aside: bool = True) -> Aside:
    return Aside(is_aside, "its disk clicks", f"order-{number}", 1_000 * number)


@pytest.mark.parametrize("wiped", [False, True])
@story(on_cluster, 18, bookies=4)
async def test_a_bookie_that_was_set_aside_stays_out_until_a_later_order(cluster: SimCluster, *, wiped: bool) -> None:
    """With its disks or with empty ones: it writes nothing, takes no grant, registers nowhere (spec/operator.md#U6)."""
    writer = await written(await cluster.client("app"))
    bookie = member_of(cluster, writer)
    peer = next(one for one in cluster.bookies.values() if one is not bookie)
    bookie_id = BookieId(bookie.name)
    said = peer.process.admin.set_aside(bookie_id, order(2))  # type: ignore[union-attr]
    assert "at its next boot" in await peer.node.do(said)
    assert bookie.state is State.SERVING, "a process that serves goes on until it ends"
    assert (await bookie.report()).aside in (None, order(2))
    bookie.crash()
    if wiped:
        bookie.wipe()
    told = await held_with(cluster, bookie, Verdict.SET_ASIDE)
    assert "its disk clicks" in told
    assert told.endswith("a BookieOperation Unfence takes it back"), "what to do next, and not only why"
    for late in (order(1), order(1, is_aside=False)):
        with pytest.raises(errors.GrantRefused) as refused:
            await bookie.node.do(bookie.process.admin.set_aside(bookie_id, late))  # type: ignore[union-attr]
        assert refused.value.reason == "overtaken"

    back = bookie.process.admin.set_aside(bookie_id, order(3, is_aside=False))  # type: ignore[union-attr]
    await bookie.node.do(back)

    await cluster.until(lambda: bookie.state.serves, f"{bookie.name} serves")
    seen = await bookie.node.do(bookie.process.admin.storage_report(fresh=True))  # type: ignore[union-attr]
    assert seen.aside == order(3, is_aside=False)


@story(on_cluster, 19, bookies=4)
async def test_an_order_that_nobody_can_read_keeps_a_bookie_out_too(cluster: SimCluster) -> None:
    bookie = cluster.bookies["bookie-0"]
    peer = cluster.bookies["bookie-1"]
    await peer.node.do(peer.process.admin.set_aside(BookieId("bookie-0"), order(2)))  # type: ignore[union-attr]
    path = paths.aside(ROOT, BookieId("bookie-0"))
    cluster.simulation.keeper.tree.put(path, b"{", -1, now_ms=0)
    bookie.crash()
    assert "cannot be read" in await held_with(cluster, bookie, Verdict.SET_ASIDE)


@pytest.mark.parametrize("spoiled", ["", "wiped", "no record", "registered", "other evidence"])
@story(on_cluster, 20, bookies=4)
async def test_a_deleted_cookie_comes_back_as_whole_disks_have_it_and_not_otherwise(
    cluster: SimCluster, *, spoiled: str
) -> None:
    """spec/operator.md#U9"""
    writer = await written(await cluster.client("app"))
    bookie = member_of(cluster, writer)
    bookie.crash()
    tree, bookie_id = cluster.simulation.keeper.tree, BookieId(bookie.name)
    before = tree.get(paths.cookie(ROOT, bookie_id)).data
    tree.delete(paths.cookie(ROOT, bookie_id), -1)
    if spoiled == "wiped":
        bookie.wipe()
    if spoiled == "no record":
        tree.delete(paths.incarnation(ROOT, bookie_id), -1)
    await held_with(cluster, bookie, Verdict.COOKIE_MISSING)
    await pause(cluster, 60_000)  # the session of the process that crashed ends
    if spoiled == "registered":
        tree.create(f"{paths.available(ROOT)}/{bookie_id}", b"", now_ms=0, owner=0, sequential=False, parents=False)
    seen = (await bookie.report()).evidence_hash
    asked = "another" if spoiled == "other evidence" else seen

    order = bookie.process.admin.restore_cookie(evidence_hash=asked)  # type: ignore[union-attr]
    if spoiled:
        with pytest.raises(errors.GrantRefused) as refused:
            await bookie.node.do(order)
        words = {"wiped": "disks", "no record": "no_record", "registered": "overtaken"}
        assert refused.value.reason == words.get(spoiled, "evidence_changed")
        assert bookie.state is State.HELD
        return
    await bookie.node.do(order)

    await cluster.until(lambda: bookie.state is State.SERVING, f"{bookie.name} serves")
    assert tree.get(paths.cookie(ROOT, bookie_id)).data == before


@story(on_cluster, 16, bookies=4)
async def test_changed_directories_are_held_with_the_setting_named(cluster: SimCluster) -> None:
    bookie = cluster.bookies["bookie-0"]
    bookie.crash()
    path = paths.cookie(ROOT, BookieId("bookie-0"))
    stored = cluster.simulation.keeper.tree.get(path)
    changed = dataclasses.replace(cookie.load_cookie(stored.data), ledger_dirs=("/elsewhere",))
    cluster.simulation.keeper.tree.put(path, cookie.dump_cookie(changed), -1, now_ms=0)
    assert "ledger directories" in await held_with(cluster, bookie, Verdict.UNKNOWN_CONTENT)


# ---- ledgers -------------------------------------------------------------------------------------------------------


@EITHER_FORM
@story(on_cluster, 17, bookies=4, given=("phase_one",))
async def test_a_live_writer_survives_the_loss_and_its_ledger_is_repaired_without_being_closed(
    cluster: SimCluster,
) -> None:
    """spec/bp46.md#T14, L5: BookKeeper's own check kills it."""
    app = await cluster.client("app")
    writer = await written(app, close=False)
    bookie = member_of(cluster, writer)
    bookie.crash()
    bookie.wipe()
    bookie.start()
    await cluster.until_ready(bookie.name)
    for number in range(12, 24):
        await app(writer.append(payload(number)))
    await cluster.until_repaired(bookie.name)
    for number in range(24, 30):
        await app(writer.append(payload(number)))
    metadata = cluster.metadata_of(writer.id)
    assert metadata is not None
    assert metadata.state is LedgerState.OPEN
    assert await store_of(bookie).entry_ranges(writer.id) == [(0, 11)]
    assert not facts_of(bookie, writer.id).is_limbo
    await app(writer.close())
    await read_back(app, writer.id, 30)


@EITHER_FORM
@story(on_cluster, 18, bookies=3, given=("phase_one",))
async def test_a_writer_that_waits_for_the_returning_bookie_is_not_fenced_while_it_writes(cluster: SimCluster) -> None:
    """Three bookies, so that it cannot change its ensemble: its ledger stays in limbo until it closes."""
    app = await cluster.client("app")
    writer = await written(app, close=False)
    bookie = member_of(cluster, writer)
    bookie.crash()
    bookie.wipe()
    bookie.start()
    await cluster.until_ready(bookie.name)
    for number in range(12, 40):
        await app(writer.append(payload(number)))
        await pause(cluster, 500)
    assert bookie.state is State.REPAIRING
    await app(writer.close())
    await cluster.until_repaired(bookie.name)
    await read_back(app, writer.id, 40)


async def closed_behind_its_writer(cluster: SimCluster) -> tuple[ClientNode, LedgerWriter, BookieNode]:
    """A client whose writer did not hear that another client closed its ledger; the writer; a bookie of the ledger."""
    app, old = await cluster.client("app"), await cluster.client("old writer")
    writer = await written(old, close=False)
    await app(recovered(app, writer.id))
    return old, writer, member_of(cluster, writer)


async def recovered(app: ClientNode, ledger_id: LedgerId) -> None:
    reader = await app.client.open(ledger_id, b"secret")
    await reader.close()


def name_another(cluster: SimCluster, writer: LedgerWriter, bookie: BookieNode) -> None:
    """The ledger's metadata names another in the place of `bookie`, as after a re-replication."""
    metadata = cluster.metadata_of(writer.id)
    assert metadata is not None
    spare = next(name for name in cluster.bookies if not metadata.names(BookieId(name)))
    moved = metadata.replaced(EntryId(0), BookieId(bookie.name), BookieId(spare))
    tree = cluster.simulation.keeper.tree
    tree.put(paths.ledger_path(ROOT, writer.id), serde.dump_ledger(moved), -1, now_ms=0)


@pytest.mark.parametrize("gone", [False, True])
@EITHER_FORM
@story(on_cluster, 19, bookies=4, given=("phase_one",))
async def test_a_closed_ledger_is_fenced_again_also_where_it_no_longer_names_the_bookie(
    cluster: SimCluster, *, gone: bool
) -> None:
    """spec/bp46.md#T2, and its variant: the fragment was re-replicated while the bookie waited for its grant."""
    old, writer, bookie = await closed_behind_its_writer(cluster)
    bookie.crash()
    bookie.wipe()
    if gone:
        name_another(cluster, writer, bookie)
    bookie.start()
    await cluster.until_ready(bookie.name)
    with pytest.raises(errors.BookieError):
        await old(writer.append(b"behind the end"))
    await cluster.until_repaired(bookie.name)
    assert facts_of(bookie, writer.id).is_fenced


@story(on_cluster, 19, bookies=4)
async def test_a_retired_id_that_is_used_again_knows_that_it_may_have_fenced(cluster: SimCluster) -> None:
    """Nothing names it any more and its cookie was deleted in order, so it is new; but writers hang for long."""
    _, writer, bookie = await closed_behind_its_writer(cluster)
    bookie.crash()
    bookie.wipe()
    name_another(cluster, writer, bookie)
    tree = cluster.simulation.keeper.tree
    tree.delete(paths.cookie(ROOT, BookieId(bookie.name)), -1)
    bookie.start()
    await cluster.until_ready(bookie.name)
    assert facts_of(bookie, writer.id).is_fenced


@story(on_cluster, 19, bookies=4)
async def test_an_id_taken_over_from_a_java_bookie_knows_that_it_may_have_fenced(cluster: SimCluster) -> None:
    """Java's bookie retires without a record of its life: no cookie, no ledger names it, and still it had fenced."""
    _, writer, bookie = await closed_behind_its_writer(cluster)
    bookie.stop()
    await cluster.until(lambda: not bookie.is_running, "stopped")
    bookie.wipe()
    name_another(cluster, writer, bookie)
    tree = cluster.simulation.keeper.tree
    tree.delete(paths.cookie(ROOT, BookieId(bookie.name)), -1)
    tree.delete(paths.incarnation(ROOT, BookieId(bookie.name)), -1)
    bookie.start()
    await cluster.until_ready(bookie.name)
    assert facts_of(bookie, writer.id).is_fenced


@EITHER_FORM
@story(on_cluster, 20, bookies=4, given=("phase_one",))
async def test_a_broken_record_of_another_ledger_stops_nobody(cluster: SimCluster) -> None:
    """spec/bp46.md#T18, R8: Java aborts the whole check."""
    app = await cluster.client("app")
    kept, deleted = await written(app), await written(app)
    tree = cluster.simulation.keeper.tree
    cluster.simulation.keeper.observers.clear()  # the oracle reads every record, and would stumble
    tree.create(
        paths.ledger_path(ROOT, LedgerId(777)), b"not metadata", now_ms=0, owner=0, sequential=False, parents=True
    )
    bookie = member_of(cluster, kept)
    bookie.crash()
    bookie.wipe()
    bookie.start()
    await cluster.until(lambda: bookie.is_ready, "ready")
    tree.delete(paths.ledger_path(ROOT, deleted.id), -1)
    await cluster.until_repaired(bookie.name)
    await held_entries(cluster, bookie, kept.id, 12)


@EITHER_FORM
@story(on_cluster, 21, bookies=4, time_limit_s=7200, given=("phase_one",))
async def test_a_ledger_that_nobody_can_end_is_reported_with_its_reason(cluster: SimCluster) -> None:
    """spec/bp46.md#T13: with an ack quorum of one, the lost bookie may have held the only copy; only a person can
    accept that."""
    lone = await cluster.client("lone")
    writer = await written(lone, 3, close=False, ensemble_size=2, write_quorum=2, ack_quorum=1)
    lone.crash()
    bookie = member_of(cluster, writer)
    bookie.crash()
    bookie.wipe()
    bookie.start()
    await cluster.until_ready(bookie.name)
    assert bookie.process is not None
    progress = bookie.process.boot.progress
    await cluster.until(lambda: "cannot say" in progress.blocked.get(writer.id, ""), "blocked with a reason")
    assert bookie.state is State.REPAIRING
    assert not progress.is_done


# ---- rivals and outages --------------------------------------------------------------------------------------------


@story(on_cluster, 22, bookies=3)
async def test_of_two_processes_with_one_identity_the_older_stops(cluster: SimCluster) -> None:
    bookie = cluster.bookies["bookie-0"]
    path = paths.incarnation(ROOT, BookieId("bookie-0"))
    tree = cluster.simulation.keeper.tree
    record = cookie.load_incarnation(tree.get(path).data)
    rival = dataclasses.replace(record, boot_epoch=BootEpoch(record.boot_epoch + 1), boot_id="rival")
    tree.put(path, cookie.dump_incarnation(rival), -1, now_ms=0)

    await cluster.until(lambda: not bookie.is_running, "the older process stops")

    assert isinstance(bookie.ended, errors.RefusedToStart)
    assert "another process" in str(bookie.ended)


@story(on_cluster, 39, bookies=4, regeneration=GATED)
async def test_what_became_of_the_volumes_while_a_boot_waited_for_another_process_is_seen(
    cluster: SimCluster, *, caplog: pytest.LogCaptureFixture
) -> None:
    """What it saw before its claim may be old by as much as it waited: the earlier process used those disks."""
    app = await cluster.client("app")
    writer = await written(app)
    bookie = member_of(cluster, writer)
    bookie.crash(ProcessEnd.KILL)
    bookie.start()  # its volumes are whole, and the session of the process before it lives on
    await cluster.until(lambda: "waiting for the end of another process" in caplog.text, "the wait")

    for path in bookie.volumes:
        bookie.node.image.wipe(path)
    await cluster.until(lambda: bookie.is_ready or bookie.state is State.WAITING_GRANT, "the end of the wait")

    assert bookie.state is State.WAITING_GRANT
    assert contents_of(bookie.node.image) == []
    await back(cluster, bookie)
    await read_back(app, writer.id, 12)


@story(on_cluster, 23, bookies=4)
async def test_a_boot_waits_out_a_silent_metadata_store(cluster: SimCluster) -> None:
    writer = await written(await cluster.client("app"))
    bookie = member_of(cluster, writer)
    bookie.crash()
    bookie.wipe()
    bookie.start()
    await pause(cluster, 15)
    cluster.partition(bookie.name, "zk")
    await pause(cluster, 40_000)
    assert bookie.is_running
    assert not bookie.is_ready
    cluster.heal()
    await cluster.until_repaired(bookie.name)
    await held_entries(cluster, bookie, writer.id, 12)


@story(on_cluster, 24, bookies=3)
async def test_every_configured_directory_carries_the_cookie_of_the_metadata_store(cluster: SimCluster) -> None:
    bookie = cluster.bookies["bookie-0"]
    stored = cluster.simulation.keeper.tree.get(paths.cookie(ROOT, BookieId("bookie-0"))).data
    files = dict(contents_of(bookie.node.image))
    assert [files[f"{path}/{volumes.COOKIE_FILE}"] for path in VOLUMES] == [stored] * 3
    assert b"incarnation" not in stored  # Java's parser refuses unknown fields


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30, 36))
@EITHER_FORM
@story(on_cluster, bookies=4, regeneration=GATED, given=("seed", "phase_one"))
async def test_lost_answers_of_the_metadata_store_are_settled_by_looking(cluster: SimCluster) -> None:
    """Cookie, record, ledger metadata: whatever was asked may have happened; nothing is repeated blindly."""
    app = await cluster.client("app")
    writer = await written(app)
    bookie = member_of(cluster, writer)
    faults = cluster.simulation.keeper.faults
    for life in range(2, 6):
        bookie.crash()
        bookie.wipe()
        faults.lost_answer_per_million = faults.lost_request_per_million = 250_000
        await back(cluster, bookie)
        faults.lost_answer_per_million = faults.lost_request_per_million = 0
        report = await bookie.report()
        assert (report.incarnation, report.verdict) == (life, Verdict.HEALTHY), report.reason
        await held_entries(cluster, bookie, writer.id, 12)


@EITHER_FORM
@story(on_cluster, 23, bookies=4, given=("phase_one",))
async def test_a_bookie_that_a_recovery_brought_in_and_that_lost_what_it_took_gets_it_back(cluster: SimCluster) -> None:
    """A recovery names its replacements in the metadata only when it closes the ledger. One that crashed before, and
    looked at the metadata before, must not think that it holds nothing of the ledger."""
    old, app = await cluster.client("old writer"), await cluster.client("app")

    async def many() -> LedgerWriter:
        writer = await old.client.create(password=b"secret", ack_quorum=3)
        await writer.append_many([payload(number) for number in range(100)])  # none tells of another's confirmation
        return writer

    writer = await old(many())
    gone = member_of(cluster, writer)
    metadata = cluster.metadata_of(writer.id)
    assert metadata is not None
    spare = next(bookie for name, bookie in cluster.bookies.items() if not metadata.names(BookieId(name)))
    gone.crash()
    recovery = cluster.simulation.loop.create_task(app(recovered(app, writer.id)))
    await cluster.until(lambda: state_of(cluster, writer.id) is LedgerState.IN_RECOVERY, "the recovery")
    while not store_of(spare).has_entry(writer.id, EntryId(99)):
        await pause(cluster, 0.1)
    store: Any = app.client.shared.ledgers.store
    put, is_closing = store.put, asyncio.Event()

    async def closes(*words: Any) -> int:
        is_closing.set()
        version: int = await put(*words)
        return version

    store.put = closes  # all is acknowledged; what is left is to close the ledger
    await is_closing.wait()
    cluster.hold("app", "zk")  # before that arrives
    await pause(cluster, 100)
    spare.crash()
    spare.start()
    await cluster.until(lambda: spare.process is not None and spare.process.boot.store is not None, "its marks")
    cluster.simulation.fabric.release("app", "zk")
    await recovery
    await cluster.until_ready(spare.name)
    await cluster.until_repaired(spare.name)
    metadata = cluster.metadata_of(writer.id)
    assert metadata is not None
    assert metadata.segments[0].bookies.count(BookieId(spare.name)), "the story went another way"
    await held_entries(cluster, spare, writer.id, 100)


def state_of(cluster: SimCluster, ledger_id: LedgerId) -> LedgerState | None:
    metadata = cluster.metadata_of(ledger_id)
    return None if metadata is None else metadata.state


# ---- volumes that went back in time within one boot ---------------------------------------------------------------

SET_BACK_COUNT = 12


async def told(cluster: SimCluster, bookie: BookieNode) -> None:
    """Wait until the position outside the node covers what is durable by now."""
    (mark,), logs = store_of(bookie).journaled, store_of(bookie).logged
    path = paths.position(ROOT, BookieId(bookie.name))

    def is_told() -> bool:
        node = cluster.simulation.keeper.tree.nodes.get(path)
        position = None if node is None else load_position(node.data)
        return position is not None and position.journals >= (tuple(mark),) and position.logs >= logs

    await cluster.until(is_told, "the position is told")


async def six(cluster: SimCluster, app: ClientNode, bookie: BookieNode) -> list[LedgerWriter]:
    """Ledgers that this bookie holds, and said so."""
    writers = [await written(app, SET_BACK_COUNT) for _ in range(6)]
    mine = [writer for writer in writers if cluster.metadata_of(writer.id).names(BookieId(bookie.name))]  # type: ignore[union-attr]
    assert mine
    await told(cluster, bookie)
    return mine


async def is_whole(cluster: SimCluster, app: ClientNode, bookie: BookieNode, writers: list[LedgerWriter]) -> None:
    for writer in writers:
        await held_entries(cluster, bookie, writer.id, SET_BACK_COUNT)
        await read_back(app, writer.id, SET_BACK_COUNT)


@pytest.mark.parametrize("journaled", [True, False])
def test_volumes_set_back_within_one_boot_are_seen_and_everything_comes_back(
    journaled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: SimCluster) -> None:
        app = await cluster.client("app")
        bookie = member_of(cluster, await written(app))
        await told(cluster, bookie)
        snapshot = [volumes_support.snapshot(bookie.node.image, path) for path in VOLUMES]
        writers = await six(cluster, app, bookie)
        bookie.crash()
        for volume in snapshot:
            volumes_support.put_back(bookie.node.image, volume)

        # Cut anywhere, the next boot sees it still: what opening the store writes hides nothing.
        for cut in range(CUTS_MAX):
            await its_session_ended(cluster, bookie)
            bookie.start()
            await pause(cluster, cut * CUT_MS)
            if bookie.is_ready:
                break
            bookie.crash()
        assert bookie.is_ready
        await back(cluster, bookie)

        await is_whole(cluster, app, bookie, writers)
        bookie.crash()
        caplog.clear()
        await back(cluster, bookie)
        assert not journaled or "went back in time" not in caplog.text

    with caplog.at_level("INFO"):
        SimCluster(31, bookies=4, journal_write_data=journaled).run(story)
    assert "verdict=UNCLEAN" in caplog.text or journaled


async def one_set_back(cluster: SimCluster, volume: str, *, trimmed: bool) -> tuple[BookieNode, list[LedgerWriter]]:
    """A dead bookie with one volume of before its ledgers were written, and these. `trimmed`: the journal that told of
    them is gone, since a checkpoint covers them."""
    app = await cluster.client("app")
    bookie = member_of(cluster, await written(app))
    await told(cluster, bookie)
    await bookie.node.do(store_of(bookie).flush())
    snapshot = volumes_support.snapshot(bookie.node.image, volume)
    first = newest(bookie)
    writers = await six(cluster, app, bookie)
    while trimmed and first in journal_files(bookie):
        await six(cluster, app, bookie)
        await bookie.node.do(store_of(bookie).flush())
    await told(cluster, bookie)
    bookie.crash()
    volumes_support.put_back(bookie.node.image, snapshot)
    await its_session_ended(cluster, bookie)
    return bookie, writers


async def answers(asker: ClientNode, bookie: BookieNode, writers: list[LedgerWriter]) -> set[str]:
    """What the bookie itself answers for every entry: "it" for the entry, else the error's name."""
    found = set()
    for writer in writers:
        for number in range(SET_BACK_COUNT):
            asked = asker.client.bookies.read(BookieId(bookie.name), writer.id, EntryId(number))
            try:
                assert payload(number) in bytes(await asker(asked))
            except errors.BookieError as error:
                found.add(type(error).__name__)
            else:
                found.add("it")
    return found


@pytest.mark.parametrize("trimmed", [False, True])
@EITHER_FORM
@story(on_cluster, 34, bookies=4, journal_write_data=True, journal_file_bytes_max=4096, given=("phase_one",))
async def test_a_journal_volume_set_back_alone_is_seen_and_everything_comes_back(
    cluster: SimCluster, *, trimmed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    bookie, writers = await one_set_back(cluster, JOURNAL, trimmed=trimmed)

    await back(cluster, bookie)

    assert "verdict=UNCLEAN reason=the volumes went back in time" in caplog.text
    assert await answers(await cluster.client("asker"), bookie, writers) == {"it"}


@story(on_cluster, 34, bookies=4, journal_write_data=True)
async def test_a_volume_set_back_is_known_until_every_mark_is_on_disk(
    cluster: SimCluster, *, caplog: pytest.LogCaptureFixture
) -> None:
    """The power goes while phase one waits for the metadata. The journal file that this boot began reaches farther than
    the position: the note on the disk alone tells the next one (CONFORMANCE.md#B27)."""
    caplog.set_level("INFO")
    bookie, writers = await one_set_back(cluster, JOURNAL, trimmed=False)
    bookie.start()
    await cluster.until(lambda: bookie.state is State.FENCING, "phase one has begun")
    cluster.partition(bookie.name, "zk")
    await pause(cluster, 1_000)
    assert bookie.state is State.FENCING
    bookie.crash()
    cluster.heal()
    await its_session_ended(cluster, bookie)
    caplog.clear()

    await back(cluster, bookie)

    assert "verdict=UNCLEAN reason=the volumes went back in time" in caplog.text
    assert await answers(await cluster.client("asker"), bookie, writers) == {"it"}


@story(on_cluster, 35, bookies=4, journal_write_data=True)
async def test_an_index_volume_set_back_alone_gets_what_it_lacks_from_the_journal(cluster: SimCluster) -> None:
    bookie, writers = await one_set_back(cluster, INDEX, trimmed=False)

    await back(cluster, bookie)

    assert await answers(await cluster.client("asker"), bookie, writers) == {"it"}


LOGS = pytest.mark.parametrize(
    "entry_log_bytes_max", [1 << 20, 8192], ids=["its log ends before them", "their log is gone"]
)


@LOGS
@EITHER_FORM
@story(
    on_cluster,
    36,
    bookies=4,
    journal_write_data=True,
    journal_file_bytes_max=4096,
    given=("entry_log_bytes_max", "phase_one"),
)
async def test_a_ledger_volume_set_back_alone_is_seen_and_everything_comes_back(
    cluster: SimCluster, *, caplog: pytest.LogCaptureFixture
) -> None:
    """Its index tells of entries, and its journal no more, that no log of it has."""
    caplog.set_level("INFO")
    bookie, writers = await one_set_back(cluster, LEDGERS, trimmed=True)

    await back(cluster, bookie)

    assert "verdict=UNCLEAN reason=the volumes went back in time" in caplog.text
    assert await answers(await cluster.client("asker"), bookie, writers) == {"it"}


@LOGS
@story(on_cluster, 36, bookies=4, journal_write_data=True, journal_file_bytes_max=4096, given=("entry_log_bytes_max",))
async def test_what_a_ledger_volume_set_back_unseen_lacks_is_an_error_and_never_denied(cluster: SimCluster) -> None:
    """Nobody told a position in time. The bookie serves: readers have the entries from the others."""
    bookie, writers = await one_set_back(cluster, LEDGERS, trimmed=True)
    del cluster.simulation.keeper.tree.nodes[paths.position(ROOT, BookieId(bookie.name))]

    await back(cluster, bookie)

    app = await cluster.client("asker")
    assert await answers(app, bookie, writers) == {"StorageFailed"}
    later = await six(cluster, app, bookie)  # no log that it makes now is taken for one of those
    await bookie.node.do(store_of(bookie).flush())
    assert await answers(app, bookie, writers) == {"StorageFailed"}
    for writer in (*writers, *later):
        await read_back(app, writer.id, SET_BACK_COUNT)


@story(on_cluster, 37, bookies=4, journal_write_data=True, journal_file_bytes_max=4096)
async def test_an_index_volume_set_back_behind_its_journal_is_refused_by_the_name_of_what_is_missing(
    cluster: SimCluster,
) -> None:
    bookie, _ = await one_set_back(cluster, INDEX, trimmed=True)
    before = contents_of(bookie.node.image)

    bookie.start()
    await cluster.until(lambda: not bookie.is_running, "it ends")

    assert isinstance(bookie.ended, errors.CorruptFile)
    assert ".journal is missing, and the last checkpoint does not cover it" in str(bookie.ended)
    assert "restore the file, or the index volume, if that was set back" in str(bookie.ended)
    assert [file for file in before if file[0].startswith(JOURNAL)] == [
        file for file in contents_of(bookie.node.image) if file[0].startswith(JOURNAL)
    ]


async def cut_newest_journal(bookie: BookieNode) -> None:
    volume = bookie.node.image.volumes[JOURNAL]
    files = dict(volume.root.files(volume.path))
    del files[newest(bookie)].data[FIRST_GROUP:]
    del files[newest(bookie)].durable[FIRST_GROUP:]


async def remove_newest_journal(bookie: BookieNode) -> None:
    path = newest(bookie)
    disk = bookie.node.begin().disk

    async def remove() -> None:
        await disk.remove(path)
        await disk.sync_dir(path.rsplit("/", 1)[0])

    await bookie.node.do(remove())
    bookie.node.end(ProcessEnd.EXIT)


def newest(bookie: BookieNode) -> str:
    return max(journal_files(bookie))


def journal_files(bookie: BookieNode) -> list[str]:
    volume = bookie.node.image.volumes[JOURNAL]
    return [path for path, _ in volume.root.files(volume.path) if path.endswith(".journal")]


@pytest.mark.parametrize("damage", [cut_newest_journal, remove_newest_journal])
def test_a_newest_journal_file_that_was_cut_or_removed_is_seen(
    damage: Callable[[BookieNode], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: SimCluster) -> None:
        app = await cluster.client("app")
        bookie = member_of(cluster, await written(app))
        writers = await six(cluster, app, bookie)
        bookie.crash()
        await damage(bookie)

        await back(cluster, bookie)

        assert "verdict=UNCLEAN reason=the volumes went back in time" in caplog.text
        await is_whole(cluster, app, bookie, writers)

    with caplog.at_level("INFO"):
        SimCluster(32, bookies=4, journal_write_data=True).run(story)


def test_kills_and_orderly_stops_are_no_set_back(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: SimCluster) -> None:
        app = await cluster.client("app")
        bookie = member_of(cluster, await written(app))
        for number in range(6):
            await six(cluster, app, bookie)
            if number % 2:
                bookie.crash()
            else:
                bookie.stop()
                await cluster.until(lambda: not bookie.is_running, "stopped")
            await back(cluster, bookie)

    with caplog.at_level("INFO"):
        SimCluster(33, bookies=4, journal_write_data=True).run(story)
    assert "UNCLEAN" not in caplog.text
