"""A real ZooKeeper that asks who we are: SASL, its digest scheme, TLS; what we make belongs to us, and no is no."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import children
import local_support
import port_support
import tls_support
import wait_support
import zookeeper_support
from bookie import blocking, connect
from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.base.secret import Secret
from bookie.cli import main
from bookie.client import cluster
from bookie.client.ledgers import LedgerStore
from bookie.local import layout
from bookie.metadata import ledger, paths
from bookie.metadata.paths import LayoutKind
from bookie.ports.metadata_store import CreateOp, MetadataSecurity
from bookie.ports.tls import TlsOptions
from bookie.runtime.zookeeper import ZooKeeperStore, ZooKeeperStores
from zookeeper_support import ZooKeeper

pytestmark = pytest.mark.slow

SESSION_MS = 6000
PASSWORD = "a password of ours"
JAAS = f"""Server {{
  org.apache.zookeeper.server.auth.DigestLoginModule required user_bookie="{PASSWORD}" user_other="else";
}};
"""
OURS = MetadataSecurity(sasl_user="bookie", sasl_password=Secret(PASSWORD), creator_acl=True)
OTHER = MetadataSecurity(sasl_user="other", sasl_password=Secret("else"), creator_acl=True)
NOBODY = MetadataSecurity()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A server that knows two users by SASL."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "jaas.conf").write_text(JAAS)
    provider = {"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
    jvm = [f"-Djava.security.auth.login.config={folder}/jaas.conf"]
    with zookeeper_support.running(folder / "zookeeper", settings=provider, jvm=jvm) as server:
        yield server


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with zookeeper_support.running(tmp_path_factory.mktemp("plain")) as server:
        yield server


def run_as(
    security: MetadataSecurity,
    uri: str,
    body: Callable[[ZooKeeperStore], Awaitable[Any]],
    *,
    session_ms: int = SESSION_MS,
) -> Any:
    async def main() -> Any:
        patience_ms = int(wait_support.patient(session_ms))
        store = await ZooKeeperStores(security).connect(uri, session_timeout_ms=patience_ms)
        try:
            async with asyncio.timeout(wait_support.patient(60)):
                return await body(store)
        finally:
            await store.close()

    return asyncio.run(main())


def acl_of(server: ZooKeeper, path: str, security: MetadataSecurity = OURS) -> list[str]:
    found: list[str] = run_as(security, server.uri, lambda store: store.acl(path))
    return found


# ---- SASL ------------------------------------------------------------------------------------------------------------


def test_what_we_make_is_ours_and_nobody_else_may_read_or_change_it(guarded: ZooKeeper) -> None:
    async def make(store: ZooKeeperStore) -> None:
        await store.create("/owned/by/us", b"1", parents=True)
        await store.transact([CreateOp("/owned/too", b"2")])
        assert (await store.get("/owned/by/us")).data == b"1"

    async def touch(store: ZooKeeperStore) -> None:
        for refused in (
            store.get("/owned/by/us"),
            store.children("/owned"),
            store.put("/owned/too", b"x", 0),
            store.delete("/owned/too"),
            store.transact([CreateOp("/owned/more", b"")]),
        ):
            with pytest.raises(errors.MetadataDenied, match=r"no permission.*zkDigestFile"):
                await refused

    run_as(OURS, guarded.uri, make)

    assert acl_of(guarded, "/owned/by/us") == acl_of(guarded, "/owned") == ["sasl:bookie:cdrwa"]
    run_as(OTHER, guarded.uri, touch)
    run_as(NOBODY, guarded.uri, touch)


def test_what_java_leaves_open_is_left_open(guarded: ZooKeeper) -> None:
    opened = ["/l/idgen-long", "/l/idgen-long/HOB-0000000001", "/l/underreplication/lostBookieRecoveryDelay"]

    async def make(store: ZooKeeperStore) -> None:
        for path in opened:
            await store.create(path, b"", parents=True)
        await store.create("/l/idgen-long/HOB-0000000001/ID-", b"")

    run_as(OURS, guarded.uri, make)

    assert [acl_of(guarded, path) for path in opened] == [["world:anyone:cdrwa"]] * 3
    assert acl_of(guarded, "/l/idgen-long/HOB-0000000001/ID-") == ["sasl:bookie:cdrwa"]
    assert acl_of(guarded, "/l") == ["sasl:bookie:cdrwa"]


@pytest.mark.parametrize(("user", "password"), [("bookie", "a wrong one"), ("stranger", PASSWORD)])
def test_a_wrong_user_or_password_is_told_at_once_and_without_the_password(
    guarded: ZooKeeper, caplog: pytest.LogCaptureFixture, user: str, password: str
) -> None:
    async def never(store: ZooKeeperStore) -> None:
        raise AssertionError("it was let in")

    began_s = time.monotonic()
    with pytest.raises(errors.MetadataDenied) as refused:
        run_as(MetadataSecurity(user, Secret(password)), guarded.uri, never, session_ms=60_000)

    assert f"refuses user {user!r}: wrong password, or it knows no such user" in str(refused.value)
    assert "does not take us" not in caplog.text, "an error that is raised is not logged, too"
    assert password not in repr(refused.value)
    assert time.monotonic() - began_s < wait_support.patient(20)


def test_a_refusal_later_is_told_and_ends_when_the_server_is_put_right(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(JAAS)
    provider = {"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
    jvm = [f"-Djava.security.auth.login.config={jaas}"]

    async def story(store: ZooKeeperStore) -> None:
        await store.create("/mine", b"1")
        server.stop()
        jaas.write_text(JAAS.replace(PASSWORD, "another"))
        server.start()
        async with asyncio.timeout(wait_support.patient(40)):
            while True:
                try:
                    await store.get("/mine")
                except errors.MetadataError as error:
                    if error.retryable and "refuses user 'bookie'" in str(error):
                        break
        server.stop()
        jaas.write_text(JAAS)
        server.start()
        async with asyncio.timeout(wait_support.patient(40)):
            while True:
                try:
                    assert (await store.get("/mine")).data == b"1"
                except errors.MetadataError:
                    continue
                break

    with zookeeper_support.running(tmp_path / "zookeeper", settings=provider, jvm=jvm) as server:
        run_as(OURS, server.uri, story, session_ms=3000)
    told = [record.getMessage() for record in caplog.records if "does not take us" in record.getMessage()]
    assert told
    assert PASSWORD not in "".join(told)


def test_a_server_that_asks_nobody_is_not_taken_for_one_that_knows_us(plain: ZooKeeper) -> None:
    async def never(store: ZooKeeperStore) -> None:
        raise AssertionError("it was let in")

    with pytest.raises(errors.MetadataDenied, match="JAAS file lacks its section `Server`"):
        run_as(OURS, plain.uri, never)


def test_who_is_nobody_cannot_own(plain: ZooKeeper) -> None:
    with pytest.raises(errors.BadInput, match="zkEnableSecurity=true without a user"):
        MetadataSecurity(creator_acl=True)


def test_a_session_without_permission_takes_no_ledger_for_deleted(guarded: ZooKeeper) -> None:
    async def make(store: ZooKeeperStore) -> None:
        await cluster.format_cluster(store, "zk://h/guarded", _Entropy())
        metadata = ledger.new_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1, bookies=("b",), ctoken=7)  # type: ignore[arg-type]
        await LedgerStore(store, "/guarded", LayoutKind.HIERARCHICAL).create(metadata, LedgerId(7))

    async def look(store: ZooKeeperStore) -> None:
        ledgers = LedgerStore(store, "/guarded", LayoutKind.HIERARCHICAL)
        for question in (
            ledgers.get(LedgerId(7)),
            anext(ledgers.iterate()),
            cluster.instance_id(store, "/guarded"),
            cluster.open_layout(store, paths.parse_uri("zk://h/guarded")),
        ):
            with pytest.raises(errors.MetadataDenied):
                await question

    run_as(OURS, guarded.uri, make)
    run_as(NOBODY, guarded.uri, look)
    run_as(OTHER, guarded.uri, look)


class _Entropy:
    def token(self, size: int) -> bytes:
        return bytes(size)

    def randrange(self, stop: int) -> int:
        return 0

    def shuffle(self, items: Any) -> None:
        pass


# ---- the scheme digest -----------------------------------------------------------------------------------------------


def test_the_digest_scheme_owns_too(plain: ZooKeeper) -> None:
    ours = MetadataSecurity(digest=Secret("bookie:secret"), creator_acl=True)

    async def make(store: ZooKeeperStore) -> None:
        await store.create("/digest", b"1")

    async def read(store: ZooKeeperStore) -> bytes:
        return (await store.get("/digest")).data

    run_as(ours, plain.uri, make)

    (owner,) = acl_of(plain, "/digest", ours)
    assert owner.startswith("digest:bookie:")
    assert owner.endswith(":cdrwa")
    assert run_as(ours, plain.uri, read) == b"1"
    with pytest.raises(errors.MetadataDenied):
        run_as(MetadataSecurity(digest=Secret("bookie:wrong")), plain.uri, read)


# ---- TLS -------------------------------------------------------------------------------------------------------------


class Encrypted:
    """A server with a TLS port, and what a client needs for it."""

    def __init__(self, folder: Path, *, hosts: tuple[str, ...] = ("localhost",)) -> None:
        self.authority = tls_support.Authority()
        self._folder, self._hosts = folder, hosts
        self.shows(self.authority)
        self.trust_store = self.trusts(self.authority)
        self.port = port_support.free_port()
        self.uri = f"zk+hierarchical://localhost:{self.port}/ledgers"
        self.settings = {
            "secureClientPort": self.port,
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": folder / "both.pem",
            "ssl.trustStore.location": self.trust_store,
            "ssl.clientAuth": "need",
        }

    def shows(self, authority: tls_support.Authority) -> None:
        """The server has a new certificate by this authority, from its next start on."""
        key, certificate = authority.issue("zookeeper", hosts=self._hosts).pem(self._folder)
        (self._folder / "both.pem").write_text(
            Path(key).read_text(encoding="utf-8") + Path(certificate).read_text(encoding="utf-8")
        )

    def trusts(self, authority: tls_support.Authority) -> str:
        """The server trusts this authority alone, from its next start on; return the file that says so."""
        return authority.pem(self._folder)


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    folder = tmp_path_factory.mktemp("tls")
    made = Encrypted(folder)
    with zookeeper_support.running(folder / "zookeeper", settings=made.settings):
        yield made


async def works(store: ZooKeeperStore) -> bool:
    await store.create("/over-tls", b"x" * 100_000)
    found = (await store.get("/over-tls")).data == b"x" * 100_000
    await store.delete("/over-tls")
    return found


def test_tls_with_a_certificate_of_our_own(encrypted: Encrypted, tmp_path: Path) -> None:
    key, certificate = encrypted.authority.issue("bookie").pem(tmp_path)
    tls = TlsOptions(key_store=key, certificate=certificate, trust_store=encrypted.trust_store)
    assert run_as(MetadataSecurity(tls=tls), encrypted.uri, works)

    store = encrypted.authority.issue("java").pkcs12(tmp_path)
    password = tls_support.password_file(tmp_path)
    tls = TlsOptions(
        key_store=store, key_store_type="PKCS12", key_password_file=password, trust_store=encrypted.trust_store
    )
    assert run_as(MetadataSecurity(tls=tls), encrypted.uri, works)


def test_a_certificate_that_nobody_vouches_for_is_told(encrypted: Encrypted, tmp_path: Path) -> None:
    tls = TlsOptions(trust_store=tls_support.Authority("another").pem(tmp_path))

    with pytest.raises(errors.MetadataDenied, match=r"TLS with localhost:\d+ failed: .*(TlsTrustStore|tlsTrustStore)"):
        run_as(MetadataSecurity(tls=tls), encrypted.uri, works)


def test_a_certificate_of_another_host_is_told(encrypted: Encrypted, tmp_path: Path) -> None:
    tls = tls_support.options(tmp_path, encrypted.authority, encrypted.authority.issue("bookie"))
    uri = encrypted.uri.replace("localhost", "127.0.0.1")

    with pytest.raises(errors.MetadataDenied, match=r"TLS with 127.0.0.1:\d+ failed: .*127.0.0.1.*it must name"):
        run_as(MetadataSecurity(tls=tls), uri, works)


def test_plain_words_to_a_port_with_tls_are_told(encrypted: Encrypted) -> None:
    with pytest.raises(errors.MetadataError, match="Does it want TLS: zkTlsEnabled"):
        run_as(NOBODY, encrypted.uri, works, session_ms=3000)


def test_every_certificate_is_made_anew_under_one_session_of_ours(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """docs/SECURITY.md: the next connection uses new files; those of a stranger are told, and put right by files."""
    made, next_one = Encrypted(tmp_path), tls_support.Authority("next")
    ours = tmp_path / "ours"
    ours.mkdir()

    def we_have(authority: tls_support.Authority, *trusted: tls_support.Authority) -> TlsOptions:
        key, certificate = authority.issue("bookie").pem(ours)
        known = b"".join(Path(one.pem(ours)).read_bytes() for one in trusted)
        (ours / "ca.crt").write_bytes(known)
        return TlsOptions(key_store=key, certificate=certificate, trust_store=str(ours / "ca.crt"))

    async def again(server: ZooKeeper) -> None:
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)

    with zookeeper_support.running(tmp_path / "zookeeper", settings=made.settings) as server:

        async def story(store: ZooKeeperStore) -> None:
            await store.create("/kept", b"1")
            we_have(next_one, made.authority, next_one)
            made.shows(next_one)
            made.trusts(next_one)
            await again(server)
            assert (await store.get("/kept")).data == b"1", "it trusts our new certificate, and we its own"

            we_have(next_one, tls_support.Authority("stranger"))
            await again(server)
            with pytest.raises(errors.MetadataError, match=r"is .*ca.crt .tlsTrustStore. the right authority's"):
                await store.get("/kept")
            we_have(next_one, next_one)
            async with asyncio.timeout(wait_support.patient(30)):
                while True:
                    with contextlib.suppress(errors.MetadataError):
                        assert (await store.get("/kept")).data == b"1"
                        return

        run_as(MetadataSecurity(tls=we_have(made.authority, made.authority)), made.uri, story)
    assert "metadata store does not take us reason=TLS with localhost" in caplog.text


# ---- a whole bookie --------------------------------------------------------------------------------------------------


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def run(*words: str, code: int = 0) -> Any:
        assert main.main([*words, "--json"]) == code, capsys.readouterr().err
        said = capsys.readouterr().out
        return json.loads(said) if said else None

    return run


def settings_of(folder: Path, uri: str) -> str:
    """A bookie's settings file, for a server that knows us by SASL; its path."""
    bookie = local_support.plan_one(folder)
    layout.write_config(bookie, uri, journal_write_data=True, regeneration="gated")
    jaas = folder / "jaas.conf"
    jaas.write_text(f'Client {{ DigestLoginModule required username="bookie" password="{PASSWORD}"; }};')
    with bookie.config.open("a") as file:
        file.write("\n".join(["zkEnableSecurity=true", f"saslJaasFile={jaas}"]) + "\n")
    return str(bookie.config)


