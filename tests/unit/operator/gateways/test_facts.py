"""From Kubernetes objects to facts; what cannot be read is absent, and a mangled mark still says "initialised"."""

from typing import Any

import pytest

from bookie_operator.gateways import facts
from bookie_operator.model import names


def pod(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "p",
            "uid": "u",
            "creationTimestamp": "2027-01-15T08:00:00Z",
            "labels": {"controller-revision-hash": "rev-1"},
        },
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running", "podIP": "10.0.0.1", **status},
    }


def test_a_running_pod() -> None:
    found = facts.pod(pod(conditions=[{"type": "Ready", "status": "True"}]))

    assert (found.name, found.uid, found.node, found.ip, found.revision) == ("p", "u", "n", "10.0.0.1", "rev-1")
    assert (found.is_ready, found.is_terminating, found.problem) == (True, False, "")
    assert found.created_ms == 1_800_000_000_000


ENDED, RUNS = {"state": {"terminated": {"exitCode": 0}}}, {"state": {"running": {}}}


@pytest.mark.parametrize(
    ("status", "has_ended"),
    [
        ({"phase": "Succeeded", "containerStatuses": [ENDED]}, True),
        ({"phase": "Failed", "containerStatuses": [ENDED, ENDED]}, True),
        ({"phase": "Failed", "containerStatuses": [ENDED, RUNS]}, False),
        ({"phase": "Failed", "containerStatuses": [{}]}, False),
        ({"phase": "Failed", "containerStatuses": []}, False),
        ({"phase": "Failed"}, False),
        ({"phase": "Running", "containerStatuses": [ENDED]}, False),
        ({"phase": "Unknown", "containerStatuses": [ENDED]}, False),
    ],
)
def test_a_pod_has_ended_only_by_its_kubelets_word_about_every_container(
    status: dict[str, Any], *, has_ended: bool
) -> None:
    """Decision 0017: what a phase alone says may be another controller's word."""
    assert facts.pod(pod(**status)).has_ended is has_ended


@pytest.mark.parametrize(
    ("ready", "is_ready"),
    [
        ({"status": "True", "lastTransitionTime": "2027-01-15T08:00:00Z"}, True),
        ({"status": "True"}, False),
        ({"status": "True", "lastTransitionTime": "0000-01-01T00:00:00Z"}, False),  # what Go can say, and Python not
        ({"status": "Unknown", "lastTransitionTime": "2027-01-15T08:00:00Z"}, False),
        ({"status": "False", "lastTransitionTime": "2027-01-15T08:00:00Z"}, False),
    ],
    ids=["ready", "nobody knows since when", "nobody can read since when", "its kubelet is not heard", "not ready"],
)
def test_a_node_is_ready_only_by_the_word_of_its_kubelet(ready: dict[str, Any], *, is_ready: bool) -> None:
    """A node that is ready for long proves that an older pod's process ended."""
    manifest = {"metadata": {"name": "n", "uid": "machine"}, "status": {"conditions": [{"type": "Ready", **ready}]}}

    assert facts.node(manifest).is_ready is is_ready


@pytest.mark.parametrize("since", [{}, {"lastTransitionTime": "nonsense"}, {"lastTransitionTime": None}])
def test_since_when_a_pod_is_ready_is_not_known_where_nobody_can_read_it(since: dict[str, Any]) -> None:
    found = facts.pod(pod(conditions=[{"type": "Ready", "status": "True", **since}]))

    assert (found.is_ready, found.ready_since_ms) == (True, None)


def test_what_the_scheduler_says_is_the_problem() -> None:
    found = facts.pod(
        pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}])
    )

    assert found.problem == "Unschedulable: 0/3 nodes"


def waiting(reason: str, **container: Any) -> dict[str, Any]:
    return pod(containerStatuses=[{"state": {"waiting": {"reason": reason, "message": "m"}}, **container}])


def test_what_the_kubelet_says_is_the_problem() -> None:
    assert facts.pod(waiting("ImagePullBackOff")).problem == "ImagePullBackOff: m"
    crashed = waiting("CrashLoopBackOff", lastState={"terminated": {"exitCode": 3}})
    assert facts.pod(crashed).problem == "CrashLoopBackOff: m (last exit code 3)"
    assert facts.pod(waiting("ContainerCreating")).problem == ""


def test_whether_the_bookie_runs_is_told_by_its_own_container() -> None:
    crashed, running = {"waiting": {"reason": "CrashLoopBackOff"}}, {"running": {}}

    def found(bookie: dict[str, Any], sidecar: dict[str, Any]) -> bool:
        statuses = [{"name": "proxy", "state": sidecar}, {"name": names.CONTAINER, "state": bookie}]
        return facts.pod(pod(containerStatuses=statuses)).is_bookie_running

    assert found(running, crashed)
    assert not found(crashed, running)
    assert not facts.pod(pod()).is_bookie_running


def test_the_last_words_of_a_container_that_crashes_are_kept() -> None:
    words = {"terminated": {"exitCode": 1, "message": "Traceback\n ValueError: no such host zookeeper\n"}}

    crashed = facts.pod(waiting("CrashLoopBackOff", lastState=words))
    between = facts.pod(pod(containerStatuses=[{"state": words}]))
    evicted = facts.pod(pod(phase="Failed", reason="Evicted", message="the node was low on memory"))

    assert crashed.problem.endswith("(last exit code 1: Traceback ValueError: no such host zookeeper)")
    assert "no such host zookeeper" in between.problem
    assert evicted.problem == "Evicted: the node was low on memory"


