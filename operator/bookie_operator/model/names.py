"""Every name that the operator writes on objects, in one place. Labels and annotations live under `bookie.dev`."""

GROUP = "bookie.dev"
VERSION = "v1alpha1"
KIND = "BookieCluster"
PLURAL = "bookieclusters"
API_VERSION = f"{GROUP}/{VERSION}"

MANAGER = "bookie-operator"  # field manager of children
STATUS_MANAGER = "bookie-operator-status"
IDENTITY_MANAGER = "bookie-operator-identity"  # annotations on claims, and nothing else on them

LABEL_NAME = "app.kubernetes.io/name"
LABEL_INSTANCE = "app.kubernetes.io/instance"
LABEL_COMPONENT = "app.kubernetes.io/component"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_CLUSTER = f"{GROUP}/cluster"
LABEL_POOL = f"{GROUP}/pool"
LABEL_POD_INDEX = "apps.kubernetes.io/pod-index"  # set by the StatefulSet controller
MANAGED_BY = "bookie-operator"
COMPONENT_BOOKIE = "bookie"
COMPONENT_METADATA = "metadata"

# The durable identity record of a volume: on the claim, because status disappears with the resource (operators.md 2.3).
# A claim without MARK_INCARNATION is expected to be empty; one that has it must never be empty.
MARK_INCARNATION = f"{GROUP}/incarnation"
MARK_BOOKIE_ID = f"{GROUP}/bookie-id"
MARK_INSTANCE_ID = f"{GROUP}/instance-id"
MARK_FSID = f"{GROUP}/fsid"
MARK_PV_UID = f"{GROUP}/pv-uid"
MARK_CLAIM_UID = f"{GROUP}/claim-uid"  # a copied annotation betrays itself: it names another claim

APPLIED_HASH = f"{GROUP}/applied-hash"  # of the desired object: drift is hash or leaf mismatch
SETTINGS_HASH = f"{GROUP}/settings-hash"  # on the pod template: changed settings are a new revision
# On a BookieCluster: comma list of evidence hashes that a person approved (regeneration: Manual).
APPROVED_EVIDENCE = f"{GROUP}/approved-evidence"

POOL_DEFAULT = "default"  # the one pool of a cluster without zones
DATA_ROOT = "/bookie"  # volumes are mounted at /bookie/<role>/<volume name>
SETTINGS_DIR = "/etc/bookie"
ADMIN_TOKEN_DIR = "/etc/bookie-admin"
ADMIN_TOKEN_KEY = "token"
SETTINGS_FILE = "bookie.properties"
RUN_AS = 10001  # user and group of bookie pods; any number but root's


def bookie_id(namespace: str, cluster: str, pool: str, ordinal: int | str) -> str:
    """`{namespace}.{cluster}.{pool}.{ordinal}`: fixed for the life of the data, never derived from an address."""
    return f"{namespace}.{cluster}.{pool}.{ordinal}"


def stateful_set(cluster: str, pool: str) -> str:
    return f"{cluster}-{pool}"


def pod(cluster: str, pool: str, ordinal: int) -> str:
    return f"{stateful_set(cluster, pool)}-{ordinal}"


def claim(volume: str, pod_name: str) -> str:
    """The name the StatefulSet controller gives to a claim."""
    return f"{volume}-{pod_name}"


def headless_service(cluster: str) -> str:
    return f"{cluster}-bookies"


def disruption_budget(cluster: str) -> str:
    return f"{cluster}-bookies"


def settings(cluster: str) -> str:
    return f"{cluster}-settings"


def service_account(cluster: str) -> str:
    return f"{cluster}-bookie"


def metadata_job(cluster: str) -> str:
    return f"{cluster}-metadata"
