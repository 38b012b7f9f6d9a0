"""List what a caller may ask of an admin port: each question with its request, how to read its answer, and how long it
may take. `client` sends the questions, waiting or suspending.

`client` asks them, waiting or suspending.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from bookie.ports.admin import (
    Aside,
    Compaction,
    DrainAction,
    DrainStatus,
    FillAction,
    FillStatus,
    GarbageReport,
    Grant,
    MarkedLedgers,
    Member,
    OpenLedgers,
    References,
    RepairStatus,
    ScrubReport,
    State,
    StopTurn,
    StorageReport,
)
from bookie.rpc import admin_pb2 as proto
from bookie.rpc import encoding

T = TypeVar("T")

# Trailing metadata of an answer that is an operating error: gRPC says UNAVAILABLE also where nobody answers.
ANSWERED = "bookie-answered"

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


@dataclass(frozen=True, slots=True)
class ForgetAnswer:
    """How a bookie answers the order to forget another. `refused_reason`: a stable word
    (admin.proto, ForgetBookieReply)."""

    is_forgotten: bool
    refused_reason: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class OrderAnswer:
    """How a bookie answers the order to take one out of service, or back, to make its cookie again, or to end a ledger.
    `refused_reason`: a stable word (admin.proto, SetAsideReply, RestoreCookieReply, AcceptLedgerLossReply)."""

    is_done: bool
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


def set_read_only(read_only: bool, *, operator_epoch: int = 0) -> AdminCall[State]:
    """Make the bookie read-only, or writable again; it answers with its state after the change."""
    mode = proto.SetModeRequest.READ_ONLY_MODE if read_only else proto.SetModeRequest.READ_WRITE
    return _set_mode(proto.SetModeRequest(mode=mode, operator_epoch=operator_epoch))


def end_turn(*, operator_epoch: int) -> AdminCall[State]:
    """Take back `prepare_shutdown`; a bookie of a release that knows no turns becomes writable."""
    mode = proto.SetModeRequest.READ_WRITE
    return _set_mode(proto.SetModeRequest(mode=mode, operator_epoch=operator_epoch, ends_turn=True))


def _set_mode(request: Message) -> AdminCall[State]:
    return AdminCall("SetMode", request, lambda reply: encoding.word(State, reply.state))


def prepare_shutdown(turn: StopTurn | None = None) -> AdminCall[tuple[bool, str]]:
    """Ask the bookie to refuse adds and flush for its end; it answers whether everything is flushed, and a sentence.
    None: by hand, and until somebody makes it writable."""
    request = proto.PrepareShutdownRequest()
    if turn is not None:
        request = proto.PrepareShutdownRequest(
            operator_epoch=turn.operator_epoch, pod_uid=turn.pod_uid, ttl_ms=turn.ttl_ms, is_sealed=turn.is_sealed
        )
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


def drain(
    action: DrainAction,
    *,
    operator_epoch: int = 0,
    bytes_per_second: int = 0,
    open_ledgers: OpenLedgers = OpenLedgers.WAIT,
    bookie_id: str = "",
) -> AdminCall[DrainStatus]:
    """Have the bookie leave the fleet alive, stay after all, or say how it goes (ports.admin, `Admin.drain`)."""
    request = proto.DrainRequest(
        action=proto.DrainRequest.Action.Value(action.name),
        operator_epoch=operator_epoch,
        bytes_per_second=bytes_per_second,
        open_ledgers=proto.DrainRequest.OpenLedgers.Value(open_ledgers.name),
        bookie_id=bookie_id,
    )
    return AdminCall("Drain", request, partial(encoding.decode, DrainStatus))


def find_references(bookie_id: str) -> AdminCall[References]:
    """Ask the bookie to look, now, which ledgers of the cluster name `bookie_id`."""
    request = proto.FindReferencesRequest(bookie_id=bookie_id)
    return AdminCall("FindReferences", request, partial(encoding.decode, References), LONG_DEADLINE_S)


def find_dependents(bookie_ids: tuple[str, ...]) -> AdminCall[References]:
    """Ask the bookie to look, now, of which ledgers an acknowledged entry may be on these bookies alone."""
    request = proto.FindDependentsRequest(bookie_ids=bookie_ids)
    return AdminCall("FindDependents", request, partial(encoding.decode, References), LONG_DEADLINE_S)


def find_marked(bookie_ids: tuple[str, ...]) -> AdminCall[MarkedLedgers]:
    """Ask the bookie to look, now, which ledgers that auto-recovery has marked want one of these not to be stopped."""
    request = proto.FindMarkedRequest(bookie_ids=bookie_ids)
    return AdminCall("FindMarked", request, partial(encoding.decode, MarkedLedgers), LONG_DEADLINE_S)


def forget_bookie(bookie_id: str, *, cookie_version: int, operator_epoch: int = 0) -> AdminCall[ForgetAnswer]:
    """Ask the bookie to delete the cookie of another one that is gone and that no ledger names."""
    request = proto.ForgetBookieRequest(
        bookie_id=bookie_id, cookie_version=cookie_version, operator_epoch=operator_epoch
    )
    return AdminCall("ForgetBookie", request, _forgotten, LONG_DEADLINE_S)


def set_aside(bookie_id: str, order: Aside, *, operator_epoch: int = 0) -> AdminCall[OrderAnswer]:
    """Ask the bookie to write the order that keeps `bookie_id` out of service from its next boot on, or ends that."""
    request = proto.SetAsideRequest(bookie_id=bookie_id, order=encoding.encode(order), operator_epoch=operator_epoch)
    return AdminCall("SetAside", request, _ordered)


def restore_cookie(evidence_hash: str, *, operator_epoch: int = 0) -> AdminCall[OrderAnswer]:
    """Ask the bookie to make its own cookie again, as its disks have it."""
    request = proto.RestoreCookieRequest(evidence_hash=evidence_hash, operator_epoch=operator_epoch)
    return AdminCall("RestoreCookie", request, _ordered)


def accept_ledger_loss(
    ledger_id: int, bookie_ids: tuple[str, ...], *, by: str, reason: str, operator_epoch: int = 0
) -> AdminCall[OrderAnswer]:
    """Ask the bookie to give up what `bookie_ids` held of a ledger that nobody can end otherwise, and to close it."""
    request = proto.AcceptLedgerLossRequest(
        ledger_id=ledger_id, bookie_ids=bookie_ids, by=by, reason=reason, operator_epoch=operator_epoch
    )
    return AdminCall("AcceptLedgerLoss", request, _ordered, LONG_DEADLINE_S)


def change_settings(wanted: Mapping[str, str], *, operator_epoch: int = 0) -> AdminCall[OrderAnswer]:
    """Ask the bookie to run with other values of settings that need no restart; "" = the default."""
    request = proto.ChangeSettingsRequest(settings=dict(wanted), operator_epoch=operator_epoch)
    return AdminCall("ChangeSettings", request, _ordered)


def fill_holes(action: FillAction) -> AdminCall[FillStatus]:
    """Ask the bookie to fill holes in place, or how far it is; the answer does not wait for the end of a run."""
    request = proto.FillHolesRequest(action=proto.FillHolesRequest.Action.Value(action.value))
    return AdminCall("FillHoles", request, partial(encoding.decode, FillStatus))


def _members(reply: Any) -> tuple[Member, ...]:
    return tuple(encoding.decode(Member, one) for one in reply.members)


def _answer(reply: Any) -> GrantAnswer:
    return GrantAnswer(bool(reply.accepted), str(reply.refused_reason), str(reply.text))


def _forgotten(reply: Any) -> ForgetAnswer:
    return ForgetAnswer(bool(reply.forgotten), str(reply.refused_reason), str(reply.text))


def _ordered(reply: Any) -> OrderAnswer:
    return OrderAnswer(bool(reply.done), str(reply.refused_reason), str(reply.text))
