"""Bounds the connections of the admin port: each costs a descriptor.

gRPC closes who comes when a port has `OF_A_PORT_MAX`: between two looks nobody can use up the descriptors of this
process, and with none left the loop closes the bookie's new clients unheard. But it does not say which connections it
has (nor asyncio, while they shake hands over TLS: `http`), so the process looks at its own sockets once in a while, and
shuts those that have been silent the longest, as if the peer had left: silent ones do not keep the others out. The
client of a shut connection connects anew with its next call.
"""

import asyncio
import contextlib
import os
import resource
import socket
import struct
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from bookie.ports.doors import Doors

CONNECTIONS_MAX = 128
OF_A_PORT_MAX = CONNECTIONS_MAX * 3 // 2
GRPC_OPTIONS = (("grpc.max_allowed_incoming_connections", OF_A_PORT_MAX),)
_LOOK_S = 0.5
_LOOK_SOON_S = 0.05  # after a look that shut some: more of them may wait to come
# struct tcp_info of Linux: tcpi_last_data_recv, milliseconds.
_LAST_RECEIVED = struct.Struct("=I")
_LAST_RECEIVED_AT = 8 + 11 * 4
_INFO_BYTES = 104


@contextlib.asynccontextmanager
async def bounded(
    ports: Sequence[int], doors: Doors, *, most: int = CONNECTIONS_MAX, door: str = "admin"
) -> AsyncIterator[None]:
    """Keep connections to `ports` of this process, if any, at `most`, until the context is left."""
    if not ports:
        yield
        return
    task = asyncio.create_task(_look(frozenset(ports), doors, most, door), name="admin connections")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _look(ports: frozenset[int], doors: Doors, most: int, door: str) -> None:
    shut = 0
    while True:
        await asyncio.sleep(_LOOK_SOON_S if shut else _LOOK_S)
        try:
            shut = await asyncio.to_thread(shut_silent, ports, most)
            if shut:
                doors.refused(door, f"more than {most} connections: {shut} that were silent the longest are closed")
        except Exception as error:
            doors.failed(door, error)


def shut_silent(ports: frozenset[int], most: int) -> int:
    """Shut the connections beyond `most`, the silent ones first; return how many."""
    found = sorted(_silences(ports), reverse=True)
    excess = max(0, len(found) - most)
    for _, descriptor in found[:excess]:
        with _borrowed(descriptor) as stream:
            if stream is not None and _port_of(stream) in ports:  # it may be another's by now
                with contextlib.suppress(OSError):
                    stream.shutdown(socket.SHUT_RDWR)
    return excess


def _silences(ports: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Return for each connection to one of `ports` how long (ms) it has been silent, and its descriptor."""
    for descriptor in _descriptors():
        with _borrowed(descriptor) as stream:
            if stream is None or _port_of(stream) not in ports:
                continue
            with contextlib.suppress(OSError, struct.error):
                stream.getpeername()  # not one that listens
                info = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
                yield _LAST_RECEIVED.unpack_from(info, _LAST_RECEIVED_AT)[0], descriptor


def _descriptors() -> Iterable[int]:
    """Return the descriptors of this process. The list needs one itself: where none is left every number is in use, and
    that is when this look is needed most."""
    try:
        return list(map(int, os.listdir("/proc/self/fd")))
    except OSError:
        return range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


@contextlib.contextmanager
def _borrowed(descriptor: int) -> Iterator[socket.socket | None]:
    """Give the descriptor as a socket, and leave it open for its owner afterwards; None when it is no socket (any
    more)."""
    try:
        stream = socket.socket(fileno=descriptor)
    except OSError:
        yield None
        return
    try:
        yield stream
    finally:
        stream.detach()


def _port_of(stream: socket.socket) -> int:
    if stream.family not in (socket.AF_INET, socket.AF_INET6) or stream.type != socket.SOCK_STREAM:
        return -1
    try:
        return int(stream.getsockname()[1])
    except OSError:
        return -1
