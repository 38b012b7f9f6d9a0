"""Who gets through the admin port over TLS: real handshakes, with the right certificate and every wrong one."""

import asyncio
import contextlib
import datetime as dt
import logging
import os
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import grpc.aio
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from grpc_health.v1 import health_pb2, health_pb2_grpc

import tls_support
from admin_node_support import CALLS, WillingNode
from bookie.base import errors
from bookie.cli import admin_access
from bookie.cli.admin_access import TLS_VARIABLE
from bookie.ports.network import Address
from bookie.rpc import admin_pb2, admin_pb2_grpc, calls
from bookie.runtime import admin, admin_boundary, admin_secure, admin_tls
from bookie.runtime.admin_callers import Callers
from bookie_operator.certificates import authority as authorities
from bookie_operator.certificates import leaf
from bookie_operator.certificates.authority import Authority
from bookie_operator.certificates.leaf import Leaf

A, B = "uid-of-a", "uid-of-b"
OPERATOR = leaf.operator_name(A, "bookie-system")
ANYWHERE = Address("127.0.0.1", 0)


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def authority(uid: str = A, at: dt.datetime | None = None) -> Authority:
    return authorities.renewed(None, f"admin {uid}", at or now(), os.urandom)


def client(by: Authority, name: str = OPERATOR, at: dt.datetime | None = None) -> Leaf:
    return leaf.client(by, name, "operator-pod_1", at or now(), os.urandom)


def put(directory: Path, by: Authority, *, bundle: bytes | None = None, uid: str = A, names: str = OPERATOR) -> None:
    made = leaf.server(by, uid, now(), os.urandom)
    for name, text in (
        (admin_tls.CERTIFICATE, made.certificate),
        (admin_tls.KEY, made.key),
        (admin_tls.AUTHORITIES, bundle or by.bundle()),
        (admin_tls.CLIENTS, names.encode()),
    ):
        (directory / name).write_bytes(text)


def served(directory: Path, story: Callable[[str, str, WillingNode], Awaitable[None]], *, in_pod: bool = True) -> None:
    """`story(plain address, TLS address, node)` while a bookie's port is up."""

    async def run() -> None:
        node, tls = WillingNode(), admin_secure.Secured(ANYWHERE, admin_tls.Certificates(str(directory)))
        callers = Callers(in_pod=in_pod, names=tls.certificates)
        async with admin.serve(node, ANYWHERE, callers, tls=tls) as plain:  # type: ignore[arg-type]
            async with asyncio.timeout(120):
                await story(f"127.0.0.1:{plain}", f"127.0.0.1:{tls.bound}", node)

    asyncio.run(run())


async def look(address: str, roots: bytes, shown: Leaf | None, uid: str = A) -> str:
    """The code of one question's answer."""
    credentials = grpc.ssl_channel_credentials(
        roots, shown.key if shown else None, shown.certificate if shown else None
    )
    options = (("grpc.ssl_target_name_override", leaf.server_name(uid)), ("grpc.use_local_subchannel_pool", 1))
    async with grpc.aio.secure_channel(address, credentials, options=options) as channel:
        try:
            await admin_pb2_grpc.AdminStub(channel).GetStorageReport(admin_pb2.GetStorageReportRequest(), timeout=40)
        except grpc.aio.AioRpcError as error:
            return error.code().name
    return "OK"


async def looks(address: str, roots: bytes, shown: Leaf, *, is_in: bool) -> None:
    """Wait until this caller is let in, or is not any more: what the files say counts within a second or two."""
    async with asyncio.timeout(40):
        while (await look(address, roots, shown) == "OK") is not is_in:
            pass


