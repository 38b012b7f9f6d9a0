"""Calls the admin service of a bookie, as far as the operator needs it: look, look at the repair, grant.

One short-lived channel per call: a cached one would remember its back-off while a pod restarts behind the same address.
Every call has a deadline; whatever fails becomes BookieUnreachable with a sentence, and unreachable is never "empty".
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol, TypeVar

from bookie.base import ids
from bookie.base.errors import BadInput, BookieError
from bookie.ports import admin as port
from bookie.ports.admin import (
    Aside,
    DrainAction,
    DrainStatus,
    FillAction,
    FillStatus,
    MarkedLedgers,
    Member,
    OpenLedgers,
    References,
    RepairStatus,
    StopTurn,
    StorageReport,
)
from bookie.rpc import calls
from bookie.rpc.calls import AdminCall, ForgetAnswer, GrantAnswer, OrderAnswer
from bookie.rpc.client import AdminCredentials, AdminRefused, AsyncAdminClient
from bookie_operator.evidence.bookie import ROLLBACK
from bookie_operator.evidence.facts import Door
from bookie_operator.model.status import GrantRecord

T = TypeVar("T")

CALL_DEADLINE_S = 5.0
# A pass waits so long for a flush, and asks again in the next one: the bookie has gone on meanwhile.
FLUSH_DEADLINE_S = 30.0
# All ledgers of a cluster are read. Three such looks for each bookie that leaves; a pass waits meanwhile.
SCAN_DEADLINE_S = 120.0
# The marks of auto-recovery alone: none where all is well, and the look ends early where much is not.
MARKS_DEADLINE_S = 30.0


class BookieUnreachable(BookieError):
    """No usable answer from a bookie's admin port."""

    retryable = True


class BookieReader(Protocol):
    """The calls by which a look asks bookies."""

    async def report(self, door: Door, *, fresh: bool) -> StorageReport: ...

    async def members(self, door: Door) -> tuple[Member, ...]:
        """Return every bookie that the metadata store knows, as the bookie behind `door` reads it now."""
        ...

    async def repair(self, door: Door) -> RepairStatus: ...

    async def fill(self, door: Door) -> FillStatus:
        """Return how the bookie's filling of holes goes."""
        ...

    async def look_at_drain(self, door: Door) -> DrainStatus: ...

    async def find_dependents(self, door: Door, bookie_ids: tuple[str, ...]) -> References:
        """Return of which ledgers an acknowledged entry may be on these bookies alone, as the bookie behind `door`
        reads the metadata now."""
        ...

    async def find_marked(self, door: Door, bookie_ids: tuple[str, ...]) -> MarkedLedgers:
        """Return which ledgers that auto-recovery has marked want one of these bookies not to be stopped, as the bookie
        behind `door` reads the metadata now."""
        ...

    async def find_references(self, door: Door, bookie_id: str) -> References:
        """Return which ledgers name `bookie_id`, as the bookie behind `door` reads the metadata now."""
        ...


class Bookies(BookieReader, Protocol):
    async def grant(self, door: Door, grant: GrantRecord, ttl_ms: int) -> GrantAnswer: ...

    async def prepare_shutdown(self, door: Door, turn: StopTurn) -> tuple[bool, str]:
        """Have the bookie refuse adds while its turn lasts, and flush; return (everything is flushed, a sentence)."""
        ...

    async def resume(self, door: Door, *, operator_epoch: int) -> None:
        """Have the bookie take adds as before its turn."""
        ...

    async def fill_holes(self, door: Door) -> None:
        """Have the bookie fetch what was written while it was away; does not wait for the end."""
        ...

    async def drain(
        self, door: Door, *, operator_epoch: int, bytes_per_second: int, open_ledgers: OpenLedgers
    ) -> DrainStatus:
        """Have the bookie become read-only and move its ledgers away; the same order again changes nothing."""
        ...

    async def cancel_drain(self, door: Door, *, operator_epoch: int) -> DrainStatus: ...

    async def forget_bookie(
        self, door: Door, bookie_id: str, *, cookie_version: int, operator_epoch: int
    ) -> ForgetAnswer:
        """Have the bookie behind `door` delete the cookie of another one that is gone and that no ledger names."""
        ...

    async def set_aside(self, door: Door, bookie_id: str, order: Aside, *, operator_epoch: int) -> OrderAnswer:
        """Have the bookie behind `door` write the order that keeps one out of service, or ends that."""
        ...

    async def restore_cookie(self, door: Door, evidence_hash: str, *, operator_epoch: int) -> OrderAnswer:
        """Have the held bookie make its own cookie again, as its disks have it."""
        ...

    async def accept_ledger_loss(
        self, door: Door, ledger: str, bookie_ids: tuple[str, ...], *, by: str, reason: str, operator_epoch: int
    ) -> OrderAnswer:
        """Have the bookie give up what `bookie_ids` held of a ledger, and close it."""
        ...

    async def change_settings(self, door: Door, wanted: Mapping[str, str], *, operator_epoch: int) -> OrderAnswer:
        """Have the bookie run with other values of settings that need no restart."""
        ...


