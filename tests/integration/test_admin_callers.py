"""Who may call the admin port, over real gRPC: by token, by place, and health by anybody."""

import argparse
import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from admin_node_support import CALLS, WillingNode
from bookie.base import errors
from bookie.cli import admin_access, where
from bookie.cli.admin_access import TOKEN_VARIABLE
from bookie.ports import admin as port
from bookie.ports.network import Address
from bookie.rpc import admin_pb2, admin_pb2_grpc, calls
from bookie.runtime import admin
from bookie.runtime.admin_callers import Callers, Refused

TOKEN = "a-token-for-this-test"
NEXT_TOKEN = "the-token-after-it"
LOCAL, REMOTE = ("ipv4:127.0.0.1:4711", "ipv4:10.0.0.3:4711")


class Told:
    """Doors that keep what they are told."""

    def __init__(self) -> None:
        self.refusals: list[str] = []

    def failed(self, door: str, error: Exception, peer: str = "") -> None:
        raise error

    def refused(self, door: str, reason: object, peer: str = "") -> None:
        self.refusals.append(f"{door} {peer} {reason}")


def with_port(callers: Callers, story: Callable[[str], Awaitable[None]], doors: Told | None = None) -> None:
    async def run() -> None:
        async with admin.serve(WillingNode(), Address("127.0.0.1", 0), callers, doors) as bound:  # type: ignore[arg-type]
            async with asyncio.timeout(60):
                await story(f"127.0.0.1:{bound}")

    asyncio.run(run())


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return str(path)


def bearer(token: str) -> str:
    return f"Bearer {token}"


def refusal(callers: Callers, peer: str, given: str = "") -> Refused | None:
    try:
        assert callers.name(peer, {}, given) == "local"
    except Refused as refused:
        return refused
    return None


def test_without_tls_nobody_but_this_machine_is_answered() -> None:
    callers = Callers()

    for peer in (LOCAL, "ipv6:%5B::1%5D:4711", "ipv6:[::1]:4711", "ipv6:[::ffff:127.0.0.1]:4711", "unix:", "unix:/a"):
        assert refusal(callers, peer) is None, peer
    for peer in (REMOTE, "", "ipv4:127.0.0.6:4711", "ipv4:0.0.0.0:4711", "ipv6:[2001:db8::1]:4711", "vsock:1", "ipv4:"):
        assert refusal(callers, peer) is not None, peer


def test_a_bookie_that_listens_on_one_address_knows_callers_from_that_address() -> None:
    callers = Callers(own_host="10.0.0.3")

    assert refusal(callers, REMOTE) is None
    assert refusal(callers, "ipv4:10.0.0.4:4711") is not None


def test_in_a_pod_the_socket_alone_is_local_because_a_proxy_beside_the_bookie_calls_from_loopback() -> None:
    callers = Callers(in_pod=True, own_host="0.0.0.0")

    assert refusal(callers, "unix:") is None
    for peer in (LOCAL, REMOTE, "ipv6:[::1]:4711"):
        refused = refusal(callers, peer)
        assert refused is not None
        assert refused.code is grpc.StatusCode.PERMISSION_DENIED


def test_a_certificate_without_a_name_that_is_obeyed_opens_nothing() -> None:
    class Nobody:
        def name_of(self, certificate: bytes) -> str | None:
            return None

    auth = {"transport_security_type": [b"ssl"], "x509_pem_cert": [b"..."]}
    for callers in (Callers(), Callers(names=Nobody())):
        with pytest.raises(Refused) as refused:
            callers.name(LOCAL, auth, "")
        assert refused.value.code is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("given", ["", TOKEN, bearer(""), bearer(TOKEN + "x"), bearer(TOKEN[:-1]), f"Basic {TOKEN}"])
def test_with_a_token_nobody_on_this_machine_is_let_in_without_it(token_file: str, given: str) -> None:
    refused = refusal(Callers(token_file), LOCAL, given)

    assert refused is not None
    assert refused.code is grpc.StatusCode.UNAUTHENTICATED
    assert TOKEN not in str(refused)


def test_a_token_lets_nobody_in_from_elsewhere(token_file: str) -> None:
    assert refusal(Callers(token_file), REMOTE, bearer(TOKEN)) is not None