def test_the_operator_of_this_cluster_gets_in_and_nobody_else(tmp_path: Path) -> None:
    ours, theirs = authority(A), authority(B)
    put(tmp_path, ours)
    past = now() - dt.timedelta(days=2)
    strangers = {
        "nobody": None,
        "an operator of another cluster": client(theirs, leaf.operator_name(B, "bookie-system")),
        "another cluster's authority with our name": client(theirs),
        "another cluster's name under our authority": client(ours, leaf.operator_name(B, "bookie-system")),
        "another operator under our authority": client(ours, leaf.operator_name(A, "elsewhere")),
        "one that ended": client(authority(A, past), at=past),
        "one of ours that ended": client(ours, at=now() - dt.timedelta(hours=3)),
        "one that has not begun": client(ours, at=now() + dt.timedelta(hours=2)),
        "a bookie of this very cluster": leaf.server(ours, A, now(), os.urandom),
        "one that vouches for itself": client(authority("itself")),
    }

    async def story(plain: str, secure: str, node: WillingNode) -> None:
        assert await look(secure, ours.bundle(), client(ours)) == "OK"
        for who, shown in strangers.items():
            assert await look(secure, ours.bundle(), shown) in ("UNAVAILABLE", "UNAUTHENTICATED"), who
        assert await look(secure, ours.bundle(), client(ours)) == "OK"

    served(tmp_path, story)


def test_a_certificate_that_ends_while_a_connection_lives_opens_nothing_any_more(tmp_path: Path) -> None:
    """The handshake saw it when it was good; each call looks again."""
    ours = authority()
    put(tmp_path, ours)
    certificates = admin_tls.Certificates(str(tmp_path))

    assert certificates.name_of(client(ours).certificate) == f"{OPERATOR} (operator-pod_1)"
    assert certificates.name_of(client(ours, at=now() - dt.timedelta(hours=3)).certificate) is None
    assert certificates.name_of(client(ours, at=now() + dt.timedelta(hours=2)).certificate) is None
    assert certificates.name_of(b"") is None


def test_a_name_that_is_taken_off_the_list_while_a_connection_lives_opens_nothing_any_more(tmp_path: Path) -> None:
    """Its connection has no other handshake; each call looks again."""
    ours = authority()
    put(tmp_path, ours)
    certificates, shown = admin_tls.Certificates(str(tmp_path)), client(ours).certificate
    assert certificates.name_of(shown) is not None

    put(tmp_path, ours, names="spiffe://another/operator")
    assert certificates.name_of(shown) is None

    put(tmp_path, ours)
    assert certificates.name_of(shown) is not None


def test_the_operator_shows_nothing_to_a_bookie_of_another_cluster(tmp_path: Path) -> None:
    ours, theirs = authority(A), authority(B)
    put(tmp_path, theirs, uid=B, names=OPERATOR)

    async def story(plain: str, secure: str, node: WillingNode) -> None:
        assert await look(secure, ours.bundle(), client(ours)) == "UNAVAILABLE"
        assert await look(secure, theirs.bundle(), client(theirs), uid=A) == "UNAVAILABLE"

    served(tmp_path, story)


@pytest.mark.parametrize("call", CALLS)
def test_in_a_pod_the_plain_port_answers_health_and_nothing_else(tmp_path: Path, call: str) -> None:
    put(tmp_path, authority())
    request = getattr(admin_pb2, f"{call}Request", admin_pb2.Grant)()

    async def story(plain: str, secure: str, node: WillingNode) -> None:
        async with grpc.aio.insecure_channel(plain) as channel:
            answer = getattr(admin_pb2_grpc.AdminStub(channel), call)(request, timeout=40)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await (answer.read() if hasattr(answer, "read") else answer)
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED

    served(tmp_path, story)


def test_strangers_who_watch_our_health_take_no_place_of_the_operator_s(tmp_path: Path) -> None:
    ours = authority()
    put(tmp_path, ours)

    async def story(plain: str, secure: str, node: WillingNode) -> None:
        async with contextlib.AsyncExitStack() as stack:
            codes = []
            for _ in range(5):
                options = (("grpc.use_local_subchannel_pool", 1),)
                channel = await stack.enter_async_context(grpc.aio.insecure_channel(plain, options=options))
                for _ in range(16):
                    watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
                    stack.callback(watch.cancel)
                    try:
                        await watch.read()
                    except grpc.aio.AioRpcError as error:
                        codes.append(error.code())
            assert codes == [grpc.StatusCode.RESOURCE_EXHAUSTED] * (5 * 16 - admin_boundary.WATCHERS_MAX)
            assert await look(secure, ours.bundle(), client(ours)) == "OK"

    served(tmp_path, story)


