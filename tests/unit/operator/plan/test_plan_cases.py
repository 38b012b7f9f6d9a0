"""What the operator's plan says for a small fleet, told as stories (`cases/*.txt`): four bookies that serve, at first.

    BOOKIE WORDS                 what is so from now on: see WORDS
    N s pass                     since the pass before; the status is what that pass wrote
    another operator             takes over, with the next epoch
    nobody writes what it says   the status stays what it was: the operator died before it was stored

Each step is one pass. The answer: who does not serve, at which stage, and how the gates count it; which gates hold a
grant back; what is sent, stopped, told.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import cases_support
import operator_support as make
from bookie.base.ids import BookieId
from bookie.ports.admin import Member, State, Verdict
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.status import BookieClusterStatus, BookieStatus
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet
from bookie_operator.plan.stages import Stage
from bookie_operator.status import render

SPEC = {"rollout": {"strategy": "Automatic", "soakSeconds": 10}}
LONG_AGO_MS = make.NOW_MS - 3_600_000


def serving(case: BookieCase) -> BookieCase:
    assert case.pod is not None
    assert case.report is not None
    pod = replace(case.pod, ready_since_ms=LONG_AGO_MS, created_ms=LONG_AGO_MS, resource_version="5")
    member = Member(case.bookie_id, has_cookie=True, is_registered=True, is_writable=True)
    return replace(case, pod=pod, member=member)


def lost(case: BookieCase, pod_uid: str = "pod-new") -> BookieCase:
    """Its claims were deleted and made anew; its bookie waits for a grant."""
    assert case.pod is not None
    assert case.report is not None
    volumes = tuple(make.replaced(one) for one in case.volumes)
    report = replace(
        case.report,
        bookie_id=BookieId(case.bookie_id),
        pod_uid=pod_uid,
        state=State.WAITING_GRANT,
        verdict=Verdict.LOST,
        reason="all volumes are empty under an existing cookie",
        volumes=tuple(one.report for one in volumes if one.report is not None),
    )
    pod = replace(case.pod, uid=pod_uid, is_ready=False, created_ms=make.NOW_MS - 1_000, ready_since_ms=None)
    member = Member(case.bookie_id, has_cookie=True, is_registered=False)
    return replace(case, volumes=volumes, pod=pod, report=report, member=member)


def silent(case: BookieCase) -> BookieCase:
    return replace(case, report=None, report_problem="no answer")


def without_pod(case: BookieCase) -> BookieCase:
    member = Member(case.bookie_id, has_cookie=True, is_registered=False)
    return replace(case, pod=None, report=None, member=member)


def older(case: BookieCase) -> BookieCase:
    assert case.pod is not None
    return replace(case, pod=replace(case.pod, revision="rev-0", inputs="v1-older"))


def before(case: BookieCase) -> BookieStatus:
    """What the status remembers: it serves for an hour, and every process that was before is known to have ended."""
    return BookieStatus(
        name=case.name,
        bookie_id=case.bookie_id,
        pool=case.pool,
        state="Serving",
        verdict="Healthy",
        reason="Serving",
        since=format_time(LONG_AGO_MS),
        incarnation=1,
        has_lived=True,
        processes=(),
    )


WORDS: dict[str, Callable[[BookieCase], BookieCase]] = {
    "serves": lambda case: case,
    "lost its volumes": lost,
    "has another pod, and still lacks them": lambda case: lost(case, "pod-newer"),
    "is silent": silent,
    "has no pod": without_pod,
    "runs an older template": older,
}


class Teller:
    """The passes of one operator after the other, each over what the cluster looks like by then."""

    def __init__(self) -> None:
        self.healthy = {case.name.removeprefix("ledgers-"): serving(case) for case in make.fleet()}
        self.cases = dict(self.healthy)
        known = tuple(before(case) for case in self.healthy.values())
        self.status = BookieClusterStatus(observed_generation=1, instance_id="instance", bookies=known)
        self.now_ms, self.epoch = make.NOW_MS, 7
        self.given: list[str] = []  # grants that some status recorded

    def tell(self, words: Sequence[str]) -> list[str]:
        is_stored = True
        for line in words:
            if match := re.fullmatch(r"(\d+) s pass", line):
                self.now_ms += int(match[1]) * 1000
            elif line == "another operator":
                self.epoch += 1
            elif line == "nobody writes what it says":
                is_stored = False
            else:
                name, word = line.split(" ", 1)
                self.cases[name] = WORDS[word](self.healthy[name])
        plan = fleet.decide(
            make.observation(
                tuple(self.cases.values()),
                status=self.status,
                now_ms=self.now_ms,
                epoch=self.epoch,
                spec_changes=SPEC,
                children=make.rolled_out(**SPEC),
            )
        )
        answer = [line.replace("ledgers-zone", "zone") for line in told(plan, self.given)] or ["all is well"]
        if is_stored:
            self.status = render.render(plan)
            self.given += [send.grant.id for send in plan.sends]
        return answer


def told(plan: fleet.FleetPlan, given: Sequence[str]) -> Iterator[str]:
    for one in plan.fleet:
        if one.stage is not Stage.SERVING:
            seen = f" {one.suspicion.observations}" if one.suspicion is not None else ""
            counted = f", counts as {one.counted}" if one.counted else ""
            held = f" ({one.message})" if one.stage is Stage.HELD else ""
            yield f"{one.case.name}: {one.stage.value}{seen}{counted}{held}"
    for name, gates in plan.closed.items():
        for gate in gates:
            yield f"{name} gets no grant: {gate.name}: {gate.message}"
    for send in plan.sends:
        kind = "the same" if send.grant.id in given else "a new"
        yield f"{kind} grant to {send.bookie}: incarnation {send.grant.new_incarnation}, epoch {send.grant.epoch}"
    if plan.rollout.action is not None:
        yield f"{plan.rollout.action}"
    elif plan.rollout.waiting:
        yield f"roll-out waits: {plan.rollout.why or plan.rollout.halted}"


@pytest.mark.parametrize("path", cases_support.stories(Path(__file__).parent / "cases"), ids=lambda path: path.stem)
def test_the_plan_for_a_small_fleet_is_as_it_is_told(path: Path) -> None:
    cases_support.check(path, Teller().tell)
