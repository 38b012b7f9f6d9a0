"""The claim and the sign of one process: who may be a bookie, with others of its id around (docs/INTEGRITY.md)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, BootEpoch, Incarnation
from bookie.client.cluster import format_cluster
from bookie.integrity.identity import IdentityStore, StoredIdentity
from bookie.integrity.metadata_retry import MetadataRetry
from bookie.metadata import cookie, paths
from bookie.metadata.cookie import Cookie, IncarnationRecord
from bookie.ports import World
from bookie.ports.metadata_store import ANY_VERSION, CheckOp, CreateOp, DeleteOp, MetadataStore, Op, Stored
from bookie.sim.metadata_store import Strike
from bookie.sim.node import Simulation
from story_support import story

URI = "zk+hierarchical://zk:2181/ledgers"
ROOT = "/ledgers"
ME = BookieId("b")
RECORD = paths.incarnation(ROOT, ME)
SIGN = paths.process(ROOT, ME)
LISTS = (f"{paths.available(ROOT)}/b", f"{paths.readonly(ROOT)}/b")
WAIT_MS = 2_000


@dataclass
class Process:
    """One process of the id `ME`: a session, and its view of its identity."""

    store: MetadataStore
    identities: IdentityStore

    async def claim(self) -> StoredIdentity:
        return (await self.identities.claim(await self.identities.read(), wait_ms=WAIT_MS))[0]

    async def begin(self, incarnation: int = 1) -> IncarnationRecord:
        """Claim, and begin the next life."""
        seen = await self.claim()
        record = IncarnationRecord(
            seen.instance_id, Incarnation(incarnation), BootEpoch(incarnation), boot_id=self.identities._boot_id
        )
        await self.identities.begin_incarnation(
            seen, Cookie(ME, ("/j",), ("/l",), instance_id=seen.instance_id), record
        )
        return record

    async def dies(self) -> None:
        await self.store.close()


@dataclass
class Stage:
    simulation: Simulation
    world: World
    processes: dict[str, Process] = field(default_factory=dict)

    async def process(self, name: str) -> Process:
        store = await self.world.metadata_stores.connect(URI, session_timeout_ms=6_000)
        retry = MetadataRetry(self.world.clock)
        made = Process(store, IdentityStore(store, ROOT, ME, retry, self.world.clock, boot_id=name))
        self.processes[name] = made
        return made

    def expire(self, process: Process) -> None:
        self.simulation.keeper.end_session(process.store.session_id)

    async def until(self, condition: Callable[[], bool]) -> None:
        await self.simulation.until(condition, "it happened")


def run(story: Callable[[Stage], Awaitable[None]]) -> None:
    simulation = Simulation(1)

    async def on_node(world: World) -> None:
        store = await world.metadata_stores.connect(URI)
        await format_cluster(store, URI, world.entropy)
        await story(Stage(simulation, world))

    async def director() -> None:
        node = simulation.node("bookie")
        await node.do(on_node(node.begin()))
        node.end()

    simulation.run(director())


@story(run)
async def test_a_claim_changes_the_record_for_whoever_compares_it_also_for_versions_that_know_no_claims(
    stage: Stage,
) -> None:
    old, new = await stage.process("old"), await stage.process("new")
    record = await old.begin()
    await old.dies()

    seen = await new.claim()

    stored = cookie.load_incarnation((await new.store.get(RECORD)).data)
    assert stored != record
    assert stored.boot_id != record.boot_id  # every version compares this
    assert (stored.incarnation, stored.boot_epoch) == (record.incarnation, record.boot_epoch)
    assert seen.record == stored


@story(run)
async def test_nobody_claims_while_the_sign_of_another_process_stands(stage: Stage) -> None:
    old, new = await stage.process("old"), await stage.process("new")
    record = await old.begin()

    with pytest.raises(
        errors.VersionConflict, match=r"another process runs as bookie b and stays: its node .*processes/b exists"
    ):
        await new.claim()

    assert cookie.load_incarnation((await new.store.get(RECORD)).data) == record


@pytest.mark.parametrize("path", LISTS)
@story(run)
async def test_nobody_claims_while_a_process_that_knows_no_signs_is_registered_in_either_list(
    stage: Stage, *, path: str
) -> None:
    """A version before signs, or Java's bookie."""

    old, new = await stage.process("old"), await stage.process("new")
    await old.store.create(path, b"", ephemeral=True, parents=True)

    with pytest.raises(errors.VersionConflict, match=r"stays: .*available"):
        await new.claim()
    for missing in (SIGN, RECORD):
        with pytest.raises(errors.NodeMissing):
            await new.store.get(missing)

    await old.dies()
    await new.claim()
    with pytest.raises(errors.NodeMissing):
        await new.store.get(path)  # what proves that nobody is registered leaves nothing behind


