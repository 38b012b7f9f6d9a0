"""What one look at a bookie sees, and what must not be taken for something else: a spoilt cookie for a new bookie, this
process's own marker for an unclean stop."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bookie.base.ids import BookieId, BootEpoch, Incarnation, LedgerId
from bookie.base.units import NS_PER_S
from bookie.client.cluster import format_cluster, open_ledgers
from bookie.client.ledgers import LedgerStore
from bookie.integrity import asides, sentinel, stamps, volumes
from bookie.integrity.identity import IdentityStore
from bookie.integrity.inspection import BookieInspector, Inspection
from bookie.integrity.metadata_retry import MetadataRetry
from bookie.integrity.options import IntegrityOptions
from bookie.metadata import cookie, paths
from bookie.metadata.cookie import IncarnationRecord
from bookie.metadata.ledger import new_ledger
from bookie.metadata.position import Position, dump_position
from bookie.ports import World
from bookie.ports.admin import Aside, Verdict
from bookie.ports.metadata_store import MetadataStore
from bookie.sim.node import SimNode, Simulation
from bookie.storage import dirs
from bookie.storage.options import StorageOptions
from one_life_support import one_life
from story_support import story

URI, ROOT, ME = "zk+hierarchical://zk:2181/ledgers", "/ledgers", BookieId("bookie-1")
COOKIE = paths.cookie(ROOT, ME)


class Stage:
    """One bookie's machine and its metadata store, seen from outside of any boot."""

    def __init__(self, simulation: Simulation, world: World, store: MetadataStore, ledgers: LedgerStore) -> None:
        self.simulation, self.world, self.store, self.ledgers = simulation, world, store, ledgers
        self.storage = StorageOptions(journal_dirs=("/data/journal",), ledger_dirs=("/data/ledgers",))
        retry = MetadataRetry(world.clock)
        self.identities = IdentityStore(store, ROOT, ME, retry, world.clock, boot_id="1")
        self._retry = retry
        self.inspector = self.inspecting()

    def inspecting(self, **changes: Any) -> BookieInspector:
        options = IntegrityOptions(regeneration="manual", volume_proof="none", **changes)
        return BookieInspector(ME, self.storage, options, self.world, self.identities, self.ledgers, self._retry)

    async def verdict(self, *, is_serving: bool = False) -> Verdict | None:
        return (await self.inspector.look(is_serving=is_serving)).decision.verdict

    async def a_ledger(self, *bookies: str) -> LedgerId:
        made = new_ledger(
            ensemble_size=1, write_quorum=1, ack_quorum=1, bookies=tuple(map(BookieId, bookies)), ctoken=7
        )
        return await self.ledgers.create(made)

    def spoil(self, ledger_id: LedgerId, data: bytes) -> None:
        self.simulation.keeper.tree.put(self.ledgers.path(ledger_id), data, -1, now_ms=0)

    async def lived(self) -> Inspection:
        """Its first life has begun, and ended well."""
        seen = await self.inspector.look()
        claimed, _ = await self.identities.claim(seen.identity, wait_ms=0)
        record = IncarnationRecord(seen.identity.instance_id, Incarnation(1), BootEpoch(1), boot_id="1")
        await self.identities.begin_incarnation(claimed, seen.master, record)
        configured = volumes.configured(self.storage)
        await stamps.write_sentinels(self.world.disk, configured, seen, record)
        await stamps.write_cookies(self.world.disk, configured, seen)
        found = await self.inspector.look()
        assert found.decision.verdict is Verdict.HEALTHY, found.decision
        return found


def run(tell: Callable[[Stage], Awaitable[None]]) -> None:
    simulation = Simulation(1)

    async def whole(world: World, _: SimNode) -> None:
        store = await world.metadata_stores.connect(URI)
        await format_cluster(store, URI, world.entropy)
        await tell(Stage(simulation, world, store, await open_ledgers(store, paths.parse_uri(URI))))

    one_life(simulation, whole)


# ---- is it new? -----------------------------------------------------------------------------------------------------


