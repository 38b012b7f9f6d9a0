"""What one pass could look at, and what not: no condition may claim more than this (docs/OPERATOR.md, Conditions)."""

from dataclasses import dataclass

from bookie_operator.evidence.facts import LOOK_AGE_MS_MAX
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.stages import Assessed, Stage
from bookie_operator.status import truth
from bookie_operator.status.truth import Truth


@dataclass(frozen=True, slots=True)
class Sight:
    """The counts that several conditions share."""

    desired: tuple[Assessed, ...]
    every: tuple[Assessed, ...]  # orphans too
    silent: tuple[Assessed, ...]  # a pod that runs and gives no report: it may serve, it may be held
    unlooked: tuple[Assessed, ...]  # of the desired ones: nobody saw their volumes lately
    living: int  # of the desired ones: may hold data
    writable: int
    dataless: tuple[Assessed, ...]
    away: tuple[Assessed, ...]  # presumed intact, and not there; without the silent ones
    held: tuple[Assessed, ...]
    metadata: bool | None  # reachable
    members_problem: str

    @classmethod
    def of(cls, plan: FleetPlan) -> "Sight":
        every = tuple(one for one in plan.fleet if one.stage is not Stage.RETIRED)
        desired = tuple(one for one in plan.fleet if one.case.is_desired and not one.case.is_leaving)
        silent = tuple(one for one in every if one.stage is Stage.UNREACHABLE)
        reached = [one.case.report.metadata_reachable for one in every if is_heard(one) and one.case.report]
        return cls(
            desired=desired,
            every=every,
            silent=silent,
            unlooked=tuple(one for one in desired if not is_looked_at(one)),
            living=sum(one.has_lived for one in desired),
            writable=sum(one.stage.is_writable for one in every),
            dataless=tuple(one for one in every if one.is_dataless),
            # Whose pod was taken by proof is not missed, though the gates count it to its end.
            away=tuple(one for one in every if _is_missed(plan, one) and one not in silent),
            held=tuple(one for one in every if one.stage is Stage.HELD),
            metadata=any(reached) if reached else None,
            members_problem=plan.observation.members_problem,
        )

    @property
    def is_blind(self) -> bool:
        """Return True when no bookie answered at all."""
        return len(self.unlooked) == len(self.desired)

    def blindness(self) -> str:
        """Return what this pass could not look at, and why; "" when it looked at everything."""
        if self.is_blind:
            return f"the operator saw none of {len(self.desired)} bookies: {_why(self.unlooked)}"
        if self.silent:
            return f"the operator did not see {len(self.silent)} of {len(self.every)} bookies: {_why(self.silent)}"
        if self.members_problem:
            return f"no bookie listed cookies and registrations, so some bookies may be unknown: {self.members_problem}"
        return ""


def unknown(kind: str, why: str) -> Truth:
    return Truth(kind, None, "NotSeen", why)


def _is_missed(plan: FleetPlan, one: Assessed) -> bool:
    """Return True when a bookie that does not serve ought to: the fleet does not sleep, and nobody took its pod."""
    return one.is_unavailable and one.case.name not in plan.hibernation.off and not _is_taken(one)


def _is_taken(one: Assessed) -> bool:
    return one.leaving is not None and one.leaving.is_proven and one.leaving.state.is_near_its_end


def is_heard(one: Assessed) -> bool:
    """Return True when the pod that runs now answered."""
    return bool(one.evidence.digest)


def is_looked_at(one: Assessed) -> bool:
    """Return True when the pod that runs now answered, and looked at its volumes lately."""
    report = one.case.report
    return is_heard(one) and report is not None and report.inspection_age_ms <= LOOK_AGE_MS_MAX


def _why(unseen: tuple[Assessed, ...]) -> str:
    return truth.listed(f"{one.case.name}: {one.message or one.reason}" for one in unseen)
