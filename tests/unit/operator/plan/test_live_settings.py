"""Who is told a setting as it runs: nobody before the children say the same (spec/operator.md#Q17)."""

import copy
from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Member
from bookie_operator.evidence.facts import BookieCase, Door
from bookie_operator.model.status import BookieClusterStatus
from bookie_operator.plan import fleet, live_settings
from bookie_operator.plan.actions import ChangeSettings
from bookie_operator.plan.observation import Leadership, Observation

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


FIRST = ALL[0]
CLUSTER = {"config": {"logLevel": "DEBUG"}, "repair": {"stabilization": "6s", "copyRate": "8Mi"}}
# What the bookie can take; its release also lists one that this release of the operator does not know.
IN_FORCE = ("logLevel=INFO", "copyRateBytesPerSecond=8388608", "scrubRateBytesPerSecond=5", "newest=1")


def first(*in_force: str, **changes: Any) -> BookieCase:
    return make.bookie_case(report=make.report(live_settings=in_force), **changes)


def orders(case: BookieCase, spec: dict[str, Any] | None = None, **changes: Any) -> tuple[ChangeSettings, ...]:
    """What is to be sent to a fleet in which `case` stands for its first bookie."""
    seen: Observation = make.observation(make.fleet(case), spec_changes=CLUSTER | (spec or {}), **changes)
    return live_settings.orders(seen, fleet.decide(seen).fleet)


def test_what_is_in_force_otherwise_is_sent_and_what_nobody_asks_for_goes_back_to_its_default() -> None:
    door = Door("10.0.0.1:3184", "cluster-uid")

    assert orders(first(*IN_FORCE)) == (
        ChangeSettings(FIRST, door, (("logLevel", "DEBUG"), ("scrubRateBytesPerSecond", "")), 7),
    )
    assert orders(first("logLevel=DEBUG", "scrubRateBytesPerSecond=", "newest=1")) == ()
    assert orders(first()) == (), "a release that takes nothing as it runs"


def test_the_fields_a_bookie_takes_are_those_that_it_lists_and_this_release_knows() -> None:
    assert live_settings.takes(first(*IN_FORCE)) == {
        "spec.config.logLevel",
        "spec.repair.copyRate",
        "spec.config.scrubRateBytesPerSecond",
    }
    assert live_settings.takes(make.bookie_case(report=None)) == frozenset()


def test_a_bookie_is_told_what_its_own_pool_says() -> None:
    pools: list[dict[str, Any]] = [
        {"name": f"zone-{letter}", "zone": f"zone-{letter}", "replicas": 2 if letter == "a" else 1} for letter in "abc"
    ]
    pools[0]["config"] = {"logLevel": "WARN"}
    changes = {"pools": pools, "zones": None, "replicas": None}

    ((_, text),) = orders(first("logLevel=INFO"), changes)[0].settings

    assert text == "WARN"


@pytest.mark.parametrize(
    "changes",
    [
        {"spec": {"lifecycle": {"paused": True}}},
        {"spec": {"rollout": {"paused": True}}},
        {"leadership": Leadership("operator-1", 7, is_held=False)},
    ],
    ids=["paused", "the roll-out paused", "without the lease"],
)
def test_nobody_is_told_by_who_may_not_act(changes: dict[str, Any]) -> None:
    assert orders(first(*IN_FORCE), **changes) == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"is_ours": False},
        {"is_desired": False},
        {"pod": None},
        {"pod": make.pod(is_terminating=True)},
        {"pod": make.pod(has_certificates=False)},
        {"pod": make.pod(uid="pod-2")},  # the report is not of this pod
    ],
    ids=["another's", "not asked for", "no pod", "ending", "no TLS", "a pod made anew"],
)
def test_who_cannot_be_told_safely_is_not_told(changes: dict[str, Any]) -> None:
    assert orders(first(*IN_FORCE, **changes)) == ()
