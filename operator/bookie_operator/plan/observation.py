"""One look at one cluster: all facts that a plan may depend on, read live in one pass."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bookie_operator.evidence.facts import BookieCase, PersistentVolumeFacts, RefusedSize
from bookie_operator.model.assignment import BookiePool
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.operation import BookieOperation
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
class Hindrance:
    """Why the last stop of a bookie, or its resumption, did not succeed. `reason`: of Stalled, where trying again helps
    nothing; "" = it may pass. `told_ms`: wall clock."""

    text: str
    reason: str = ""
    told_ms: int = 0


@dataclass(frozen=True, slots=True)
class LedgerAnswer:
    """What a bookie said that was asked to end a ledger. `is_missing`: that there is none, which is done as well.
    `told_ms`: wall clock; `took_ms`: how long it took to say."""

    is_done: bool
    text: str
    told_ms: int
    took_ms: int = 0
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class Contender:
    """Another cluster of this operator that rolls out, or asks to. `since`: when its turn began, RFC 3339; "" = it
    asks. `waits_for`: its own words."""

    namespace: str
    name: str
    is_canary: bool = False
    since: str = ""
    waits_for: str = ""


@dataclass(frozen=True, slots=True)
class DependentsLook:
    """What a bookie found that was asked which ledgers depend on `bookies` (spec/metadata.md#M54). `marks`: of those
    that did not serve then, what changes when they do. `began_ms`, `ended_ms`: wall clock. `first`: words about some
    of the `count` ledgers. `problem`: why there is no answer; "" = there is."""

    bookies: tuple[str, ...]
    marks: tuple[tuple[str, str], ...]
    began_ms: int
    ended_ms: int
    count: int = 0
    first: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class MarksLook:
    """What a bookie, `reader`, found that was asked which ledgers auto-recovery has marked (spec/metadata.md#M55).
    `held`: by the id of a bookie that had better not be stopped, some of these ledgers, each with why. `began_ms`,
    `ended_ms`: wall clock. `waited_ms`: how long each of them has been waited for, as the looks up to this one saw it.
    `problem`: why there is no answer; "" = there is. `unanswered_ms`: how long there has been none."""

    asked: tuple[str, ...]  # ids
    began_ms: int
    ended_ms: int
    held: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    reader: str = ""  # a pod's name
    problem: str = ""
    waited_ms: Mapping[tuple[str, int], int] = field(default_factory=dict)  # by bookie id and ledger
    unanswered_ms: int = 0


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
    keys: Hindrance | None = None  # why certificates could not be made or renewed; None: they could
    children: Mapping[tuple[str, str], Manifest] = field(default_factory=dict)  # live, by (kind, name)
    strangers: Mapping[tuple[str, str], str] = field(
        default_factory=dict
    )  # by (kind, name): why what has the name of a child, or our label, is no child (plan/ownership.py)
    mounted: frozenset[str] = frozenset()  # ConfigMaps that a pod, a revision or a StatefulSet names
    templates: Mapping[str, Manifest] = field(default_factory=dict)  # of pods, by revision, newest first
    old_volumes: Mapping[str, PersistentVolumeFacts] = field(default_factory=dict)  # recorded ones that still exist
    can_read_nodes: bool = True  # False: no permission for Nodes
    can_read_volumes: bool | None = True  # False: no permission for PersistentVolumes; None: there was none to try
    said: Mapping[str, str] = field(default_factory=dict)  # by "Kind name": what Kubernetes says is wrong with it
    has_marked_claims: bool = False  # some claim of this cluster carries an incarnation: it has lived before
    foreign_claims: Mapping[str, str] = field(
        default_factory=dict
    )  # by StatefulSet: whose claims its bookies would find
    template_problems: tuple[str, ...] = ()  # what of spec.podTemplate is not as Kubernetes has it
    operator_version: str = ""
    refused_sizes: Mapping[str, RefusedSize] = field(default_factory=dict)  # by claim uid: its request was refused
    flushed: frozenset[str] = frozenset()  # uids of pods whose bookie this process heard say that all is flushed
    hindrances: Mapping[str, Hindrance] = field(default_factory=dict)  # by pod uid; of who leaves by name
    ledger_answers: Mapping[tuple[str, str], LedgerAnswer] = field(
        default_factory=dict
    )  # by the uid of an operation and a ledger's id: the last answer that this process heard
    operations: tuple[BookieOperation, ...] = ()  # of this cluster, finished ones too
    operations_problem: str = ""  # why they could not be read; "" = they were
    taking: str | None = None  # uid of the operation that may take a bookie away now; "": none; None: not decided yet
    rolling_max: int = 0  # how many clusters of this operator roll out at a time; 0: any number
    others: tuple[Contender, ...] = ()  # who has a turn or asks for one; not read while this cluster asks for none
    dependents: tuple[DependentsLook, ...] = ()  # looks that this process had made, old ones too
    marks: MarksLook | None = None  # the last look of this process
    others_problem: str = ""  # why they could not be read; "" = they were, or nobody asked

    def readers(self, capability: str = "") -> list[BookieCase]:
        """Return the bookies, by name, that can look into the pinned metadata store and have this capability."""
        expected = self.cluster.expected_instance_id
        able = [
            case
            for case in self.bookies
            if case.can_look_into(expected)
            and (not capability or (case.report is not None and capability in case.report.capabilities))
        ]
        return sorted(able, key=lambda case: case.name)
