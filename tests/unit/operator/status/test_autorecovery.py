"""status.autorecovery: whether it runs, since when, and who is told."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie_operator import observe
from bookie_operator.model import names, values
from bookie_operator.model.status import AutoRecoveryStatus, BookieClusterStatus
from bookie_operator.plan import fleet
from bookie_operator.status import autorecovery, render, warnings

NAME = "ledgers-autorecovery"
ON = {"enabled": True, "replicas": 2}
MINUTE_MS = 60_000


def found(
    ready: int | None,
    *,
    before: BookieClusterStatus | None = None,
    after_ms: int = 0,
    said: str = "",
    **spec: Any,
) -> BookieClusterStatus:
    """The status while so many pods are ready; None: the Deployment is away."""
    spec = {"autorecovery": ON} | spec
    children = make.rolled_out(**spec)
    if ready is None:
        del children[("Deployment", NAME)]
    else:
        children[("Deployment", NAME)]["status"] = {"readyReplicas": ready} if ready else {}
    seen = make.observation(status=before, spec_changes=spec, children=children, now_ms=make.NOW_MS + after_ms)
    return render.render(fleet.decide(replace(seen, said={f"Deployment {NAME}": said} if said else {})))


def told(status: BookieClusterStatus, after_ms: int) -> list[str]:
    every = warnings.standing(status, make.NOW_MS + after_ms)
    return [one.message for one in every if one.reason == "AutoRecoveryDown"]


def of(status: BookieClusterStatus) -> AutoRecoveryStatus:
    assert status.autorecovery is not None
    return status.autorecovery


def test_nothing_is_said_where_nothing_is_asked_for() -> None:
    assert autorecovery.status(fleet.decide(make.observation())) is None


@pytest.mark.parametrize(("seen", "ready"), [(None, 0), (0, 0), (1, 1), (2, 2), (3, 2)])
def test_ready_pods_are_counted_and_never_more_than_it_keeps(seen: int | None, ready: int) -> None:
    status = of(found(seen))

    assert (status.desired, status.ready) == (2, ready)


def test_since_is_the_moment_when_the_last_one_was_ready_or_the_first_one_was_not() -> None:
    first = found(2)
    later = found(2, before=first, after_ms=MINUTE_MS)
    one_away = found(1, before=later, after_ms=2 * MINUTE_MS)
    both_away = found(0, before=one_away, after_ms=3 * MINUTE_MS)
    back = found(2, before=both_away, after_ms=4 * MINUTE_MS)

    times = [of(one).since for one in (first, later, one_away, both_away, back)]

    assert [values.parse_time(one) - make.NOW_MS for one in times] == [0, 0, *[2 * MINUTE_MS] * 2, 4 * MINUTE_MS]


def test_after_ten_minutes_a_warning_says_what_kubernetes_says() -> None:
    away = found(1, said="ImagePullBackOff: no such image")

    assert of(away).message == "ImagePullBackOff: no such image"
    assert told(away, 9 * MINUTE_MS) == [], "a new image takes its time"
    (text,) = told(away, 10 * MINUTE_MS)
    assert "1 of 2" in text
    assert "no such image" in text
    assert told(found(2, said="ImagePullBackOff: of a pod too many"), 60 * MINUTE_MS) == []


def test_of_a_fleet_that_sleeps_none_is_missed() -> None:
    asleep = found(0, lifecycle={"hibernate": True})

    assert (of(asleep).desired, told(asleep, 60 * MINUTE_MS)) == (0, [])


def test_the_words_are_those_of_its_pods_and_of_their_controller() -> None:
    labels = {names.LABEL_COMPONENT: names.COMPONENT_AUTORECOVERY}
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    pod = {
        "metadata": {"name": f"{NAME}-x-y", "uid": "u", "labels": labels, "creationTimestamp": "2026-11-23T00:00:00Z"},
        "spec": {"containers": [{"name": "autorecovery"}]},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "autorecovery", "ready": False} | waiting]},
    }
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}
    live = {"status": {"conditions": [{"type": "Available", "status": "False"}, failure]}}

    words = observe._said([pod], {("Deployment", NAME): live})

    assert set(words) == {f"Deployment {NAME}"}
    for part in ("FailedCreate: exceeded quota", "ImagePullBackOff", "no such image"):
        assert part in words[f"Deployment {NAME}"]
    assert observe._said([], {("Deployment", NAME): {"status": {}}}) == {}
