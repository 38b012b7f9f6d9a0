"""One bookie's admin port, from the caller's side: `AdminClient` waits for an answer, `AsyncAdminClient` suspends.

Each holds one channel: mutual TLS where an identity is given, plain otherwise (a bookie obeys that from its own machine
alone). Every call has a deadline, and every failure is translated here: AdminRefused when the bookie says no,
CallFailed when it says that it cannot do this now, BookieUnavailable when it gives no answer. A missing answer is never
taken for an empty one.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import grpc
import grpc.aio

from bookie.base import errors
from bookie.rpc import admin_pb2_grpc, overtime
from bookie.rpc.calls import ANSWERED, AdminCall

T = TypeVar("T")
# What surrounds a wait for an answer; it is given how long that may take, as the end of a sentence.
Waiting = Callable[[str], contextlib.AbstractContextManager[None]]

DEADLINE_S = 20.0
# A client's own subchannels: shared ones remember the back-off of a bookie that restarts behind the same address. No
# proxy stands before an admin port.
_OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))
_NO = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
)
# `runtime.admin_boundary` says these itself. UNAVAILABLE is also what gRPC says of a port where nobody listens, so
# there the bookie's own answer carries a mark (`ANSWERED`).
_FAILED = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL)


class AdminRefused(errors.BadInput):
    """The bookie refuses this call, or this caller. `code`: gRPC's status code."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.code = code


class CallFailed(errors.BookieUnavailable):
    """The bookie answered that it cannot do this now, or failed to."""


@dataclass(frozen=True, slots=True)
class AdminCredentials:
    """Certificates and key by which we and a bookie prove ourselves to each other, as PEM. Never shown.

    `server_name`: what the bookie's certificate must name; "" = the host that is dialled.
    """

    certificate: bytes
    key: bytes
    authorities: bytes
    server_name: str = ""

    def __repr__(self) -> str:
        return f"AdminCredentials({self.server_name})"


class AdminClient:
    """Asks one bookie's admin port; a context manager. `token`: proves us where there is no certificate."""

    def __init__(
        self,
        address: str,
        identity: AdminCredentials | None = None,
        *,
        token: str = "",
        deadline_s: float = DEADLINE_S,
        waiting: Waiting = contextlib.nullcontext,
    ) -> None:
        self.address = address
        self.metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._deadline_s = deadline_s
        self._waiting = waiting
        self._channel = _channel(grpc, address, identity)
        self._stub = admin_pb2_grpc.AdminStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._channel.close()

    def ask(self, call: AdminCall[T]) -> T:
        """Send one call and return its answer. Raises AdminRefused, BookieUnavailable."""
        send = getattr(self._stub, call.method)
        deadline_s = call.deadline_s or self._deadline_s
        try:
            with self._waiting(f", {deadline_s:g} s at most"):
                return call.read(send(call.request, timeout=deadline_s, metadata=self.metadata))
        except grpc.RpcError as error:
            raise _translated(self.address, error) from None

    def follow(self, call: AdminCall[T]) -> Iterator[T]:
        """Yield every message of a stream that speaks well within our deadline. Raises as `ask`, also when it falls
        silent: of a machine without power nothing else tells."""
        messages = getattr(self._stub, call.method)(call.request, metadata=self.metadata)
        waiting = self._waiting(f", {self._deadline_s:g} s at most")
        try:
            while True:
                with waiting, overtime.after(self._deadline_s, messages.cancel):
                    message = next(messages, None)
                if message is None:
                    return
                yield call.read(message)
                waiting = contextlib.nullcontext()
        except grpc.RpcError as error:
            if messages.code() is grpc.StatusCode.CANCELLED:
                said = f"the admin port at {self.address} has said nothing for {self._deadline_s:g} s"
                raise errors.BookieUnavailable(said) from None
            raise _translated(self.address, error) from None


class AsyncAdminClient:
    """Does what `AdminClient` does, for code on an event loop: an asynchronous context manager."""

    def __init__(self, address: str, identity: AdminCredentials | None, *, deadline_s: float) -> None:
        self.address = address
        self._deadline_s = deadline_s
        self._channel = _channel(grpc.aio, address, identity)
        self._stub = admin_pb2_grpc.AdminStub(self._channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._channel.close()

    async def ask(self, call: AdminCall[T]) -> T:
        """Raises AdminRefused, BookieUnavailable."""
        send = getattr(self._stub, call.method)
        try:
            return call.read(await send(call.request, timeout=call.deadline_s or self._deadline_s))
        except grpc.RpcError as error:
            raise _translated(self.address, error) from None

    async def first(self, call: AdminCall[T]) -> T | None:
        """Return the first message of a stream, which tells the present state; None when the stream ends without one.
        Raises as `ask`."""
        stream = getattr(self._stub, call.method)(call.request, timeout=self._deadline_s)
        try:
            async for message in stream:
                return call.read(message)
            return None
        except grpc.RpcError as error:
            raise _translated(self.address, error) from None
        finally:
            stream.cancel()


def _channel(api: Any, address: str, identity: AdminCredentials | None) -> Any:
    """Open the channel to `address`. `api`: grpc or grpc.aio, which open channels with the same functions."""
    if identity is None:
        return api.insecure_channel(address, options=_OPTIONS)
    named = (("grpc.ssl_target_name_override", identity.server_name),) if identity.server_name else ()
    credentials = grpc.ssl_channel_credentials(identity.authorities, identity.key, identity.certificate)
    return api.secure_channel(address, credentials, options=(*_OPTIONS, *named))


def _translated(address: str, error: grpc.RpcError) -> errors.BookieError:
    assert isinstance(error, grpc.Call | grpc.aio.AioRpcError)
    code, details = error.code(), error.details()
    if code in _NO:
        return AdminRefused(f"bookie at {address}: {details}", code.name)
    if code in _FAILED or any(name == ANSWERED for name, _ in error.trailing_metadata() or ()):
        return CallFailed(f"bookie at {address}: {details}")
    return errors.BookieUnavailable(f"the admin port at {address} did not answer ({code.name}: {details})")