@story(run)
async def test_a_bookie_that_no_ledger_names_is_new_and_is_asked_about_anew_each_time(stage: Stage) -> None:
    await stage.a_ledger("bookie-2")
    seen = await stage.inspector.look()
    assert (seen.decision.verdict, seen.ledger_count, seen.ledgers_naming_me) == (Verdict.BOOTSTRAP, 1, 0)

    await stage.a_ledger(ME)
    seen = await stage.inspector.look()
    assert (seen.decision.verdict, seen.ledger_count, seen.ledgers_naming_me) == (Verdict.COOKIE_MISSING, 2, 1)


@story(run)
async def test_a_record_that_cannot_be_read_and_has_its_id_names_it(stage: Stage) -> None:
    spoilt = [await stage.a_ledger("bookie-2") for _ in range(2)]
    stage.spoil(spoilt[0], b"rot")
    assert await stage.verdict() is Verdict.BOOTSTRAP

    stage.spoil(spoilt[1], b"rot, with bookie-1 in it")

    seen = await stage.inspector.look()
    assert (seen.decision.verdict, seen.ledgers_naming_me) == (Verdict.COOKIE_MISSING, 1)


@story(run)
async def test_that_ledgers_name_it_is_believed_for_half_a_minute_and_no_longer(stage: Stage) -> None:
    """A held bookie looks every two seconds, and must not read the metadata of all ledgers each time."""
    ledger_id = await stage.a_ledger(ME)
    assert await stage.verdict() is Verdict.COOKIE_MISSING
    await stage.ledgers.delete(ledger_id)

    await stage.simulation.loop.sleep_ns(25 * NS_PER_S)
    assert await stage.verdict() is Verdict.COOKIE_MISSING
    await stage.simulation.loop.sleep_ns(6 * NS_PER_S)
    assert await stage.verdict() is Verdict.BOOTSTRAP


@story(run)
async def test_a_cookie_that_cannot_be_read_is_no_cookie_that_is_not_there(stage: Stage) -> None:
    """Taken for a new bookie it would answer "no" for all that it had."""
    await stage.store.create(COOKIE, b"rot", parents=True)

    assert await stage.verdict() is Verdict.UNKNOWN_CONTENT


# ---- how did it stop? -----------------------------------------------------------------------------------------------


@story(run)
async def test_its_marker_says_that_writes_may_be_lost_unless_it_is_this_process_s_own(stage: Stage) -> None:
    await stage.lived()
    unjournaled = StorageOptions(
        journal_dirs=stage.storage.journal_dirs, ledger_dirs=stage.storage.ledger_dirs, journal_write_data=False
    )
    await dirs.mark_dirty(stage.world.disk, unjournaled)

    assert await stage.verdict() is Verdict.UNCLEAN
    assert await stage.verdict(is_serving=True) is Verdict.HEALTHY


@pytest.mark.parametrize("how", ["it told of more", "it was noted"])
@story(run)
async def test_disks_that_went_back_are_seen_by_what_it_told_and_by_what_was_noted_and_not_while_it_serves(
    stage: Stage, *, how: str
) -> None:
    """While it serves, the next position may be ahead of what a look has just read of the disks."""
    seen = await stage.lived()
    if how == "it was noted":
        await dirs.mark_set_back(stage.world.disk, stage.storage)
    else:
        told = Position(seen.identity.instance_id, Incarnation(1), ((5, 4096),), ((0, 0),))
        await stage.store.create(paths.position(ROOT, ME), dump_position(told), parents=True)

    before = await stage.inspector.look()
    assert (before.decision.verdict, before.is_set_back) == (Verdict.UNCLEAN, True)
    serving = await stage.inspector.look(is_serving=True)
    assert (serving.decision.verdict, serving.is_set_back) == (Verdict.HEALTHY, False)


# ---- was it taken out of service? -----------------------------------------------------------------------------------


@story(run)
async def test_an_order_keeps_it_out_at_its_next_boot_and_ends_no_service(stage: Stage) -> None:
    await stage.lived()
    await asides.set_aside(stage.store, ROOT, ME, Aside(True, "its disk clicks", "order-1", 1))

    seen = await stage.inspector.look()
    assert seen.decision.verdict is Verdict.SET_ASIDE
    assert "its disk clicks" in seen.decision.reason
    assert await stage.verdict(is_serving=True) is Verdict.HEALTHY

    await asides.set_aside(stage.store, ROOT, ME, Aside(False, "a new disk", "order-2", 2))
    assert await stage.verdict() is Verdict.HEALTHY