@story(run)
async def test_a_process_that_was_waited_for_is_told_apart_from_none(stage: Stage) -> None:
    old, new = await stage.process("old"), await stage.process("new")
    await old.begin()
    seen = await new.identities.read()
    claiming = asyncio.ensure_future(new.identities.claim(seen, wait_ms=WAIT_MS))
    await stage.world.clock.sleep_until(stage.world.clock.monotonic_ns() + 500_000_000)
    await old.dies()

    assert (await claiming)[1]
    assert not (await new.identities.claim(await new.identities.read(), wait_ms=WAIT_MS))[1]


@story(run)
async def test_of_two_that_claim_at_once_one_waits_and_gives_up(stage: Stage) -> None:
    one, other = await stage.process("one"), await stage.process("other")

    outcomes = await asyncio.gather(one.claim(), other.claim(), return_exceptions=True)

    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["StoredIdentity", "VersionConflict"]


@story(run)
async def test_a_life_begins_only_while_the_sign_stands_and_it_is_made_again_after_a_lost_session(stage: Stage) -> None:
    process = await stage.process("one")
    seen = await process.claim()
    stage.expire(process)
    record = IncarnationRecord(seen.instance_id, Incarnation(1), BootEpoch(1), boot_id="one")

    await process.identities.begin_incarnation(seen, Cookie(ME, ("/j",), ("/l",), instance_id=seen.instance_id), record)

    assert (await process.store.get(SIGN)).owner == process.store.session_id


@story(run)
async def test_a_life_does_not_begin_for_a_process_that_lost_its_session_and_was_overtaken(stage: Stage) -> None:
    one, other = await stage.process("one"), await stage.process("other")
    seen = await one.claim()
    stage.expire(one)
    await other.claim()
    record = IncarnationRecord(seen.instance_id, Incarnation(1), BootEpoch(1), boot_id="one")

    with pytest.raises(errors.VersionConflict):
        await one.identities.begin_incarnation(seen, Cookie(ME, ("/j",), ("/l",), instance_id=seen.instance_id), record)
    with pytest.raises(errors.NodeMissing):
        await one.store.get(paths.cookie(ROOT, ME))


@story(run)
async def test_a_life_does_not_begin_when_a_process_without_a_sign_registered_since_the_claim(stage: Stage) -> None:
    """What it acknowledges now is not among the marks: look again, wait for its end, make them again."""

    one, java = await stage.process("one"), await stage.process("java")
    seen = await one.claim()
    await java.store.create(LISTS[0], b"", ephemeral=True)
    record = IncarnationRecord(seen.instance_id, Incarnation(1), BootEpoch(1), boot_id="one")

    with pytest.raises(errors.VersionConflict, match="another process runs as bookie b"):
        await one.identities.begin_incarnation(seen, Cookie(ME, ("/j",), ("/l",), instance_id=seen.instance_id), record)


@story(run)
async def test_a_process_that_regains_its_own_sign_goes_on(stage: Stage) -> None:
    process = await stage.process("one")
    holding = asyncio.ensure_future(process.identities.hold(await process.begin()))
    await process.identities.while_held()

    stage.expire(process)
    await stage.until(lambda: not process.identities.held.is_set())
    checks = await process.identities.while_held()

    assert not holding.done()
    assert (await process.store.get(SIGN)).owner == process.store.session_id
    await process.store.transact(checks)  # what depends on it may happen
    holding.cancel()


