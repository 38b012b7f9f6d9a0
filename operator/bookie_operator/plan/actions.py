"""The actions that a plan may ask for. Each is idempotent and carries its precondition."""

from collections.abc import Mapping
from dataclasses import dataclass

from bookie.ports.admin import Aside, OpenLedgers
from bookie_operator.evidence.facts import Door
from bookie_operator.model import names
from bookie_operator.model.status import GrantRecord
from bookie_operator.resources.common import Manifest


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply a whole child server-side."""

    manifest: Manifest

    def __str__(self) -> str:
        return f"apply {self.manifest['kind']} {self.manifest['metadata']['name']}"


@dataclass(frozen=True, slots=True)
class DeleteChild:
    """Delete a child of ours. `uid` and `resource_version` are preconditions: the object must be as this pass saw
    it."""

    kind: str
    name: str
    uid: str
    resource_version: str
    reason: str
    is_orphaning: bool = False  # what it owns stays: for a StatefulSet that is made anew around its pods

    def __str__(self) -> str:
        return f"delete {self.kind} {self.name} ({self.reason})"


@dataclass(frozen=True, slots=True)
class MarkClaim:
    """Write identity annotations on a claim; `uid` is the precondition: the API server refuses it for another claim of
    the same name."""

    name: str
    uid: str
    annotations: Mapping[str, str]
    manager: str = names.IDENTITY_MANAGER

    def __str__(self) -> str:
        return f"mark PersistentVolumeClaim {self.name} (uid {self.uid})"


@dataclass(frozen=True, slots=True)
class OwnClaim:
    """Say of a claim whether it goes with the BookieCluster; `uid` is the precondition as for MarkClaim."""

    name: str
    uid: str
    owner: Manifest | None  # None: it stays

    def __str__(self) -> str:
        fate = "goes with the cluster" if self.owner is not None else "stays"
        return f"say that PersistentVolumeClaim {self.name} (uid {self.uid}) {fate}"


@dataclass(frozen=True, slots=True)
class ResizeClaim:
    """Ask for another size of one claim, and change nothing else of it. `uid` and `resource_version`: the claim must be
    as this pass saw it."""

    name: str
    uid: str
    resource_version: str
    size: str  # a quantity, as the spec says it

    def __str__(self) -> str:
        return f"resize PersistentVolumeClaim {self.name} to {self.size}"


@dataclass(frozen=True, slots=True)
class SendGrant:
    """Send the grant to the bookie, after the status with `grant` is stored; again until the bookie moves."""

    bookie: str  # pod name
    door: Door
    grant: GrantRecord
    ttl_ms: int

    def __str__(self) -> str:
        return f"grant {self.grant.id} to {self.bookie} (incarnation {self.grant.new_incarnation})"


@dataclass(frozen=True, slots=True)
class StopBookie:
    """End one bookie so that its pod comes back as the spec says: flush with proof, then delete that very pod.

    `door` None: no process serves there, and none is asked. Only after the status with the bookie's turn was stored.
    `may_delete` False: the bookie took writes when this pass saw it; it flushes now, and the next pass looks at
    everything again. `epoch`: of the operator (spec/operator.md#Q11).
    """

    bookie: str  # pod name
    pod_uid: str
    resource_version: str
    door: Door | None
    epoch: int
    may_delete: bool = True
    aside: "SetAside | None" = None  # what keeps it out of service, given after the flush and before the pod goes
    claim: DeleteChild | None = None  # of its volume that is replaced, deleted between the two

    def __str__(self) -> str:
        return f"{'stop' if self.door is not None else 'replace'} {self.bookie} (pod {self.pod_uid})"


@dataclass(frozen=True, slots=True)
class FlushBookie:
    """Have a bookie flush and take no more writes, after its turn to leave a drained node was stored. `epoch`: of the
    operator."""

    bookie: str  # pod name
    pod_uid: str
    door: Door
    epoch: int

    def __str__(self) -> str:
        return f"flush {self.bookie} (pod {self.pod_uid})"


@dataclass(frozen=True, slots=True)
class ResumeBookie:
    """Let a bookie that flushed for its stop write again: a gate closed before its pod was gone."""

    bookie: str
    door: Door
    epoch: int

    def __str__(self) -> str:
        return f"let {self.bookie} write again"


@dataclass(frozen=True, slots=True)
class FillHoles:
    """Ask a bookie to fetch what was written while it was away. Idempotent: a run that is under way is that run."""

    bookie: str  # pod name
    door: Door

    def __str__(self) -> str:
        return f"ask {self.bookie} to fill its holes"


@dataclass(frozen=True, slots=True)
class ScalePool:
    """Set the number of one StatefulSet and nothing else. `uid` and `resource_version` are preconditions."""

    stateful_set: str
    uid: str
    resource_version: str
    replicas: int

    def __str__(self) -> str:
        return f"scale StatefulSet {self.stateful_set} to {self.replicas}"


@dataclass(frozen=True, slots=True)
class StopFleet:
    """Have every bookie flush and refuse writes, after the state was stored. `scales`: when all have said so at once,
    the StatefulSets that then run none; () = the next pass looks first."""

    flushes: tuple[FlushBookie, ...]
    scales: tuple[ScalePool, ...] = ()

    def __str__(self) -> str:
        return f"flush {len(self.flushes)} bookies{' and end their pods' if self.scales else ''}"


@dataclass(frozen=True, slots=True)
class StartDrain:
    """Have a bookie become read-only and move its ledgers away. Again after each restart of it."""

    bookie: str
    door: Door
    epoch: int
    bytes_per_second: int
    open_ledgers: OpenLedgers

    def __str__(self) -> str:
        return f"drain {self.bookie}"


@dataclass(frozen=True, slots=True)
class CancelDrain:
    """Have a bookie stay after all, and take writes again."""

    bookie: str
    door: Door
    epoch: int

    def __str__(self) -> str:
        return f"cancel the drain of {self.bookie}"


@dataclass(frozen=True, slots=True)
class RetireBookie:
    """Take away the last pod of a pool: flush with proof, then lower the number. Only after proof and turn were
    stored."""

    bookie: str
    pod_uid: str
    door: Door
    epoch: int
    scale: ScalePool

    def __str__(self) -> str:
        return f"retire {self.bookie} (pod {self.pod_uid})"


@dataclass(frozen=True, slots=True)
class DetachPool:
    """Delete one StatefulSet and leave its pods alone, so that a pod that is taken away next does not come back. Only
    after the state of the bookie that is rebuilt was stored."""

    bookie: str
    stateful_set: str
    uid: str
    resource_version: str

    def __str__(self) -> str:
        return f"delete StatefulSet {self.stateful_set} around its pods, to rebuild {self.bookie}"


@dataclass(frozen=True, slots=True)
class RemoveBookie:
    """Take away one pod of a pool whose StatefulSet is away: flush with proof, then delete that very pod. `door` None:
    it never held data, and nothing is to be flushed."""

    bookie: str
    pod_uid: str
    resource_version: str
    door: Door | None
    epoch: int

    def __str__(self) -> str:
        return f"remove {self.bookie} (pod {self.pod_uid})"


@dataclass(frozen=True, slots=True)
class ForgetBookie:
    """Have the bookie behind `door` delete the cookie of one that is gone, if it has exactly this version."""

    bookie: str
    bookie_id: str
    cookie_version: int
    door: Door
    epoch: int

    def __str__(self) -> str:
        return f"forget {self.bookie} (cookie version {self.cookie_version})"


@dataclass(frozen=True, slots=True)
class SetAside:
    """Have the bookie behind `door` write the order that keeps `bookie` out of service from its next boot on, or ends
    that."""

    bookie: str
    bookie_id: str
    door: Door
    order: Aside
    epoch: int

    def __str__(self) -> str:
        return f"{'keep' if self.order.is_aside else 'no longer keep'} {self.bookie} out of service"


@dataclass(frozen=True, slots=True)
class RestoreCookie:
    """Have the held bookie behind `door` make its own cookie again, by exactly the report that was judged."""

    bookie: str
    door: Door
    evidence_hash: str
    epoch: int

    def __str__(self) -> str:
        return f"have {self.bookie} make its cookie again"


@dataclass(frozen=True, slots=True)
class AcceptLedgerLoss:
    """Have the bookie behind `door` give up what `bookie_ids` held of one ledger, and close it. Idempotent."""

    operation_uid: str
    ledger: str  # its id
    bookie_ids: tuple[str, ...]
    by: str
    reason: str
    door: Door
    epoch: int

    def __str__(self) -> str:
        return f"give up what {', '.join(self.bookie_ids)} held of ledger {self.ledger}, and close it"


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """Have a running bookie take other values of settings that need no restart; "" = the default. Idempotent."""

    bookie: str
    door: Door
    settings: tuple[tuple[str, str], ...]  # by the bookie's names
    epoch: int

    def __str__(self) -> str:
        return f"have {self.bookie} take {', '.join(f'{key}={text}' for key, text in self.settings)}"


LeaveStep = StartDrain | CancelDrain | RetireBookie | DetachPool | RemoveBookie | ForgetBookie
Action = Apply | DeleteChild | MarkClaim | OwnClaim | ScalePool


def needs_record(action: Action) -> bool:
    """Return True for what must not be done before the record of this pass is stored: it takes an id, a pod or a claim
    away, gives one, or says of a claim that nobody needs it (spec/operator.md#Y2)."""
    match action:
        case Apply():
            return bool(action.manifest["kind"] == "StatefulSet")
        case DeleteChild():
            return action.kind in ("StatefulSet", "PersistentVolumeClaim")
        case MarkClaim():
            return action.manager == names.RETIREMENT_MANAGER
        case OwnClaim():
            return action.owner is not None
        case ScalePool():
            return True


def is_made_anew(action: Action) -> bool:
    """Return True for the deletion of a StatefulSet around its pods: whatever else is refused, it must not be away
    meanwhile (spec/operator.md#X3)."""
    return isinstance(action, DeleteChild) and action.is_orphaning
