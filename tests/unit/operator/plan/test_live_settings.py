"""Who is told a setting as it runs: nobody before the children say the same (spec/operator.md#Q17)."""

import copy
from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Member
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.status import BookieClusterStatus
from bookie_operator.plan import fleet

Children = dict[tuple[str, str], dict[str, Any]]
ALL = ["ledgers-zone-a-0", "ledgers-zone-a-1", "ledgers-zone-b-0", "ledgers-zone-c-0"]


def told(children: Children) -> list[str]:
    """Which bookies are told that another log level is in the spec."""

    def older(one: BookieCase) -> BookieCase:
        member = Member(one.bookie_id, has_cookie=True, is_registered=True, is_writable=True)
        assert one.report is not None
        return replace(one, member=member, report=replace(one.report, live_settings=("logLevel=of-before",)))

    status = BookieClusterStatus(observed_generation=1, instance_id="instance")
    seen = make.observation(tuple(older(one) for one in make.fleet()), status=status, children=children)
    return [one.bookie for one in fleet.decide(seen).settings]


def unread(children: Children) -> None:
    """The StatefulSet controller has not said which revision is the newest."""
    del children["StatefulSet", "ledgers-zone-c"]["status"]


def unlabelled(children: Children) -> None:
    """There is something to apply, of which no pod depends."""
    children["PodDisruptionBudget", "ledgers-bookies"]["metadata"]["labels"] = {}


def test_with_every_child_as_the_spec_says_all_are_told() -> None:
    assert told(make.rolled_out()) == ALL


@pytest.mark.parametrize("change", [unread, unlabelled])
def test_nobody_is_told_while_a_child_is_not_as_the_spec_says(change: Any) -> None:
    children = copy.deepcopy(make.rolled_out())
    change(children)

    assert told(children) == []