@story(run)
async def test_a_process_whose_sign_was_taken_stops_and_nothing_that_depends_on_it_happens(stage: Stage) -> None:
    old, new = await stage.process("old"), await stage.process("new")
    holding = asyncio.ensure_future(old.identities.hold(await old.begin()))
    checks = await old.identities.while_held()
    stage.expire(old)
    await new.claim()

    with pytest.raises(errors.VersionConflict):
        await new.store.transact(checks)
    with pytest.raises(errors.RefusedToStart, match="another process took over bookie b"):
        await holding


@story(run)
async def test_a_process_whose_record_was_claimed_stops_although_the_claimer_is_gone(stage: Stage) -> None:
    """Its marks may be made, and it may come back: nobody may acknowledge anything in between."""

    old, new = await stage.process("old"), await stage.process("new")
    holding = asyncio.ensure_future(old.identities.hold(await old.begin()))
    await old.identities.while_held()
    stage.expire(old)
    await new.claim()
    await new.dies()

    with pytest.raises(errors.RefusedToStart, match="another process took over bookie b"):
        await holding


@story(run)
async def test_a_sign_is_not_made_again_by_a_process_whose_record_was_claimed(stage: Stage) -> None:
    one, other = await stage.process("one"), await stage.process("other")
    seen = await one.claim()
    stage.expire(one)
    await other.claim()
    await other.dies()

    assert not await one.identities.holder.take_back(CheckOp(RECORD, seen.record_version))

    with pytest.raises(errors.NodeMissing):
        await one.store.get(SIGN)


@story(run)
async def test_a_sign_of_an_earlier_session_of_ours_is_waited_out_and_made_again(stage: Stage) -> None:
    before, now = await stage.process("one"), await stage.process("one")
    seen = await before.claim()

    taking = asyncio.ensure_future(now.identities.holder.take_back(CheckOp(RECORD, seen.record_version)))
    await stage.world.clock.sleep_until(stage.world.clock.monotonic_ns() + 500_000_000)
    assert not taking.done()
    await before.dies()

    assert await taking
    assert (await now.store.get(SIGN)).owner == now.store.session_id


@story(run)
async def test_a_process_whose_sign_another_holds_stops_although_the_record_is_its_own(stage: Stage) -> None:
    """Nobody of ours makes a sign without a claim. Whoever did: this process may not be the only one."""

    old, other = await stage.process("old"), await stage.process("other")
    holding = asyncio.ensure_future(old.identities.hold(await old.begin()))
    await old.identities.while_held()

    await other.store.transact([DeleteOp(SIGN, ANY_VERSION), CreateOp(SIGN, b"other", ephemeral=True)])

    await stage.until(holding.done)
    with pytest.raises(errors.RefusedToStart, match="another process took over bookie b"):
        await holding


@pytest.mark.parametrize(
    "written", [b"", b"\xff", b"[" * 50_000, b'{"boot_epoch": 1e999}'], ids=lambda one: repr(one)[:9]
)
@story(run)
async def test_a_process_whose_record_a_stranger_wrote_over_stops_and_names_the_nodes(
    stage: Stage, *, written: bytes
) -> None:
    """It may be a claim in a form of a later version."""
    process = await stage.process("old")
    holding = asyncio.ensure_future(process.identities.hold(await process.begin()))
    await process.identities.while_held()

    await process.store.put(paths.incarnation(ROOT, ME), written, -1)

    with pytest.raises(errors.RefusedToStart, match=f"see {paths.incarnation(ROOT, ME)} and {SIGN} in the metadata"):
        await holding


@story(run)
async def test_a_boot_that_gives_up_is_in_nobodys_way(stage: Stage) -> None:
    one, other = await stage.process("one"), await stage.process("other")
    await one.claim()
    await one.identities.holder.let_go()

    await other.claim()
    await one.identities.holder.let_go()  # not its own any more: left alone

    assert (await other.store.get(SIGN)).data == b"other"


