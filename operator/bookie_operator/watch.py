"""kopf glue only: events of our kinds become keys in the queue. kopf writes nothing: no annotation, no finalizer.

Low-level event handlers alone (spec/operator.md#K27). Which objects are ours is told by their label; a missed event is
covered by the resync, a missed deletion by the next live read.
"""

import dataclasses
import datetime as dt
from collections.abc import Callable
from typing import Any

import kopf

from bookie_operator.model import names, operation

CHILDREN = (
    ("apps", "v1", "statefulsets"),
    ("apps", "v1", "deployments"),
    ("batch", "v1", "jobs"),
    ("", "v1", "pods"),
    ("", "v1", "persistentvolumeclaims"),
    ("policy", "v1", "poddisruptionbudgets"),
    ("", "v1", "configmaps"),
    ("", "v1", "services"),
    ("", "v1", "serviceaccounts"),
)
_TOKEN_LIFE = dt.timedelta(minutes=5)  # kopf then reads the rotated token again (spec/operator.md#K28)


def registry(
    enqueue: Callable[[str, str], None], saw_pod: Callable[[dict[str, Any]], None], outside: kopf.ConnectionInfo
) -> kopf.OperatorRegistry:
    """Return handlers that call `enqueue(namespace, cluster)`. A cluster's event counts unless only its status changed.

    `saw_pod`: gets every event of a pod before that, its last state at its deletion included.

    `outside`: how to reach the API server where there is no service account to read.
    """
    handlers = kopf.OperatorRegistry()
    seen: dict[str, tuple[object, ...]] = {}
    known: set[str] = set()  # operations, by uid

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=handlers)
    async def of_cluster(event: Any, **_: Any) -> None:
        metadata = event["object"]["metadata"]
        wish = (metadata.get("generation"), metadata.get("deletionTimestamp"), str(metadata.get("annotations")))
        if event.get("type") == "DELETED":
            seen.pop(metadata["uid"], None)
        elif seen.get(metadata["uid"]) == wish:
            return  # our own status
        else:
            seen[metadata["uid"]] = wish
        enqueue(metadata["namespace"], metadata["name"])

    @kopf.on.event(names.GROUP, names.VERSION, names.OPERATION_PLURAL, registry=handlers)
    async def of_operation(event: Any, **_: Any) -> None:
        """Its spec never changes: only its birth and its end are news."""
        metadata, cluster = event["object"]["metadata"], operation.cluster_name(event["object"])
        if event.get("type") == "DELETED":
            known.discard(metadata["uid"])
        elif metadata["uid"] in known:
            return  # our own status
        else:
            known.add(metadata["uid"])
        if cluster:
            enqueue(metadata["namespace"], cluster)

    async def of_child(event: Any, resource: Any, **_: Any) -> None:
        metadata = event["object"]["metadata"]
        if resource.plural == "pods":
            saw_pod(event["object"])
        cluster = (metadata.get("labels") or {}).get(names.LABEL_CLUSTER)
        if cluster:
            enqueue(metadata["namespace"], cluster)

    for group, version, plural in CHILDREN:
        kopf.on.event(group, version, plural, registry=handlers, labels={names.LABEL_MANAGED_BY: names.MANAGED_BY})(
            of_child
        )

    @kopf.on.login(registry=handlers)
    async def login(**kwargs: Any) -> kopf.ConnectionInfo:
        found = kopf.login_with_service_account(**kwargs)
        if found is None:
            return outside
        return dataclasses.replace(found, expiration=dt.datetime.now(dt.UTC) + _TOKEN_LIFE)

    return handlers


def settings(selector: str = "") -> kopf.OperatorSettings:
    """Return kopf's settings; spec/operator.md#K29 says why. `selector`: of the BookieClusters that are watched; whose
    a cluster is a pass decides, not the watch."""
    out = kopf.OperatorSettings()
    out.peering.standalone = True
    out.scanning.disabled = True
    out.posting.enabled = False
    out.watching.server_timeout = 300
    out.watching.client_timeout = 310
    out.watching.connect_timeout = 10
    out.networking.request_timeout = 30
    out.networking.connect_timeout = 10
    out.queueing.idle_timeout = 1.0
    out.process.ultimate_exiting_timeout = 50
    for _, _, plural in CHILDREN:
        out.watching.label_selectors[plural] = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"
    if selector:
        out.watching.label_selectors[names.PLURAL] = selector
    return out
