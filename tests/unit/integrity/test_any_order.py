"""The gate of a boot and its grant, in any order of facts that change, grants that come, and time that passes.

The model knows what is so at this moment, and which grant was accepted when. A boot goes on only by a grant that names
exactly what is so when it goes on, for this pod, in time; and each refusal has one of the reasons that there are.
"""

import asyncio
import dataclasses
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

import integrity_support as build
from bookie.base import errors
from bookie.base.ids import BookieId, Incarnation
from bookie.base.units import NS_PER_MS
from bookie.integrity.gate import BootGate, BootPhase
from bookie.integrity.inspection import Inspection
from bookie.integrity.options import IntegrityOptions
from bookie.integrity.verdict import Decision
from bookie.ports.admin import Contents, Grant, MountProof, State, Verdict

T = TypeVar("T")
TTL_MS = 1_000
EVIDENCE = ("evidence-1", "evidence-2")


@dataclasses.dataclass(frozen=True)
class Now:
    """What an inspection would find."""

    verdict: Verdict = Verdict.LOST
    evidence: str = EVIDENCE[0]
    cookie_version: int = 4
    is_mounted: bool = True
    is_repairable: bool = False  # of a verdict STALE: every volume is this bookie's own

    @property
    def waits(self) -> bool:
        return self.verdict is Verdict.LOST or (self.verdict is Verdict.STALE and self.is_repairable)

    def inspection(self) -> Inspection:
        stale = ("ledgers",) if self.verdict is Verdict.STALE and self.is_repairable else ()
        proof = MountProof.PROVEN if self.is_mounted else MountProof.SUSPECT
        return Inspection(
            identity=cast(Any, SimpleNamespace(record=build.RECORD, cookie_version=self.cookie_version)),
            master=cast(Any, None),
            volumes=(build.volume("ledgers", Contents.EMPTY, proof=proof),),
            decision=Decision(self.verdict, "so", stale=stale),
            evidence_hash=self.evidence,
            is_dirty=False,
            is_set_back=False,
            ledger_count=0,
            ledgers_naming_me=0,
        )