@pytest.mark.parametrize("kind", Strike, ids=lambda kind: kind.name.lower())
@story(run)
async def test_a_boot_that_gives_up_is_in_nobodys_way_although_messages_are_lost(stage: Stage, *, kind: Strike) -> None:
    """It may wait for ever, and its session lasts as long."""
    one, other = await stage.process("one"), await stage.process("other")
    await one.claim()
    asked = itertools.count()

    stage.simulation.keeper.strike = lambda *_: kind if next(asked) < 3 else None
    await one.identities.holder.let_go()

    stage.simulation.keeper.strike = lambda *_: None
    await other.claim()
    assert (await other.store.get(SIGN)).data == b"other"


# ---- the cookie ------------------------------------------------------------------------------------------------------


def a_cookie(seen: StoredIdentity) -> Cookie:
    return Cookie(ME, ("/j",), ("/l",), instance_id=seen.instance_id)


@story(run)
async def test_a_claim_fails_when_the_cookie_changed_since_the_look_that_led_to_it(stage: Stage) -> None:
    """A person made, replaced or removed it: what the boot decided on is not so any more."""
    one, person = await stage.process("one"), await stage.process("person")
    path = paths.cookie(ROOT, ME)

    seen = await one.identities.read()
    await person.store.create(path, cookie.dump_cookie(a_cookie(seen)), parents=True)
    with pytest.raises(errors.VersionConflict, match="changed the cookie"):
        await one.identities.claim(seen, wait_ms=WAIT_MS)

    seen = await one.identities.read()
    await person.store.delete(path)
    await person.store.create(path, b"of the same version")
    with pytest.raises(errors.VersionConflict, match="changed the cookie"):
        await one.identities.claim(seen, wait_ms=WAIT_MS)


@story(run)
async def test_a_second_claim_of_one_process_counts_only_if_it_was_made(stage: Stage) -> None:
    """It gave up once and has its boot id in the record since; then a bookie registered that knows no signs."""
    one, java = await stage.process("one"), await stage.process("java")
    await one.claim()
    await one.identities.holder.let_go()
    await java.store.create(LISTS[0], b"", ephemeral=True)

    with pytest.raises(errors.VersionConflict, match=r"stays: .*available"):
        await one.claim()


