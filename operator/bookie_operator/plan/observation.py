"""One look at one cluster: everything a plan may depend on, read live in one pass."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bookie_operator.evidence.facts import BookieCase, PersistentVolumeFacts
from bookie_operator.model.cluster import Cluster
from bookie_operator.resources.common import Manifest


@dataclass(frozen=True, slots=True)
class Leadership:
    """Our hold on the lease when the pass began. `epoch` = leaseTransitions: it travels with every grant."""

    identity: str
    epoch: int
    is_held: bool = True


@dataclass(frozen=True, slots=True)
class Observation:
    cluster: Cluster
    now_ms: int  # wall clock
    leadership: Leadership
    image: str  # effective
    bookies: tuple[BookieCase, ...] = ()  # one per desired replica
    children: Mapping[tuple[str, str], Manifest] = field(default_factory=dict)  # live, by (kind, name)
    old_volumes: Mapping[str, PersistentVolumeFacts] = field(default_factory=dict)  # recorded ones that still exist
    can_read_volumes: bool = True  # False: no permission for PersistentVolumes
    has_marked_claims: bool = False  # some claim of this cluster carries an incarnation: it has lived before
    operator_version: str = ""
