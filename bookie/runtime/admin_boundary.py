"""The boundary of the admin port: each operating error is its caller's answer, and any other error becomes INTERNAL, a
counter and a line. Calls are bounded.

It stands before `admin_callers`, so that an error while a caller proves who it is ends here too. An error in what gRPC
itself reads (frames, messages) ends in gRPC, which answers UNKNOWN; its own log lines are limited in `runtime.log`.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from bookie.base.errors import BadInput, BookieError, GrantRefused
from bookie.ports.doors import Doors
from bookie.rpc.calls import ANSWERED

# Health checks are never counted: the kubelet's probe must not wait for strangers.
_PROBE = "/grpc.health.v1.Health/Check"
# Calls under way together, streams included. An operator has a handful.
CALLS_MAX = 64
# Anybody may watch our health, for as long as he likes: watchers have places of their own, apart from known callers.
_WATCH = "/grpc.health.v1.Health/Watch"
WATCHERS_MAX = 16
# What gRPC bounds: messages, headers, and how long a client may be silent before and between calls.
OPTIONS = (
    ("grpc.max_receive_message_length", 64 * 1024),
    ("grpc.max_metadata_size", 16 * 1024),
    ("grpc.max_concurrent_streams", 32),
    ("grpc.server_handshake_timeout_ms", 5_000),
    ("grpc.max_connection_idle_ms", 300_000),
)


@dataclass(slots=True)
class _Places:
    most: int
    taken: int = 0


class AdminBoundary(grpc.aio.ServerInterceptor):
    """Counts the calls under way, and catches their errors."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._calls, self._watchers = _Places(CALLS_MAX), _Places(WATCHERS_MAX)

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:
        """Return the bounded handler of a call; gRPC calls this for each call. A missing handler is a defect too, and
        is refused."""
        method: str = handler_call_details.method
        try:
            handler = await continuation(handler_call_details)
        except Exception as error:
            self._doors.failed("admin", error)
            return None  # UNIMPLEMENTED
        if handler is None or method == _PROBE:
            return handler
        places = self._watchers if method == _WATCH else self._calls
        return wrapped(handler, lambda request, context: self._bounded(places, context))

    @contextlib.asynccontextmanager
    async def _bounded(self, places: _Places, context: Any) -> AsyncIterator[None]:
        if places.taken >= places.most:
            self._doors.refused("admin", "too many calls under way", context.peer())
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{places.most} calls are under way: try again")
        places.taken += 1
        try:
            yield
        except grpc.aio.AbortError:
            raise  # an answer: it says what it is
        except BookieError as error:  # expected: the caller's answer
            await context.abort(_code(error), str(error), ((ANSWERED, "1"),))
        except Exception as error:
            self._doors.failed("admin", error, context.peer())
            await context.abort(grpc.StatusCode.INTERNAL, "the bookie failed to answer this call: see its log")
        finally:
            places.taken -= 1


def _code(error: BookieError) -> grpc.StatusCode:
    match error:
        case BadInput():
            return grpc.StatusCode.INVALID_ARGUMENT
        case GrantRefused():
            return grpc.StatusCode.FAILED_PRECONDITION
        case _:
            return grpc.StatusCode.UNAVAILABLE


def wrapped(handler: Any, around: Callable[[Any, Any], AbstractAsyncContextManager[None]]) -> Any:
    """Return a handler that answers as gRPC's `handler` does, within `around(request, context)`."""
    codec = {
        "request_deserializer": handler.request_deserializer,
        "response_serializer": handler.response_serializer,
    }
    if handler.unary_unary is not None:

        async def unary(request: Any, context: Any) -> Any:
            async with around(request, context):
                return await handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(unary, **codec)
    assert handler.unary_stream is not None, "no service here takes streams"

    async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
        async with around(request, context):
            async for one in handler.unary_stream(request, context):
                yield one

    return grpc.unary_stream_rpc_method_handler(stream, **codec)
