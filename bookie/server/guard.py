"""Guards a connection whose client has not proven its identity: which requests it may send, and what others get.

    v3 AUTH, our plugin              the plugin's answer; EUA and the end when it fails
    v2 AUTH, our plugin              the plugin's answer; the end when it fails
    v2 AUTH, another plugin          the end (v2 has no answer for it)
    START_TLS                        goes on to the connection
    anything else                    EUA, and the connection stays

Rule: spec/wire.md#W39. Java answers EUA without the operation's sub-message; ours
has it, which its clients read as well, and 4.18's better.
"""

import logging
from collections.abc import Callable

from bookie.base import errors
from bookie.base.errors import Status
from bookie.ports.tls import Certificate
from bookie.server.reads import Replier
from bookie.server.security import Exchange, Security
from bookie.wire import limits
from bookie.wire.codes import VERSION_THREE
from bookie.wire.messages import AuthRequest, AuthResponse, Incoming, StartTlsRequest
from bookie.wire.refusals import refusal

log = logging.getLogger(__name__)


class Guard:
    """The guard of one connection. Calls `on_pass` once, when the client may do everything."""

    def __init__(self, security: Security, peer: str, on_pass: Callable[[], None]) -> None:
        self.user: str | None = None
        self._authentication = security.authentication
        self._needs_tls = security.needs_tls
        self._peer = peer
        self._on_pass = on_pass
        self._exchange: Exchange | None = None

    def looks_at(self, request: Incoming) -> bool:
        """Return True when `request` makes us check a password:
        not for the first message of an exchange, which has none."""
        return self._exchange is not None and isinstance(request, AuthRequest) and self._is_ours(request)

    def handle(self, request: Incoming, to: Replier) -> None:
        """Answer one request. Raises Unauthorized when the connection must close; its last answer is queued then."""
        if isinstance(request, StartTlsRequest):
            to.start_tls(request)
        elif isinstance(request, AuthRequest) and self._is_ours(request):
            limits.check_auth(request)
            self._authenticate(request, to)
        else:
            to.reply(refusal(request, Status.EUA))

    def encrypted(self, certificate: Certificate | None) -> None:
        """Note that TLS has begun; `certificate` is the client's, verified."""
        self._needs_tls = False
        if self._authentication is not None and self.user is None:
            self.user = self._authentication.of_certificate(certificate)
            if self.user is None and self._authentication.needs_certificate:
                shown = "none" if certificate is None else certificate.common_name
                log.info("certificate not authorized peer=%s name=%s", self._peer, shown)
        self._pass()

    def _is_ours(self, request: AuthRequest) -> bool:
        """Return True for an AUTH of our plugin. Where TLS is required, no password is accepted before it."""
        if self._authentication is None or self._needs_tls:
            return False
        return request.plugin == self._authentication.plugin

    def _authenticate(self, request: AuthRequest, to: Replier) -> None:
        assert self._authentication is not None
        if self._exchange is None:
            self._exchange = self._authentication.begin()
        try:
            payload = self._exchange.answer(request.payload)
        except errors.Unauthorized:
            if request.version == VERSION_THREE:
                to.reply(refusal(request, Status.EUA))
            raise
        to.reply(AuthResponse(request.txn, request.version, Status.EOK, self._authentication.plugin, payload))
        self.user = self._exchange.user
        self._pass()

    def _pass(self) -> None:
        """Let the client in. Raises Unauthorized in plain where TLS is required, whatever was proven: a rule, and no
        fact about ourselves, so that it holds without asserts too (spec/wire.md#W39)."""
        if self._needs_tls:
            raise errors.Unauthorized("nothing is proven in plain where TLS is required")
        if self._authentication is None or self.user is not None:
            if self.user is not None:
                log.info("client authenticated peer=%s user=%s", self._peer, self.user)
            self._on_pass()
