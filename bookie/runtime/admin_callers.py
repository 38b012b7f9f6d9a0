"""Finds out who calls the admin port. An unknown caller gets health and nothing else, not even a report.

    mutual TLS           the name in a certificate that `admin_tls` accepts: the operator, from anywhere
    the admin socket     "local": who may open a file of this bookie's user, as `kubectl exec` does
    loopback, no pod     "local", with the token of `adminTokenFile` where there is one. Not in a pod: a proxy beside
                         the bookie (a mesh's) makes everybody's connections come from there
    anybody else         nobody

Health (gRPC health protocol) is open: the kubelet has no certificate. Must never log or answer a token.
"""

import contextlib
import contextvars
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import grpc
import grpc.aio

from bookie.base import errors
from bookie.base.secret import Secret
from bookie.ports.doors import Doors
from bookie.rpc import admin_pb2 as proto
from bookie.runtime import admin_boundary, text_file
from bookie.runtime.network import plain_host

log = logging.getLogger(__name__)

# Who makes the call that is being answered; set before each call of the admin service.
CALLER: contextvars.ContextVar[str] = contextvars.ContextVar("CALLER", default="nobody")

LOOKING = ("GetStorageReport", "GetRepairStatus", "ListMembers", "FindReferences", "FindDependents", "FindMarked")
_SERVICE = "/bookie.admin.v1.Admin/"
_BEARER = "Bearer "
_TEXT_MAX = 200
_LOOPBACK = ("127.0.0.1", "::1", "::ffff:127.0.0.1")


class Names(Protocol):
    """The part of `admin_tls.Certificates` that this module uses."""

    def name_of(self, certificate: bytes) -> str | None: ...


def _only_looks(call: str, request: Any) -> bool:
    """True for a call that changes nothing. The operator makes some each second, and they would bury the others."""
    looks = {"Drain": proto.DrainRequest.LOOK, "FillHoles": proto.FillHolesRequest.LOOK}
    return call in LOOKING or (call in looks and request.action == looks[call])


class Refused(Exception):
    """The bookie does not know this caller; the status and the sentence go to the caller."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def plain(text: str) -> str:
    """Return a caller's own words, made fit for a record and a log line."""
    return "".join(char for char in text[:_TEXT_MAX] if char.isprintable())


class Callers:
    """Identifies the callers of one bookie by the rule above. `own_host`: a further address of this machine that
    callers here may come from."""

    def __init__(
        self, token_file: str = "", *, in_pod: bool = False, names: Names | None = None, own_host: str = ""
    ) -> None:
        """Raises BadInput when the token file holds none."""
        self._token_file = token_file
        self._in_pod = in_pod
        self._names = names
        self._local_hosts = (*_LOOPBACK, own_host) if own_host else _LOOPBACK
        if token_file:
            self._tokens()

    def name(self, peer: str, auth: Mapping[str, Sequence[bytes]], authorization: str) -> str:
        """Return the name of the caller at `peer`, given gRPC's authentication context and the header. Raises
        Refused."""
        if (auth.get("transport_security_type") or [b""])[0] == b"ssl":
            return self._of_certificate((auth.get("x509_pem_cert") or [b""])[0])
        is_socket = peer.startswith("unix:")
        if not is_socket and (self._in_pod or _host(peer) not in self._local_hosts):
            raise Refused(
                grpc.StatusCode.PERMISSION_DENIED,
                "in a pod this port answers health alone; the operator calls adminTlsPort, a person the socket:"
                " `kubectl exec POD -- bookie ...` without --admin"
                if self._in_pod
                else "the admin port answers its own machine only: call it from there, or over TLS on adminTlsPort",
            )
        if self._token_file:
            self._check_token(authorization)
        return "local"

    def _of_certificate(self, certificate: bytes) -> str:
        name = self._names.name_of(certificate) if self._names is not None else None
        if name is None:
            raise Refused(
                grpc.StatusCode.UNAUTHENTICATED,
                "this certificate has expired, or has no name that the file `clients` of this bookie lists",
            )
        return name

    def _check_token(self, authorization: str) -> None:
        try:
            tokens = self._tokens()
        except errors.BadInput as error:
            raise Refused(grpc.StatusCode.UNAVAILABLE, str(error)) from None
        given = authorization.removeprefix(_BEARER) if authorization.startswith(_BEARER) else ""
        if not any(token.matches(given) for token in tokens):
            raise Refused(
                grpc.StatusCode.UNAUTHENTICATED, "the call has no token that this port knows: set adminTokenFile"
            )

    def _tokens(self) -> list[Secret]:
        """Return the tokens of the file; read it for each call, since calls are rare and a new token must count at
        once."""
        lines = text_file.read(self._token_file, "adminTokenFile ").split()
        if not lines:
            raise errors.BadInput(f"adminTokenFile {self._token_file} holds no token")
        return [Secret(line) for line in lines]


def _host(peer: str) -> str:
    """Return the host in `peer`: `ipv4:127.0.0.1:4711` -> 127.0.0.1; `ipv6:[::1]:4711`, which gRPC also writes with %5B
    and %5D, -> ::1."""
    kind, _, rest = peer.partition(":")
    host = rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")
    return plain_host(host) if kind in ("ipv4", "ipv6") else ""


class Interceptor(grpc.aio.ServerInterceptor):
    """Asks `Callers` before each call of the admin service, and logs the name of a caller who changes something."""

    def __init__(self, callers: Callers, doors: Doors) -> None:
        self._callers = callers
        self._doors = doors

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:
        handler = await continuation(handler_call_details)
        method: str = handler_call_details.method
        if handler is None or not method.startswith(_SERVICE):
            return handler
        call = method.removeprefix(_SERVICE)
        return admin_boundary.wrapped(handler, lambda request, context: self._known(call, request, context))

    @contextlib.asynccontextmanager
    async def _known(self, call: str, request: Any, context: Any) -> AsyncIterator[None]:
        authorization = dict(context.invocation_metadata() or ()).get("authorization", "")
        try:
            name = self._callers.name(context.peer(), context.auth_context() or {}, str(authorization))
        except Refused as refused:
            self._doors.refused("admin", f"{call}: {refused}", plain(context.peer()))
            await context.abort(refused.code, str(refused))
            raise
        CALLER.set(name)
        if not _only_looks(call, request):
            log.info("admin call=%s by=%s with=%s", call, name, plain(" ".join(str(request).split())))
        yield
