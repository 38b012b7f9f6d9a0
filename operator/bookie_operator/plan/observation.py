"""One look at one cluster: all facts that a plan may depend on, read live in one pass."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bookie_operator.evidence.facts import BookieCase, PersistentVolumeFacts
from bookie_operator.model.assignment import BookiePool
from bookie_operator.model.cluster import Cluster
from bookie_operator.resources.common import Manifest


@dataclass(frozen=True, slots=True)
class Term:
    """This process's hold on the lease when the pass began; `number` tells two terms of one process apart."""

    identity: str
    number: int
    is_held: bool = True

    @property
    def name(self) -> str:
        return f"{self.identity}#{self.number}"


@dataclass(frozen=True, slots=True)
class Leadership:
    """Who leads one cluster in one pass. `epoch`: the cluster's (plan/epoch.py); it travels with every grant. `term`:
    the name of the term that leads.
    """

    identity: str
    epoch: int
    is_held: bool = True
    term: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    cluster: Cluster
    now_ms: int  # wall clock
    leadership: Leadership
    image: str  # effective
    pools: tuple[BookiePool, ...] = ()  # how many bookies each zone has
    bookies: tuple[BookieCase, ...] = ()  # one per desired replica, then every other one that was found
    members_problem: str = ""  # why cookies and registrations were not read; "" = they were
    record_problem: str = ""  # why the record cannot be used; "" = it was, or there is none yet
    children: Mapping[tuple[str, str], Manifest] = field(default_factory=dict)  # live, by (kind, name)
    mounted: frozenset[str] = frozenset()  # ConfigMaps that a pod, a revision or a StatefulSet names
    old_volumes: Mapping[str, PersistentVolumeFacts] = field(default_factory=dict)  # recorded ones that still exist
    can_read_nodes: bool = True  # False: no permission for Nodes
    can_read_volumes: bool | None = True  # False: no permission for PersistentVolumes; None: there was none to try
    said: Mapping[str, str] = field(default_factory=dict)  # by "Kind name": what Kubernetes says is wrong with it
    has_marked_claims: bool = False  # some claim of this cluster carries an incarnation: it has lived before
    operator_version: str = ""
    hindrances: Mapping[str, str] = field(default_factory=dict)  # by pod uid: why its last stop or resumption failed
