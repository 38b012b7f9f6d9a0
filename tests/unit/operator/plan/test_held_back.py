"""What a pass still does when a part of the protection could not be put in place: nothing that rests on it."""

import operator
from dataclasses import fields, replace
from typing import Any

import pytest

import operator_support as make
from bookie_operator.plan import fleet
from bookie_operator.plan.children import Obstacle
from bookie_operator.plan.fleet import FleetPlan

REFUSED = Obstacle("ApplyRefused", "the budget did not last")
# What is done after `actions`, by field, and where its steps are.
DONE_LATER = {
    "sends": "sends",
    "expansion": "expansion.actions",
    "lost_nodes": "lost_nodes.actions",
    "eviction": "eviction.action",
    "rollout": "rollout.action",
    "asides": "asides",
    "cookies": "cookies",
    "losses": "losses",
    "fills": "fills",
    "settings": "settings",
    "leaving": "leaving.steps",
    "hibernation": "hibernation.action",
}
# What is seen or told, and what was tried already.
OTHERS = {
    "observation",
    "fleet",
    "closed",
    "actions",
    "operations",
    "deletion",
    "rebuild",
    "taken_back",
    "obstacles",
    "withheld",
    "metadata",
    "max_unavailable",
    "requeue_ms",
}


def full() -> FleetPlan:
    """A plan with something in each field of what is done later."""
    plan = fleet.decide(make.observation(make.fleet()))
    step: Any = object()
    for field, path in DONE_LATER.items():
        _, _, name = path.partition(".")
        filled = step if name == "action" else (step,)
        plan = replace(plan, **{field: replace(getattr(plan, field), **{name: filled}) if name else filled})
    return plan


@pytest.mark.parametrize("field", sorted(DONE_LATER))
def test_nothing_is_done_that_needs_what_could_not_be_done(field: str) -> None:
    steps = operator.attrgetter(DONE_LATER[field])
    assert steps(full())

    assert not steps(fleet.held_back(full(), [REFUSED]))


def test_what_could_not_be_done_is_told_beside_what_was_known() -> None:
    known = Obstacle("Known", "before")

    held = fleet.held_back(replace(full(), obstacles=(known,)), [REFUSED])

    assert held.obstacles == (known, REFUSED)


def test_every_field_of_a_plan_is_held_back_or_is_no_step() -> None:
    assert set(DONE_LATER) | OTHERS == {field.name for field in fields(FleetPlan)}
    assert not set(DONE_LATER) & OTHERS
