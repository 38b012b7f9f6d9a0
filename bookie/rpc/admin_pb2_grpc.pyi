# Types of the generated stubs, by hand: grpcio-tools writes none. Kept equal to admin.proto by mypy's users of it.
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from bookie.rpc import admin_pb2

class AdminStub:
    GetStorageReport: Callable[..., Any]
    ListMembers: Callable[..., Any]
    GrantRegeneration: Callable[..., Any]
    GetRepairStatus: Callable[..., Any]
    SetMode: Callable[..., Any]
    PrepareShutdown: Callable[..., Any]
    Checkpoint: Callable[..., Any]
    CollectGarbage: Callable[..., Any]
    Scrub: Callable[..., Any]
    def __init__(self, channel: Any) -> None: ...

class AdminServicer:
    async def GetStorageReport(
        self, request: admin_pb2.GetStorageReportRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> admin_pb2.StorageReport: ...
    async def ListMembers(
        self, request: admin_pb2.ListMembersRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> admin_pb2.Members: ...
    async def GrantRegeneration(
        self, request: admin_pb2.Grant, context: grpc.aio.ServicerContext[Any, Any]
    ) -> admin_pb2.GrantReply: ...
    def GetRepairStatus(
        self, request: admin_pb2.GetRepairStatusRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[admin_pb2.RepairStatus]: ...
    async def SetMode(
        self, request: admin_pb2.SetModeRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> admin_pb2.SetModeReply: ...
    async def PrepareShutdown(
        self, request: admin_pb2.PrepareShutdownRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> admin_pb2.PrepareShutdownReply: ...
    async def Checkpoint(
        self, request: admin_pb2.CheckpointRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> admin_pb2.CheckpointReply: ...
    async def CollectGarbage(
        self, request: admin_pb2.CollectGarbageRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> admin_pb2.GarbageReport: ...
    async def Scrub(
        self, request: admin_pb2.ScrubRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> admin_pb2.ScrubReport: ...

def add_AdminServicer_to_server(servicer: AdminServicer, server: grpc.aio.Server) -> None: ...