def test_a_grant_names_the_operator_and_its_process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ours = authority()
    put(tmp_path, ours)

    async def story(plain: str, secure: str, node: WillingNode) -> None:
        shown = client(ours)
        credentials = grpc.ssl_channel_credentials(ours.bundle(), shown.key, shown.certificate)
        options = (("grpc.ssl_target_name_override", leaf.server_name(A)),)
        async with grpc.aio.secure_channel(secure, credentials, options=options) as channel:
            grant = admin_pb2.Grant(grant_id="g", issued_by="what it says\n of itself")
            await admin_pb2_grpc.AdminStub(channel).GrantRegeneration(grant, timeout=40)
        (given,) = node.grants
        assert given.given_by == f"{OPERATOR} (operator-pod_1): what it says of itself"

    with caplog.at_level(logging.INFO):
        served(tmp_path, story)
    assert f"admin call=GrantRegeneration by={OPERATOR}" in caplog.text
    assert "PRIVATE" not in caplog.text


def test_an_authority_takes_over_from_another_without_a_restart(tmp_path: Path) -> None:
    old = authority()
    both = Authority((*old.generations, *authority().generations))
    new = Authority(both.generations[1:])
    put(tmp_path, old)

    async def story(plain: str, secure: str, node: WillingNode) -> None:
        assert await look(secure, both.bundle(), client(old)) == "OK"
        assert await look(secure, both.bundle(), client(new)) != "OK"
        put(tmp_path, old, bundle=both.bundle())  # published, not signing yet
        await looks(secure, old.bundle(), client(new), is_in=True)
        assert await look(secure, old.bundle(), client(old)) == "OK"
        put(tmp_path, new, bundle=both.bundle())  # signs; who was told early trusts it already
        await looks(secure, new.bundle(), client(new), is_in=True)
        assert await look(secure, both.bundle(), client(old)) == "OK"
        put(tmp_path, new)  # the old one has ended
        await looks(secure, new.bundle(), client(old), is_in=False)
        await looks(secure, new.bundle(), client(new), is_in=True)
        assert await look(secure, new.bundle(), client(old)) != "OK"

    served(tmp_path, story)


def test_a_call_in_flight_outlives_renewals_and_holds_up_no_stop(tmp_path: Path) -> None:
    ours = authority()
    put(tmp_path, ours)
    began_s = 0.0

    async def story(plain: str, secure: str, node: WillingNode) -> None:
        nonlocal began_s
        shown, options = client(ours), (("grpc.ssl_target_name_override", leaf.server_name(A)),)
        credentials = grpc.ssl_channel_credentials(ours.bundle(), shown.key, shown.certificate)
        watch = health_pb2_grpc.HealthStub(grpc.aio.secure_channel(secure, credentials, options=options)).Watch(
            health_pb2.HealthCheckRequest()
        )
        assert await watch.read() is not grpc.aio.EOF

        for _ in range(3):
            later = authority()
            put(tmp_path, later)
            await looks(secure, later.bundle(), client(later), is_in=True)

        assert not watch.done()
        began_s = time.monotonic()

    served(tmp_path, story)
    assert time.monotonic() - began_s < admin_secure.RENEWAL_GRACE_S / 10


def keep_unusable(directory: Path) -> None:
    """Put a key there that our own look at the files passes, and gRPC does not take."""
    by = tls_support.Authority()
    key, certificate = by.issue("bookie", curve=ec.BrainpoolP256R1()).pem(directory)
    Path(key).rename(directory / admin_tls.KEY)
    Path(certificate).rename(directory / admin_tls.CERTIFICATE)


