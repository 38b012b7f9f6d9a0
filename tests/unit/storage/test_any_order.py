"""The store against a plain model, in any order of adds, fences, marks, deletes, checkpoints and ends of the process.

The model says for each fact what a reader sees now and what a crash may leave of it. An acknowledgement, and a
checkpoint that began after the change, leave one possibility. What is seen after a start stays: nothing flickers.

What the store does not promise, and the model leaves open: a deletion is no journal record, so what was on its way to
the journal when it came is there again after a crash, until the checkpoint after the next (it holds no promise that
anybody relies on: the collector deletes it once more, and nothing is begun under the id before); and
`LedgerModel.is_orphaned`.
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Generic, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import LAST_ENTRY, EntryId, IdRange, LedgerId
from bookie.sim.node import NodeCrashed, ProcessEnd
from bookie.storage import restart
from bookie.storage.store import EntryStore
from storage_support import KEY, OTHER_KEY, Bench, Outcome, entry

T = TypeVar("T")
LEDGERS, ENTRIES = range(1, 4), range(5)
PLAIN, LOST, FENCED = "", "lost", "fenced"  # who may add: a writer; nobody who did not see the loss; a recovery
OUTCOMES: dict[str, type[BookieError] | None] = {
    PLAIN: None,
    LOST: errors.UnknownLedgerState,
    FENCED: errors.LedgerFenced,
}

some_ledger = st.sampled_from(LEDGERS)
some_entries = st.lists(st.sampled_from(ENTRIES), min_size=1, max_size=3, unique=True)
some_crash = st.sampled_from((ProcessEnd.KILL, ProcessEnd.POWER_CUT))


class Fact(Generic[T]):
    """`now`: what is seen. `could`: what a crash at this moment may leave, `now` among it."""

    def __init__(self, blank: T) -> None:
        self.blank = self.now = blank
        self.could = [blank]

    def change(self, value: T) -> None:
        self.now = value
        self.could.append(value)

    def is_durable(self, *others: T) -> None:
        """A crash leaves `now`, or one of the `others`, which the journal had not synced when this began."""
        self.could = [self.now, *others]

    def acknowledged(self, value: T) -> None:
        """The change to `value` is durable; whatever came after it may be as well."""
        if self.now == value:
            self.is_durable()

    def seen_after_crash(self, value: T, what: str) -> None:
        assert value in self.could, f"{what} is {value!r}, and a crash could leave {self.could!r}"
        self.now = value
        self.is_durable()


class LedgerModel:
    """All that is promised of one ledger. `generation`: how often it was deleted; each has bytes of its own.

    `is_orphaned`: a crash in a checkpoint may leave entries of a ledger
    that nobody was told of, without the ledger. They are seen from when somebody makes it again, with a fence at the
    latest, and stay.
    """

    def __init__(self, ledger_id: int) -> None:
        self.ledger_id = ledger_id
        self.generation = 0
        self.is_orphaned = False
        self.known = Fact(False)
        self.guard = Fact(PLAIN)
        self.limbo = Fact(False)
        self.bodies: dict[int, Fact[bytes | None]] = {entry_id: Fact(None) for entry_id in ENTRIES}

    @property
    def facts(self) -> list[Fact[Any]]:
        return [self.known, self.guard, self.limbo, *self.bodies.values()]

    def body(self, entry_id: int) -> bytes:
        return entry(self.ledger_id, entry_id, payload=b"generation %d" % self.generation)

    def refusal(self) -> type[BookieError] | None:
        """What a writer's add is refused with, None when it is taken."""
        refused = OUTCOMES[self.guard.now]
        return errors.UnknownLedgerState if refused is None and self.limbo.now else refused

    def absence(self) -> type[BookieError]:
        """What the read of an entry that is not here is answered with: never a "no" that may be untrue."""
        if not self.known.now:
            return errors.NoSuchLedger
        return errors.UnknownLedgerState if self.limbo.now else errors.NoSuchEntry

    def present(self) -> list[int]:
        return [entry_id for entry_id, fact in self.bodies.items() if fact.now is not None]


