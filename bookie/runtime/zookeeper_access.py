"""How kazoo reaches a ZooKeeper that asks who we are: TLS by our own contexts, SASL DIGEST-MD5 by our own exchange.

kazoo's SASL needs a library that nobody keeps, and gives up for good at the first refusal; its TLS knows PEM files only
and reads them for ever anew. Here a refusal is logged once, kept as `trouble` for later errors, and tried again like a
lost connection: a password that is corrected in ZooKeeper needs no restart here. All of it runs in kazoo's connection
thread. Rules: SaslClientCallbackHandler, ZooKeeperSaslClient and SecurityUtils of ZooKeeper.
"""

import logging
import secrets
import socket
import ssl
from collections.abc import Callable
from typing import Any

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import SASL

from bookie.base import errors
from bookie.ports.metadata_store import MetadataSecurity
from bookie.runtime.tls import SslTls, certificate_remedy
from bookie.wire import sasl

log = logging.getLogger(__name__)

# Fixed in ZooKeeper, whatever the host is called (SecurityUtils.java).
_DIGEST_URI = "zookeeper/zk-sasl-md5"
_NONCE_SIZE = 16
_NOT_KNOWN = (
    "wrong password, or it knows no such user: compare section Client of the file that zkJaasFile or saslJaasFile names"
    " with the section Server of ZooKeeper's"
)


class Kazoo(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """A kazoo client whose next session, after a lost one, begins only at a server that is as new as what this client
    has seen.

    kazoo itself forgets with the session how far that was. Then a server that lags behind could answer a read of the
    next session, although a `sync` came before: a ledger that is being recovered would still look OPEN, and a new one
    deleted.
    """

    def __init__(self, security: MetadataSecurity, on_trouble: Callable[[str], None], **options: Any) -> None:
        """`on_trouble`: gets the reason why a server refused us, "" once one accepts us; called from kazoo's thread.
        Raises BadInput when keys cannot be used."""
        tls = None if security.tls is None else SslTls(security.tls, is_server=False)
        digest = security.digest.reveal()
        super().__init__(
            handler=_Handler(tls, on_trouble, is_all=not security.sasl_user),
            auth_data=[("digest", digest)] if digest else None,
            **options,
        )
        self.granted_ms = int(options["timeout"] * 1000)  # what was asked for, until a server has answered
        connect = self._connection._connect

        def connect_and_note(*arguments: Any) -> Any:
            read_timeout_ms, connect_timeout_ms = connect(*arguments)
            # kazoo keeps what a server granted nowhere else: two thirds of it are how long it waits for a word.
            self.granted_ms = int(read_timeout_ms * 3 / 2)
            return read_timeout_ms, connect_timeout_ms

        self._connection._connect = connect_and_note
        if security.sasl_user:
            access = _Access(self._connection, security, on_trouble)
            self._connection.sasl_options = {}  # "there is SASL to be done"
            self._connection._authenticate_with_sasl = access.authenticate

    def _reset(self) -> None:
        seen_zxid = getattr(self, "last_zxid", 0)
        super()._reset()
        self.last_zxid = seen_zxid


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    def __init__(self, tls: SslTls | None, on_trouble: Callable[[str], None], *, is_all: bool) -> None:
        """`is_all`: nothing else has to succeed."""
        super().__init__()
        self._is_all = is_all
        self._tls = tls
        self._on_trouble = on_trouble

    def create_connection(self, address: Any, hostname: str, timeout: float, **_: Any) -> socket.socket:
        """Return a connection to one server, encrypted if that is wanted. Raises OSError; reports TLS errors."""
        plain = socket.create_connection(address, timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is None:
                return plain
            encrypted = self._tls.context().wrap_socket(plain, server_hostname=hostname)
        except (OSError, ValueError) as error:
            plain.close()
            self._on_trouble(f"TLS with {hostname}:{address[1]} failed: {_why(error, self._tls)}")
            raise error if isinstance(error, OSError) else ssl.SSLError(str(error)) from None
        if self._is_all:
            self._on_trouble("")
        return encrypted


def _why(error: Exception, tls: SslTls | None) -> str:
    """Return why a handshake failed, and what to try."""
    if tls is not None and isinstance(error, ssl.SSLCertVerificationError):
        return f"{error.verify_message.rstrip('.')}: {certificate_remedy(error.verify_code, tls.options)}"
    reason = getattr(error, "reason", "") or str(error)
    return f"{reason}: does its secureClientPort listen there, and does it want a certificate of ours (zkTlsKeyStore)?"


class _Access:
    """Does SASL on one client's connections, one after the other."""

    def __init__(self, connection: Any, security: MetadataSecurity, on_trouble: Callable[[str], None]) -> None:
        self._connection = connection
        self._user = security.sasl_user
        self._password = security.sasl_password
        self._on_trouble = on_trouble

    def authenticate(self, host: str, timeout_s: float) -> None:
        """Do the SASL exchange in place of kazoo's. Raises ConnectionDropped: then kazoo tries the next server, or
        again."""
        nonce = secrets.token_hex(_NONCE_SIZE)
        client = sasl.DigestClient(self._user, self._password, nonce, digest_uri=_DIGEST_URI, server="ZooKeeper")
        payload: bytes | None = b""  # the exchange begins with an empty message of the client
        try:
            for xid in range(1, 4):
                answer = self._ask(xid, payload or b"", timeout_s)
                if not answer:
                    raise errors.Unauthorized(
                        "it never asks for a password: ZooKeeper's own JAAS file lacks its section `Server`"
                    )
                payload = client.answer(answer)
                if payload is None:
                    self._on_trouble("")
                    return
            raise errors.Unauthorized(
                "it goes on asking after the last step of DIGEST-MD5: is it a ZooKeeper, and does its JAAS section"
                " `Server` use DIGEST-MD5?"
            )
        except (errors.Unauthorized, kazoo_errors.ZookeeperError, kazoo_errors.ConnectionDropped) as error:
            said = str(error) if isinstance(error, errors.Unauthorized) else _NOT_KNOWN
            self._on_trouble(f"{host} refuses user {self._user!r}: {said}")
            raise kazoo_errors.ConnectionDropped("refused") from None

    def _ask(self, xid: int, payload: bytes, timeout_s: float) -> bytes:
        connection = self._connection
        connection._submit(SASL(payload), timeout_s, xid)
        header, buffer, offset = connection._read_header(timeout_s)
        if header.zxid > 0:
            connection.client.last_zxid = header.zxid
        if header.err or header.xid != xid:
            raise kazoo_errors.AuthFailedError()
        challenge, _ = SASL.deserialize(buffer, offset)
        return challenge or b""