def test_files_that_grpc_alone_refuses_leave_the_former_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the port would be closed until somebody wrote better ones."""
    ours = authority()
    put(tmp_path, ours)

    async def story(plain: str, secure: str, node: WillingNode) -> None:
        keep_unusable(tmp_path)
        async with asyncio.timeout(40):
            while "take an RSA key" not in caplog.text:
                assert await look(secure, ours.bundle(), client(ours)) == "OK"
        assert await look(secure, ours.bundle(), client(ours)) == "OK"
        later = authority()
        put(tmp_path, later)
        await looks(secure, later.bundle(), client(later), is_in=True)

    served(tmp_path, story)
    assert len([line for line in caplog.messages if "not renewed" in line]) == 1


def test_files_that_grpc_alone_refuses_stop_the_start_in_words(tmp_path: Path) -> None:
    """It was said that another process has the port."""
    put(tmp_path, authority())
    keep_unusable(tmp_path)

    async def story(plain: str, secure: str, node: WillingNode) -> None:
        raise AssertionError("it serves")

    with pytest.raises(errors.BadInput, match="take an RSA key, or one on the curve P-256"):
        served(tmp_path, story)


def test_files_that_cannot_be_used_are_told_once_and_the_former_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ours = authority()
    put(tmp_path, ours)

    async def story(plain: str, secure: str, node: WillingNode) -> None:
        good = (tmp_path / admin_tls.KEY).read_bytes()
        for spoilt in (b"", b"junk", authorities.key_pem(authorities.new_key(os.urandom))):
            (tmp_path / admin_tls.KEY).write_bytes(spoilt)
            assert await look(secure, ours.bundle(), client(ours)) == "OK"
        (tmp_path / admin_tls.KEY).write_bytes(good)
        named = (tmp_path / admin_tls.CLIENTS).read_bytes()
        (tmp_path / admin_tls.CLIENTS).write_bytes(b"")
        assert await look(secure, ours.bundle(), client(ours)) == "OK"
        (tmp_path / admin_tls.CLIENTS).write_bytes(named)
        assert await look(secure, ours.bundle(), client(ours)) == "OK"
        (tmp_path / admin_tls.CLIENTS).write_bytes(b"")
        assert await look(secure, ours.bundle(), client(ours)) == "OK"

    served(tmp_path, story)
    told = [line for line in caplog.messages if "not renewed" in line]
    # No key (twice the same words), another's key, nobody named, and that again after it was put right.
    assert len(told) == 4
    assert "PRIVATE" not in caplog.text


@pytest.mark.parametrize("missing", [admin_tls.CERTIFICATE, admin_tls.KEY, admin_tls.AUTHORITIES, admin_tls.CLIENTS])
@pytest.mark.parametrize("content", [None, b"", b"junk"])
def test_a_directory_that_cannot_be_used_stops_the_start_and_names_the_file(
    tmp_path: Path, missing: str, content: bytes | None
) -> None:
    put(tmp_path, authority())
    (tmp_path / missing).unlink()
    if content is not None:
        (tmp_path / missing).write_bytes(content)
    if missing == admin_tls.CLIENTS and content == b"junk":
        return  # names a client called "junk"

    with pytest.raises(errors.BadInput, match=missing):
        admin_tls.Certificates(str(tmp_path))


def test_a_key_under_a_password_is_refused_in_words(tmp_path: Path) -> None:
    put(tmp_path, authority())
    key = serialization.load_pem_private_key((tmp_path / admin_tls.KEY).read_bytes(), None)
    form, sealed = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    (tmp_path / admin_tls.KEY).write_bytes(key.private_bytes(serialization.Encoding.PEM, form, sealed))

    with pytest.raises(errors.BadInput, match=r"tls\.key holds no key in PEM without a password"):
        admin_tls.read(str(tmp_path))


def test_a_certificate_without_names_and_a_list_with_odd_bytes_open_nothing_and_hinder_nobody(tmp_path: Path) -> None:
    put(tmp_path, authority())
    (tmp_path / admin_tls.CLIENTS).write_bytes(b"\xff\xfe\n" + OPERATOR.encode() + b"\n")
    nameless = tls_support.Authority().issue("nobody", hosts=()).certificate

    certificates = admin_tls.Certificates(str(tmp_path))

    assert OPERATOR in certificates.current().clients
    assert "PRIVATE" not in repr(certificates.current())
    assert certificates.name_of(nameless.public_bytes(serialization.Encoding.PEM)) is None
    assert certificates.name_of(b"no certificate") is None


@pytest.mark.parametrize("setting", ["adminPort", "adminTlsPort"])
def test_an_admin_port_is_nobody_else_s_while_its_bookie_lives(tmp_path: Path, setting: str) -> None:
    """Two that shared one would each get half of the calls."""
    put(tmp_path, authority())
    node = WillingNode()

    def secured(port: int) -> admin_secure.Secured:
        return admin_secure.Secured(Address("127.0.0.1", port), admin_tls.Certificates(str(tmp_path)))

    async def story() -> None:
        first = secured(0)
        async with admin.serve(node, ANYWHERE, tls=first) as plain:
            own, tls = (plain, None) if setting == "adminPort" else (0, secured(first.bound))
            with pytest.raises(errors.RefusedToStart, match=f"choose another {setting}"):
                async with admin.serve(node, Address("127.0.0.1", own), tls=tls):
                    raise AssertionError("they share it")

    asyncio.run(story())


def test_a_replacement_that_is_seen_half_done_is_read_again(tmp_path: Path) -> None:
    """The files change together, and are read one by one: here between the certificate and its key."""
    put(tmp_path, authority())
    later = tmp_path / "later"
    later.mkdir()
    put(later, authority())
    key = (later / admin_tls.KEY).read_bytes()
    (tmp_path / admin_tls.KEY).unlink()
    os.mkfifo(tmp_path / admin_tls.KEY)

    def replace() -> None:
        with (tmp_path / admin_tls.KEY).open("wb") as pipe:  # opened once the former certificate was read
            for name in (admin_tls.CERTIFICATE, admin_tls.KEY, admin_tls.AUTHORITIES):
                os.replace(later / name, tmp_path / name)
            pipe.write(key)

    with ThreadPoolExecutor(1) as pool:
        replaced = pool.submit(replace)
        files = admin_tls.read(str(tmp_path))
        replaced.result(30)

    assert files.key == key
    assert files.certificate == (tmp_path / admin_tls.CERTIFICATE).read_bytes()


def test_commands_reach_another_machine_with_a_certificate_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Kubernetes: an authority of one's own, names of one's own, hosts checked."""
    ours, mine = tls_support.Authority(), tmp_path / "mine"
    mine.mkdir()
    for folder, identity in ((tmp_path, ours.issue("bookie")), (mine, ours.issue("ada", hosts=("admin.example",)))):
        key, certificate = identity.pem(folder)
        Path(key).rename(folder / admin_tls.KEY)
        Path(certificate).rename(folder / admin_tls.CERTIFICATE)
        Path(ours.pem(folder)).rename(folder / admin_tls.AUTHORITIES)
    (tmp_path / admin_tls.CLIENTS).write_text("somebody.example\nadmin.example\n")
    monkeypatch.setenv(TLS_VARIABLE, str(mine))

    def ask(address: str) -> str:
        with admin_access.client(address) as bookie:
            return bookie.ask(calls.storage_report(fresh=True)).bookie_id

    async def story(plain: str, secure: str, node: WillingNode) -> None:
        number = secure.rpartition(":")[2]
        assert await asyncio.to_thread(ask, f"localhost:{number}") == "b"
        with pytest.raises(errors.BookieUnavailable):
            await asyncio.to_thread(ask, f"127.0.0.1:{number}")  # no name of that bookie's certificate
        (tmp_path / admin_tls.CLIENTS).write_text("somebody.example\n")
        with pytest.raises(errors.BadInput):
            await asyncio.to_thread(ask, f"localhost:{number}")

    served(tmp_path, story)