class Watched:
    """A session that notes what it is asked, and lets somebody act just before a transaction."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.asked: list[tuple[str, str]] = []
        self.before: Callable[[], Awaitable[object]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def sync(self, path: str) -> None:
        self.asked.append(("sync", path))
        await self._store.sync(path)

    async def get(self, path: str) -> Stored:
        self.asked.append(("get", path))
        return await self._store.get(path)

    async def transact(self, ops: Sequence[Op]) -> None:
        if self.before is not None:
            act, self.before = self.before, None
            await act()
        await self._store.transact(ops)


async def watched(stage: Stage) -> tuple[IdentityStore, Watched]:
    store = Watched((await stage.process("watched")).store)
    retry = MetadataRetry(stage.world.clock)
    return IdentityStore(store, ROOT, ME, retry, stage.world.clock, boot_id="one"), store  # type: ignore[arg-type]


def first_life(seen: StoredIdentity) -> IncarnationRecord:
    return IncarnationRecord(seen.instance_id, Incarnation(1), BootEpoch(1), boot_id="one")


@story(run)
async def test_every_look_at_the_identity_begins_with_a_sync(stage: Stage) -> None:
    """Another server of the store may be behind, and show the cookie and the record of before."""
    identities, store = await watched(stage)

    await identities.read()

    assert store.asked[0] == ("sync", ROOT)
    assert {paths.cookie(ROOT, ME), RECORD, paths.instance_id(ROOT)} <= {path for _, path in store.asked[1:]}


@story(run)
async def test_a_life_does_not_begin_over_a_cookie_that_changed_since_the_claim(stage: Stage) -> None:
    """Also between the last look and the commit."""
    identities, store = await watched(stage)
    person = await stage.process("person")
    seen, _ = await identities.claim(await identities.read(), wait_ms=WAIT_MS)

    async def made() -> None:
        await person.store.create(paths.cookie(ROOT, ME), b"a person's", parents=True)

    store.before = made
    with pytest.raises(errors.VersionConflict, match="changed the cookie"):
        async with asyncio.timeout(60):
            await identities.begin_incarnation(seen, a_cookie(seen), first_life(seen))


@pytest.mark.parametrize("is_same_text", [False, True])
@pytest.mark.parametrize("what", ["a new life", "growth"])
@story(run)
async def test_a_cookie_that_was_made_again_since_the_claim_is_not_written_over(
    stage: Stage, *, what: str, is_same_text: bool
) -> None:
    """It has the version of the one before, and no grant named it; a new life would note a node that is gone."""
    one, person = await stage.process("one"), await stage.process("person")
    path = paths.cookie(ROOT, ME)
    text = cookie.dump_cookie(a_cookie(await one.identities.read()))
    await person.store.create(path, text, parents=True)
    seen = await one.claim()
    await person.store.delete(path)
    await person.store.create(path, again := text if is_same_text else b"a person's")

    begin = one.identities.begin_growth if what == "growth" else one.identities.begin_incarnation
    with pytest.raises(errors.VersionConflict, match="changed the cookie"):
        await begin(seen, a_cookie(seen), first_life(seen))

    assert (await person.store.get(path)).data == again


@pytest.mark.parametrize("is_made_again", [True, False])
@story(run)
async def test_a_boot_does_not_begin_by_a_cookie_that_is_another_one_now(stage: Stage, *, is_made_again: bool) -> None:
    """Its verdict is of the cookie that it saw. One made again has the same version: it is told by its node, once
    something else makes this process look (here a session that was lost with our sign)."""
    identities, store = await watched(stage)
    person = await stage.process("person")
    path = paths.cookie(ROOT, ME)
    await person.store.create(path, cookie.dump_cookie(a_cookie(await identities.read())), parents=True)
    seen, _ = await identities.claim(await identities.read(), wait_ms=WAIT_MS)

    async def replaced() -> None:
        await person.store.delete(path)
        if is_made_again:
            await person.store.create(path, b"a person's")
            await person.store.delete(paths.process(ROOT, ME))

    store.before = replaced
    with pytest.raises(errors.VersionConflict, match="changed the cookie"):
        async with asyncio.timeout(60):
            await identities.begin_boot(seen, first_life(seen))

    assert (await identities.read()).record is None, "the boot was not begun"


@pytest.mark.parametrize("what", ["a sign", "a registration", "a read-only registration", "a record that changed"])
@story(run)
async def test_a_cookie_is_not_made_again_while_a_process_has_the_id_or_had_it_since(
    stage: Stage, *, what: str
) -> None:
    one, other = await stage.process("one"), await stage.process("other")
    record = await other.begin()
    await other.dies()
    await one.store.delete(paths.cookie(ROOT, ME))
    seen = await one.identities.read()
    if what == "a record that changed":
        await one.store.put(RECORD, cookie.dump_incarnation(record), ANY_VERSION)
    else:
        path = {"a sign": SIGN, "a registration": LISTS[0], "a read-only registration": LISTS[1]}[what]
        await one.store.create(path, b"another", ephemeral=True, parents=True)

    with pytest.raises(errors.VersionConflict):
        await one.identities.restore_cookie(seen, a_cookie(seen))

    with pytest.raises(errors.NodeMissing):
        await one.store.get(paths.cookie(ROOT, ME))


@story(run)
async def test_what_depends_on_the_sign_does_not_happen_without_it(stage: Stage) -> None:
    process, other = await stage.process("one"), await stage.process("other")
    holding = asyncio.ensure_future(process.identities.hold(await process.begin()))
    checks = await process.identities.while_held()

    stage.expire(process)

    with pytest.raises(errors.NodeMissing):
        await other.store.transact(checks)
    holding.cancel()
