"""Who may call the admin port, over real gRPC: by token, by place, and health by anybody."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bookie.base import errors
from bookie.cli.admin_client import TOKEN_VARIABLE, AdminClient
from bookie.ports import admin as port
from bookie.ports.network import Address
from bookie.rpc import admin_pb2, admin_pb2_grpc
from bookie.runtime import admin
from bookie.runtime.admin_callers import LOOKING, Callers
from bookie_operator.gateways.bookies import AdminPorts, BookieUnreachable

TOKEN = "a-token-for-this-test"
NEXT_TOKEN = "the-token-after-it"
LOCAL, REMOTE = ("ipv4:127.0.0.1:4711", "ipv4:10.0.0.3:4711")
CALLS = [method.name for method in admin_pb2.DESCRIPTOR.services_by_name["Admin"].methods]


class Node:
    """A node that says yes to everything."""

    def __getattr__(self, name: str) -> Any:
        async def answer(*arguments: Any, **named: Any) -> Any:
            return port.State.SERVING

        return answer

    def is_healthy(self, question: port.Health) -> bool:
        return True

    async def storage_report(self, *, fresh: bool = False) -> port.StorageReport:
        return port.StorageReport("b", "", port.State.SERVING, None, "")  # type: ignore[arg-type]

    async def repair_status(self, interval_ms: int) -> AsyncIterator[port.RepairStatus]:
        yield port.RepairStatus(port.State.SERVING)


def with_port(callers: Callers, story: Callable[[str], Awaitable[None]]) -> None:
    async def run() -> None:
        async with admin.serve(Node(), Address("127.0.0.1", 0), callers) as bound:  # type: ignore[arg-type]
            async with asyncio.timeout(20):
                await story(f"127.0.0.1:{bound}")

    asyncio.run(run())


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return str(path)


def bearer(token: str) -> str:
    return f"Bearer {token}"


@pytest.mark.parametrize("call", CALLS)
def test_without_a_token_changes_come_from_this_machine_only(call: str) -> None:
    callers = Callers()

    assert callers.refusal(call, LOCAL, "") is None
    assert callers.refusal(call, "ipv6:%5B::1%5D:4711", "") is None
    assert (callers.refusal(call, REMOTE, "") is None) == (call in LOOKING)
    assert (callers.refusal(call, "", "") is None) == (call in LOOKING)


@pytest.mark.parametrize("call", CALLS)
def test_in_a_pod_without_a_token_the_network_is_trusted(call: str) -> None:
    assert Callers(trusts_network=True).refusal(call, REMOTE, "") is None


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("given", ["", TOKEN, bearer(""), bearer(TOKEN + "x"), bearer(TOKEN[:-1]), f"Basic {TOKEN}"])
def test_with_a_token_nobody_is_let_in_without_it(token_file: str, call: str, given: str) -> None:
    refused = Callers(token_file, trusts_network=True).refusal(call, LOCAL, given)

    assert refused is not None
    assert refused[0] is grpc.StatusCode.UNAUTHENTICATED
    assert TOKEN not in refused[1]


def test_two_tokens_are_good_while_one_is_replaced(token_file: str) -> None:
    callers = Callers(token_file)
    assert callers.refusal("SetMode", REMOTE, bearer(TOKEN)) is None

    Path(token_file).write_text(f"{NEXT_TOKEN}\n{TOKEN}\n")
    assert callers.refusal("SetMode", REMOTE, bearer(TOKEN)) is None
    assert callers.refusal("SetMode", REMOTE, bearer(NEXT_TOKEN)) is None

    Path(token_file).write_text(NEXT_TOKEN)
    assert callers.refusal("SetMode", REMOTE, bearer(TOKEN)) is not None
    assert callers.refusal("SetMode", REMOTE, bearer(NEXT_TOKEN)) is None

    Path(token_file).write_text("\n")
    refused = callers.refusal("SetMode", REMOTE, bearer(""))
    assert refused is not None
    assert refused[0] is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("content", [None, ""])
def test_a_token_file_without_a_token_stops_the_start(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)

    with pytest.raises(errors.BadInput, match="adminTokenFile"):
        Callers(str(path))


def test_over_grpc_every_call_is_guarded_and_health_is_not(token_file: str, caplog: pytest.LogCaptureFixture) -> None:
    requests = {call: getattr(admin_pb2, f"{call}Request", admin_pb2.Grant) for call in CALLS}

    async def story(address: str) -> None:
        async with grpc.aio.insecure_channel(address) as channel:
            stub = admin_pb2_grpc.AdminStub(channel)
            for call in CALLS:
                answer = getattr(stub, call)(requests[call](), metadata=(("authorization", bearer("guess")),))
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await (answer.read() if hasattr(answer, "read") else answer)
                assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED, call
            health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            assert health.status == health_pb2.HealthCheckResponse.SERVING

    with caplog.at_level(logging.DEBUG):
        with_port(Callers(token_file), story)
    assert caplog.text.count("admin call refused") == len(CALLS)
    assert "guess" not in caplog.text
    assert TOKEN not in caplog.text


def test_the_operator_s_token_opens_the_port(token_file: str) -> None:
    async def story(address: str) -> None:
        assert (await AdminPorts(token_file).report(address, fresh=True)).bookie_id == "b"
        assert (await AdminPorts(token_file).repair(address)).ledgers_pending == 0
        with pytest.raises(BookieUnreachable, match="UNAUTHENTICATED"):
            await AdminPorts().report(address, fresh=True)

    with_port(Callers(token_file), story)


def test_the_command_line_knows_the_token_from_the_environment(
    token_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(address: str) -> None:
        def look() -> str:
            with AdminClient(address) as client:
                client.set_read_only(read_only=True)
                return str(client.report()["bookieId"])

        monkeypatch.setenv(TOKEN_VARIABLE, token_file)
        assert await asyncio.to_thread(look) == "b"
        monkeypatch.delenv(TOKEN_VARIABLE)
        with pytest.raises(errors.Unauthorized, match=TOKEN_VARIABLE):
            await asyncio.to_thread(look)

    with_port(Callers(token_file), story)
