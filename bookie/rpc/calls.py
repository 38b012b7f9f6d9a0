"""List what a caller may ask of an admin port: each question with its request, how to read its answer, and how long it
may take. `client` sends the questions, waiting or suspending.

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
    """One question to an admin port. `method`: its name in admin.proto. `deadline_s` None: the client's own
    deadline."""

    method: str
    request: Message
    read: Callable[[Any], T]
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True)
class GrantAnswer:
    """How a bookie answers a grant. `refused_reason`: a stable word (admin.proto, GrantReply)."""

    is_accepted: bool
    refused_reason: str = ""
    text: str = ""


def storage_report(*, fresh: bool) -> AdminCall[StorageReport]:
    """Ask for the storage report. `fresh`: the bookie looks at its volumes again, instead of giving its newest look."""
    request = proto.GetStorageReportRequest(fresh=fresh)
    return AdminCall("GetStorageReport", request, partial(encoding.decode, StorageReport))


def members() -> AdminCall[tuple[Member, ...]]:
    """Ask the bookie to read from its metadata store, now, every bookie that the store knows."""
    return AdminCall("ListMembers", proto.ListMembersRequest(), _members)


def grant(wanted: Grant) -> AdminCall[GrantAnswer]:
    return AdminCall("GrantRegeneration", encoding.encode(wanted), _answer)


def repair_status(interval_ms: int = 0) -> AdminCall[RepairStatus]:
    """Ask for the repair's status, as a stream for `follow`: one message at once, then one at each change and at least
    every `interval_ms`, until the repair is done."""
    request = proto.GetRepairStatusRequest(interval_ms=interval_ms)
    return AdminCall("GetRepairStatus", request, partial(encoding.decode, RepairStatus))


def set_read_only(read_only: bool) -> AdminCall[State]:
    """Make the bookie read-only, or writable again; it answers with its state after the change."""
    mode = proto.SetModeRequest.READ_ONLY_MODE if read_only else proto.SetModeRequest.READ_WRITE
    return AdminCall("SetMode", proto.SetModeRequest(mode=mode), lambda reply: State(proto.State.Name(reply.state)))


def prepare_shutdown() -> AdminCall[tuple[bool, str]]:
    """Ask the bookie to flush for its end; it answers whether everything is flushed, and a sentence."""
    request = proto.PrepareShutdownRequest()
    return AdminCall("PrepareShutdown", request, lambda reply: (bool(reply.flushed), str(reply.text)), LONG_DEADLINE_S)


def checkpoint() -> AdminCall[None]:
    """Ask for a checkpoint; the bookie answers once every entry acknowledged before is in entry logs and index."""
    return AdminCall("Checkpoint", proto.CheckpointRequest(), lambda _: None, LONG_DEADLINE_S)


def collect_garbage(compaction: Compaction, *, released: int = 0, looks_only: bool = False) -> AdminCall[GarbageReport]:
    """Collect garbage now. `released`: so many ledgers may go beyond the brake on deletion. `looks_only`: delete
    nothing."""
    kind = proto.CollectGarbageRequest.Compaction.Value(compaction.name)
    request = proto.CollectGarbageRequest(compaction=kind, released=released, looks_only=looks_only)
    return AdminCall("CollectGarbage", request, partial(encoding.decode, GarbageReport), LONG_DEADLINE_S)


def scrub(*, start: bool) -> AdminCall[ScrubReport]:
    """Ask how the check of all entries goes; `start` begins a pass, and the answer does not wait for its end."""
    return AdminCall("Scrub", proto.ScrubRequest(start=start), partial(encoding.decode, ScrubReport))


def _members(reply: Any) -> tuple[Member, ...]:
    return tuple(encoding.decode(Member, one) for one in reply.members)


def _answer(reply: Any) -> GrantAnswer:
    return GrantAnswer(bool(reply.accepted), str(reply.refused_reason), str(reply.text))
