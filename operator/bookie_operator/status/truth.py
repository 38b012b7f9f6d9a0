"""One condition: True and False only for what was looked at, else Unknown, with the reason and how many."""

from collections.abc import Iterable
from dataclasses import dataclass

from bookie_operator.model.status import Condition

MESSAGE_MAX = 1024
_TOLD_MAX = 3  # of many, so that a message stays readable


@dataclass(frozen=True, slots=True)
class Truth:
    """One condition without its times. `is_true` None: it could not be looked at."""

    type: str
    is_true: bool | None
    reason: str
    message: str = ""

    @property
    def status(self) -> str:
        return {True: "True", False: "False", None: "Unknown"}[self.is_true]


def dated(truths: Iterable[Truth], before: tuple[Condition, ...], generation: int, now: str) -> tuple[Condition, ...]:
    """Return `truths` as metav1.Conditions: lastTransitionTime moves only when the status flips."""
    known = {condition.type: condition for condition in before}
    return tuple(
        Condition(
            type=truth.type,
            status=truth.status,
            reason=truth.reason,
            message=truth.message[:MESSAGE_MAX],
            last_transition_time=(
                known[truth.type].last_transition_time
                if truth.type in known and known[truth.type].status == truth.status
                else now
            ),
            observed_generation=generation,
        )
        for truth in truths
    )


def listed(sentences: Iterable[str]) -> str:
    """Return the first few of `sentences`, and how many more there are."""
    every = list(sentences)
    more = f"; and {len(every) - _TOLD_MAX} more" if len(every) > _TOLD_MAX else ""
    return "; ".join(every[:_TOLD_MAX]) + more