# ---- are its directories those of its cookie? ------------------------------------------------------------------------


@story(run)
async def test_other_directories_than_its_cookie_has_are_told_and_more_of_them_only_where_that_is_allowed(
    stage: Stage,
) -> None:
    await stage.lived()
    stage.storage = StorageOptions(journal_dirs=("/data/journal",), ledger_dirs=("/data/ledgers", "/data/more"))

    seen = await stage.inspecting().look()
    assert (seen.decision.verdict, seen.added) == (Verdict.UNKNOWN_CONTENT, ())
    assert "allowStorageExpansion=true" in seen.decision.reason
    allowed = await stage.inspecting(allow_storage_expansion=True).look()
    assert (allowed.decision.verdict, len(allowed.added)) == (Verdict.HEALTHY, 1)

    stage.storage = StorageOptions(journal_dirs=("/data/journal",), ledger_dirs=("/data/else",))
    seen = await stage.inspecting(allow_storage_expansion=True).look()
    assert seen.decision.verdict is Verdict.UNKNOWN_CONTENT


@story(run)
async def test_disks_that_agree_with_the_settings_do_not_outvote_the_cookie(stage: Stage) -> None:
    """Somebody else may serve under this id, from the directories that the cookie has."""
    seen = await stage.lived()
    assert seen.identity.cookie is not None
    other = dataclasses.replace(seen.identity.cookie, ledger_dirs=("/data/else",))
    await stage.store.put(COOKIE, cookie.dump_cookie(other), -1)

    found = await stage.inspector.look()

    assert found.decision.verdict is Verdict.UNKNOWN_CONTENT
    assert found.decision.reason.endswith("; correct the settings")


@story(run)
async def test_beside_a_record_that_cannot_be_read_no_directory_is_added(stage: Stage) -> None:
    await stage.lived()
    await stage.store.put(paths.incarnation(ROOT, ME), b"rot", -1)
    stage.storage = StorageOptions(journal_dirs=("/data/journal",), ledger_dirs=("/data/ledgers", "/data/more"))

    seen = await stage.inspecting(allow_storage_expansion=True).look()

    assert (seen.decision.verdict, seen.added) == (Verdict.UNKNOWN_CONTENT, ())


# ---- its record is gone ---------------------------------------------------------------------------------------------


@story(run)
async def test_volumes_that_all_say_the_same_say_what_the_record_was(stage: Stage) -> None:
    seen = await stage.lived()
    await stage.store.delete(paths.incarnation(ROOT, ME))

    found = await stage.inspector.look()

    said = {"instance_id": seen.identity.instance_id, "incarnation": 1, "boot_epoch": 1}
    assert found.decision.verdict is Verdict.COOKIE_MISSING
    assert json.dumps(said) in found.decision.reason


@pytest.mark.parametrize("how", ["another boot", "nothing"])
@story(run)
async def test_volumes_of_which_one_says_something_else_or_nothing_do_not_say_what_the_record_was(
    stage: Stage, *, how: str
) -> None:
    """Written by hand, it would make whole what was lost."""
    seen = await stage.lived()
    _, second = volumes.configured(stage.storage)
    if how == "nothing":
        await stage.world.disk.remove(sentinel.path(second.path))
        await stage.world.disk.remove(f"{second.path}/{volumes.COOKIE_FILE}")
    else:
        other = IncarnationRecord(seen.identity.instance_id, Incarnation(1), BootEpoch(2), boot_id="1")
        await stamps.write_sentinels(
            stage.world.disk, volumes.configured(stage.storage), seen, other, only=[second.path]
        )
    await stage.store.delete(paths.incarnation(ROOT, ME))

    found = await stage.inspector.look()

    assert found.decision.verdict is Verdict.COOKIE_MISSING
    assert "from a backup of the metadata store" in found.decision.reason
    assert "boot_epoch" not in found.decision.reason
