"""The storage engine alone under kills and power cuts: whatever was acknowledged is there afterwards, whole.

One run is one seed: a random client of one EntryStore, killed or cut off in the middle of a random disk operation (of a
restart too), several times over; after each start the store must equal the model, and may hold unacknowledged work.
"""

import dataclasses
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, LedgerId
from bookie.sim.faults import Dials
from bookie.sim.node import Defect, NodeCrashed, ProcessEnd, SimNode, Simulation
from bookie.storage import dirs, restart
from bookie.storage.collect import collector
from bookie.storage.collect.compactor import Compactor
from bookie.storage.collect.plan import Kind
from bookie.storage.collect_options import CompactionOptions, CompactionRule
from bookie.storage.options import StorageOptions
from bookie.storage.store import Completion, EntryStore

LEDGERS = 5  # at first; more are made all the time, so that any crash may meet a ledger's first entry
LEDGERS_MAX = 200
SHORT = 1_000  # from here on they come and go, one at a time
LIVES = 4
KEY = b"k" * 20


def body_of(ledger_id: int, entry_id: int, lac: int, random_: random.Random) -> bytes:
    payload = random_.randbytes(random_.choice((0, 10, 600, 3000)))
    return struct.pack(">qqqq", ledger_id, entry_id, lac, len(payload)) + payload


@dataclass
class Model:
    """What the store was given, and what it acknowledged."""

    given: dict[tuple[int, int], bytes] = field(default_factory=dict)
    acknowledged: dict[tuple[int, int], None] = field(default_factory=dict)
    journaled: dict[tuple[int, int], None] = field(default_factory=dict)  # acknowledged after the journal's sync
    lost: dict[tuple[int, int], None] = field(default_factory=dict)  # and nobody has made good for it yet
    flushed: dict[tuple[int, int], None] = field(default_factory=dict)
    fenced: dict[int, None] = field(default_factory=dict)
    lacs: dict[int, int] = field(default_factory=dict)
    keyed: dict[int, None] = field(default_factory=dict)  # with an entry that was acknowledged, durable or not
    next_entry: dict[int, int] = field(default_factory=dict)
    ledgers: int = LEDGERS  # that stay
    short: int = SHORT  # the ledger that goes next
    together: int = 0  # entries of many ledgers that the store took as one
    unknown: dict[tuple[int, int], None] = field(default_factory=dict)  # acknowledged, and gone: in limbo
    doubted: int = 0  # how many there were
    spared: int = 0  # ledgers with entries that a crash without journaled data did not put in limbo

    def stays(self, ledger_id: int) -> bool:
        """False for a ledger that was let go: an answer about it may have been on its way."""
        return ledger_id < SHORT or ledger_id == self.short


