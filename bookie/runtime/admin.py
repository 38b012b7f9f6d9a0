"""The admin port: `bookie.admin.v1` and gRPC health, over `ports.admin`. Translation and nothing else.

Up from the first second of the process's life, so that a bookie that waits for a grant can be asked why.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, Incarnation
from bookie.ports import admin as port
from bookie.ports.network import Address
from bookie.rpc import admin_pb2 as proto
from bookie.rpc import admin_pb2_grpc
from bookie.runtime.admin_callers import Callers, Interceptor

_Context = grpc.aio.ServicerContext[Any, Any]
_WATCH_INTERVAL_S = 1.0
_REPAIR_INTERVAL_MS = 1000
# Calls that are being answered get this long when the process stops.
_GRACE_S = 0.5
_BLOCKED_MAX = 100


@contextlib.asynccontextmanager
async def serve(node: port.Admin, address: Address, callers: Callers | None = None) -> AsyncIterator[int]:
    """Serve `node` at `address` to `callers`; give the port. Raises RefusedToStart when it is in use."""
    # One bookie, one owner of the port: a second process must fail, not share (gRPC's default).
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)], interceptors=[Interceptor(callers or Callers())])
    admin_pb2_grpc.add_AdminServicer_to_server(_Admin(node), server)
    health_pb2_grpc.add_HealthServicer_to_server(_Health(node), server)
    try:
        bound = server.add_insecure_port(f"{address.host}:{address.port}")
    except RuntimeError as error:
        raise errors.RefusedToStart(
            f"cannot listen on {address} for the admin service: the port is in use or not ours;"
            " stop the other process, or choose another adminPort"
        ) from error
    await server.start()
    try:
        yield bound
    finally:
        await server.stop(_GRACE_S)


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
        try:
            return report_message(await self._node.storage_report(fresh=request.fresh))
        except BookieError as error:
            await _fail(context, error)
            raise

    async def GrantRegeneration(self, request: proto.Grant, context: _Context) -> proto.GrantReply:
        grant = port.Grant(
            grant_id=request.grant_id,
            bookie_id=BookieId(request.bookie_id),
            pod_uid=request.pod_uid,
            evidence_hash=request.evidence_hash,
            cookie_version=request.cookie_version,
            new_incarnation=Incarnation(request.new_incarnation),
            operator_epoch=request.operator_epoch,
            ttl_ms=request.ttl_ms,
            issued_by=request.issued_by,
        )
        try:
            await self._node.grant(grant)
        except errors.GrantRefused as error:
            return proto.GrantReply(accepted=False, refused_reason=error.reason, text=str(error))
        except BookieError as error:
            await _fail(context, error)
            raise
        return proto.GrantReply(accepted=True, text="accepted")

    async def GetRepairStatus(
        self, request: proto.GetRepairStatusRequest, context: _Context
    ) -> AsyncIterator[proto.RepairStatus]:
        async for status in self._node.repair_status(request.interval_ms or _REPAIR_INTERVAL_MS):
            yield _repair(status)

    async def SetMode(self, request: proto.SetModeRequest, context: _Context) -> proto.SetModeReply:
        if request.mode == proto.SetModeRequest.MODE_UNSPECIFIED:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "mode: READ_WRITE or READ_ONLY_MODE")
        try:
            state = await self._node.set_read_only(request.mode == proto.SetModeRequest.READ_ONLY_MODE)
        except BookieError as error:
            await _fail(context, error)
            raise
        return proto.SetModeReply(state=state.value)

    async def PrepareShutdown(
        self, request: proto.PrepareShutdownRequest, context: _Context
    ) -> proto.PrepareShutdownReply:
        try:
            return proto.PrepareShutdownReply(flushed=True, text=await self._node.prepare_shutdown())
        except BookieError as error:
            return proto.PrepareShutdownReply(flushed=False, text=str(error))

    async def Checkpoint(self, request: proto.CheckpointRequest, context: _Context) -> proto.CheckpointReply:
        try:
            await self._node.flush()
        except BookieError as error:
            await _fail(context, error)
            raise
        return proto.CheckpointReply()

    async def CollectGarbage(self, request: proto.CollectGarbageRequest, context: _Context) -> proto.GarbageReport:
        name = proto.CollectGarbageRequest.Compaction.Name(request.compaction)
        try:
            report = await self._node.collect_garbage(port.Compaction(name.lower()))
        except BookieError as error:
            await _fail(context, error)
            raise
        return proto.GarbageReport(**dataclasses.asdict(report))

    async def Scrub(self, request: proto.ScrubRequest, context: _Context) -> proto.ScrubReport:
        try:
            if request.start:
                await self._node.scrub()
            report = self._node.scrub_report()
        except BookieError as error:
            await _fail(context, error)
            raise
        facts = dataclasses.asdict(report)
        return proto.ScrubReport(**{**facts, "bad": [proto.BadEntry(**bad) for bad in facts["bad"]]})


async def _fail(context: _Context, error: BookieError) -> None:
    code = grpc.StatusCode.INVALID_ARGUMENT if isinstance(error, errors.BadInput) else grpc.StatusCode.UNAVAILABLE
    await context.abort(code, str(error))


def report_message(report: port.StorageReport) -> proto.StorageReport:
    return proto.StorageReport(
        bookie_id=report.bookie_id,
        pod_uid=report.pod_uid,
        state=report.state.value,
        verdict=report.verdict.value if report.verdict else None,
        reason=report.reason,
        instance_id=report.instance_id,
        metadata_reachable=report.metadata_reachable,
        cookie_present=report.cookie_present,
        cookie_version=report.cookie_version,
        cookie_digest=report.cookie_digest,
        incarnation=report.incarnation,
        boot_epoch=report.boot_epoch,
        ledger_count=report.ledger_count,
        ledgers_naming_me=report.ledgers_naming_me,
        volumes=[_volume(volume) for volume in report.volumes],
        evidence_hash=report.evidence_hash,
        unclean_shutdown=report.unclean_shutdown,
        capabilities=report.capabilities,
        operator_epoch_seen=report.operator_epoch_seen,
        grant_id=report.grant_id,
        data_port_open=report.data_port_open,
        version=report.version,
        journal_write_data=report.journal_write_data,
        read_only=report.read_only,
        process_uptime_ms=report.process_uptime_ms,
    )


def _volume(volume: port.VolumeReport) -> proto.VolumeReport:
    mount, found = volume.mount, volume.sentinel
    sentinel = None
    if found is not None:
        sentinel = proto.Sentinel(
            instance_id=found.instance_id,
            bookie_id=found.bookie_id,
            role=found.role,
            volume=found.volume,
            incarnation=found.incarnation,
            boot_epoch=found.boot_epoch,
            fsid=found.fsid,
            grant_id=found.grant_id,
        )
    return proto.VolumeReport(
        name=volume.name,
        role=volume.role,
        path=volume.path,
        mount=proto.Mount(
            proof=mount.proof.value,
            is_mount_point=mount.is_mount_point,
            device=mount.device,
            fsid=mount.fsid,
            fstype=mount.fstype,
            root=mount.root,
            source=mount.source,
            total_bytes=mount.total_bytes,
            shares_node_disk=mount.shares_node_disk,
            reason=mount.reason,
        ),
        contents=volume.contents.value,
        sentinel=sentinel,
        reason=volume.reason,
    )


def _repair(status: port.RepairStatus) -> proto.RepairStatus:
    return proto.RepairStatus(
        state=status.state.value,
        phase=status.phase,
        phase_one_ms=status.phase_one_ms,
        ledgers_scanned=status.ledgers_scanned,
        ledgers_total=status.ledgers_total,
        ledgers_member=status.ledgers_member,
        ledgers_fenced=status.ledgers_fenced,
        ledgers_limbo=status.ledgers_limbo,
        ledgers_pending=status.ledgers_pending,
        ledgers_done=status.ledgers_done,
        entries_copied=status.entries_copied,
        bytes_copied=status.bytes_copied,
        entries_pending=status.entries_pending,
        bytes_per_second=status.bytes_per_second,
        blocked=[
            proto.BlockedLedger(ledger_id=blocked.ledger_id, reason=blocked.reason)
            for blocked in status.blocked[:_BLOCKED_MAX]
        ],
        done=status.done,
        incarnation=status.incarnation,
        elapsed_ms=status.elapsed_ms,
    )