class GateMachine(RuleBasedStateMachine):
    """One boot that waits. After it went on, the next one begins, with the same facts."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.now_ns, self.count, self.boots = 0, 0, 0
        self.now = Now()
        self.later: list[tuple[Now, int]] = []  # what the next looks find, and how long they take
        self.boot()

    def teardown(self) -> None:
        self.stop()
        self.loop.close()

    # ---- the boot ---------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        self.boots += 1
        self.accepted: Grant | None = None
        self.accepted_ns = 0
        self.may_be_dropped = False  # a look showed that it is late, or names what is no longer so
        self.newest_epoch = 0
        clock = SimpleNamespace(monotonic_ns=lambda: self.now_ns)
        world = SimpleNamespace(clock=clock, host=SimpleNamespace(pod_uid="pod-1"))
        self.phase = BootPhase(cast(Any, SimpleNamespace(notify=lambda: None)))
        options, anything = IntegrityOptions(inspect_interval_ms=1_000_000), cast(Any, None)
        self.gate = BootGate(
            build.ME, anything, options, cast(Any, world), anything, self.phase, boot_id=f"{self.boots}"
        )
        self.gate.inspector = cast(Any, self)
        self.allowed = self.loop.create_task(self.gate.until_allowed())
        self.turn()

    def stop(self) -> None:
        self.allowed.cancel()
        self.turn()

    async def look(self, *, is_serving: bool = False) -> Inspection:
        assert not is_serving
        if self.later:
            self.now, passed_ms = self.later.pop(0)
            self.now_ns += passed_ms * NS_PER_MS
        if self.accepted is not None:
            is_late = self.now_ns >= self.accepted_ns + self.accepted.ttl_ms * NS_PER_MS
            self.may_be_dropped |= is_late or self.accepted.evidence_hash != self.now.evidence
        return self.now.inspection()

    def turn(self) -> None:
        """Let the boot do what it can do now."""
        for _ in range(5):
            self.run(asyncio.sleep(0))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    # ---- what happens -----------------------------------------------------------------------------------------------

    @rule(
        changes=st.fixed_dictionaries(
            {},
            optional={
                "verdict": st.sampled_from((Verdict.LOST, Verdict.STALE, Verdict.FOREIGN)),
                "evidence": st.sampled_from(EVIDENCE),
                "cookie_version": st.integers(4, 5),
                "is_mounted": st.booleans(),
                "is_repairable": st.booleans(),
            },
        )
    )
    def facts_change(self, changes: dict[str, Any]) -> None:
        """Nobody has looked yet."""
        self.now = dataclasses.replace(self.now, **changes)

    @rule()
    def somebody_has_it_look(self) -> None:
        self.gate.look_again()
        self.turn()

    @rule(passed_ms=st.sampled_from((1, TTL_MS - 1, TTL_MS)))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ns += passed_ms * NS_PER_MS

    def send(self, granted: Grant) -> None:
        fits, received_ns = self.fits(granted), self.now_ns
        waits = self.phase.state in (State.WAITING_GRANT, *((State.HELD,) if granted.accepts_stale else ()))
        again = self.accepted is not None and self.accepted.grant_id == granted.grant_id
        refused = self.refusal(granted)
        if refused is None:
            assert again or (fits and waits), "a grant was accepted that does not fit"
            assert again or self.accepted is None or self.may_be_dropped, "a second grant was accepted beside the first"
            if not again or self.may_be_dropped:
                self.accepted, self.accepted_ns, self.newest_epoch = granted, received_ns, granted.operator_epoch
                self.may_be_dropped = False
        else:
            assert refused.reason
            assert not again or self.may_be_dropped, f"a grant in force was refused: {refused}"
            assert not (fits and waits and self.accepted is None), f"a grant that fits was refused: {refused}"
        self.turn()

    def refusal(self, granted: Grant) -> errors.GrantRefused | None:
        try:
            self.run(self.gate.grant(granted))
        except errors.GrantRefused as refused:
            return refused
        return None

    def fits(self, granted: Grant) -> bool:
        """Return True when the grant names exactly what is so."""
        now = self.now
        return (
            granted.bookie_id == build.ME
            and granted.pod_uid == "pod-1"
            and granted.evidence_hash == now.evidence
            and granted.cookie_version == now.cookie_version
            and granted.new_incarnation == build.RECORD.incarnation + 1
            and granted.operator_epoch >= self.newest_epoch
            and granted.ttl_ms > 0
            and granted.operator_epoch >= 0
            and now.is_mounted
            and (now.verdict is Verdict.LOST or (now.waits and granted.accepts_stale))
        )

    def right_grant(self, **changes: Any) -> Grant:
        self.count += 1
        right = build.grant(
            grant_id=f"grant-{self.count}",
            evidence_hash=self.now.evidence,
            cookie_version=self.now.cookie_version,
            ttl_ms=TTL_MS,
            operator_epoch=max(1, self.newest_epoch),
            accepts_stale=self.now.verdict is Verdict.STALE,
        )
        return dataclasses.replace(right, **changes)

    @rule()
    def a_grant_that_fits(self) -> None:
        self.send(self.right_grant())

    @rule(
        changes=st.sampled_from(
            (
                {"pod_uid": "pod-0"},
                {"bookie_id": BookieId("bookie-1")},
                {"evidence_hash": "evidence-0"},
                {"cookie_version": 3},
                {"new_incarnation": Incarnation(3)},
                {"operator_epoch": -1},
                {"ttl_ms": 0},
                {"accepts_stale": False},
            )
        )
    )
    def a_grant_that_is_wrong_in_one_thing(self, changes: dict[str, Any]) -> None:
        self.send(self.right_grant(**changes))

    @rule(epoch=st.integers(1, 3))
    def an_operator_asks_for_something(self, epoch: int) -> None:
        try:
            self.gate.heed(epoch)
        except errors.GrantRefused:
            is_refused = True
        else:
            is_refused = False
        assert is_refused == (epoch < self.newest_epoch)
        self.newest_epoch = max(epoch, self.newest_epoch)

    @rule()
    def an_operator_that_was_replaced_sends_a_grant(self) -> None:
        self.send(self.right_grant(operator_epoch=self.newest_epoch - 1))

    @rule(accepts_stale=st.booleans())
    def a_grant_meets_volumes_that_went_back_in_time(self, accepts_stale: bool) -> None:
        """They do so after the last look of the boot, which waits for a grant for lost ones."""
        self.now = dataclasses.replace(self.now, verdict=Verdict.STALE, is_repairable=True)
        self.send(self.right_grant(accepts_stale=accepts_stale))

    @rule(
        evidence=st.sampled_from(EVIDENCE),
        verdict=st.sampled_from((Verdict.LOST, Verdict.FOREIGN)),
        passed_ms=st.sampled_from((0, TTL_MS)),
    )
    def things_change_between_acceptance_and_use(self, evidence: str, verdict: Verdict, passed_ms: int) -> None:
        """The boot, which is woken by the grant, looks once more before it goes on."""
        changed = dataclasses.replace(self.now, evidence=evidence, verdict=verdict)
        self.later = [(self.now, 0), (changed, passed_ms)]
        self.send(self.right_grant())
        self.later = []

    @precondition(lambda self: self.accepted is not None)
    @rule()
    def the_same_grant_again(self) -> None:
        assert self.accepted is not None
        self.send(self.accepted)

    @rule()
    def another_process_begins(self) -> None:
        self.stop()
        self.boot()

    # ---- what must hold ---------------------------------------------------------------------------------------------

    @invariant()
    def it_goes_on_by_a_grant_for_exactly_this(self) -> None:
        if not self.allowed.done():
            if self.phase.state is State.WAITING_GRANT:
                return
            assert self.phase.state is State.HELD
            return
        seen, grant_id = self.allowed.result()
        assert self.accepted is not None, "nobody allowed it"
        assert grant_id == self.accepted.grant_id
        assert seen.evidence_hash == self.accepted.evidence_hash
        assert self.now_ns < self.accepted_ns + self.accepted.ttl_ms * NS_PER_MS
        assert seen.decision.verdict is Verdict.LOST or (seen.decision.stale and self.accepted.accepts_stale)
        self.boot()


def test_in_any_order_a_boot_goes_on_only_by_a_grant_for_what_is_so() -> None:
    run_state_machine_as_test(GateMachine, settings=settings(max_examples=80, stateful_step_count=25, derandomize=True))