def test_two_tokens_are_good_while_one_is_replaced(token_file: str) -> None:
    callers = Callers(token_file)
    assert refusal(callers, LOCAL, bearer(TOKEN)) is None

    Path(token_file).write_text(f"{NEXT_TOKEN}\n{TOKEN}\n", encoding="utf-8")
    assert refusal(callers, LOCAL, bearer(TOKEN)) is None
    assert refusal(callers, LOCAL, bearer(NEXT_TOKEN)) is None

    Path(token_file).write_text(NEXT_TOKEN, encoding="utf-8")
    assert refusal(callers, LOCAL, bearer(TOKEN)) is not None
    assert refusal(callers, LOCAL, bearer(NEXT_TOKEN)) is None

    Path(token_file).write_text("\n", encoding="utf-8")
    refused = refusal(callers, LOCAL, bearer(""))
    assert refused is not None
    assert refused.code is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("content", [None, ""])
def test_a_token_file_without_a_token_stops_the_start(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)

    with pytest.raises(errors.BadInput, match="adminTokenFile"):
        Callers(str(path))


def test_over_grpc_every_call_is_guarded_and_health_is_not(token_file: str, caplog: pytest.LogCaptureFixture) -> None:
    told = Told()
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
        with_port(Callers(token_file), story, told)
    assert len(told.refusals) == len(CALLS)
    for text in (caplog.text, str(told.refusals)):
        assert "guess" not in text
        assert TOKEN not in text


def test_the_command_line_knows_the_token_from_the_environment(
    token_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(address: str) -> None:
        def look() -> str:
            with where.admin(argparse.Namespace(admin=address)) as bookie:
                bookie.ask(calls.set_read_only(True))
                bookie.ask(calls.scrub(start=True))
                return bookie.ask(calls.storage_report(fresh=True)).bookie_id

        monkeypatch.setenv(TOKEN_VARIABLE, token_file)
        assert await asyncio.to_thread(look) == "b"
        monkeypatch.delenv(TOKEN_VARIABLE)
        with pytest.raises(errors.BadInput, match=TOKEN_VARIABLE):
            await asyncio.to_thread(look)

    with_port(Callers(token_file), story)


def test_whoever_changes_something_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def story(address: str) -> None:
        def change() -> None:
            with admin_access.client(address) as bookie:
                bookie.ask(calls.storage_report(fresh=True))
                bookie.ask(calls.drain(port.DrainAction.LOOK))
                bookie.ask(calls.fill_holes(port.FillAction.LOOK))
                bookie.ask(calls.set_read_only(True))
                bookie.ask(calls.drain(port.DrainAction.CANCEL))
                bookie.ask(calls.fill_holes(port.FillAction.START))

        await asyncio.to_thread(change)

    with caplog.at_level(logging.INFO):
        with_port(Callers(), story)

    told = [line for line in caplog.messages if line.startswith("admin call")]
    assert told == [
        "admin call=SetMode by=local with=mode: READ_ONLY_MODE",
        "admin call=Drain by=local with=action: CANCEL",
        "admin call=FillHoles by=local with=action: START",
    ]


def test_commands_show_their_token_to_no_other_machine(token_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, token_file)

    with admin_access.client("198.18.0.1:3182") as far, admin_access.client("127.0.0.1:3182") as near:
        assert far.metadata == ()
        assert near.metadata == (("authorization", bearer(TOKEN)),)


def test_the_socket_is_for_its_owner_alone_and_needs_no_port(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"

    async def run() -> None:
        node, nowhere = WillingNode(), Address("127.0.0.1", 0)
        async with admin.serve(node, nowhere, Callers(in_pod=True), socket=str(path)) as bound:  # type: ignore[arg-type]
            assert path.stat().st_mode & 0o777 == 0o600
            assert await asyncio.to_thread(look, f"unix:{path}") == "b"
            with pytest.raises(errors.BadInput, match="kubectl exec"):
                await asyncio.to_thread(look, f"127.0.0.1:{bound}")

    def look(address: str) -> str:
        with admin_access.client(address) as bookie:
            return bookie.ask(calls.storage_report(fresh=True)).bookie_id

    asyncio.run(run())
