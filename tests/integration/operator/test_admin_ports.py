"""The gateway to bookies over real gRPC: translation both ways, and every failure as "unreachable"."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc
import grpc.aio
import pytest

from bookie.rpc import admin_pb2 as proto
from bookie.rpc import admin_pb2_grpc
from bookie_operator.evidence.facts import Claimed, Contents, Mount, RepairFacts, Report, SentinelFacts, State
from bookie_operator.gateways.bookies import AdminPorts, BookieUnreachable, GrantAnswer
from bookie_operator.model.status import Grant

T = TypeVar("T")

REPORT = proto.StorageReport(
    bookie_id="data.ledgers.zone-a.0",
    pod_uid="pod-1",
    state=proto.WAITING_GRANT,
    verdict=proto.LOST,
    reason="empty",
    metadata_reachable=True,
    cookie_present=True,
    cookie_version=3,
    incarnation=2,
    ledgers_naming_me=7,
    evidence_hash="hash",
    capabilities=["limbo"],
    operator_epoch_seen=5,
    volumes=[
        proto.VolumeReport(
            name="index",
            role="index",
            contents=proto.REGENERATING,
            mount=proto.Mount(proof=proto.Mount.SHARED, fsid="f", reason="why"),
            sentinel=proto.Sentinel(bookie_id="b", instance_id="i", incarnation=2, grant_id="g"),
        ),
        proto.VolumeReport(name="journal", role="journal", contents=proto.EMPTY, reason="own words"),
    ],
)
GRANT = Grant(
    id="g",
    bookie_id="b",
    pod_uid="p",
    evidence="operator's",
    report_evidence="bookie's",
    cookie_version=3,
    new_incarnation=3,
    profile="Full",
    epoch=9,
    issued_at="2027-01-15T08:00:00Z",
    expires_at="2027-01-15T08:05:00Z",
    issued_by="me",
)


class Bookie(admin_pb2_grpc.AdminServicer):
    """Answers as told, and keeps the grant it got."""

    def __init__(self) -> None:
        self.granted: proto.Grant | None = None
        self.fresh: list[bool] = []

    async def GetStorageReport(self, request: Any, context: Any) -> proto.StorageReport:
        self.fresh.append(request.fresh)
        return REPORT

    async def GrantRegeneration(self, request: Any, context: Any) -> proto.GrantReply:
        self.granted = request
        return proto.GrantReply(accepted=False, refused_reason="cookie_changed", text="a sentence")

    async def GetRepairStatus(self, request: Any, context: Any) -> AsyncIterator[proto.RepairStatus]:
        for percent in (1, 2):
            yield proto.RepairStatus(phase="two", entries_copied=percent, blocked=[proto.BlockedLedger(ledger_id=1)])


def with_bookie(bookie: Bookie, ask: Callable[[AdminPorts, str], Awaitable[T]]) -> T:
    async def story() -> T:
        server = grpc.aio.server()
        admin_pb2_grpc.add_AdminServicer_to_server(bookie, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            return await ask(AdminPorts(), f"127.0.0.1:{port}")
        finally:
            await server.stop(None)

    return asyncio.run(story())


def test_a_report_comes_across_word_by_word() -> None:
    bookie = Bookie()

    found: Report = with_bookie(bookie, lambda ports, at: ports.report(at, fresh=True))

    assert (found.bookie_id, found.pod_uid, found.state, found.claimed) == (
        "data.ledgers.zone-a.0",
        "pod-1",
        State.WAITING_GRANT,
        Claimed.LOST,
    )
    assert (found.cookie_version, found.incarnation, found.ledgers_naming_me) == (3, 2, 7)
    assert (found.evidence_hash, found.capabilities, found.operator_epoch_seen) == ("hash", ("limbo",), 5)
    index, journal = found.volumes
    assert (index.mount, index.contents, index.fsid, index.reason) == (Mount.SHARED, Contents.REGENERATING, "f", "why")
    assert index.sentinel == SentinelFacts("b", "i", 2, "g")
    assert (journal.mount, journal.contents, journal.sentinel) == (Mount.PROOF_UNSPECIFIED, Contents.EMPTY, None)
    assert journal.reason == "own words"
    assert bookie.fresh == [True]


def test_the_present_is_the_first_word_of_the_repair_stream() -> None:
    found: RepairFacts = with_bookie(Bookie(), lambda ports, at: ports.repair(at))

    assert (found.phase, found.entries_copied, found.blocked) == ("two", 1, 1)


def test_a_grant_names_what_the_bookie_must_find_again() -> None:
    bookie = Bookie()

    answer: GrantAnswer = with_bookie(bookie, lambda ports, at: ports.grant(at, GRANT, 60_000))

    assert answer == GrantAnswer(False, "cookie_changed", "a sentence")
    sent = bookie.granted
    assert sent is not None
    assert (sent.grant_id, sent.evidence_hash, sent.cookie_version, sent.operator_epoch) == ("g", "bookie's", 3, 9)
    assert (sent.new_incarnation, sent.ttl_ms, sent.pod_uid) == (3, 60_000, "p")


def test_words_of_a_newer_bookie_are_unspecified_not_an_error() -> None:
    class Newer(Bookie):
        async def GetStorageReport(self, request: Any, context: Any) -> proto.StorageReport:
            return proto.StorageReport(state=99, verdict=99)  # type: ignore[arg-type]

    found: Report = with_bookie(Newer(), lambda ports, at: ports.report(at, fresh=False))

    assert (found.state, found.claimed) == (State.STATE_UNSPECIFIED, Claimed.VERDICT_UNSPECIFIED)


def test_nobody_there_is_unreachable_with_the_address() -> None:
    with pytest.raises(BookieUnreachable, match=r"127\.0\.0\.1:1\b"):
        asyncio.run(AdminPorts().report("127.0.0.1:1", fresh=False))


def test_an_answer_that_is_an_error_is_unreachable_too() -> None:
    class Broken(Bookie):
        async def GetStorageReport(self, request: Any, context: Any) -> proto.StorageReport:
            await context.abort(grpc.StatusCode.INTERNAL, "broken inside")
            raise AssertionError

    with pytest.raises(BookieUnreachable, match="broken inside"):
        with_bookie(Broken(), lambda ports, at: ports.report(at, fresh=False))


def test_a_stream_that_ends_before_its_first_word_is_unreachable() -> None:
    class Mute(Bookie):
        async def GetRepairStatus(self, request: Any, context: Any) -> AsyncIterator[proto.RepairStatus]:
            return
            yield

    with pytest.raises(BookieUnreachable, match="before the first word"):
        with_bookie(Mute(), lambda ports, at: ports.repair(at))
