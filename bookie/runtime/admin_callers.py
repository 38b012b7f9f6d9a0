"""Who may call the admin port. Every call is guarded unless it is named here as one that only looks; so a new one is.

    token file set      every call needs "authorization: Bearer TOKEN"; the file may hold several, one a line, so that
                        a new token can be handed out before the old one goes
    no token, no pod    looking from anywhere; changing (grants, modes, shutdown) from this machine only
    no token, in a pod  both from the pod network, where the operator is: docs/SECURITY.md says how to close that

Health (gRPC health protocol) is open: the kubelet's probes carry no token. Must never log or answer a token.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from bookie.base import errors
from bookie.base.secret import Secret

log = logging.getLogger(__name__)

LOOKING = ("GetStorageReport", "GetRepairStatus")
_SERVICE = "/bookie.admin.v1.Admin/"
_BEARER = "Bearer "
_LOOPBACK = ("ipv4:127.", "ipv6:[::1]", "ipv6:%5B::1%5D", "ipv6:[::ffff:127.", "unix:")


class Callers:
    """The rule above, for one bookie. `trusts_network`: it is in a pod."""

    def __init__(self, token_file: str = "", *, trusts_network: bool = False) -> None:
        """Raises BadInput when the token file holds none."""
        self._token_file = token_file
        self._trusts_network = trusts_network
        if token_file:
            self._tokens()

    def refusal(self, call: str, peer: str, authorization: str) -> tuple[grpc.StatusCode, str] | None:
        """Why `peer` may not make `call`; None when it may."""
        if self._token_file:
            try:
                tokens = self._tokens()
            except errors.BadInput as error:
                return grpc.StatusCode.UNAVAILABLE, str(error)
            given = authorization.removeprefix(_BEARER) if authorization.startswith(_BEARER) else ""
            if any(token.matches(given) for token in tokens):
                return None
            return grpc.StatusCode.UNAUTHENTICATED, "this admin port wants a token it knows: set adminTokenFile"
        if call in LOOKING or self._trusts_network or peer.startswith(_LOOPBACK):
            return None
        return (
            grpc.StatusCode.PERMISSION_DENIED,
            f"{call} changes this bookie and is allowed from its own machine only: call it there, or give the bookie"
            " and its callers an adminTokenFile",
        )

    def _tokens(self) -> list[Secret]:
        """Read anew each time: these calls are rare, and a new token counts at once."""
        try:
            lines = Path(self._token_file).read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise errors.BadInput(f"adminTokenFile {self._token_file} cannot be read: {reason}") from None
        if not lines:
            raise errors.BadInput(f"adminTokenFile {self._token_file} holds no token")
        return [Secret(line) for line in lines]


class Interceptor(grpc.aio.ServerInterceptor):
    """Asks `Callers` before each call of the admin service."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:
        handler = await continuation(handler_call_details)
        method: str = handler_call_details.method
        if handler is None or not method.startswith(_SERVICE):
            return handler
        return self._guarded(handler, method.removeprefix(_SERVICE))

    def _guarded(self, handler: Any, call: str) -> Any:
        codec = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        if handler.unary_unary is not None:
            answer = handler.unary_unary

            async def unary(request: Any, context: Any) -> Any:
                await self._check(call, context)
                return await answer(request, context)

            return grpc.unary_unary_rpc_method_handler(unary, **codec)
        assert handler.unary_stream is not None, "the admin service takes no streams"
        answers = handler.unary_stream

        async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
            await self._check(call, context)
            async for one in answers(request, context):
                yield one

        return grpc.unary_stream_rpc_method_handler(stream, **codec)

    async def _check(self, call: str, context: Any) -> None:
        authorization = dict(context.invocation_metadata() or ()).get("authorization", "")
        refused = self._callers.refusal(call, context.peer(), str(authorization))
        if refused is not None:
            code, text = refused
            log.warning("admin call refused call=%s peer=%s reason=%s", call, context.peer(), text)
            await context.abort(code, text)
