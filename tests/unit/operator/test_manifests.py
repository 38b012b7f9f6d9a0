"""What is applied: nothing beside what an action says, over nothing but what it saw, in a name of its own."""

from typing import Any

import pytest

import operator_support as make
from bookie_operator.execute import manifests
from bookie_operator.model import names
from bookie_operator.model.operation import OperationPhase, OperationStatus
from bookie_operator.model.status import BookieClusterStatus
from bookie_operator.plan.actions import Apply, MarkClaim, OwnClaim, ResizeClaim, ScalePool

CHILD = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "ledgers-bookies", "namespace": "data"}}
OWNER = {"kind": "BookieCluster", "uid": "cluster-uid"}
CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
SEEN = {"name": "journal-ledgers-zone-a-0", "namespace": "data", "uid": "claim-uid"}
MARK = MarkClaim(SEEN["name"], "claim-uid", {names.MARK_INCARNATION: "2"})
SCALE = ScalePool("ledgers-zone-a", "sts-uid", "7", 2)


def test_each_hand_applies_in_a_name_of_its_own_as_each_takes_back_what_it_says_no_more() -> None:
    marks = [
        MarkClaim("c", "u", {}, manager)
        for manager in (names.IDENTITY_MANAGER, names.RETIREMENT_MANAGER, names.CONTENTS_MANAGER)
    ]
    actions: list[Any] = [Apply(CHILD), *marks, OwnClaim("c", "u", OWNER), SCALE]

    found = [manifests.manager(one) for one in actions]

    assert found == [
        names.MANAGER,
        names.IDENTITY_MANAGER,
        names.RETIREMENT_MANAGER,
        names.CONTENTS_MANAGER,
        names.DELETION_MANAGER,
        names.SCALE_MANAGER,
    ]
    assert len({*found, names.STATUS_MANAGER}) == len(actions) + 1


@pytest.mark.parametrize(
    ("action", "applied"),
    [
        (Apply(CHILD), CHILD),
        (MARK, CLAIM | {"metadata": SEEN | {"annotations": {names.MARK_INCARNATION: "2"}}}),
        (OwnClaim(SEEN["name"], "claim-uid", OWNER), CLAIM | {"metadata": SEEN | {"ownerReferences": [OWNER]}}),
        (OwnClaim(SEEN["name"], "claim-uid", None), CLAIM | {"metadata": SEEN | {"ownerReferences": []}}),
        (
            SCALE,
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": {
                    "name": "ledgers-zone-a",
                    "namespace": "data",
                    "uid": "sts-uid",
                    "resourceVersion": "7",
                },
                "spec": {"replicas": 2},
            },
        ),
    ],
    ids=["child", "mark", "goes with the cluster", "stays", "scale"],
)
def test_an_action_says_one_thing_of_exactly_what_was_seen(action: Any, applied: dict[str, Any]) -> None:
    assert manifests.manifest("data", action) == applied


def test_a_claim_grows_only_as_it_was_seen() -> None:
    found = manifests.resized("data", ResizeClaim(SEEN["name"], "claim-uid", "7", "4Gi"))

    spec = {"resources": {"requests": {"storage": "4Gi"}}}
    assert found == CLAIM | {"metadata": SEEN | {"resourceVersion": "7"}, "spec": spec}


def test_a_child_is_applied_over_the_version_that_was_seen_or_over_nothing() -> None:
    live = CHILD | {"metadata": CHILD["metadata"] | {"resourceVersion": "41"}}  # type: ignore[operator]

    assert manifests.over(CHILD, live)["metadata"]["resourceVersion"] == "41"
    assert manifests.over(CHILD, None)["metadata"]["resourceVersion"] == "1", "0 would stand for any version"
    assert "resourceVersion" not in CHILD["metadata"]


def field_of(manager: str, operation: str = "Update", subresource: str = "") -> dict[str, str]:
    return {"manager": manager, "operation": operation} | ({"subresource": subresource} if subresource else {})


@pytest.mark.parametrize(
    ("fields", "handed"),
    [
        ([field_of("ours")], ["Apply"]),
        ([field_of("ours"), field_of("kubectl")], ["Apply", "Update"]),
        ([field_of("kubectl")], None),
        ([field_of("ours", "Apply")], None),
        ([field_of("ours", subresource="status")], None),
        ([field_of("ours"), field_of("ours", subresource="status")], ["Apply", "Update"]),
        ([], None),
    ],
)
def test_only_what_we_posted_ourselves_becomes_what_we_apply(
    fields: list[dict[str, str]], handed: list[str] | None
) -> None:
    metadata = {"name": "ledgers-bookies", "namespace": "data", "resourceVersion": "41"}
    live = CHILD | {"metadata": metadata | {"managedFields": fields, "labels": {"a": "b"}}, "spec": {"x": 1}}

    found = manifests.handed_to_applies(live, "ours")

    if handed is None:
        assert found is None
        return
    assert found is not None
    expected = [one | {"operation": operation} for one, operation in zip(fields, handed, strict=True)]
    assert found == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata | {"managedFields": expected},
    }


def test_a_status_is_of_exactly_the_object_that_was_read() -> None:
    operation, said = make.operation(), OperationStatus(phase=OperationPhase.QUEUED)
    found = manifests.operation_status(operation, said)
    assert found["metadata"] == {
        "name": "restart",
        "namespace": "data",
        "uid": "uid-restart",
        "resourceVersion": "3",
    }
    assert (found["kind"], found["status"]) == (names.OPERATION_KIND, said.dump())

    cluster = make.cluster()
    stored = manifests.status_of(cluster.ref, BookieClusterStatus(observed_generation=1))
    assert stored["metadata"] == {"name": "ledgers", "namespace": "data", "resourceVersion": "1"}
    assert (stored["kind"], stored["status"]["observedGeneration"]) == (names.KIND, 1)
