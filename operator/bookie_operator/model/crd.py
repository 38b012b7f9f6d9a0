"""The CustomResourceDefinitions, from the models. `bookie-operator crds` prints them; a test holds crds/ to that."""

from typing import Any

import yaml
from pydantic import BaseModel

from bookie_operator.model import cel, names, rules, schema
from bookie_operator.model.operation import OperationSpec, OperationStatus
from bookie_operator.model.spec import BookieClusterSpec
from bookie_operator.model.status import BookieClusterStatus

COLUMNS: tuple[tuple[str, str, str, int], ...] = (
    # name, type, path, priority (1 = only with -o wide)
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
    ("Bookies", "string", ".status.summary", 0),
    ("Writable", "integer", ".status.writableReplicas", 0),
    ("Limbo", "integer", ".status.limboBookies", 0),
    ("Held", "integer", ".status.heldBookies", 0),
    ("Unseen", "integer", ".status.unseenBookies", 0),
    ("Healing", "string", ".status.healing", 0),
    ("Blocked", "string", ".status.blockedBy", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', 1),
    ("Journal", "boolean", ".spec.storage.journalWriteData", 1),
    ("Instance", "string", ".status.instanceId", 1),
    ("Generation", "integer", ".metadata.generation", 1),
)


OPERATION_COLUMNS: tuple[tuple[str, str, str, int], ...] = (
    ("Cluster", "string", ".spec.clusterRef.name", 0),
    ("Type", "string", ".spec.type", 0),
    ("Target", "string", ".status.target", 0),
    ("Phase", "string", ".status.phase", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Message", "string", ".status.message", 1),
    ("Reason", "string", ".spec.reason", 1),
    ("By", "string", ".status.requestedBy", 1),
    ("Expires", "string", ".spec.expiresAfter", 1),
)


def definition() -> dict[str, Any]:
    """Return the whole CRD of BookieClusters as JSON values."""
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    root = {
        "type": "object",
        "description": "A fleet of bookies: replicated ledgers that stay right when disks vanish.",
        "required": ["spec"],
        "properties": _properties(BookieClusterSpec, BookieClusterStatus),
        **cel.schema(rules.ROOT),
    }
    return _crd(names.KIND, names.PLURAL, "bkc", root, {"status": {}, "scale": scale}, COLUMNS)


def operations() -> dict[str, Any]:
    """Return the whole CRD of BookieOperations as JSON values."""
    root = {
        "type": "object",
        "description": "One act on a BookieCluster that a person asks for once: what, on which bookie, and why.",
        "required": ["spec"],
        "properties": _properties(OperationSpec, OperationStatus),
    }
    return _crd(names.OPERATION_KIND, names.OPERATION_PLURAL, "bko", root, {"status": {}}, OPERATION_COLUMNS)


def _properties(spec: type[BaseModel], status: type[BaseModel]) -> dict[str, Any]:
    return {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": schema.structural(spec),
        "status": schema.structural(status),
    }


def _crd(
    kind: str,
    plural: str,
    short_name: str,
    root: dict[str, Any],
    subresources: dict[str, Any],
    columns: tuple[tuple[str, str, str, int], ...],
) -> dict[str, Any]:
    version = {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
        "subresources": subresources,
        "additionalPrinterColumns": [
            {"name": name, "type": kind_, "jsonPath": path, **({"priority": priority} if priority else {})}
            for name, kind_, path, priority in columns
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{names.GROUP}",
            # Uninstalling a chart must never take clusters with it (spec/operator.md#K22), nor the word of who asked
            # for what.
            "annotations": {"helm.sh/resource-policy": "keep"},
        },
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short_name],
            },
            "versions": [version],
        },
    }


def texts() -> dict[str, str]:
    """Return the text of each file in crds/, by its name: deterministic YAML with a line that says where it comes
    from."""
    return {f"{names.PLURAL}.yaml": _text(definition()), f"{names.OPERATION_PLURAL}.yaml": _text(operations())}


def _text(one: dict[str, Any]) -> str:
    body = yaml.safe_dump(one, sort_keys=False, width=110, allow_unicode=True)
    return f"# Generated by `bookie-operator crds` from operator/bookie_operator/model. Do not edit.\n{body}"
