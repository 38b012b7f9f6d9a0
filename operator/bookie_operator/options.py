"""Options of the operator process. Built by the command line only; all problems are reported together."""

import re
from dataclasses import dataclass

from bookie.base.errors import BadInput
from bookie_operator.model import bounds, selectors

LEASE_RETRY_S = 2.0  # between two attempts to take it
# Renewal, surrender and duration of the lease, in this order: a leader that cannot renew has stopped acting before
# anybody else may begin (spec/operator.md#K31).
LEASE_RENEW_S = 5.0
LEASE_GIVE_UP_S = 15.0
LEASE_DURATION_S = 20
assert LEASE_RENEW_S < LEASE_GIVE_UP_S < LEASE_DURATION_S
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    namespace: str  # our own: where the lease is
    identity: str  # of this process: pod name and uid
    image: str = ""  # of bookies whose spec names none
    watch_namespaces: tuple[str, ...] = ()  # () = all
    selector: str = ""  # labels of the BookieClusters that are ours, as kubectl -l takes them; "" = all
    http_port: int = 8080  # health and metrics
    kubeconfig: str = ""  # "" = in the cluster, else the usual places
    lease_name: str = "bookie-operator"
    resync_ms: int = 60_000
    rolling_clusters_max: int = 0  # how many clusters roll out at a time; 0 = any number
    crash_after: int = 0  # test hook, see crash.py; 0 = never
    crash_dir: str = ""  # where the hook remembers that it struck

    @property
    def owner(self) -> str:
        """Return by what name clusters know this operator: one for all processes that share the lease."""
        return f"{self.namespace}/{self.lease_name}"

    def __post_init__(self) -> None:
        problems = []
        if not self.namespace:
            problems.append("the operator's namespace is not known: set POD_NAMESPACE or --namespace")
        if not self.identity:
            problems.append("the operator's identity is empty: set POD_NAME and POD_UID")
        if not self.lease_name:
            problems.append("--lease-name is empty: give the lease a name; operators of one name take turns")
        # kopf reads globs in such a name, and no Role can name one.
        for one in self.watch_namespaces:
            if not _NAMESPACE.fullmatch(one):
                problems.append(f"--watch-namespace {one!r} is no name of a namespace: name each by itself, or none")
        try:
            selectors.check(self.selector)
        except BadInput as error:
            problems.append(f"--selector {error}")
        if self.image and not bounds.is_image(self.image):
            problems.append(f"--image {self.image!r} is not the name of an image: {bounds.IMAGE_RULE}")
        if not 0 <= self.http_port <= 65535:
            problems.append(f"--http-port {self.http_port} is no port: give a number from 0 to 65535")
        if self.rolling_clusters_max < 0:
            problems.append("--rolling-clusters-max is negative: give 0 (any number) or how many")
        if self.crash_after < 0:
            problems.append("BOOKIE_OPERATOR_CRASH_AFTER is negative: give 0 (never) or the number of a write")
        if problems:
            raise BadInput("; ".join(problems))
