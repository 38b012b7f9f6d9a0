"""So many clusters at a time: who asks, who has the turn, who comes first (spec/operator.md#H4)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Member
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model import names
from bookie_operator.model.status import BookieClusterStatus, FailedRollout, RolloutStatus, RolloutStep
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet, staggering
from bookie_operator.plan.actions import StopBookie
from bookie_operator.plan.observation import Contender, Observation
from bookie_operator.status import render

FIRST = "ledgers-zone-a-0"
SINCE = "2027-01-15T07:00:00Z"
HOUR_MS = 3_600_000
STEP = RolloutStep(bookie="zoo-a-0", pod_uid="pod-1", begun_at=SINCE)


def bookies() -> tuple[BookieCase, ...]:
    """The first is of an older revision; all serve."""
    found = []
    for number, one in enumerate(make.fleet()):
        assert one.pod is not None
        older = {"revision": "rev-0"} if number == 0 else {}
        pod = replace(one.pod, ready_since_ms=make.NOW_MS - HOUR_MS, inputs="v1-older", resource_version="5", **older)
        member = Member(one.bookie_id, has_cookie=True, is_registered=True, is_writable=True)
        found.append(replace(one, pod=pod, member=member))
    return tuple(found)


def rollout(**known: Any) -> RolloutStatus:
    return RolloutStatus(inputs="new", desired=4, updated=3, next=FIRST, **known)


def seen(*others: Contender, most: int = 1, known: RolloutStatus | None = None, **spec: Any) -> Observation:
    wanted = {"rollout": {"strategy": "Automatic"} | spec}
    asked = rollout(asks_for_turn=True) if known is None else known
    status = BookieClusterStatus(observed_generation=1, instance_id="instance", rollout=asked)
    children = make.rolled_out(**wanted)
    found = make.observation(bookies(), status=status, spec_changes=wanted, children=children)
    return replace(found, others=others, rolling_max=most)


def stopped(situation: Observation) -> str:
    action = fleet.decide(situation).rollout.action
    return action.bookie if isinstance(action, StopBookie) else ""


def other(name: str, *, since: str = "", **known: Any) -> Contender:
    return Contender("data", name, since=since, **known)


@pytest.mark.parametrize(
    ("situation", "wanted"),
    [
        (seen(other("a", since=SINCE), most=0), FIRST),  # any number
        (seen(), FIRST),
        (seen(other("zoo")), FIRST),  # asks too, and comes after `ledgers`
        (seen(other("a")), ""),
        (seen(other("zoo", is_canary=True)), ""),
        (seen(other("zoo", since=SINCE)), ""),
        (seen(other("zoo", since=SINCE), most=2), FIRST),
        (seen(other("zoo", since=SINCE), other("a"), most=2), ""),
        (seen(other("zoo", since=SINCE), known=rollout(turn_since=SINCE)), FIRST),  # it has its turn already
        (seen(known=rollout()), ""),  # it has to ask first
    ],
)
def test_so_many_clusters_at_a_time_have_a_turn(situation: Observation, wanted: str) -> None:
    assert stopped(situation) == wanted


def test_a_cluster_that_is_labelled_comes_before_every_name() -> None:
    situation = seen(other("a"))

    labelled = replace(situation, cluster=replace(situation.cluster, is_canary=True))

    assert (stopped(situation), stopped(labelled)) == ("", FIRST)


def test_who_waits_says_for_whom_and_in_whose_words() -> None:
    halted = other("zoo", since=SINCE, waits_for="zoo-a-0: ImagePullBackOff")

    status = fleet.decide(seen(halted)).rollout.status

    assert status.asks_for_turn
    assert status.waiting_for == (
        "1 clusters at a time roll out, and others come first: data/zoo has its turn since 2027-01-15T07:00:00Z, and"
        " waits for: zoo-a-0: ImagePullBackOff"
    )


def test_who_has_the_turn_is_named_before_who_only_asks_and_no_more_are_named_than_matter() -> None:
    asks, has_turn = other("a"), other("zoo", since=SINCE)
    first = "1 clusters at a time roll out, and others come first: data/zoo has its turn since 2027-01-15T07:00:00Z"

    assert staggering.closed(seen(asks, has_turn)) == first
    assert staggering.closed(seen(asks, has_turn, most=2)) == (
        "2 clusters at a time roll out, and others come first: data/zoo has its turn since 2027-01-15T07:00:00Z;"
        " data/a asks too"
    )


def test_a_cluster_of_whose_roll_out_nothing_is_stored_has_to_ask_first() -> None:
    situation = seen()
    status = situation.cluster.status.model_copy(update={"rollout": None})
    new = replace(situation, cluster=replace(situation.cluster, status=status))

    assert staggering.closed(new) == "it asks for the turn among the clusters of this operator"
    assert staggering.remembered(new, rollout(step=STEP), is_going_on=True).turn_since == format_time(make.NOW_MS)
    assert staggering.remembered(new, rollout(), is_going_on=True).turn_since is None


def test_who_cannot_list_the_others_stops_nobody() -> None:
    assert stopped(replace(seen(), others_problem="forbidden")) == ""


def test_a_turn_is_stored_with_the_first_step_and_ends_with_the_last_bookie() -> None:
    assert fleet.decide(seen()).rollout.status.turn_since is not None
    assert fleet.decide(seen(known=rollout(turn_since=SINCE))).rollout.status.turn_since == SINCE
    done = replace(seen(known=rollout(turn_since=SINCE)), bookies=tuple(current(one) for one in bookies()))
    assert fleet.decide(done).rollout.status.turn_since is None
    assert fleet.decide(seen(known=rollout(turn_since=SINCE), paused=True)).rollout.status.turn_since is None
    assert fleet.decide(seen(most=0)).rollout.status.turn_since is None


def test_a_cluster_that_went_back_keeps_its_turn_or_the_next_one_would_fail_of_the_same_edit() -> None:
    failed = FailedRollout(inputs="new", message="zoo-a-0: ImagePullBackOff", at=SINCE)
    situation = seen(known=rollout(turn_since=SINCE))
    back = rollout(failed=failed)

    assert staggering.remembered(situation, back, is_going_on=False).turn_since == SINCE
    assert staggering.remembered(situation, rollout(), is_going_on=False).turn_since is None
    status = BookieClusterStatus(rollout=rollout(turn_since=SINCE, failed=failed)).dump()
    (told,) = staggering.contenders([{"metadata": {"name": "zoo"}, "status": status}])
    assert (told.since, told.waits_for) == (SINCE, failed.message)


def test_a_turn_is_kept_between_two_bookies_and_given_on_by_who_rests() -> None:
    has_turn = seen(known=rollout(turn_since=SINCE))
    asks = seen()

    def kept(situation: Observation, **status: Any) -> str | None:
        return staggering.remembered(situation, rollout(**status), is_going_on=True).turn_since

    assert kept(has_turn) == SINCE
    assert kept(asks) is None, "it has not begun"
    assert kept(has_turn, window_opens_at=SINCE) is None
    assert kept(seen(known=rollout(turn_since=SINCE), paused=True)) is None
    stopped_by_hand = replace(has_turn, cluster=make.cluster(has_turn.cluster.status, lifecycle={"paused": True}))
    assert kept(stopped_by_hand) is None
    waiting = staggering.remembered(has_turn, rollout(), is_going_on=True, is_waiting=True)
    assert waiting.turn_since is None


@pytest.mark.parametrize("step", [{"step": STEP}, {}], ids=["a pod", "a bookie that drains"])
def test_a_turn_begins_with_the_first_bookie_and_outlasts_a_pause_in_the_middle_of_it(step: dict[str, Any]) -> None:
    is_begun = not step
    new = staggering.remembered(seen(), rollout(**step), is_going_on=True, is_begun=is_begun)
    paused = seen(known=rollout(turn_since=SINCE), paused=True)

    assert new.turn_since == format_time(make.NOW_MS)
    assert staggering.remembered(paused, rollout(**step), is_going_on=True, is_begun=is_begun).turn_since == SINCE


def current(one: BookieCase) -> BookieCase:
    assert one.pod is not None
    return replace(one, pod=replace(one.pod, revision="rev-1"))


def test_nobody_waits_for_a_cluster_that_waits_itself() -> None:
    """Its own gate is closed: it neither asks nor takes the turn."""
    first, *rest = bookies()
    assert first.report is not None
    unable = replace(first, report=replace(first.report, metadata_reachable=False))

    status = fleet.decide(replace(seen(), bookies=(unable, *rest))).rollout.status

    assert (status.asks_for_turn, status.turn_since) == (False, None)


@pytest.mark.parametrize(
    ("known", "spec", "wanted"),
    [
        (None, {}, None),
        (rollout(), {}, None),
        (rollout(asks_for_turn=True), {}, ""),
        (rollout(asks_for_turn=True), {"rollout": {"paused": True}}, None),
        (rollout(turn_since=SINCE), {}, SINCE),
        (rollout(turn_since=SINCE), {"rollout": {"paused": True}}, None),
        (rollout(turn_since=SINCE), {"rollout": {"strategy": "Manual"}}, None),
        (rollout(turn_since=SINCE), {"lifecycle": {"paused": True}}, None),
        (rollout(step=STEP), {"rollout": {"paused": True}}, SINCE),  # a bookie is stopped already
    ],
)
def test_what_a_stored_status_says_of_a_cluster(
    known: RolloutStatus | None, spec: dict[str, Any], wanted: str | None
) -> None:
    status = BookieClusterStatus(rollout=known).dump()
    manifest = {"metadata": {"namespace": "data", "name": "zoo"}, "spec": spec, "status": status}

    (found,) = staggering.contenders([manifest]) or (None,)

    assert (found.since if found is not None else None) == wanted
    gone = manifest | {"metadata": {"name": "zoo", "deletionTimestamp": SINCE}}
    assert staggering.contenders([gone]) == ()


@pytest.mark.parametrize(
    ("labels", "is_canary"), [(None, False), ({names.LABEL_CANARY: "true"}, True), ({names.LABEL_CANARY: "no"}, False)]
)
def test_others_are_known_by_namespace_and_name_and_canaries_by_their_label(
    labels: dict[str, str] | None, is_canary: bool
) -> None:
    status = BookieClusterStatus(rollout=rollout(asks_for_turn=True, waiting_for="soaking")).dump()
    metadata = {"namespace": "data", "name": "zoo", "labels": labels}

    (told,) = staggering.contenders([{"metadata": metadata, "spec": {}, "status": status}])

    assert told == Contender("data", "zoo", is_canary=is_canary, waits_for="soaking")
    status = BookieClusterStatus(rollout=rollout(asks_for_turn=True)).dump()
    (told,) = staggering.contenders([{"metadata": {"name": "zoo"}, "status": status}])
    assert told == Contender("", "zoo")


def test_nobody_waits_for_a_cluster_whose_spec_is_refused() -> None:
    """It asked before, and whoever comes after it by name said "it asks too" for ever."""
    before = BookieClusterStatus(observed_generation=1, rollout=rollout(asks_for_turn=True))
    refused = render.refused(before, 2, "spec.pools is wrong", make.NOW_MS, "SpecInvalid").dump()

    assert (
        staggering.contenders([{"metadata": {"namespace": "data", "name": "zoo"}, "spec": {}, "status": refused}]) == ()
    )
