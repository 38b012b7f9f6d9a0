"""The stages of one bookie, in any order of looks, facts that change, silence, grants, and a status that is lost
(spec/operator.md#K10).

The model keeps every look with what was seen. A loss is confirmed by looks of one uninterrupted evidence alone: the
first, one after half of the stabilization time, one after all of it. A grant counts for its evidence, its pod and its
time alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

import operator_support as make
from bookie.ports.admin import State, Verdict
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.status import BookieStatus, GrantRecord
from bookie_operator.model.values import format_time
from bookie_operator.plan import stages
from bookie_operator.plan.stages import Assessed, Stage

STABILIZATION_MS = 6_000
HALF_MS = STABILIZATION_MS // 2
TTL_MS = 20_000
LOSS = (Stage.SUSPECTED, Stage.CONFIRMED, Stage.GRANTED)


@dataclass(frozen=True)
class Facts:
    """What a look would see. `kind`: "lost", "silent", "whole", or what a bookie does after its grant."""

    kind: str
    pod_uid: str = "pod-2"
    cookie_version: int = 0

    def case(self) -> BookieCase:
        lost = make.lost_case(pod_uid=self.pod_uid, cookie_version=self.cookie_version)
        lost = replace(lost, pod=make.pod(uid=self.pod_uid, is_ready=False))
        assert lost.report is not None
        match self.kind:
            case "lost":
                return lost
            case "silent":
                return replace(lost, report=None)
            case "whole":
                return make.bookie_case()
        at_work = {"fencing": State.FENCING, "repairing": State.REPAIRING}[self.kind]
        return replace(lost, report=replace(lost.report, state=at_work, verdict=Verdict.LOST))


class StageMachine(RuleBasedStateMachine):
    """One bookie, and an operator whose status says what its last look concluded."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = make.NOW_MS
        self.facts = Facts("lost")
        self.previous: BookieStatus | None = None
        self.alike_ms: list[int] = []  # looks at the present loss since anything else was seen, or the status was lost
        self.seen: Facts | None = None  # by the last of them
        self.granted: tuple[Facts, int] | None = None  # for which facts, until when
        self.last: Assessed | None = None

    # ---- what happens -----------------------------------------------------------------------------------------------

    @rule(pod_uid=st.sampled_from(("pod-2", "pod-3")), cookie_version=st.sampled_from((0, 1)))
    def the_loss_is_another_one(self, pod_uid: str, cookie_version: int) -> None:
        self.facts = Facts("lost", pod_uid, cookie_version)

    @rule(kind=st.sampled_from(("silent", "whole", "lost", "lost")))
    def it_is_seen_otherwise(self, kind: str) -> None:
        self.facts = replace(self.facts, kind=kind)

    @precondition(lambda self: self.facts.kind == "lost" and self.granted is not None)
    @rule(kind=st.sampled_from(("fencing", "repairing")))
    def the_bookie_takes_its_grant(self, kind: str) -> None:
        self.facts = replace(self.facts, kind=kind)

    @precondition(lambda self: self.granted is not None)
    @rule()
    def the_cookie_changes_behind_the_grant(self) -> None:
        self.facts = replace(self.facts, kind="lost", cookie_version=1 - self.facts.cookie_version)
        self.look(500)

    @rule()
    def the_status_is_lost(self) -> None:
        self.previous, self.alike_ms, self.granted = None, [], None

    @precondition(lambda self: self.last is not None and self.last.stage is Stage.CONFIRMED)
    @rule()
    def a_grant_is_recorded(self) -> None:
        """By the pass that came to this conclusion: with its look's evidence."""
        assert self.last is not None
        assert self.seen is not None
        if self.previous is None:
            return
        end_ms = (self.now_ms + TTL_MS) // 1_000 * 1_000  # the record has whole seconds
        grant = GrantRecord(
            id="grant",
            bookie_id=self.last.case.bookie_id,
            pod_uid=self.seen.pod_uid,
            evidence=self.last.evidence.digest,
            report_evidence="report-hash",
            cookie_version=self.seen.cookie_version,
            new_incarnation=2,
            profile="LostVolume",
            epoch=1,
            issued_at=format_time(self.now_ms),
            expires_at=format_time(end_ms),
            issued_by="operator-1",
        )
        self.previous = self.previous.model_copy(update={"grant": grant})
        self.granted = self.seen, end_ms

    # ---- looks ------------------------------------------------------------------------------------------------------

    @rule(after_ms=st.sampled_from((0, 500, 1_000, HALF_MS - 1, HALF_MS, STABILIZATION_MS, 25_000)))
    def look(self, after_ms: int) -> None:
        self.now_ms += after_ms
        case = self.facts.case()
        found = stages.assess(case, self.previous, now_ms=self.now_ms, stabilization_ms=STABILIZATION_MS)
        self._judge(found)
        self.last = found
        self.previous = BookieStatus(
            name=case.name,
            bookie_id=case.bookie_id,
            pool=case.pool,
            state=found.stage.value,
            verdict=found.evidence.conclusion.value,
            reason=found.reason,
            since=format_time(self.now_ms),
            incarnation=found.incarnation,
            suspicion=found.suspicion,
            grant=found.grant,
        )
        if found.grant is None:
            self.granted = None

    @rule()
    def it_stays_so(self) -> None:
        for _ in range(3):
            self.look(HALF_MS)

    def _judge(self, found: Assessed) -> None:
        if self.facts.kind != "lost" or self.facts != self.seen:
            self.alike_ms = []
        self.seen = self.facts
        if self.facts.kind != "lost":
            assert found.stage not in LOSS, found.stage
            assert found.suspicion is None
            return
        self.alike_ms.append(self.now_ms)
        assert found.has_loss, "the gates count it, also before it is sure"
        if self._is_granted():
            assert found.stage in (Stage.GRANTED, Stage.SUSPECTED)
            assert found.grant is not None
        else:
            assert found.grant is None, "a grant for other facts, another pod or another time is void"
            assert found.stage is not Stage.GRANTED
        sure = Stage.GRANTED if self._is_granted() else Stage.CONFIRMED
        assert found.stage is (sure if self._is_confirmed() else Stage.SUSPECTED)

    def _is_granted(self) -> bool:
        return self.granted is not None and self.granted[0] == self.facts and self.now_ms < self.granted[1]

    def _is_confirmed(self) -> bool:
        """One look after half of the time, and one behind it after all of it."""
        begin_ms = self.alike_ms[0]
        later = [at_ms for at_ms in self.alike_ms[1:] if at_ms >= begin_ms + HALF_MS]
        return any(at_ms >= begin_ms + STABILIZATION_MS for at_ms in later[1:])


def test_the_stages_of_a_bookie_in_any_order_of_looks_and_facts() -> None:
    run_state_machine_as_test(
        StageMachine, settings=settings(max_examples=100, stateful_step_count=30, derandomize=True)
    )
