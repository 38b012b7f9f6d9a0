"""Every name that the operator writes on objects, in one place. Labels and annotations live under `bookie.dev`."""

from collections.abc import Mapping
from typing import Any

GROUP = "bookie.dev"
VERSION = "v1alpha1"
KIND = "BookieCluster"
PLURAL = "bookieclusters"
API_VERSION = f"{GROUP}/{VERSION}"
OPERATION_KIND = "BookieOperation"
OPERATION_PLURAL = "bookieoperations"

MANAGER = "bookie-operator"  # field manager of children
STATUS_MANAGER = "bookie-operator-status"
SIZE_MANAGER = "bookie-operator-size"  # the request of a claim that grows
IDENTITY_MANAGER = "bookie-operator-identity"  # annotations on claims, and nothing else on them
# One of its own each: an apply takes away what its manager applied before and does not name now.
RETIREMENT_MANAGER = "bookie-operator-retirement"  # `retired-at` on claims
DELETION_MANAGER = "bookie-operator-deletion"  # owner references on claims, and nothing else on them
CONTENTS_MANAGER = "bookie-operator-contents"  # `contents-found` on claims
SCALE_MANAGER = "bookie-operator-scale"  # the number of a StatefulSet whose zone is not in the spec, or shrinks

LABEL_NAME = "app.kubernetes.io/name"
LABEL_INSTANCE = "app.kubernetes.io/instance"
LABEL_COMPONENT = "app.kubernetes.io/component"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_CLUSTER = f"{GROUP}/cluster"
LABEL_CANARY = f"{GROUP}/rollout-first"  # on a BookieCluster, "true": it rolls out before the others
LABEL_POOL = f"{GROUP}/pool"
LABEL_POD_INDEX = "apps.kubernetes.io/pod-index"  # set by the StatefulSet controller
LABEL_POD_NAME = "statefulset.kubernetes.io/pod-name"  # the same
MANAGED_BY = "bookie-operator"
COMPONENT_BOOKIE = "bookie"
COMPONENT_METADATA = "metadata"
COMPONENT_AUTORECOVERY = "autorecovery"
CONTAINER = "bookie"

# The durable identity record of a volume: on the claim, because status disappears with the resource
# (spec/operator.md#K18). A claim without MARK_INCARNATION is expected to be empty; one that has it must never be empty.
MARK_INCARNATION = f"{GROUP}/incarnation"
MARK_BOOKIE_ID = f"{GROUP}/bookie-id"
MARK_INSTANCE_ID = f"{GROUP}/instance-id"
MARK_FSID = f"{GROUP}/fsid"
MARK_PV_UID = f"{GROUP}/pv-uid"
MARK_CLAIM_UID = f"{GROUP}/claim-uid"  # a copied annotation betrays itself: it names another claim
# On the claims of a bookie that left by proof and is forgotten: when. Such a claim holds nothing that is needed.
RETIRED_AT = f"{GROUP}/retired-at"
# On a claim without the marks: its volume had contents, whosever they are, when a bookie that never lived looked.
CONTENTS_FOUND = f"{GROUP}/contents-found"

INPUTS = f"{GROUP}/inputs"  # on pods: digest of what the spec said of them (resources/inputs.py)
SAID = f"{GROUP}/said"  # on pods: a fingerprint of each field of it
APPLIED_HASH = f"{GROUP}/applied-hash"  # of the desired object: drift is hash or leaf mismatch
# On a BookieCluster: comma list of evidence hashes that a person approved (regeneration: Manual).
APPROVED_EVIDENCE = f"{GROUP}/approved-evidence"
# The same of pod uids whose process a person knows to have ended (spec/operator.md#G12).
CONFIRMED_ENDED = f"{GROUP}/confirmed-ended"
# The uid of this very BookieCluster: its claims may go with it (lifecycle.deletionPolicy; spec/operator.md#C1).
DELETE_DATA = f"{GROUP}/delete-data"
# Also there: the operator (`namespace/lease`) that is to keep this cluster, whoever kept it before.
OPERATOR = f"{GROUP}/operator"

# On an object that has the name of a child and is not one: the uid of the BookieCluster that may have it.
ADOPT = f"{GROUP}/adopt"