def test_a_bookie_whose_password_is_wrong_is_not_sent_to_look_at_the_address(
    guarded: ZooKeeper, tmp_path: Path
) -> None:
    config = settings_of(tmp_path, guarded.uri)
    (tmp_path / "jaas.conf").write_text('Client { DigestLoginModule required username="bookie" password="old"; };')

    done = subprocess.run(
        [*local_support.BOOKIE, "serve", "--config", config],
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
        text=True,
    )

    told = done.stderr.splitlines()[-1]
    assert (done.returncode, "compare section Client" in told) == (1, True), told
    assert "metadataServiceUri" not in told


def test_a_bookie_its_client_and_its_commands_behind_acls(
    guarded: ZooKeeper, tmp_path: Path, told: Callable[..., Any]
) -> None:
    config = settings_of(tmp_path, guarded.uri)
    told("cluster", "init", "--config", config)
    log = tmp_path / "bookie.log"
    with log.open("ab") as talk:
        process = children.spawn([*local_support.BOOKIE, "serve", "--config", config], stderr=talk)
    try:
        wait_support.wait_until(
            lambda: bool(told("cluster", "list-bookies", "--state", "writable", "--config", config)),
            "it is registered",
            timeout_s=60,
        )
        security = connect.metadata_security(config)
        with blocking.connect(guarded.uri, metadata_security=security) as client:
            with client.create(ensemble_size=1, write_quorum=1, ack_quorum=1) as writer:
                writer.append(b"kept")

            # Somebody else's from now on: no permission is not "deleted".
            path = paths.ledger_path("/ledgers", writer.id)
            run_as(OURS, guarded.uri, lambda store: give_away(store, path))
            told("node", "collect-garbage", "--config", config, code=1)
            with pytest.raises(errors.MetadataDenied, match="no permission"):
                client.open(writer.id)
            rows = told("metadata", "acl", "--config", config, code=1)
            assert [row["acl"] for row in rows] == ["sasl:bookie:cdrwa", "(not ours to see)"]
            run_as(OTHER, guarded.uri, lambda store: give_away(store, path, "bookie"))
            with client.open(writer.id) as reader:
                assert [bytes(entry.payload) for entry in reader.read(0, 0)] == [b"kept"]

        with pytest.raises(errors.MetadataDenied), blocking.connect(guarded.uri):
            raise AssertionError("anybody may come in")
        (row,) = told("metadata", "acl", "--config", config)
        assert (row["acl"], row["asMadeToday"]) == ("sasl:bookie:cdrwa", True)
    finally:
        children.end(process, timeout_s=20)
    assert PASSWORD not in log.read_text()


async def give_away(store: ZooKeeperStore, path: str, user: str = "other") -> None:
    from kazoo.security import make_acl

    await store._write("giving away", lambda: store.kazoo.set_acls_async(path, [make_acl("sasl", user, all=True)]))


def test_an_old_tree_is_given_an_owner(guarded: ZooKeeper, tmp_path: Path, told: Callable[..., Any]) -> None:
    uri = guarded.uri.replace("ledgers", "old")
    config = settings_of(tmp_path, uri)
    told("cluster", "init", "--metadata-service-uri", uri)

    (row,) = told("metadata", "acl", "--config", config, code=1)
    assert (row["acl"], row["asMadeToday"]) == ("world:anyone:cdrwa", False)
    told("metadata", "acl", "--fix", "--config", config, code=4)
    (row,) = told("metadata", "acl", "--fix", "--yes", "--config", config)
    assert (row["acl"], row["asMadeToday"]) == ("sasl:bookie:cdrwa", True)
    told("cluster", "show", "--metadata-service-uri", uri, code=1)
