"""Which events are news of which cluster, and that a watch which says nothing any more ends (spec/operator.md#K27)."""

import asyncio
from typing import Any

import kopf
import pytest

import operator_support as make
from bookie_operator import watch
from bookie_operator.gateways.kube import RESOURCES, Manifest
from bookie_operator.model import names
from bookie_operator.resources import fleet as fleet_of

NOBODY = kopf.ConnectionInfo(server="https://127.0.0.1:1")
PLURALS = [plural for _, _, plural in watch.CHILDREN]
OURS = {names.LABEL_MANAGED_BY: names.MANAGED_BY}
WOKEN = [("data", "ledgers")]


class Watched:
    """The handlers as kopf calls them, and what they made of events."""

    def __init__(self) -> None:
        self.woken, self.pods = list[tuple[str, str]](), list[str]()
        found = watch.registry(self._wake, self._saw, NOBODY)._watching.get_all_handlers()
        self.handlers = {one.selector.any_name: one for one in found if one.selector is not None}

    def _wake(self, namespace: str, cluster: str) -> None:
        self.woken.append((namespace, cluster))

    def _saw(self, pod: dict[str, Any]) -> None:
        assert self.woken == [], "a pass that is woken by it may ask what became of the pod"
        self.pods.append(pod["metadata"]["name"])

    def hears(self, plural: str, manifest: Manifest, kind: str = "MODIFIED") -> list[tuple[str, str]]:
        """Let an event happen; return whom it woke."""
        self.woken.clear()
        handler: Any = self.handlers[plural].fn
        asyncio.run(handler(event={"type": kind, "object": manifest}, resource=kopf.Resource("", "v1", plural)))
        return list(self.woken)


def child(**labels: str) -> Manifest:
    return {"metadata": {"name": "one", "namespace": "data", "labels": labels}}


def with_metadata(manifest: Manifest, **changes: Any) -> Manifest:
    return manifest | {"metadata": manifest["metadata"] | changes}


@pytest.mark.parametrize("plural", PLURALS)
@pytest.mark.parametrize("kind", [None, "ADDED", "MODIFIED", "DELETED"])
def test_every_event_of_a_child_wakes_its_cluster_and_no_other(plural: str, kind: Any) -> None:
    watched = Watched()

    assert watched.hears(plural, child(**{names.LABEL_CLUSTER: "ledgers"}), kind) == WOKEN
    assert watched.hears(plural, child(), kind) == []
    assert watched.hears(plural, {"metadata": {"name": "bare", "namespace": "data"}}, kind) == []
    assert watched.pods == (["one", "one", "bare"] if plural == "pods" else []), "what became of a pod is heard anyway"


@pytest.mark.parametrize("plural", PLURALS)
def test_only_children_with_the_operators_label_are_asked_for(plural: str) -> None:
    assert Watched().handlers[plural].labels == OURS
    selector = watch.settings("team=red").watching.label_selectors
    assert selector[plural] == f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"


def test_whatever_the_operator_makes_for_a_cluster_is_watched() -> None:
    spec = {"autorecovery": {"enabled": True}, "podTemplate": {"spec": {"serviceAccountName": "ours"}}}
    made = {one["kind"] for one in fleet_of.everything(make.cluster(**spec), make.IMAGE)}

    assert {RESOURCES[kind].plural for kind in made | {"Pod", "PersistentVolumeClaim"}} == set(PLURALS)
    for group, version, plural in watch.CHILDREN:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        assert [one.prefix for one in RESOURCES.values() if one.plural == plural] == [path]


def test_of_a_cluster_its_own_status_is_no_news_and_every_wish_is() -> None:
    watched, cluster = Watched(), make.manifest()

    assert watched.hears(names.PLURAL, cluster, "ADDED") == WOKEN
    assert watched.hears(names.PLURAL, with_metadata(cluster, resourceVersion="2") | {"status": {"a": 1}}) == []
    edited = with_metadata(cluster, generation=2)
    assert watched.hears(names.PLURAL, edited) == WOKEN
    approved = with_metadata(edited, annotations={"bookie.dev/approved-evidence": "0123"})
    assert watched.hears(names.PLURAL, approved) == WOKEN
    assert watched.hears(names.PLURAL, approved) == []
    going = with_metadata(approved, deletionTimestamp="2027-01-15T08:00:00Z")
    assert watched.hears(names.PLURAL, going) == WOKEN
    assert watched.hears(names.PLURAL, going, "DELETED") == WOKEN
    assert watched.hears(names.PLURAL, going) == WOKEN, "what was deleted is forgotten"


def test_of_an_operation_birth_and_end_are_news_to_its_cluster() -> None:
    watched, operation = Watched(), make.operation_manifest()
    other = make.operation_manifest("second", clusterRef={"name": "other"})

    assert watched.hears(names.OPERATION_PLURAL, operation, "ADDED") == WOKEN
    assert watched.hears(names.OPERATION_PLURAL, operation | {"status": {"phase": "Running"}}) == []
    assert watched.hears(names.OPERATION_PLURAL, other, "ADDED") == [("data", "other")]
    assert watched.hears(names.OPERATION_PLURAL, operation, "DELETED") == WOKEN
    assert watched.hears(names.OPERATION_PLURAL, operation, "ADDED") == WOKEN
    assert watched.hears(names.OPERATION_PLURAL, make.operation_manifest("third", clusterRef=None), "ADDED") == []


def test_a_watch_that_is_silent_ends_and_begins_anew_before_the_next_full_look() -> None:
    """The API server is asked to end it after five minutes; where nobody says so, the client does."""
    watching = watch.settings().watching

    assert watching.server_timeout == 300
    assert watching.client_timeout is not None
    assert watching.server_timeout < watching.client_timeout <= watching.server_timeout + 30
    assert watching.connect_timeout is not None
    assert watching.connect_timeout <= 30


def test_kopf_writes_nothing_and_asks_only_for_what_is_selected() -> None:
    found = watch.settings("team=red")

    assert found.posting.enabled is False
    assert (found.peering.standalone, found.scanning.disabled) == (True, True)
    assert found.watching.label_selectors[names.PLURAL] == "team=red"
    assert names.PLURAL not in watch.settings().watching.label_selectors