class Client:
    """A random user of the store, in the node's own process."""

    def __init__(self, node: SimNode, store: EntryStore, model: Model, random_: random.Random) -> None:
        self.node, self.store, self.model, self.random = node, store, model, random_

    async def work(self) -> None:
        """Until the node dies; a little of everything between short pauses."""
        while True:
            for _ in range(self.random.randint(1, 12)):
                self.step()
            if self.random.random() < 0.05:
                covered = dict(self.model.acknowledged)
                await self.store.flush()
                self.model.flushed.update(covered)
            if self.random.random() < 0.03:
                await self.reclaim()
            await self.node.simulation.loop.sleep_ns(self.random.choice((0, 100_000, 2_000_000, 50_000_000)))

    async def reclaim(self) -> None:
        """Let a ledger go, whole, and rewrite what else is in its logs."""
        gone, self.model.short = self.model.short, self.model.short + 1

        async def is_absent(ledger_id: LedgerId) -> bool:
            return SHORT <= ledger_id < self.model.short

        for key in [key for key in self.model.given if key[0] == gone]:
            del self.model.given[key]
        await collector.collect(self.store, is_absent)
        options = CompactionOptions(entries_per_s=None, major=CompactionRule(0.99, 100_000_000))
        await Compactor(self.store, options, self.node.world.clock).compact(Kind.MAJOR)

    def step(self) -> None:
        ledger_id = self.drawn()
        draw = self.random.random()
        try:
            if draw < 0.45:
                self.add(ledger_id)
            elif draw < 0.9:
                self.add_together()
            elif draw < 0.93:
                self.store.fence(ledger_id, KEY, self.on(self.model.fenced, ledger_id))
            else:
                lac = self.model.next_entry.get(ledger_id, 0)
                packed = struct.pack(">qq", ledger_id, lac) + bytes(4)
                self.store.write_lac(ledger_id, packed, KEY, self.on_lac(ledger_id, lac))
        except (errors.LedgerFenced, errors.TooManyRequests, errors.UnknownLedgerState):
            pass  # the last: limbo, in a life whose integrity had no time yet

    def drawn(self) -> LedgerId:
        """Return one of the newest ledgers, a new one, or the one that goes next."""
        model = self.model
        if self.random.random() < 0.04 and model.ledgers < LEDGERS_MAX:
            model.ledgers += 1
            return LedgerId(model.ledgers - 1)
        return LedgerId(self.random.choice((*range(model.ledgers - LEDGERS, model.ledgers), model.short)))

    def add(self, ledger_id: LedgerId) -> None:
        first = self.model.next_entry.get(ledger_id, 0)
        entry_ids = [EntryId(first + number) for number in range(self.random.choice((1, 1, 2, 7)))]
        bodies = [body_of(ledger_id, entry_id, entry_id - 1, self.random) for entry_id in entry_ids]
        is_recovery = self.random.random() < 0.3
        keys = [(ledger_id, entry_id) for entry_id in entry_ids]
        self.store.add(ledger_id, entry_ids, bodies, KEY, is_recovery=is_recovery, done=self.on_all(keys))
        self.given(keys, bodies, is_recovery=is_recovery)

    def add_together(self) -> None:
        """Add to many ledgers as the server does: together what is plain, the others one by one."""
        ledger_ids = [self.drawn() for _ in range(8)]
        entry_ids = [
            EntryId(self.model.next_entry.get(ledger_id, 0) + ledger_ids[:place].count(ledger_id))
            for place, ledger_id in enumerate(ledger_ids)
        ]
        ids = list(zip(ledger_ids, entry_ids, strict=True))
        bodies = [body_of(ledger_id, entry_id, entry_id - 1, self.random) for ledger_id, entry_id in ids]
        others = self.store.not_plain(ledger_ids, [KEY] * len(ids), entry_ids, bodies)
        plain = [place for place in range(len(ids)) if place not in others]
        if plain:
            keys, taken = [ids[place] for place in plain], [bodies[place] for place in plain]
            columns = [ledger_ids[place] for place in plain], [entry_ids[place] for place in plain], taken
            self.store.add_plain(*columns, self.on_all(keys))
            self.model.together += len(plain)
            self.given(keys, taken, is_recovery=False)
        for ledger_id in dict.fromkeys(ledger_ids[place] for place in others):
            self.add(ledger_id)

    def given(self, keys: Sequence[tuple[int, int]], bodies: list[bytes], *, is_recovery: bool) -> None:
        """Note what the store took."""
        for (ledger_id, entry_id), body in zip(keys, bodies, strict=True):
            if not is_recovery and ledger_id in self.model.fenced:
                self.node.simulation.violation(f"ledger {ledger_id} is fenced and took entry {entry_id}")
            self.model.given[ledger_id, entry_id] = body
            self.model.next_entry[ledger_id] = entry_id + 1

    def on_all(self, keys: Sequence[tuple[int, int]]) -> Completion:
        def done(error: BookieError | None) -> None:
            if error is None:
                self.model.acknowledged.update(dict.fromkeys(keys))
                self.model.keyed.update({ledger_id: None for ledger_id, _ in keys})
                if self.store.options.journal_write_data:
                    self.model.journaled.update(dict.fromkeys(keys))

        return done

    def on(self, record: dict[Any, None], key: object) -> Completion:
        def done(error: BookieError | None) -> None:
            if error is None:
                record[key] = None

        return done

    def on_lac(self, ledger_id: int, lac: int) -> Completion:
        def done(error: BookieError | None) -> None:
            if error is None:
                self.model.lacs[ledger_id] = max(lac, self.model.lacs.get(ledger_id, -1))

        return done