class AdminPorts:
    """Calls bookies over gRPC with mutual TLS; its identity for one cluster is refused by the bookies of any other."""

    def __init__(self) -> None:
        self._identities: dict[str, AdminCredentials] = {}

    def use(self, uid: str, identity: AdminCredentials) -> None:
        """Show `identity` to the bookies of the cluster `uid` from now on."""
        self._identities[uid] = identity

    def identity(self, uid: str) -> AdminCredentials | None:
        return self._identities.get(uid)

    async def report(self, door: Door, *, fresh: bool) -> StorageReport:
        return await self._ask(door, calls.storage_report(fresh=fresh))

    async def members(self, door: Door) -> tuple[Member, ...]:
        return await self._ask(door, calls.members())

    async def repair(self, door: Door) -> RepairStatus:
        """Return the present state of the repair: the first message of the stream. The later ones are for people who
        watch."""
        try:
            async with self._client(door) as bookie:
                status = await bookie.first(calls.repair_status())
        except BookieError as error:
            raise _unreachable(door, error) from error
        if status is None:
            raise BookieUnreachable(f"{door.address} ended its repair status before the first word")
        return status

    async def fill(self, door: Door) -> FillStatus:
        return await self._ask(door, calls.fill_holes(FillAction.LOOK))

    async def fill_holes(self, door: Door) -> None:
        assert door.uid, "nothing that changes a bookie travels in clear"
        await self._ask(door, calls.fill_holes(FillAction.START))

    async def grant(self, door: Door, grant: GrantRecord, ttl_ms: int) -> GrantAnswer:
        assert door.uid, "a grant never travels in clear (gate G11)"
        message = port.Grant(
            grant_id=grant.id,
            bookie_id=ids.BookieId(grant.bookie_id),
            pod_uid=grant.pod_uid,
            evidence_hash=grant.report_evidence,
            cookie_version=grant.cookie_version,
            new_incarnation=ids.Incarnation(grant.new_incarnation),
            operator_epoch=grant.epoch,
            ttl_ms=ttl_ms,
            issued_by=grant.issued_by,
            accepts_stale=grant.profile == ROLLBACK,
        )
        return await self._ask(door, calls.grant(message))

    async def prepare_shutdown(self, door: Door, turn: StopTurn) -> tuple[bool, str]:
        assert door.uid, "nothing that changes a bookie travels in clear"
        return await self._ask(door, replace(calls.prepare_shutdown(turn), deadline_s=FLUSH_DEADLINE_S))

    async def resume(self, door: Door, *, operator_epoch: int) -> None:
        assert door.uid, "nothing that changes a bookie travels in clear"
        await self._ask(door, calls.end_turn(operator_epoch=operator_epoch))

    async def look_at_drain(self, door: Door) -> DrainStatus:
        return await self._ask(door, calls.drain(DrainAction.LOOK))

    async def drain(
        self, door: Door, *, operator_epoch: int, bytes_per_second: int, open_ledgers: OpenLedgers
    ) -> DrainStatus:
        assert door.uid, "nothing that changes a bookie travels in clear"
        call = calls.drain(
            DrainAction.START,
            operator_epoch=operator_epoch,
            bytes_per_second=bytes_per_second,
            open_ledgers=open_ledgers,
        )
        return await self._ask(door, call)

    async def cancel_drain(self, door: Door, *, operator_epoch: int) -> DrainStatus:
        assert door.uid, "nothing that changes a bookie travels in clear"
        return await self._ask(door, calls.drain(DrainAction.CANCEL, operator_epoch=operator_epoch))

    async def find_dependents(self, door: Door, bookie_ids: tuple[str, ...]) -> References:
        return await self._ask(door, replace(calls.find_dependents(bookie_ids), deadline_s=SCAN_DEADLINE_S))

    async def find_marked(self, door: Door, bookie_ids: tuple[str, ...]) -> MarkedLedgers:
        return await self._ask(door, replace(calls.find_marked(bookie_ids), deadline_s=MARKS_DEADLINE_S))

    async def find_references(self, door: Door, bookie_id: str) -> References:
        return await self._ask(door, replace(calls.find_references(bookie_id), deadline_s=SCAN_DEADLINE_S))

    async def forget_bookie(
        self, door: Door, bookie_id: str, *, cookie_version: int, operator_epoch: int
    ) -> ForgetAnswer:
        assert door.uid, "nothing that changes a bookie travels in clear"
        call = calls.forget_bookie(bookie_id, cookie_version=cookie_version, operator_epoch=operator_epoch)
        return await self._ask(door, replace(call, deadline_s=SCAN_DEADLINE_S))

    async def set_aside(self, door: Door, bookie_id: str, order: Aside, *, operator_epoch: int) -> OrderAnswer:
        assert door.uid, "nothing that changes a bookie travels in clear"
        return await self._ask(door, calls.set_aside(bookie_id, order, operator_epoch=operator_epoch))

    async def restore_cookie(self, door: Door, evidence_hash: str, *, operator_epoch: int) -> OrderAnswer:
        assert door.uid, "nothing that changes a bookie travels in clear"
        return await self._ask(door, calls.restore_cookie(evidence_hash, operator_epoch=operator_epoch))

    async def accept_ledger_loss(
        self, door: Door, ledger: str, bookie_ids: tuple[str, ...], *, by: str, reason: str, operator_epoch: int
    ) -> OrderAnswer:
        assert door.uid, "nothing that changes a bookie travels in clear"
        call = calls.accept_ledger_loss(int(ledger), bookie_ids, by=by, reason=reason, operator_epoch=operator_epoch)
        return await self._ask(door, replace(call, deadline_s=SCAN_DEADLINE_S))  # a pass waits for it

    async def change_settings(self, door: Door, wanted: Mapping[str, str], *, operator_epoch: int) -> OrderAnswer:
        assert door.uid, "nothing that changes a bookie travels in clear"
        return await self._ask(door, calls.change_settings(wanted, operator_epoch=operator_epoch))

    async def _ask(self, door: Door, call: AdminCall[T]) -> T:
        try:
            async with self._client(door) as bookie:
                return await bookie.ask(call)
        except BookieError as error:
            raise _unreachable(door, error) from error

    def _client(self, door: Door) -> AsyncAdminClient:
        identity = self._identities.get(door.uid) if door.uid else None
        if door.uid and identity is None:
            raise BookieUnreachable(f"admin port {door.address}: there is no certificate for cluster {door.uid} yet")
        return AsyncAdminClient(door.address, identity, deadline_s=CALL_DEADLINE_S)


def _unreachable(door: Door, error: BookieError) -> BookieUnreachable:
    text = str(error)
    if isinstance(error, BadInput) and not isinstance(error, AdminRefused):  # of its answer: it does not say whose
        text = f"the answer of the admin port {door.address} cannot be used: {text}"
    if not door.uid and isinstance(error, AdminRefused) and error.code != "INVALID_ARGUMENT":
        text += "; this pod is of a release without TLS on the admin port: delete it, it comes back with certificates"
    return BookieUnreachable(text)
