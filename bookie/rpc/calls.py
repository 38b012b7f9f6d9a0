"""What may be asked of an admin port: each question with its request, how its answer is read, and how long it may take.

`client` asks them, waiting or suspending.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from bookie.ports.admin import (
    Compaction,
    GarbageReport,
    Grant,
    Member,
    RepairStatus,
    ScrubReport,
    State,
    StorageReport,
)
from bookie.rpc import admin_pb2 as proto
from bookie.rpc import encoding

T = TypeVar("T")

# A flush or a collection of everything takes as long as disks are slow.
LONG_DEADLINE_S = 3600.0


@dataclass(frozen=True, slots=True)
class AdminCall(Generic[T]):
    """`method`: its name in admin.proto. `deadline_s` None: the client's own."""

    method: str
    request: Message
    read: Callable[[Any], T]
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True)
class GrantAnswer:
    """`refused_reason`: a stable word (admin.proto, GrantReply)."""

    is_accepted: bool
    refused_reason: str = ""
    text: str = ""


def storage_report(*, fresh: bool) -> AdminCall[StorageReport]:
    """`fresh`: the bookie looks at its volumes again, instead of giving its newest look."""
    request = proto.GetStorageReportRequest(fresh=fresh)
    return AdminCall("GetStorageReport", request, partial(encoding.decode, StorageReport))


def members() -> AdminCall[tuple[Member, ...]]:
    """Every bookie that the metadata store of this one knows, asked now."""
    return AdminCall("ListMembers", proto.ListMembersRequest(), _members)


def grant(wanted: Grant) -> AdminCall[GrantAnswer]:
    return AdminCall("GrantRegeneration", encoding.encode(wanted), _answer)


def repair_status(interval_ms: int = 0) -> AdminCall[RepairStatus]:
    """A stream, for `follow`: one at once, then one at each change and at least every `interval_ms`, until done."""
    request = proto.GetRepairStatusRequest(interval_ms=interval_ms)
    return AdminCall("GetRepairStatus", request, partial(encoding.decode, RepairStatus))


def set_read_only(read_only: bool) -> AdminCall[State]:
    """The answer is the bookie's state after the change."""
    mode = proto.SetModeRequest.READ_ONLY_MODE if read_only else proto.SetModeRequest.READ_WRITE
    return AdminCall("SetMode", proto.SetModeRequest(mode=mode), lambda reply: State(proto.State.Name(reply.state)))


def prepare_shutdown() -> AdminCall[tuple[bool, str]]:
    """(everything is flushed, a sentence)."""
    request = proto.PrepareShutdownRequest()
    return AdminCall("PrepareShutdown", request, lambda reply: (bool(reply.flushed), str(reply.text)), LONG_DEADLINE_S)


def checkpoint() -> AdminCall[None]:
    """The answer comes once every entry acknowledged before is in entry logs and index."""
    return AdminCall("Checkpoint", proto.CheckpointRequest(), lambda _: None, LONG_DEADLINE_S)


def collect_garbage(compaction: Compaction, *, released: int = 0, looks_only: bool = False) -> AdminCall[GarbageReport]:
    """Collect now. `released`: so many ledgers may go beyond the brake on deletion. `looks_only`: delete nothing."""
    kind = proto.CollectGarbageRequest.Compaction.Value(compaction.name)
    request = proto.CollectGarbageRequest(compaction=kind, released=released, looks_only=looks_only)
    return AdminCall("CollectGarbage", request, partial(encoding.decode, GarbageReport), LONG_DEADLINE_S)


def scrub(*, start: bool) -> AdminCall[ScrubReport]:
    """The answer tells how the check of all entries goes; `start` begins a pass and does not wait for its end."""
    return AdminCall("Scrub", proto.ScrubRequest(start=start), partial(encoding.decode, ScrubReport))


def _members(reply: Any) -> tuple[Member, ...]:
    return tuple(encoding.decode(Member, one) for one in reply.members)


def _answer(reply: Any) -> GrantAnswer:
    return GrantAnswer(bool(reply.accepted), str(reply.refused_reason), str(reply.text))
