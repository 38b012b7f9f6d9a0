"""What is applied to an object, and in whose name (field manager)."""

from bookie_operator.gateways.kube import Manifest
from bookie_operator.model import names
from bookie_operator.model.cluster import ClusterRef
from bookie_operator.model.operation import BookieOperation, OperationStatus
from bookie_operator.model.status import BookieClusterStatus
from bookie_operator.plan.actions import Apply, MarkClaim, OwnClaim, ResizeClaim, ScalePool

# Before the first write to etcd: no object has it. "0" would stand for any version.
_VERSION_OF_NOTHING = "1"


def manager(action: Apply | MarkClaim | OwnClaim | ScalePool) -> str:
    """Return in whose name `action` is applied."""
    if isinstance(action, MarkClaim):
        return action.manager
    if isinstance(action, OwnClaim):
        return names.DELETION_MANAGER
    return names.SCALE_MANAGER if isinstance(action, ScalePool) else names.MANAGER


def manifest(namespace: str, action: Apply | MarkClaim | OwnClaim | ScalePool) -> Manifest:
    """Return what `action` applies."""
    if isinstance(action, Apply):
        return action.manifest
    if isinstance(action, ScalePool):
        metadata = {"name": action.stateful_set, "namespace": namespace}
        metadata |= {"uid": action.uid, "resourceVersion": action.resource_version}
        return {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": metadata,
            "spec": {"replicas": action.replicas},
        }
    said: Manifest = (
        {"annotations": dict(action.annotations)}
        if isinstance(action, MarkClaim)
        else {"ownerReferences": [action.owner] if action.owner is not None else []}
    )
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": action.name, "namespace": namespace, "uid": action.uid} | said,
    }


def resized(namespace: str, action: ResizeClaim) -> Manifest:
    """Return what is applied to one claim: its request, and whose claim it must be (a volume that grows keeps its
    claim)."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": action.name,
            "namespace": namespace,
            "uid": action.uid,
            "resourceVersion": action.resource_version,
        },
        "spec": {"resources": {"requests": {"storage": action.size}}},
    }


def over(manifest: Manifest, live: Manifest | None) -> Manifest:
    """Return `manifest`, to be applied over exactly the version that was seen (`live`); where there was none, it is
    made, and what is there by now has another version (409).

    Not by a POST: that names nothing in its path, so no right by name allows it (Secrets), and to an API server who
    posts an object is another manager of its fields than who applies it.
    """
    version = live["metadata"]["resourceVersion"] if live is not None else _VERSION_OF_NOTHING
    return manifest | {"metadata": manifest["metadata"] | {"resourceVersion": version}}


def handed_to_applies(live: Manifest, manager: str) -> Manifest | None:
    """Return what makes the fields with which `manager` posted `live` fields that it applies; None where they are, as
    of all that is made now (`over`).

    To an API server the two are different managers of fields: what a child was posted with would stay in it when it is
    applied no more.
    """
    metadata = live["metadata"]
    entries = metadata.get("managedFields") or ()
    created = [one for one in entries if one.get("manager") == manager and one.get("operation") == "Update"]
    created = [one for one in created if not one.get("subresource")]
    if not created:
        return None
    fields = [one | {"operation": "Apply"} if one in created else one for one in entries]
    said = {key: metadata[key] for key in ("name", "namespace", "resourceVersion")}
    return {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": said | {"managedFields": fields}}


def status_of(cluster: ClusterRef, status: BookieClusterStatus) -> Manifest:
    """Return what stores `status`, if nobody touched the resource since it was read."""
    metadata = {
        "name": cluster.name,
        "namespace": cluster.namespace,
        "resourceVersion": cluster.resource_version,
    }
    return _status(names.KIND, metadata, status)


def operation_status(operation: BookieOperation, status: OperationStatus) -> Manifest:
    """Return what stores the status of an operation, only over the version that was read."""
    metadata = {
        "name": operation.name,
        "namespace": operation.namespace,
        "uid": operation.uid,
        "resourceVersion": operation.resource_version,
    }
    return _status(names.OPERATION_KIND, metadata, status)


def _status(kind: str, metadata: Manifest, status: BookieClusterStatus | OperationStatus) -> Manifest:
    return {"apiVersion": names.API_VERSION, "kind": kind, "metadata": metadata, "status": status.dump()}