async def check(
    node: SimNode, store: EntryStore, model: Model, *, may_have_lost: bool, has_touches: bool = False
) -> None:
    """Compare the store with the model: nothing durable is missing, nothing present is wrong. What was acknowledged
    and not durable may be missing when, and only when, the marker on the disk said that it may be; and denied only
    where no touches say of which ledgers."""
    violation = node.simulation.violation
    durable = {**model.journaled, **model.flushed}
    for (ledger_id, entry_id), body in model.given.items():
        try:
            found = store.read_nowait(LedgerId(ledger_id), EntryId(entry_id))
            if found is None:
                found = await store.read(LedgerId(ledger_id), EntryId(entry_id))
            if bytes(found) != body:
                violation(f"ledger {ledger_id} entry {entry_id} came back with other bytes")
            model.flushed[ledger_id, entry_id] = None  # it came from the disk
        except errors.UnknownLedgerState:
            if (ledger_id, entry_id) in durable:
                violation(f"ledger {ledger_id} entry {entry_id} was acknowledged, is durable, and is not here")
            if (ledger_id, entry_id) in model.acknowledged:
                model.unknown[ledger_id, entry_id] = model.acknowledged.pop((ledger_id, entry_id))
                model.doubted += 1
        except (errors.NoSuchEntry, errors.NoSuchLedger):
            if (ledger_id, entry_id) in durable:
                violation(f"ledger {ledger_id} entry {entry_id} was acknowledged and is gone")
            if (ledger_id, entry_id) in model.unknown:
                violation(f"ledger {ledger_id} entry {entry_id} was acknowledged, was unknown, and is denied")
            if (ledger_id, entry_id) in model.acknowledged and has_touches:
                violation(f"ledger {ledger_id} entry {entry_id} was acknowledged and is denied without a touch")
            if (ledger_id, entry_id) in model.acknowledged:
                model.lost[ledger_id, entry_id] = model.acknowledged.pop((ledger_id, entry_id))
    for ledger_id in filter(model.stays, model.fenced):
        facts = store.facts(LedgerId(ledger_id))
        if facts is None or not facts.is_fenced or facts.master_key != KEY:
            violation(f"ledger {ledger_id} was fenced and is not after the restart")
    for ledger_id in filter(model.stays, model.keyed):
        facts = store.facts(LedgerId(ledger_id))
        if facts is None or facts.master_key != KEY:
            violation(f"ledger {ledger_id} has an entry that was acknowledged, and its key is gone")
    for ledger_id, lac in model.lacs.items():
        if model.stays(ledger_id) and store.last_confirmed(LedgerId(ledger_id)) < lac:
            violation(f"ledger {ledger_id} had explicit LAC {lac} and has {store.last_confirmed(LedgerId(ledger_id))}")
    # Entries that were lost unacknowledged may be given again under the same id.
    for ledger_id in (*range(model.ledgers), model.short):
        known = [entry for ledger, entry in model.given if ledger == ledger_id]
        model.next_entry[ledger_id] = max(known, default=-1) + 1
    if has_touches:
        ledger_ids = dict.fromkeys(ledger_id for ledger_id, _ in model.given)
        model.spared += sum(not store.is_in_doubt(LedgerId(ledger_id)) for ledger_id in ledger_ids)
    if model.lost and not may_have_lost:
        violation(f"{list(model.lost)[:3]} were acknowledged and are gone, and no marker says so")


async def repair(store: EntryStore, model: Model) -> None:
    """What phase two does, but that no peer has what is missing: nobody asks for it any more."""
    in_limbo = [LedgerId(ledger_id) for ledger_id in dict.fromkeys(ledger_id for ledger_id, _ in model.given)]
    in_limbo = [ledger_id for ledger_id in in_limbo if store.is_in_doubt(ledger_id)]
    model.unknown = {key: None for key in model.unknown if key[0] not in in_limbo}
    for ledger_id in in_limbo:
        store.clear_limbo(ledger_id)
    await store.flush()


def options_of(random_: random.Random, *, journaled: bool) -> StorageOptions:
    """Small files and caches, so that every roll, rotation and trim happens in a second."""
    ledger_dirs = ("/ledgers0", "/ledgers1")[: random_.randint(1, 2)]
    return StorageOptions(
        journal_dirs=("/journal0", "/journal1")[: random_.randint(1, 2)],
        ledger_dirs=ledger_dirs,
        index_dirs=("/index0", "/index1")[: len(ledger_dirs)] if random_.random() < 0.5 else (),
        journal_write_data=journaled,
        journal_file_bytes_max=random_.choice((8_192, 65_536)),
        write_cache_bytes_max=random_.choice((16_384, 1_000_000)),
        flush_interval_ms=random_.choice((20, 500)),
        unjournaled_flush_interval_ms=random_.choice((20, 500)),
        entry_log_bytes_max=random_.choice((16_384, 1_000_000)),
    )