class LastWord(Outcome):
    """A completion after which the process has no time for anything else."""

    def __init__(self, bench: Bench, how: ProcessEnd) -> None:
        super().__init__()
        self._bench, self._how = bench, how

    def __call__(self, error: BookieError | None) -> None:
        super().__call__(error)
        self._bench.node.end(self._how)


class StoreMachine(RuleBasedStateMachine):
    """One bookie's store on a simulated disk. `is_journaled`: entries go through the journal, or not (BP-46)."""

    is_journaled = True

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(1)
        self.ledgers = {ledger_id: LedgerModel(ledger_id) for ledger_id in LEDGERS}
        self.unanswered: list[tuple[Outcome, list[tuple[Fact[Any], Any]]]] = []
        self.keys: list[
            tuple[Fact[Any], Any]
        ] = []  # put into the journal by copies: nobody is told when they are there
        self.store: EntryStore

    @initialize(seed=st.integers(0, 1000))
    def begins(self, seed: int) -> None:
        self.bench = Bench(
            seed,
            journal_write_data=self.is_journaled,
            journal_file_bytes_max=4096,
            entry_log_bytes_max=4096,
        )
        self.open()

    def teardown(self) -> None:
        self.bench.simulation.loop.close()
        assert not self.bench.failures, self.bench.failures

    # ---- the process ------------------------------------------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Let the simulated process do `work`. Raises NodeCrashed when it ends meanwhile."""
        return self.bench.simulation.loop.run(self.bench.node.do(work))

    def open(self, *, operation: int = 0, how: ProcessEnd = ProcessEnd.KILL) -> None:
        """Start the process; the first time it is cut at its n-th disk operation, if one is given."""
        world = self.bench.node.begin()
        if operation:
            self.bench.node.crash_at_operation(operation, how)
        try:
            opened = restart.open_store(self.bench.options, world, fail=self.bench.failures.append)
            self.store = self.run(opened)
        except NodeCrashed:
            self.open()
            return
        self.bench.node.disk.crash_at_operation = 0
        for ledger in self.ledgers.values():
            self.look_after_start(ledger)

    def crashed(self, *, operation: int = 0, how: ProcessEnd = ProcessEnd.KILL) -> None:
        """The process is gone, and so are answers that nobody got; the next one begins."""
        self.unanswered.clear()
        self.keys.clear()
        self.open(operation=operation, how=how)

    def look_after_start(self, ledger: LedgerModel) -> None:
        facts = self.store.facts(LedgerId(ledger.ledger_id))
        name = f"ledger {ledger.ledger_id}"
        guard = PLAIN
        if facts is not None and facts.is_fenced:
            guard = LOST if facts.is_state_lost else FENCED
        ledger.known.seen_after_crash(facts is not None, f"{name}: known")
        ledger.guard.seen_after_crash(guard, f"{name}: fence")
        ledger.limbo.seen_after_crash(facts is not None and facts.is_limbo, f"{name}: limbo")
        for fact in ledger.bodies.values():
            fact.now = None
        ledger.is_orphaned = not ledger.known.now
        if not ledger.is_orphaned:
            self.run(self.look_at_entries(ledger))

    async def look_at_entries(self, ledger: LedgerModel) -> None:
        ledger.is_orphaned = False
        found = await self.read(ledger, ENTRIES)
        for entry_id, body in zip(ENTRIES, found, strict=True):
            fact = ledger.bodies[entry_id]
            if fact.now is None:  # and not added since
                what = f"ledger {ledger.ledger_id}: entry {entry_id}"
                fact.seen_after_crash(body if isinstance(body, bytes) else None, what)

    async def read(self, ledger: LedgerModel, entry_ids: Iterable[int]) -> list[bytes | type[BookieError]]:
        """What a reader of each entry is answered: its bytes, or what kind of error."""
        answers: list[bytes | type[BookieError]] = []
        for entry_id in entry_ids:
            try:
                answers.append(await self.bench.read(self.store, ledger.ledger_id, entry_id))
            except BookieError as error:
                answers.append(type(error))
        return answers

    # ---- what clients do --------------------------------------------------------------------------------------------

    def added(self, ledgers: Sequence[LedgerModel], entry_ids: Sequence[int], outcome: Outcome) -> None:
        """Note that these entries were taken, each of its ledger, and what `outcome` will promise."""
        promised: list[tuple[Fact[Any], Any]] = []
        for ledger, entry_id in zip(ledgers, entry_ids, strict=True):
            ledger.known.change(True)
            promised.append((ledger.known, True))
            ledger.bodies[entry_id].change(ledger.body(entry_id))
            if self.is_journaled:
                promised.append((ledger.bodies[entry_id], ledger.body(entry_id)))
        self.unanswered.append((outcome, promised))

    def is_refused(self, ledger: LedgerModel, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Return True when a crash may bring back what was deleted under the id; then see `work` refused."""
        ledger_id = LedgerId(ledger.ledger_id)
        if ledger_id not in self.store.partitions[0].table.going:
            return False
        with pytest.raises(errors.TooManyRequests):
            self.run(work())
        return True

    def add(
        self,
        ledger: LedgerModel,
        entry_ids: Sequence[int],
        *,
        is_recovery: bool,
        key: bytes = KEY,
        outcome: Outcome | None = None,
    ) -> None:
        outcome, ledger_id = outcome or Outcome(), LedgerId(ledger.ledger_id)

        async def work() -> None:
            ids = [EntryId(entry_id) for entry_id in entry_ids]
            bodies = [ledger.body(entry_id) for entry_id in entry_ids]
            self.store.add(ledger_id, ids, bodies, key, is_recovery=is_recovery, done=outcome)

        refused = None if is_recovery else ledger.refusal()
        if key != KEY and ledger.known.now:
            refused = errors.Unauthorized
        if refused is not None:
            with pytest.raises(refused):
                self.run(work())
            return
        if self.is_refused(ledger, work):
            return
        self.hand_over(work(), outcome)
        self.added([ledger] * len(entry_ids), entry_ids, outcome)

    def hand_over(self, work: Coroutine[Any, Any, None], outcome: Outcome) -> None:
        """Do `work`, which may end the process: by the answer it gets (`LastWord`)."""
        try:
            self.run(work)
        except NodeCrashed:
            assert outcome.is_done

    @rule(ledger_id=some_ledger, entry_ids=some_entries, is_recovery=st.booleans())
    def adds_a_run(self, ledger_id: int, entry_ids: list[int], is_recovery: bool) -> None:
        self.add(self.ledgers[ledger_id], entry_ids, is_recovery=is_recovery)

    @rule(entry_ids=st.tuples(*[st.sampled_from(ENTRIES)] * len(LEDGERS)))
    def adds_a_mix(self, entry_ids: tuple[int, ...]) -> None:
        """One entry of each ledger at once, of those that are plain; the others one by one."""
        ledgers, outcome = list(self.ledgers.values()), Outcome()
        ids, keys = [LedgerId(ledger.ledger_id) for ledger in ledgers], [KEY] * len(ledgers)
        bodies = [ledger.body(entry_id) for ledger, entry_id in zip(ledgers, entry_ids, strict=True)]
        entries = [EntryId(entry_id) for entry_id in entry_ids]

        async def work() -> list[int]:
            others = self.store.not_plain(ids, keys, entries, bodies)
            plain = [place for place in range(len(ids)) if place not in others]
            if plain:
                of = ([column[place] for place in plain] for column in (ids, entries, bodies))
                self.store.add_plain(*of, outcome)  # type: ignore[arg-type]
            return plain

        plain = self.run(work())
        refused = [place for place, ledger in enumerate(ledgers) if ledger.refusal() or not ledger.known.now]
        assert not set(plain) & set(refused)
        if plain:
            self.added([ledgers[place] for place in plain], [entry_ids[place] for place in plain], outcome)
        for place in range(len(ids)):
            if place not in plain:
                self.add(ledgers[place], [entry_ids[place]], is_recovery=False)

    @rule(ledger_id=some_ledger)
    def a_stranger_adds(self, ledger_id: int) -> None:
        if self.ledgers[ledger_id].known.now:
            self.add(self.ledgers[ledger_id], [0], is_recovery=True, key=OTHER_KEY)

    def fence(self, ledger: LedgerModel, outcome: Outcome) -> None:
        async def work() -> None:
            self.store.fence(LedgerId(ledger.ledger_id), KEY, outcome)

        if self.is_refused(ledger, work):
            return
        self.hand_over(work(), outcome)
        ledger.known.change(True)
        ledger.guard.change(FENCED)
        self.unanswered.append((outcome, [(ledger.known, True), (ledger.guard, FENCED)]))

    @rule(ledger_id=some_ledger)
    def fences(self, ledger_id: int) -> None:
        self.fence(self.ledgers[ledger_id], Outcome())

    @rule(
        ledger_id=some_ledger, entry_ids=some_entries, how=some_crash, is_fence=st.booleans(), is_second=st.booleans()
    )
    def dies_as_soon_as_it_has_answered(
        self, ledger_id: int, entry_ids: list[int], how: ProcessEnd, is_fence: bool, is_second: bool
    ) -> None:
        """`is_second`: another client asked for the same a moment ago, and has no answer yet."""
        ledger = self.ledgers[ledger_id]
        if LedgerId(ledger_id) in self.store.partitions[0].table.going:
            return
        for outcome in [Outcome()] * is_second + [LastWord(self.bench, how)]:
            if is_fence:
                self.fence(ledger, outcome)
            else:
                self.add(ledger, entry_ids, is_recovery=True, outcome=outcome)
        with pytest.raises(NodeCrashed):
            self.run(self.bench.settle(outcome))
        self.note_answers()
        assert outcome.is_ok
        self.crashed()

    @rule()
    def answers_arrive(self) -> None:
        self.run(self.bench.settle(*(outcome for outcome, _ in self.unanswered)))

    # ---- what integrity and the collector do ------------------------------------------------------------------------

    @rule(ledger_id=some_ledger, is_fenced=st.booleans(), is_limbo=st.booleans())
    def protects(self, ledger_id: int, is_fenced: bool, is_limbo: bool) -> None:
        ledger = self.ledgers[ledger_id]
        ledger.known.change(True)
        if is_fenced and ledger.guard.now != FENCED:
            ledger.guard.change(LOST)
        if is_limbo:
            ledger.limbo.change(True)
        self.run(self.store.protect([(LedgerId(ledger_id), is_fenced, is_limbo, KEY)], epoch=1))
        ledger.known.is_durable()
        if is_fenced:  # a fence from before a deletion may still be in the journal
            ledger.guard.is_durable(*[FENCED] * (FENCED in ledger.guard.could))
        if is_limbo:
            ledger.limbo.is_durable()

    @rule(ledger_id=some_ledger, entry_id=st.sampled_from(ENTRIES))
    def copies(self, ledger_id: int, entry_id: int) -> None:
        ledger = self.ledgers[ledger_id]

        async def work() -> None:
            self.store.add_copied(LedgerId(ledger_id), EntryId(entry_id), ledger.body(entry_id), KEY)

        if self.is_refused(ledger, work):
            return
        self.run(work())
        ledger.known.change(True)
        self.keys.append((ledger.known, True))
        ledger.bodies[entry_id].change(ledger.body(entry_id))

    @rule(ledger_id=some_ledger)
    def clears_limbo(self, ledger_id: int) -> None:
        ledger = self.ledgers[ledger_id]
        if ledger.known.now:

            async def work() -> None:
                self.store.clear_limbo(LedgerId(ledger_id))

            self.run(work())
            ledger.limbo.change(False)

    @rule(ledger_id=some_ledger)
    def deletes(self, ledger_id: int) -> None:
        ledger = self.ledgers[ledger_id]

        async def work() -> None:
            self.store.delete_ledger(LedgerId(ledger_id))

        self.run(work())
        for fact in ledger.facts:
            fact.change(fact.blank)
        ledger.generation += 1

    # ---- checkpoints and ends ---------------------------------------------------------------------------------------

    def on_its_way(self) -> list[tuple[Fact[Any], Any]]:
        """What the journal may not have synced when a checkpoint begins now: its records lie behind the mark."""
        self.note_answers()
        found, self.keys = [*self.keys, *(each for _, promised in self.unanswered for each in promised)], []
        return found

    def all_is_durable(self, on_its_way: Sequence[tuple[Fact[Any], Any]] = ()) -> None:
        for ledger in self.ledgers.values():
            for fact in ledger.facts if not ledger.is_orphaned else [ledger.known, ledger.guard, ledger.limbo]:
                fact.is_durable(*(value for each, value in on_its_way if each is fact))

    @rule()
    def flushes(self) -> None:
        on_its_way = self.on_its_way()
        self.run(self.store.flush())
        self.all_is_durable(on_its_way)

    @rule(operation=st.integers(1, 30), how=some_crash)
    def dies_while_it_flushes(self, operation: int, how: ProcessEnd) -> None:
        on_its_way = self.on_its_way()
        self.bench.node.crash_at_operation(operation, how)
        try:
            self.run(self.store.flush())
        except NodeCrashed:
            self.crashed()
        else:
            self.bench.node.disk.crash_at_operation = 0
            self.all_is_durable(on_its_way)

    @rule(how=some_crash, operation=st.integers(0, 30))
    def dies(self, how: ProcessEnd, operation: int) -> None:
        """A crash between two steps; the start after it is cut as well when `operation` is not 0."""
        self.note_answers()
        self.bench.node.end(how)
        self.crashed(operation=operation, how=how)

    @rule()
    def stops(self) -> None:
        assert self.run(self.store.close()), "a stop without trouble is a clean one"
        self.note_answers()
        self.all_is_durable()
        self.bench.node.end(ProcessEnd.EXIT)
        self.crashed()

    # ---- what must hold after each step -----------------------------------------------------------------------------

    def note_answers(self) -> None:
        left = []
        for outcome, promised in self.unanswered:
            if not outcome.is_done:
                left.append((outcome, promised))
                continue
            assert outcome.error is None
            for fact, value in promised:
                fact.acknowledged(value)
        self.unanswered = left

    @invariant()
    def reads_agree(self) -> None:
        self.note_answers()
        self.run(self.compare())

    async def compare(self) -> None:
        for ledger in self.ledgers.values():
            ledger_id, present = LedgerId(ledger.ledger_id), ledger.present()
            if ledger.is_orphaned and ledger.known.now:
                await self.look_at_entries(ledger)
                present = ledger.present()
            expected = [ledger.absence() if fact.now is None else fact.now for fact in ledger.bodies.values()]
            is_told = bool(present) and not ledger.limbo.now
            expected.append(ledger.bodies[max(present)].now if is_told else ledger.absence())
            assert await self.read(ledger, [*ENTRIES, LAST_ENTRY]) == expected, f"ledger {ledger_id}"
            assert [each for each in ENTRIES if self.store.has_entry(ledger_id, EntryId(each))] == present
            if ledger.known.now:
                assert ids(await self.store.entry_ranges(ledger_id)) == present
            assert self.store.is_in_doubt(ledger_id) == ledger.limbo.now

    @invariant()
    def facts_agree(self) -> None:
        for ledger in self.ledgers.values():
            facts = self.store.facts(LedgerId(ledger.ledger_id))
            assert (facts is not None) == ledger.known.now
            if facts is not None:
                assert facts.is_fenced == (ledger.guard.now != PLAIN)
                assert facts.is_state_lost == (ledger.guard.now == LOST)
                assert facts.is_limbo == ledger.limbo.now


class UnjournaledMachine(StoreMachine):
    is_journaled = False


def ids(ranges: Iterable[IdRange]) -> list[int]:
    return [entry_id for first, last in ranges for entry_id in range(first, last + 1)]


@pytest.mark.parametrize("machine", [StoreMachine, UnjournaledMachine])
@pytest.mark.slow
def test_in_any_order_reads_say_what_was_promised_and_a_crash_leaves_it(machine: type[StoreMachine]) -> None:
    """The same runs each time; the simulator's campaigns look for new ones."""
    run_state_machine_as_test(machine, settings=settings(max_examples=50, stateful_step_count=30, derandomize=True))
