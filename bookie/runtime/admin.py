"""The admin port: `bookie.admin.v1` and gRPC health, over `ports.admin`. `bookie.rpc.encoding` translates.

It serves from the first second of the process's life, so that a person can ask a bookie that waits for a grant why it
waits.
"""

import asyncio
import contextlib
import dataclasses
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bookie.base import errors, ids
from bookie.base.errors import BookieError
from bookie.ports import admin as port
from bookie.ports.doors import Doors, NoDoors
from bookie.ports.network import Address
from bookie.rpc import admin_pb2 as proto
from bookie.rpc import admin_pb2_grpc, encoding
from bookie.runtime import admin_boundary, admin_callers, admin_connections
from bookie.runtime.admin_callers import Callers, Interceptor
from bookie.runtime.admin_secure import RENEWAL_GRACE_S, STOP_GRACE_S, Secured, SecurePort, bind

_Context = grpc.aio.ServicerContext[Any, Any]
_WATCH_INTERVAL_S = 1.0
_REPAIR_INTERVAL_MS = 1000
_REPAIR_INTERVAL_MS_LEAST, _REPAIR_INTERVAL_MS_MOST = 100, 3_600_000
_BLOCKED_MAX = 100
_OPTIONS = [
    ("grpc.so_reuseport", 0),  # one bookie, one owner of the port: a second process must fail, not share
    # A connection outlives neither its certificate nor the authority behind it by more than this.
    ("grpc.max_connection_age_ms", int(RENEWAL_GRACE_S * 1000)),
]


@contextlib.asynccontextmanager
async def serve(
    node: port.Admin,
    address: Address,
    callers: Callers | None = None,
    doors: Doors | None = None,
    *,
    tls: Secured | None = None,
    socket: str = "",
) -> AsyncIterator[int]:
    """Serve `node` to `callers`: in plain at `address`, over TLS where `tls` says, and at the path `socket`.

    Give the number of the plain port. Raises RefusedToStart when a port is in use, BadInput
    for certificates that cannot be used.
    """
    doors = doors or NoDoors()
    boundary = admin_boundary.AdminBoundary(doors)  # one for all servers: what it bounds is the bookie's
    known = Interceptor(callers or Callers(), doors)

    def make() -> grpc.aio.Server:
        server = grpc.aio.server(
            options=[*_OPTIONS, *admin_boundary.OPTIONS, *admin_connections.GRPC_OPTIONS],
            interceptors=[boundary, known],
        )
        admin_pb2_grpc.add_AdminServicer_to_server(_Admin(node), server)
        health_pb2_grpc.add_HealthServicer_to_server(_Health(node), server)
        return server

    server = make()
    bound = bind(lambda: server.add_insecure_port(f"{address}"), f"{address}", "adminPort")
    ports: list[int] = [bound]
    over_tls: AbstractAsyncContextManager[None] = contextlib.nullcontext()
    if tls is not None:
        secure = SecurePort(tls, make, doors)
        await secure.listen()
        over_tls = secure.served()
        ports.append(tls.bound)
    if socket:
        bind(lambda: server.add_insecure_port(f"unix:{socket}"), socket, "adminSocket")
        os.chmod(socket, 0o600)
    await server.start()
    try:
        async with over_tls, admin_connections.bounded(ports, doors):
            yield bound
    finally:
        await server.stop(STOP_GRACE_S)


