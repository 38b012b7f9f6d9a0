"""The admin port's boundary, over real gRPC: whatever a call raises is INTERNAL, and what it says is looked at."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import server_support
from admin_node_support import CALLS
from bookie.base import errors
from bookie.ports import admin as port
from bookie.ports.network import Address
from bookie.rpc import admin_pb2, calls
from bookie.rpc.client import AdminClient, AdminRefused, AsyncAdminClient, CallFailed
from bookie.runtime import admin, admin_boundary

# What a call must say to reach the node at all.
_SAID = {
    "SetMode": b"\x08\x01",
    "Drain": b"\x08\x01",
    "FindReferences": b"\x0a\x01b",
    "FindDependents": b"\x0a\x01b\x0a\x01c",
    "FindMarked": b"\x0a\x01b",
    "ForgetBookie": b"\x0a\x01b",
    "FillHoles": b"\x08\x01",
    "SetAside": b"\x0a\x01b",
    "AcceptLedgerLoss": b"\x12\x01b",
}
RAISED = [AssertionError, RecursionError, ValueError, OverflowError, UnicodeError]


class Broken:
    """A node of which everything is broken."""

    def __init__(self, error: type[Exception] = AssertionError) -> None:
        self._error = error
        self.asked_ms = 0

    def __getattr__(self, name: str) -> Any:
        async def answer(*arguments: Any, **named: Any) -> Any:
            raise self._error("ours")

        return answer

    def scrub_report(self) -> port.ScrubReport:
        raise self._error("ours")

    async def scrub(self) -> None:
        pass

    def is_healthy(self, question: port.Health) -> bool:
        return True

    async def repair_status(self, interval_ms: int) -> AsyncIterator[port.RepairStatus]:
        self.asked_ms = interval_ms
        yield port.RepairStatus(port.State.SERVING)
        raise self._error("ours")


def with_port(node: Any, story: Callable[[str], Awaitable[None]]) -> server_support.MetDoors:
    met = server_support.MetDoors()

    async def run() -> None:
        async with admin.serve(node, Address("127.0.0.1", 0), doors=met) as bound:
            async with asyncio.timeout(60):
                await story(f"127.0.0.1:{bound}")

    asyncio.run(run())
    return met


async def code_of(address: str, call: str, message: bytes) -> grpc.StatusCode:
    """What raw bytes are answered."""
    async with grpc.aio.insecure_channel(address) as channel:
        method = f"/bookie.admin.v1.Admin/{call}"
        try:
            if call == "GetRepairStatus":
                async for _ in channel.unary_stream(method)(message):
                    pass
            else:
                await channel.unary_unary(method)(message)
        except grpc.aio.AioRpcError as error:
            return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("call", [call for call in CALLS if call != "GetRepairStatus"])
@pytest.mark.parametrize("error", RAISED)
def test_whatever_a_call_raises_is_internal_and_counted(call: str, error: type[Exception]) -> None:
    async def story(address: str) -> None:
        message = _SAID.get(call, b"")

        assert await code_of(address, call, message) is grpc.StatusCode.INTERNAL

    met = with_port(Broken(error), story)

    assert [type(seen) for _, seen in met.met] == [error]


def test_a_stream_that_breaks_is_internal_too() -> None:
    async def story(address: str) -> None:
        assert await code_of(address, "GetRepairStatus", b"") is grpc.StatusCode.INTERNAL

    assert with_port(Broken(), story).met


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "message", [b"\xff" * 100, b"\x08", bytes(65 * 1024), b"\x0a\xff\xff\xff\xff\x0f", b"\x0b" * 9999]
)
def test_a_message_that_is_none_reaches_nobody(call: str, message: bytes) -> None:
    async def story(address: str) -> None:
        assert await code_of(address, call, message) is not grpc.StatusCode.OK

    assert not with_port(Broken(), story).met


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("SetMode", b"\x08\x4d"),
        ("SetMode", b""),
        ("CollectGarbage", b"\x08\x4d"),
        ("FillHoles", b""),
        ("Drain", b""),
        ("Drain", b"\x08\x4d"),
        ("Drain", b"\x08\x01\x20\x4d"),
        ("Drain", b"\x08\x01\x2a\x01/"),
        ("FindReferences", b""),
        ("FindDependents", b""),
        ("FindDependents", b"\x0a\x01b"),
        ("FindMarked", b""),
        ("FindMarked", b"\x0a\x02a/"),
        ("ForgetBookie", b"\x0a\x02a/"),
        ("SetAside", b"\x0a\x02a/"),
        ("AcceptLedgerLoss", b""),
        ("AcceptLedgerLoss", b"\x12\x02a/"),
        ("AcceptLedgerLoss", b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x12\x01b"),
    ],
)
def test_a_value_that_no_enum_has_changes_nothing(call: str, message: bytes) -> None:
    """An unknown mode made a read-only bookie writable."""

    async def story(address: str) -> None:
        assert await code_of(address, call, message) is grpc.StatusCode.INVALID_ARGUMENT

    assert not with_port(Broken(), story).met


def test_an_order_of_an_operator_of_before_is_refused_and_says_so() -> None:
    class Newer(Broken):
        async def drain(self, *arguments: Any, **named: Any) -> port.DrainStatus:
            raise errors.GrantRefused("old_epoch", "epoch 5 was seen already")

    async def story(address: str) -> None:
        async with AsyncAdminClient(address, None, deadline_s=20) as bookie:
            with pytest.raises(AdminRefused, match="epoch 5 was seen already") as refused:
                await bookie.ask(calls.drain(port.DrainAction.START, operator_epoch=4))
        assert refused.value.code == "FAILED_PRECONDITION"

    assert not with_port(Newer(), story).met


def test_settings_reach_the_node_and_one_that_needs_a_restart_is_refused_in_its_words() -> None:
    heard: list[tuple[dict[str, str], int]] = []

    class Running(Broken):
        async def change_settings(self, wanted: dict[str, str], *, operator_epoch: int = 0) -> None:
            heard.append((wanted, operator_epoch))
            if "bookiePort" in wanted:
                raise errors.BadInput("bookiePort needs a restart")

    async def story(address: str) -> None:
        async with AsyncAdminClient(address, None, deadline_s=20) as bookie:
            taken = await bookie.ask(calls.change_settings({"logLevel": ""}, operator_epoch=4))
            refused = await bookie.ask(calls.change_settings({"bookiePort": "1"}))
        assert (taken.is_done, refused.is_done) == (True, False)
        assert (refused.refused_reason, refused.text) == ("not_live", "bookiePort needs a restart")

    assert not with_port(Running(), story).met
    assert heard == [({"logLevel": ""}, 4), ({"bookiePort": "1"}, 0)]


@pytest.mark.parametrize(("asked_ms", "given_ms"), [(-(2**63), 100), (1, 100), (0, 1000), (2**63 - 1, 3_600_000)])
def test_nobody_is_told_of_the_repair_without_a_pause(asked_ms: int, given_ms: int) -> None:
    node = Broken()

    async def story(address: str) -> None:
        await code_of(
            address,
            "GetRepairStatus",
            admin_pb2.GetRepairStatusRequest(interval_ms=asked_ms).SerializeToString(),
        )

    with_port(node, story)

    assert node.asked_ms == given_ms


def test_calls_that_stay_take_no_room_from_health_checks() -> None:
    async def story(address: str) -> None:
        codes = []
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(3):  # gRPC lets one connection have so many streams
                channel = await stack.enter_async_context(
                    grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
                )
                watching = [
                    health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest()) for _ in range(30)
                ]
                for watch in watching:
                    with contextlib.suppress(grpc.aio.AioRpcError):
                        await watch.read()
                        continue
                    codes.append(await watch.code())
            async with grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
                answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())

        assert codes == [grpc.StatusCode.RESOURCE_EXHAUSTED] * (90 - admin_boundary.WATCHERS_MAX)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING

    with_port(Broken(), story)


def test_a_bookie_that_cannot_now_is_no_bookie_that_does_not_answer() -> None:
    async def story(address: str) -> None:
        async with AsyncAdminClient(address, None, deadline_s=20) as bookie:
            with pytest.raises(CallFailed, match=r"^bookie at .*: ours$"):
                await bookie.ask(calls.checkpoint())
        with AdminClient(address, None) as waiting, pytest.raises(CallFailed, match=r"^bookie at .*: ours$"):
            await asyncio.to_thread(waiting.ask, calls.checkpoint())

    with_port(Broken(errors.StorageFailed), story)


class Frozen(Broken):
    """A node that tells how its repair goes once, and then is cut off: nothing ends its connections."""

    async def repair_status(self, interval_ms: int) -> AsyncIterator[port.RepairStatus]:
        yield port.RepairStatus(port.State.SERVING)
        await asyncio.Event().wait()


def test_who_watches_a_bookie_that_falls_silent_is_told_so() -> None:
    """It speaks every few seconds; a watch on a machine without power waited for ever."""

    async def story(address: str) -> None:
        seen = []

        def watch(bookie: AdminClient) -> None:
            for status in bookie.follow(calls.repair_status()):
                seen.append(status.state)

        with (
            AdminClient(address, deadline_s=0.5) as bookie,
            pytest.raises(errors.BookieUnavailable, match=r"^the admin port at .* has said nothing for 0\.5 s$"),
        ):
            await asyncio.to_thread(watch, bookie)

        assert seen == [port.State.SERVING]

    with_port(Frozen(), story)


def test_a_port_where_nobody_listens_did_not_answer() -> None:
    with (
        AdminClient("127.0.0.1:1", None) as bookie,
        pytest.raises(errors.BookieUnavailable, match="did not answer") as told,
    ):
        bookie.ask(calls.checkpoint())

    assert not isinstance(told.value, CallFailed)