VOLUMES = ("/journal0", "/journal1", "/ledgers0", "/ledgers1", "/index0", "/index1")


def run_seed(
    seed: int,
    *,
    journaled: bool | None = True,
    touching: bool | None = False,
    broken_disk: bool = False,
    keep_trace: bool = False,
) -> Model:
    """`journaled`, `touching` None: each life has its own way."""
    simulation = Simulation(f"storage {seed}", dials=Dials(), keep_trace=keep_trace)
    random_ = simulation.random("story")
    node = simulation.node("bookie", VOLUMES)
    options = options_of(random_, journaled=journaled is not False)
    model = Model()

    async def opened(options: StorageOptions) -> EntryStore:
        """What a boot does: look at the marker, open, see what is there, make good for it, mark the new life."""
        disk = node.world.disk
        may_have_lost = await dirs.may_have_lost(disk, options)
        has_touches = await dirs.has_touches(disk, options)
        is_repaired = random_.random() < 0.5  # else the process ends before integrity is done
        store = await restart.open_store(options, node.world, fail=lambda error: simulation.violation(f"{error!r}"))
        await check(node, store, model, may_have_lost=may_have_lost, has_touches=has_touches)
        if touching is not False and random_.random() < 0.7:
            await repair(store, model)
        if is_repaired:
            model.lost.clear()  # first: a process that ends while it clears the mark may have cleared it all the same
            await dirs.clear_dirty(disk, options)
        await dirs.mark_dirty(disk, options)
        return store

    async def live(options: StorageOptions) -> None:
        await Client(node, await opened(options), model, random_).work()

    async def story() -> None:
        for life in range(LIVES):
            way = random_.random() < 0.5 if journaled is None else journaled
            touches = random_.random() < 0.7 if touching is None else touching
            node.begin()
            node.disk.faults.lies_about_sync = broken_disk
            operation = random_.choice((1, 30, 150, 600)) + random_.randrange(200)
            node.crash_at_operation(operation, random_.choice((ProcessEnd.KILL, ProcessEnd.POWER_CUT)))
            try:
                ways = {"journal_write_data": way, "touch_unjournaled_ledgers": touches}
                await node.do(live(dataclasses.replace(options, **ways)))
            except NodeCrashed:
                continue
            except BookieError as error:
                simulation.violation(f"life {life}: {error!r}")
                node.end()
                return
        node.begin()
        store = await node.do(opened(options))
        await node.do(store.close())

    simulation.run(story(), time_limit_s=600)
    return model


@pytest.mark.parametrize("seed", range(40))
def test_what_the_journal_acknowledged_survives_every_crash(seed: int) -> None:
    run_seed(seed)


@pytest.mark.parametrize("seed", range(20))
def test_without_journaled_data_fences_keys_and_flushed_entries_survive_every_crash(seed: int) -> None:
    run_seed(seed, journaled=False)


@pytest.mark.parametrize("seed", range(30))
def test_journal_write_data_may_be_switched_either_way_with_a_crash_between(seed: int) -> None:
    run_seed(seed, journaled=None)


@pytest.mark.parametrize("seed", range(30))
def test_with_touches_nothing_acknowledged_is_denied_after_any_crash(seed: int) -> None:
    run_seed(seed, journaled=False, touching=True)


@pytest.mark.parametrize("seed", range(30))
def test_touches_and_the_journal_may_be_switched_on_and_off_with_a_crash_between(seed: int) -> None:
    run_seed(seed, journaled=None, touching=None)


def test_with_touches_crashes_leave_ledgers_out_of_limbo_and_put_others_in() -> None:
    models = [run_seed(seed, journaled=False, touching=True) for seed in range(8)]

    assert sum(model.doubted for model in models) > 20
    assert sum(model.spared for model in models) > 20


def test_the_random_client_adds_to_many_ledgers_at_once() -> None:
    """Where there is one journal: with more, each add is on its own."""
    for journaled in (True, False):
        assert sum(run_seed(seed, journaled=journaled).together for seed in range(3, 8)) > 100


def test_an_acknowledgement_before_the_sync_is_found_within_a_few_seeds() -> None:
    """Break it on purpose: a disk whose sync returns before anything is durable acknowledges too early."""
    found = []
    for seed in range(20):
        try:
            run_seed(seed, broken_disk=True)
        except Defect as defect:
            found.append(str(defect))

    assert any("was acknowledged and is gone" in text for text in found)