class _Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # generated without types
    def __init__(self, node: port.Admin) -> None:
        self._node = node

    def _status(self, service: str) -> int:
        try:
            # "" asks for the whole server: is the process alive?
            question = port.Health(service) if service else port.Health.PROCESS
        except ValueError:
            return int(health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
        healthy = self._node.is_healthy(question)
        return int(health_pb2.HealthCheckResponse.SERVING if healthy else health_pb2.HealthCheckResponse.NOT_SERVING)

    async def Check(self, request: Any, context: _Context) -> Any:
        status = self._status(request.service)
        if status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN:
            names = ", ".join(question.value for question in port.Health)
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no service {request.service!r}; there are: {names}")
        return health_pb2.HealthCheckResponse(status=status)

    async def Watch(self, request: Any, context: _Context) -> AsyncIterator[Any]:
        last = None
        while True:
            status = self._status(request.service)
            if status != last:
                last = status
                yield health_pb2.HealthCheckResponse(status=status)
            await asyncio.sleep(_WATCH_INTERVAL_S)


class _Admin(admin_pb2_grpc.AdminServicer):
    def __init__(self, node: port.Admin) -> None:
        self._node = node

    async def GetStorageReport(self, request: proto.GetStorageReportRequest, context: _Context) -> proto.StorageReport:
        answer: proto.StorageReport = encoding.encode(await self._node.storage_report(fresh=request.fresh))
        return answer

    async def ListMembers(self, request: proto.ListMembersRequest, context: _Context) -> proto.Members:
        found = await self._node.members()
        return proto.Members(members=encoding.encode(found))

    async def GrantRegeneration(self, request: proto.Grant, context: _Context) -> proto.GrantReply:
        said = admin_callers.plain(request.issued_by)
        grant = dataclasses.replace(
            encoding.decode(port.Grant, request), issued_by=said, given_by=f"{admin_callers.CALLER.get()}: {said}"
        )
        try:
            await self._node.grant(grant)
        except errors.GrantRefused as error:
            return proto.GrantReply(accepted=False, refused_reason=error.reason, text=str(error))
        return proto.GrantReply(accepted=True, text="accepted")

    async def GetRepairStatus(
        self, request: proto.GetRepairStatusRequest, context: _Context
    ) -> AsyncIterator[proto.RepairStatus]:
        asked_ms = request.interval_ms or _REPAIR_INTERVAL_MS
        interval_ms = min(max(asked_ms, _REPAIR_INTERVAL_MS_LEAST), _REPAIR_INTERVAL_MS_MOST)
        async for status in self._node.repair_status(interval_ms):
            yield encoding.encode(dataclasses.replace(status, blocked=status.blocked[:_BLOCKED_MAX]))

    async def SetMode(self, request: proto.SetModeRequest, context: _Context) -> proto.SetModeReply:
        if request.mode not in (proto.SetModeRequest.READ_WRITE, proto.SetModeRequest.READ_ONLY_MODE):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "mode: READ_WRITE or READ_ONLY_MODE")
        is_read_only, epoch = request.mode == proto.SetModeRequest.READ_ONLY_MODE, request.operator_epoch
        if request.ends_turn and is_read_only:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "ends_turn: goes with READ_WRITE alone")
        if request.ends_turn:
            state = await self._node.end_turn(operator_epoch=epoch)
        else:
            state = await self._node.set_read_only(is_read_only, operator_epoch=epoch)
        return proto.SetModeReply(state=state.value)

    async def PrepareShutdown(
        self, request: proto.PrepareShutdownRequest, context: _Context
    ) -> proto.PrepareShutdownReply:
        turn = None  # by hand, or by an operator of an earlier release, which says nothing of itself
        if request.operator_epoch:
            turn = port.StopTurn(request.operator_epoch, request.pod_uid, request.ttl_ms, is_sealed=request.is_sealed)
        try:
            return proto.PrepareShutdownReply(flushed=True, text=await self._node.prepare_shutdown(turn))
        except BookieError as error:
            return proto.PrepareShutdownReply(flushed=False, text=str(error))

    async def Checkpoint(self, request: proto.CheckpointRequest, context: _Context) -> proto.CheckpointReply:
        await self._node.flush()
        return proto.CheckpointReply()

    async def CollectGarbage(self, request: proto.CollectGarbageRequest, context: _Context) -> proto.GarbageReport:
        if request.compaction not in proto.CollectGarbageRequest.Compaction.values():
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"compaction {request.compaction}: no such kind")
        name = proto.CollectGarbageRequest.Compaction.Name(request.compaction)
        kind = port.Compaction(name.lower())
        report = await self._node.collect_garbage(kind, released=request.released, looks_only=request.looks_only)
        answer: proto.GarbageReport = encoding.encode(report)
        return answer

    async def Scrub(self, request: proto.ScrubRequest, context: _Context) -> proto.ScrubReport:
        if request.start:
            await self._node.scrub()
        answer: proto.ScrubReport = encoding.encode(self._node.scrub_report())
        return answer

    async def Drain(self, request: proto.DrainRequest, context: _Context) -> proto.DrainStatus:
        if request.action not in (proto.DrainRequest.START, proto.DrainRequest.CANCEL, proto.DrainRequest.LOOK):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "action: START, CANCEL or LOOK")
        if request.open_ledgers not in proto.DrainRequest.OpenLedgers.values():
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"open_ledgers {request.open_ledgers}: no such word")
        status = await self._node.drain(
            port.DrainAction[proto.DrainRequest.Action.Name(request.action)],
            operator_epoch=request.operator_epoch,
            bytes_per_second=request.bytes_per_second,
            open_ledgers=port.OpenLedgers[proto.DrainRequest.OpenLedgers.Name(request.open_ledgers)],
            bookie_id=ids.parse_bookie_id(request.bookie_id) if request.bookie_id else None,
        )
        answer: proto.DrainStatus = encoding.encode(status)
        return answer

    async def FindReferences(self, request: proto.FindReferencesRequest, context: _Context) -> proto.References:
        found = await self._node.find_references(ids.parse_bookie_id(request.bookie_id))
        answer: proto.References = encoding.encode(found)
        return answer

    async def FindDependents(self, request: proto.FindDependentsRequest, context: _Context) -> proto.References:
        bookies = tuple(ids.parse_bookie_id(one) for one in request.bookie_ids)
        if len(bookies) < 2:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "bookie_ids: name two bookies at least")
        answer: proto.References = encoding.encode(await self._node.find_dependents(bookies))
        return answer

    async def FindMarked(self, request: proto.FindMarkedRequest, context: _Context) -> proto.MarkedLedgers:
        bookies = tuple(ids.parse_bookie_id(one) for one in request.bookie_ids)
        if not bookies:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "bookie_ids: name one bookie at least")
        answer: proto.MarkedLedgers = encoding.encode(await self._node.find_marked(bookies))
        return answer

    async def ForgetBookie(self, request: proto.ForgetBookieRequest, context: _Context) -> proto.ForgetBookieReply:
        try:
            text = await self._node.forget_bookie(
                ids.parse_bookie_id(request.bookie_id),
                cookie_version=request.cookie_version,
                operator_epoch=request.operator_epoch,
            )
        except errors.GrantRefused as error:
            return proto.ForgetBookieReply(forgotten=False, refused_reason=error.reason, text=str(error))
        return proto.ForgetBookieReply(forgotten=True, text=text)

    async def FillHoles(self, request: proto.FillHolesRequest, context: _Context) -> proto.FillStatus:
        if request.action not in (proto.FillHolesRequest.START, proto.FillHolesRequest.LOOK):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "action: START or LOOK")
        action = port.FillAction(proto.FillHolesRequest.Action.Name(request.action))
        answer: proto.FillStatus = encoding.encode(await self._node.fill_holes(action))
        return answer

    async def SetAside(self, request: proto.SetAsideRequest, context: _Context) -> proto.SetAsideReply:
        try:
            text = await self._node.set_aside(
                ids.parse_bookie_id(request.bookie_id),
                encoding.decode(port.Aside, request.order),
                operator_epoch=request.operator_epoch,
            )
        except errors.GrantRefused as error:
            return proto.SetAsideReply(done=False, refused_reason=error.reason, text=str(error))
        return proto.SetAsideReply(done=True, text=text)

    async def RestoreCookie(self, request: proto.RestoreCookieRequest, context: _Context) -> proto.RestoreCookieReply:
        try:
            text = await self._node.restore_cookie(
                evidence_hash=request.evidence_hash, operator_epoch=request.operator_epoch
            )
        except errors.GrantRefused as error:
            return proto.RestoreCookieReply(done=False, refused_reason=error.reason, text=str(error))
        return proto.RestoreCookieReply(done=True, text=text)

    async def AcceptLedgerLoss(
        self, request: proto.AcceptLedgerLossRequest, context: _Context
    ) -> proto.AcceptLedgerLossReply:
        ledger_id = ids.parse_ledger_id(str(request.ledger_id))
        bookies = tuple(ids.parse_bookie_id(one) for one in request.bookie_ids)
        if not bookies:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "bookie_ids: name one bookie at least")
        try:
            text = await self._node.accept_ledger_loss(
                ledger_id,
                bookies,
                by=request.by,
                reason=request.reason,
                operator_epoch=request.operator_epoch,
            )
        except errors.GrantRefused as error:
            return proto.AcceptLedgerLossReply(done=False, refused_reason=error.reason, text=str(error))
        except errors.LedgerMissing as error:
            return proto.AcceptLedgerLossReply(done=False, refused_reason="missing", text=str(error))
        return proto.AcceptLedgerLossReply(done=True, text=text)

    async def ChangeSettings(
        self, request: proto.ChangeSettingsRequest, context: _Context
    ) -> proto.ChangeSettingsReply:
        try:
            await self._node.change_settings(dict(request.settings), operator_epoch=request.operator_epoch)
        except errors.GrantRefused as error:
            return proto.ChangeSettingsReply(done=False, refused_reason=error.reason, text=str(error))
        except errors.BadInput as error:
            return proto.ChangeSettingsReply(done=False, refused_reason="not_live", text=str(error))
        return proto.ChangeSettingsReply(done=True, text="in force")
