"""One BookieCluster as it came from the API server: parsed once, with a sentence when it cannot be used."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from bookie.base.errors import BadInput
from bookie_operator.model import base, checks, collisions, dates, names
from bookie_operator.model.spec import BookieClusterSpec
from bookie_operator.model.status import BookieClusterStatus
from bookie_operator.model.values import parse_time_or_0


@dataclass(frozen=True, slots=True)
class ClusterRef:
    """A reference to one version of a resource: enough to write its status under a precondition, and events about
    it."""

    namespace: str
    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class Cluster:
    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    annotations: Mapping[str, str]
    spec: BookieClusterSpec
    status: BookieClusterStatus
    is_canary: bool = False  # by its label: of the clusters of this operator it rolls out first
    created_ms: int = 0  # by the API server's clock; 0: not known
    said: BookieClusterSpec | None = None  # what its user wrote, when `spec` is what worked before (plan/rollback.py)
    withheld: Mapping[str, frozenset[str]] = field(default_factory=dict)  # by pool: volumes its pods get later
    is_recalled: bool = False  # `status` is not what is stored: the record filled it up, or a clock was set back

    def of(self, pool: str) -> "Cluster":
        """Return the cluster as it is for the bookies of one pool (spec.pools), with the volumes that they have now
        (plan/adding.py)."""
        spec, withheld = self.spec.of(pool), self.withheld.get(pool)
        if withheld:
            spec = spec.model_copy(update={"storage": spec.storage.without(withheld)})
        return replace(self, spec=spec) if spec is not self.spec else self

    def as_of(self, now_ms: int) -> "Cluster":
        """Return the cluster without times in its status that are still to come (model/dates.py)."""
        status = dates.none_ahead(self.status, now_ms)
        return replace(self, status=status, is_recalled=True) if status is not self.status else self

    @property
    def expected_instance_id(self) -> str | None:
        """Return the metadata store that the cluster is pinned to: by its spec, else the one that it was seen in."""
        return self.spec.metadata_service.expected_instance_id or self.status.instance_id

    @property
    def ref(self) -> ClusterRef:
        return ClusterRef(self.namespace, self.name, self.uid, self.resource_version)


class SpecInvalid(BadInput):
    """The spec cannot be used; the text names the fields. Becomes Stalled/SpecInvalid, never a crash."""


def parse(manifest: Mapping[str, Any]) -> Cluster:
    """Return `manifest` as a Cluster. Raises SpecInvalid. A status that does not parse counts as lost."""
    try:
        spec = BookieClusterSpec.model_validate(manifest.get("spec") or {})
    except ValidationError as error:
        raise SpecInvalid("; ".join(base.sentences(error))) from None
    if problems := (*checks.problems(spec, manifest["metadata"]["name"]), *collisions.within(manifest)):
        raise SpecInvalid("; ".join(problems))
    metadata = manifest["metadata"]
    return Cluster(
        namespace=metadata.get("namespace", "default"),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        generation=int(metadata.get("generation", 1)),
        resource_version=metadata.get("resourceVersion", ""),
        annotations=dict(metadata.get("annotations") or {}),
        is_canary=(metadata.get("labels") or {}).get(names.LABEL_CANARY) == "true",
        spec=spec,
        status=parse_status(manifest.get("status")),
        created_ms=parse_time_or_0(metadata.get("creationTimestamp")),
    )


def ref(manifest: Mapping[str, Any]) -> ClusterRef:
    """Return the reference to a resource whose spec may be unusable."""
    metadata = manifest["metadata"]
    return ClusterRef(metadata["namespace"], metadata["name"], metadata.get("uid", ""), metadata["resourceVersion"])


def parse_status(status: object) -> BookieClusterStatus:
    try:
        return BookieClusterStatus.model_validate(status or {})
    except ValidationError:
        return BookieClusterStatus()
