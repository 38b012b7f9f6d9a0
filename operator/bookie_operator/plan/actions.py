"""The actions that a plan may ask for. Each is idempotent and carries its precondition."""

from collections.abc import Mapping
from dataclasses import dataclass

from bookie_operator.evidence.facts import Door
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

    def __str__(self) -> str:
        return f"delete {self.kind} {self.name} ({self.reason})"


@dataclass(frozen=True, slots=True)
class MarkClaim:
    """Write identity annotations on a claim; `uid` is the precondition: the API server refuses it for another claim of
    the same name."""

    name: str
    uid: str
    annotations: Mapping[str, str]

    def __str__(self) -> str:
        return f"mark PersistentVolumeClaim {self.name} (uid {self.uid})"


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
    everything again.
    """

    bookie: str  # pod name
    pod_uid: str
    resource_version: str
    door: Door | None
    may_delete: bool = True

    def __str__(self) -> str:
        return f"{'stop' if self.door is not None else 'replace'} {self.bookie} (pod {self.pod_uid})"


@dataclass(frozen=True, slots=True)
class ResumeBookie:
    """Let a bookie that flushed for its stop write again: a gate closed before its pod was gone."""

    bookie: str
    door: Door

    def __str__(self) -> str:
        return f"let {self.bookie} write again"


Action = Apply | DeleteChild | MarkClaim
