"""The admin service of a bookie, as the operator needs it: look, look at the repair, grant.

One short-lived channel per call: a cached one would remember its back-off while a pod restarts behind the same address.
Every call has a deadline; whatever fails becomes BookieUnreachable with a sentence, and unreachable is never "empty".
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol, TypeVar

import grpc
import grpc.aio

from bookie.base.errors import BookieError
from bookie.rpc import admin_pb2, admin_pb2_grpc
from bookie_operator.evidence.facts import (
    Claimed,
    Contents,
    Mount,
    RepairFacts,
    Report,
    SentinelFacts,
    State,
    VolumeReport,
)
from bookie_operator.model.status import Grant

CALL_DEADLINE_S = 5.0
_CHANNEL_OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))


class BookieUnreachable(BookieError):
    """No usable answer from a bookie's admin port."""

    retryable = True


@dataclass(frozen=True, slots=True)
class GrantAnswer:
    is_accepted: bool
    refused_reason: str = ""
    text: str = ""


class Bookies(Protocol):
    async def report(self, address: str, *, fresh: bool) -> Report: ...

    async def repair(self, address: str) -> RepairFacts: ...

    async def grant(self, address: str, grant: Grant, ttl_ms: int) -> GrantAnswer: ...


class AdminPorts:
    """Bookies over gRPC. `token_file` proves that we may: read at each call, so that a new token counts at once."""

    def __init__(self, token_file: str = "") -> None:
        self._token_file = token_file

    def _credentials(self) -> tuple[tuple[str, str], ...]:
        if not self._token_file:
            return ()
        try:
            tokens = Path(self._token_file).read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError) as error:
            raise BookieUnreachable(f"the admin token in {self._token_file} cannot be read: {error}") from None
        return (("authorization", f"Bearer {tokens[0]}"),) if tokens else ()

    async def report(self, address: str, *, fresh: bool) -> Report:
        async with _admin(address) as stub:
            request = admin_pb2.GetStorageReportRequest(fresh=fresh)
            return report_of(
                await stub.GetStorageReport(request, timeout=CALL_DEADLINE_S, metadata=self._credentials())
            )

    async def repair(self, address: str) -> RepairFacts:
        """The first message of the stream is the present; the rest is for people who watch."""
        async with _admin(address) as stub:
            stream = stub.GetRepairStatus(
                admin_pb2.GetRepairStatusRequest(), timeout=CALL_DEADLINE_S, metadata=self._credentials()
            )
            async for status in stream:
                stream.cancel()
                return _repair(status)
        raise BookieUnreachable(f"{address} ended its repair status before the first word")

    async def grant(self, address: str, grant: Grant, ttl_ms: int) -> GrantAnswer:
        message = admin_pb2.Grant(
            grant_id=grant.id,
            bookie_id=grant.bookie_id,
            pod_uid=grant.pod_uid,
            evidence_hash=grant.report_evidence,
            cookie_version=grant.cookie_version,
            new_incarnation=grant.new_incarnation,
            operator_epoch=grant.epoch,
            ttl_ms=ttl_ms,
            issued_by=grant.issued_by,
        )
        async with _admin(address) as stub:
            reply = await stub.GrantRegeneration(message, timeout=CALL_DEADLINE_S, metadata=self._credentials())
            return GrantAnswer(bool(reply.accepted), reply.refused_reason, reply.text)


@asynccontextmanager
async def _admin(address: str) -> AsyncIterator[admin_pb2_grpc.AdminStub]:
    try:
        async with grpc.aio.insecure_channel(address, options=_CHANNEL_OPTIONS) as channel:
            yield admin_pb2_grpc.AdminStub(channel)
    except grpc.aio.AioRpcError as error:
        raise BookieUnreachable(f"admin port {address}: {error.code().name}: {error.details()}") from error


_Word = TypeVar("_Word", bound=Enum)


def _word(kind: type[_Word], number: int) -> _Word:
    """Numbers that a newer bookie may send and we do not know are "unspecified", the first of each enum."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


def report_of(message: admin_pb2.StorageReport) -> Report:
    return Report(
        bookie_id=message.bookie_id,
        pod_uid=message.pod_uid,
        state=_word(State, message.state),
        claimed=_word(Claimed, message.verdict),
        reason=message.reason,
        instance_id=message.instance_id,
        metadata_reachable=message.metadata_reachable,
        cookie_present=message.cookie_present,
        cookie_version=message.cookie_version,
        cookie_digest=message.cookie_digest,
        incarnation=message.incarnation,
        boot_epoch=message.boot_epoch,
        ledgers_naming_me=message.ledgers_naming_me,
        volumes=tuple(_volume(volume) for volume in message.volumes),
        evidence_hash=message.evidence_hash,
        capabilities=tuple(message.capabilities),
        operator_epoch_seen=message.operator_epoch_seen,
        grant_id=message.grant_id,
        read_only=message.read_only,
    )


def _volume(message: admin_pb2.VolumeReport) -> VolumeReport:
    sentinel = message.sentinel if message.HasField("sentinel") else None
    return VolumeReport(
        name=message.name,
        role=message.role,
        mount=_word(Mount, message.mount.proof),
        contents=_word(Contents, message.contents),
        fsid=message.mount.fsid,
        reason=message.reason or message.mount.reason,
        sentinel=(
            SentinelFacts(sentinel.bookie_id, sentinel.instance_id, sentinel.incarnation, sentinel.grant_id)
            if sentinel is not None
            else None
        ),
    )


def _repair(message: admin_pb2.RepairStatus) -> RepairFacts:
    return RepairFacts(
        phase=message.phase,
        phase_one_ms=message.phase_one_ms,
        ledgers_member=message.ledgers_member,
        ledgers_fenced=message.ledgers_fenced,
        ledgers_limbo=message.ledgers_limbo,
        ledgers_pending=message.ledgers_pending,
        ledgers_done=message.ledgers_done,
        entries_copied=message.entries_copied,
        bytes_copied=message.bytes_copied,
        entries_pending=message.entries_pending,
        bytes_per_second=message.bytes_per_second,
        blocked=len(message.blocked),
        done=message.done,
    )
