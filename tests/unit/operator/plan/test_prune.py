"""Which children of a cluster are deleted, and which never (plan/prune.py)."""

from typing import Any

import pytest

import operator_support as make
from bookie_operator.model import names
from bookie_operator.model.values import format_time
from bookie_operator.plan import prune
from bookie_operator.resources.common import Manifest

CLUSTER_UID = make.observation().cluster.uid


def child(kind: str, name: str = "one", **changes: Any) -> Manifest:
    metadata = {
        "name": name,
        "uid": f"uid of {name}",
        "resourceVersion": "5",
        "ownerReferences": [{"uid": CLUSTER_UID, "controller": True}],
    }
    made: Manifest = {"kind": kind, "metadata": metadata | changes.pop("metadata", {})}
    return made | changes


def deleted(*live: Manifest, wanted: tuple[Manifest, ...] = (), **changes: Any) -> dict[str, str]:
    """The children to delete, by name, with the reason."""

    def by_name(found: tuple[Manifest, ...]) -> dict[tuple[str, str], Manifest]:
        return {(one["kind"], one["metadata"]["name"]): one for one in found}

    seen = make.observation(children=by_name(live), **changes)
    return {one.name: one.reason for one in prune.stale(seen, by_name(wanted))}


def test_what_the_spec_asks_for_no_more_goes_with_the_version_that_was_seen() -> None:
    seen = make.observation(children={("Service", "one"): child("Service")})

    (action,) = prune.stale(seen, {})

    assert (action.kind, action.name, action.uid, action.resource_version) == ("Service", "one", "uid of one", "5")
    assert action.reason == "the spec does not ask for it any more"
    assert deleted(child("Service"), wanted=(child("Service"),)) == {}


@pytest.mark.parametrize(
    "owners", [[], [{"uid": "another", "controller": True}], [{"uid": CLUSTER_UID, "controller": False}]]
)
def test_nothing_of_somebody_else_goes(owners: list[dict[str, Any]]) -> None:
    assert deleted(child("Service", metadata={"ownerReferences": owners})) == {}


def test_a_stateful_set_never_goes_and_what_goes_already_is_left_alone() -> None:
    assert deleted(child("StatefulSet")) == {}
    assert deleted(child("Service", metadata={"deletionTimestamp": format_time(make.NOW_MS)})) == {}


def test_a_config_map_stays_while_a_pod_or_a_revision_may_read_it_and_goes_where_its_name_lies() -> None:
    live, other = child("ConfigMap", data={"a": "1"}), child("ConfigMap", data={"a": "2"})

    assert deleted(live, mounted=frozenset({"one"})) == {}
    assert deleted(live) == {"one": "no pod and no revision reads it"}
    assert deleted(live, wanted=(live,)) == {}
    assert deleted(live, wanted=(other,)) == {"one": "its contents are not what its name says"}


def job(mark: str = "x", **status: Any) -> Manifest:
    return child("Job", metadata={"annotations": {names.APPLIED_HASH: mark}}, status=status)


def failed(ago_ms: int) -> Manifest:
    at = format_time(make.NOW_MS - ago_ms)
    return job(conditions=[{"type": "Failed", "status": "True", "lastTransitionTime": at}])


def test_a_job_that_failed_is_made_again_after_its_time_and_one_of_another_spec_at_once() -> None:
    wanted = (job(),)

    assert deleted(job(), wanted=wanted) == {}
    assert deleted(failed(prune.JOB_RETRY_MS - 1_000), wanted=wanted) == {}
    assert deleted(failed(prune.JOB_RETRY_MS), wanted=wanted) == {"one": "it failed a while ago, and is tried again"}
    assert deleted(job("y"), wanted=wanted) == {"one": "what it was made from has changed"}


@pytest.mark.parametrize(
    ("status", "stays"),
    [({"succeeded": 1}, True), ({"conditions": [{"type": "Complete", "status": "True"}]}, True), ({}, False)],
)
def test_the_record_of_the_one_formatting_stays(status: dict[str, Any], stays: bool) -> None:
    goes = {"one": "nothing is to be initialised"}

    assert deleted(job(**status)) == ({} if stays else goes)
    assert deleted(job(**status), spec_changes={"metadataService": never_initialised()}) == goes


def never_initialised() -> dict[str, Any]:
    return make.manifest()["spec"]["metadataService"] | {"initialize": "Never"}
