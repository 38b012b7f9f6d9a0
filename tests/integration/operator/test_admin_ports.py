"""The gateway to bookies over real gRPC: translation both ways, and every failure as "unreachable"."""

import asyncio
import datetime as dt
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc
import grpc.aio
import pytest

from bookie.ports.admin import Contents, MountProof, RepairStatus, State, StorageReport, Verdict
from bookie.rpc import admin_pb2 as proto
from bookie.rpc import admin_pb2_grpc
from bookie.rpc.calls import GrantAnswer
from bookie.rpc.client import AdminCredentials
from bookie_operator.certificates import authority as authorities
from bookie_operator.certificates import leaf
from bookie_operator.evidence.facts import Door
from bookie_operator.gateways.bookies import AdminPorts, BookieUnreachable
from bookie_operator.model.status import GrantRecord

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
GRANT = GrantRecord(
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
        self.granted: proto.GrantRecord | None = None
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


UID = "uid-of-a"
NOW = dt.datetime.now(dt.UTC)
AUTHORITY = authorities.renewed(None, "admin", NOW, os.urandom)


def ports_with_identity() -> AdminPorts:
    ports = AdminPorts()
    shown = leaf.client(AUTHORITY, leaf.operator_name(UID, "ns"), "process", NOW, os.urandom)
    ports.use(UID, AdminCredentials(shown.certificate, shown.key, AUTHORITY.bundle(), leaf.server_name(UID)))
    return ports


def with_bookie(bookie: Bookie, ask: Callable[[AdminPorts, Door], Awaitable[T]], *, uid: str = UID) -> T:
    async def story() -> T:
        server = grpc.aio.server()
        admin_pb2_grpc.add_AdminServicer_to_server(bookie, server)
        made = leaf.server(AUTHORITY, UID, NOW, os.urandom)
        credentials = grpc.ssl_server_credentials([(made.key, made.certificate)], AUTHORITY.bundle(), True)
        secure, plain = server.add_secure_port("127.0.0.1:0", credentials), server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            return await ask(ports_with_identity(), Door(f"127.0.0.1:{secure if uid else plain}", uid))
        finally:
            await server.stop(None)

    return asyncio.run(story())


def test_a_report_comes_across_word_by_word() -> None:
    bookie = Bookie()

    found: StorageReport = with_bookie(bookie, lambda ports, at: ports.report(at, fresh=True))

    assert (found.bookie_id, found.pod_uid, found.state, found.verdict) == (
        "data.ledgers.zone-a.0",
        "pod-1",
        State.WAITING_GRANT,
        Verdict.LOST,
    )
    assert (found.cookie_version, found.incarnation, found.ledgers_naming_me) == (3, 2, 7)
    assert (found.evidence_hash, found.capabilities, found.operator_epoch_seen) == ("hash", ("limbo",), 5)
    index, journal = found.volumes
    assert (index.mount.proof, index.contents, index.mount.fsid, index.why) == (
        MountProof.SHARED,
        Contents.REGENERATING,
        "f",
        "why",
    )
    assert index.sentinel is not None
    assert (index.sentinel.bookie_id, index.sentinel.incarnation, index.sentinel.grant_id) == ("b", 2, "g")
    assert (journal.mount.proof, journal.contents, journal.sentinel) == (MountProof.UNSPECIFIED, Contents.EMPTY, None)
    assert journal.why == "own words"
    assert bookie.fresh == [True]


def test_the_present_is_the_first_word_of_the_repair_stream() -> None:
    found: RepairStatus = with_bookie(Bookie(), lambda ports, at: ports.repair(at))

    assert (found.phase, found.entries_copied, len(found.blocked)) == ("two", 1, 1)


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

    found: StorageReport = with_bookie(Newer(), lambda ports, at: ports.report(at, fresh=False))

    assert (found.state, found.verdict) == (State.UNSPECIFIED, None)


def test_nobody_there_is_unreachable_with_the_address() -> None:
    with pytest.raises(BookieUnreachable, match=r"127\.0\.0\.1:1\b"):
        asyncio.run(AdminPorts().report(Door("127.0.0.1:1"), fresh=False))


def test_an_answer_with_a_number_that_is_none_is_unreachable_with_the_address() -> None:
    """It ended each pass over the cluster: nobody healed the other bookies either."""

    class Odd(Bookie):
        async def Drain(self, request: Any, context: Any) -> proto.DrainStatus:
            return proto.DrainStatus(is_draining=True, bytes_per_second=float("nan"))

    with pytest.raises(BookieUnreachable, match=r"127\.0\.0\.1:\d+ cannot be used: it says nan"):
        with_bookie(Odd(), lambda ports, at: ports.look_at_drain(at))


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


def test_a_pod_of_before_is_looked_at_in_plain_and_shown_nothing() -> None:
    class Curious(Bookie):
        shown: tuple[Any, ...] = ()

        async def GetStorageReport(self, request: Any, context: Any) -> proto.StorageReport:
            self.shown = tuple(key for key, _ in context.invocation_metadata() if key == "authorization")
            return REPORT

    bookie = Curious()

    assert with_bookie(bookie, lambda ports, at: ports.report(at, fresh=False), uid="").bookie_id == REPORT.bookie_id
    assert bookie.shown == ()
    with pytest.raises(AssertionError, match="never travels in clear"):
        with_bookie(bookie, lambda ports, at: ports.grant(at, GRANT, 60_000), uid="")
    assert bookie.granted is None


def test_a_pod_of_before_that_wants_a_token_is_unreachable_and_the_sentence_says_what_to_do() -> None:
    class Token(Bookie):
        async def GetStorageReport(self, request: Any, context: Any) -> proto.StorageReport:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "this admin port wants a token it knows")
            raise AssertionError

    with pytest.raises(BookieUnreachable, match="delete it, it comes back with certificates"):
        with_bookie(Token(), lambda ports, at: ports.report(at, fresh=False), uid="")


def test_without_an_identity_for_a_cluster_nothing_is_asked() -> None:
    with pytest.raises(BookieUnreachable, match="no certificate for cluster another"):
        with_bookie(Bookie(), lambda ports, at: ports.report(Door(at.address, "another"), fresh=False))
