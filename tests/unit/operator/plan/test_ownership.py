"""Whose an object is that has the name of a child (spec/operator.md#I4)."""

from typing import Any

import pytest

import operator_support as make
from bookie_operator.model import names
from bookie_operator.plan import ownership

Manifest = dict[str, Any]
OTHER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop", "uid": "another-uid", "controller": True}


def live(kind: str = "Service", **metadata: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "ledgers-bookies", "namespace": "data", **metadata}}


def mine(**changes: Any) -> Manifest:
    return {"apiVersion": names.API_VERSION, "kind": names.KIND, "uid": "cluster-uid", "controller": True} | changes


HASH = {names.APPLIED_HASH: "0123456789abcdef"}


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": [mine()]},
        {"ownerReferences": [OTHER | {"controller": False}, mine()]},
        {"annotations": HASH},
        {"annotations": HASH, "labels": {names.LABEL_CLUSTER: "ledgers"}},
        {"annotations": HASH, "ownerReferences": [OTHER | {"controller": False}]},
        {"annotations": {names.ADOPT: "cluster-uid"}},
    ],
)
def test_a_child_is_controlled_or_was_applied_or_is_handed_over(metadata: Manifest) -> None:
    assert ownership.stranger(live(**metadata), make.cluster()) == ""


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"labels": {names.LABEL_CLUSTER: "ledgers", names.LABEL_MANAGED_BY: names.MANAGED_BY}},
        {"ownerReferences": [mine(controller=False)]},
        {"annotations": HASH, "labels": {names.LABEL_CLUSTER: "another"}},
        {"annotations": {names.ADOPT: "another-uid"}},
        {"annotations": {names.ADOPT: ""}},
        {"annotations": {names.ADOPT: "ledgers"}},
    ],
)
def test_whatever_else_has_the_name_is_a_stranger(metadata: Manifest) -> None:
    words = ownership.stranger(live(**metadata), make.cluster())

    assert "Service ledgers-bookies is there already" in words
    assert "kubectl -n data annotate service ledgers-bookies bookie.dev/adopt=cluster-uid" in words


@pytest.mark.parametrize("annotations", [{}, HASH, {names.ADOPT: "cluster-uid"}])
def test_what_another_controls_nobody_hands_over(annotations: dict[str, str]) -> None:
    """Kubernetes lets an object have one controller."""
    words = ownership.stranger(live(ownerReferences=[OTHER], annotations=annotations), make.cluster())

    assert words.startswith("Service ledgers-bookies belongs to ReplicaSet shop (uid another-uid)")


@pytest.mark.parametrize("kind", ["Job", "ConfigMap"])
def test_what_cannot_be_changed_is_not_handed_over(kind: str) -> None:
    words = ownership.stranger(live(kind, annotations={names.ADOPT: "cluster-uid"}), make.cluster())

    assert words.endswith("Delete it, or rename this BookieCluster")


@pytest.mark.parametrize(
    ("metadata", "is_ours"),
    [
        ({"labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY}}, True),
        ({"ownerReferences": [mine(controller=False, uid="of a neighbour")]}, True),
        ({"annotations": {names.ADOPT: "cluster-uid"}}, True),
        ({}, False),
        ({"labels": {names.LABEL_MANAGED_BY: "Helm"}}, False),
        ({"ownerReferences": [OTHER]}, False),
        ({"ownerReferences": [mine(apiVersion="shop/v1")]}, False),
        ({"annotations": {names.ADOPT: "another-uid"}}, False),
    ],
)
def test_what_clusters_share_has_the_operator_s_label_or_a_cluster_as_its_owner(
    metadata: Manifest, is_ours: bool
) -> None:
    words = ownership.shared_stranger(live("Secret", **metadata), make.cluster())

    assert (words == "") is is_ours, words
    assert ownership.shared_stranger(None, make.cluster()) == ""