POOL_DEFAULT = "default"  # the one pool of a cluster without zones
DATA_ROOT = "/bookie"  # volumes are mounted at /bookie/<role>/<volume name>
SETTINGS_DIR = "/etc/bookie"
METADATA_VOLUME = "bookie-metadata"
METADATA_DIR = "/etc/bookie-metadata"
TLS_VOLUME = "bookie-tls"
TLS_DIR = "/etc/bookie-tls"
SASL_VOLUME = "bookie-sasl"
SASL_DIR = "/etc/bookie-sasl"
# One name in every namespace, so that the operator's permissions can name it: Kubernetes has no prefixes there. Each
# cluster of a namespace has keys of its own in it; authorities, with their keys, are in the operator's namespace alone.
ADMIN_CERTIFICATES = "bookie-admin-certificates"
ADMIN_AUTHORITIES = "bookie-operator-authorities"
# The same of the data ports (spec.security.tls without a Secret of the user's).
DATA_CERTIFICATES = "bookie-data-certificates"
ADMIN_VOLUME = "bookie-admin-tls"
ADMIN_TLS_DIR = "/etc/bookie-admin-tls"
ADMIN_SOCKET = "/tmp/bookie-admin.sock"
SETTINGS_FILE = "bookie.properties"
_ORDINAL_DIGITS_MAX = 4  # fewer than the five characters of chance that end the name of a Deployment's or Job's pod
RUN_AS = 10001  # user and group of bookie pods; any number but root's


def bookie_id(namespace: str, cluster: str, pool: str, ordinal: int | str) -> str:
    """Return `{namespace}.{cluster}.{pool}.{ordinal}`: fixed for the life of the data, never derived from an
    address."""
    return f"{namespace}.{cluster}.{pool}.{ordinal}"


def parse_bookie_id(namespace: str, cluster: str, bookie_id: str) -> tuple[str, int] | None:
    """Return (pool, ordinal) of an id that this cluster gives; None for the id of another's bookie."""
    mine = f"{namespace}.{cluster}."
    pool, _, ordinal = bookie_id.removeprefix(mine).rpartition(".")
    return _place(pool, ordinal) if bookie_id.startswith(mine) and "." not in pool else None


def parse_pod(cluster: str, pod_name: str) -> tuple[str, int] | None:
    """Return (pool, ordinal) of a pod's name; None when no StatefulSet of this cluster makes such a pod."""
    mine = f"{cluster}-"
    pool, _, ordinal = pod_name.removeprefix(mine).rpartition("-")
    return _place(pool, ordinal) if pod_name.startswith(mine) else None


def _place(pool: str, ordinal: str) -> tuple[str, int] | None:
    is_number = ordinal.isascii() and ordinal.isdigit() and (ordinal == "0" or not ordinal.startswith("0"))
    return (pool, int(ordinal)) if pool and is_number and len(ordinal) <= _ORDINAL_DIGITS_MAX else None


def stateful_set(cluster: str, pool: str) -> str:
    return f"{cluster}-{pool}"


def pod(cluster: str, pool: str, ordinal: int) -> str:
    return f"{stateful_set(cluster, pool)}-{ordinal}"


def claim(volume: str, pod_name: str) -> str:
    """Return the name that the StatefulSet controller gives to a claim."""
    return f"{volume}-{pod_name}"


def ephemeral_volume(volume: str, pod_name: str) -> str:
    """Return what the status calls a volume that goes with its pod. No claim has such a name."""
    return f"emptyDir/{volume} of {pod_name}"


def headless_service(cluster: str) -> str:
    return f"{cluster}-bookies"


def disruption_budget(cluster: str) -> str:
    return f"{cluster}-bookies"


def settings(cluster: str, digest: str) -> str:
    """Return the name of the ConfigMap for one content, given its digest: another content is another object."""
    return f"{cluster}-settings-{digest}"


def record(cluster: str) -> str:
    """Return the name of the ConfigMap that keeps what must outlive the resource."""
    return f"{cluster}-record"


def data_authority(cluster: str) -> str:
    """Return the name of the ConfigMap that tells clients which authority vouches for the bookies."""
    return f"{cluster}-ca"


def service_account(cluster: str) -> str:
    return f"{cluster}-bookie"


def metadata_job(cluster: str) -> str:
    return f"{cluster}-metadata"


def autorecovery(cluster: str) -> str:
    """Return the name of the Deployment that keeps replicas whole."""
    return f"{cluster}-autorecovery"


def data_volumes(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the volumes on which the bookie of a pod keeps its data. `spec`: of a pod or a template."""
    own = [one for one in spec.get("containers") or () if one.get("name") == CONTAINER]
    mounts = [mount for one in own for mount in one.get("volumeMounts") or ()]
    return frozenset(one["name"] for one in mounts if one["mountPath"].startswith(f"{DATA_ROOT}/"))