def test_what_the_job_controller_says_of_its_job_is_kept() -> None:
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "30 times"}

    assert facts.job_problem({"status": {"conditions": [failed]}}) == "BackoffLimitExceeded: 30 times"
    assert facts.job_problem({"status": {}}) == ""


def test_a_pod_of_nothing_is_pending() -> None:
    found = facts.pod({"metadata": {"name": "p", "uid": "u", "deletionTimestamp": "2027-01-15T08:00:00Z"}})

    assert (found.phase, found.is_terminating, found.created_ms) == ("Pending", True, 0)
    assert found.finalizers == ()


def test_the_finalizers_of_a_pod_are_known() -> None:
    metadata = {"name": "p", "uid": "u", "finalizers": ["mesh/drain"]}

    assert facts.pod({"metadata": metadata}).finalizers == ("mesh/drain",)


def claim(**annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "c", "uid": "u", "annotations": {f"bookie.dev/{k}": v for k, v in annotations.items()}},
        "spec": {"volumeName": "pv-1"},
        "status": {"phase": "Bound"},
    }


def test_a_claim_without_mark_has_never_held_data() -> None:
    found = facts.claim(claim())

    assert (found.marks, found.pv_name) == (None, "pv-1")


def test_a_marked_claim_says_of_which_life_it_is() -> None:
    marks = facts.claim(claim(incarnation="2", fsid="f")).marks

    assert marks is not None
    assert (marks.incarnation, marks.fsid) == (2, "f")


@pytest.mark.parametrize("mangled", ["", "two", "-1", "9" * 5_000])
def test_a_mangled_mark_still_says_initialised(mangled: str) -> None:
    marks = facts.claim(claim(incarnation=mangled)).marks

    assert marks is not None
    assert marks.incarnation == 0


def test_what_is_about_to_go_is_told() -> None:
    target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    volume = {"metadata": {"name": "pv", "uid": "u"}}
    going = {"metadata": volume["metadata"] | {"deletionTimestamp": "2027-01-15T08:00:00Z"}}

    assert facts.pod(pod(conditions=[target])).evicted_by == "EvictionByEvictionAPI"
    assert facts.pod(pod(conditions=[target | {"status": "False"}])).evicted_by == ""
    assert facts.claim(claim() | {"status": {"phase": "Lost"}}).is_lost
    assert not facts.claim(claim()).is_lost
    assert facts.persistent_volume(going).is_terminating
    assert not facts.persistent_volume(volume).is_terminating


def test_a_volume_without_policy_is_taken_as_kept() -> None:
    found = facts.persistent_volume({"metadata": {"name": "pv", "uid": "u"}})

    assert found.reclaim_policy == "Retain"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, ""),
        ({"unschedulable": True}, "cordoned"),
        ({"taints": [{"key": "karpenter.sh/disrupted"}]}, "tainted karpenter.sh/disrupted"),
        ({"taints": [{"key": "ToBeDeletedByClusterAutoscaler"}], "unschedulable": True}, "tainted ToBeDeleted"),
        ({"taints": [{"key": "DeletionCandidateOfClusterAutoscaler"}]}, ""),
    ],
)
def test_what_says_that_the_pods_of_a_node_are_to_leave_it(spec: dict[str, Any], told: str) -> None:
    found = facts.node({"metadata": {"name": "n", "uid": "u"}, "spec": spec}).drained

    assert found.startswith(told)
    assert bool(found) is bool(told)


def volume(*terms: dict[str, Any]) -> dict[str, Any]:
    affinity = {"required": {"nodeSelectorTerms": list(terms)}}
    return {"metadata": {"name": "pv", "uid": "u"}, "spec": {"nodeAffinity": affinity}}


def rule(key: str = "kubernetes.io/hostname", operator: str = "In", *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values or ("n-1",))}]}


def test_a_volume_is_tied_to_hosts_only_when_it_says_nothing_else() -> None:
    zone = rule("topology.kubernetes.io/zone", "In", "a")

    assert facts.persistent_volume(volume(rule())).hostnames == ("n-1",)
    assert facts.persistent_volume(volume(rule(), rule("kubernetes.io/hostname", "In", "n-2"))).hostnames == (
        "n-1",
        "n-2",
    )
    assert facts.persistent_volume(volume(rule("kubernetes.io/hostname", "NotIn"))).hostnames == ()
    assert facts.persistent_volume(volume(rule(), zone)).hostnames == ()
    both = {"matchExpressions": rule()["matchExpressions"] + zone["matchExpressions"]}
    assert facts.persistent_volume(volume(both)).hostnames == ()
    assert facts.persistent_volume({"metadata": {"name": "pv", "uid": "u"}}).hostnames == ()


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({"conditions": [{"type": "PodScheduled", "status": "False"}]}, "NotScheduled"),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}, "ImageNotPulled"),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "CreateContainerConfigError"}}}]}, "ContainerNotMade"),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}, "Crashing"),
        ({"containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]}, "Crashing"),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
        ({"containerStatuses": [{"state": {"running": {}}}]}, ""),
    ],
)
def test_what_keeps_a_container_from_running_has_one_word(status: dict[str, Any], word: str) -> None:
    assert facts.pod(pod(**status)).trouble == word


def test_the_newest_word_about_a_mount_counts_and_no_other_event() -> None:
    def event(reason: str, note: str, when: str) -> dict[str, Any]:
        return {"reason": reason, "note": note, "deprecatedLastTimestamp": when}

    told = [event("FailedMount", "old", "1"), event("FailedAttachVolume", "no disk", "2"), event("Pulled", "x", "3")]

    assert facts.mount_problem(told) == "no disk"
    assert facts.mount_problem(told[2:]) == ""
