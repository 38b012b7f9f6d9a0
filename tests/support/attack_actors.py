"""The attackers: each does one kind of harm to one bookie, for a bounded while, and lets go.

They hold no credentials. What they may cost, and what nobody may be told meanwhile, `attack_target` watches.
"""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attack_frames
from attack_frames import Frames, Marker
from attack_target import DEADLINE_S, Broken, Target
from bookie.base.units import KIB, MIB
from bookie.wire.framing import FRAME_LIMIT_BYTES

BURST = 1000
FRESH = 60
POOL = 6000  # frames that a connection outlives, to be sent again among each other
HTTP_TRIES = 60
PIECE_BYTES_MAX = 16 * KIB  # said before anything is read: the kernel holds so much
HOARDERS = 250
IDLERS = 1500
DEAF = 4
_RESET = struct.pack("ii", 1, 0)


class Peer:
    """A connection of the attacker's, which knows when it was closed."""

    def __init__(self, target: Target) -> None:
        self.stream = target.connect()

    def send(self, data: bytes) -> bool:
        """Say it and read nothing; False once the bookie has closed."""
        with contextlib.suppress(ConnectionError):
            self.stream.sendall(data)
            return True
        return False

    def answered(self, data: bytes, marker: Marker) -> bool:
        """Say `data`, which ends with the marker, and read until its answer; False when the bookie closed instead.
        Raises Broken when neither comes.

        It reads while it says: a bookie rightly takes no more requests from who does not take his answers, and the two
        would wait for each other.
        """
        left, tail, waiting = memoryview(data), b"", select.poll()
        try:
            while marker.answer not in tail:
                waiting.register(self.stream, select.POLLIN | (select.POLLOUT if left else 0))
                ready = dict(waiting.poll(1000 * DEADLINE_S)).get(self.stream.fileno(), 0)
                if not ready:
                    raise Broken("a connection was neither answered nor closed")
                if left and ready & select.POLLOUT:
                    left = left[self.stream.send(left[: 256 * KIB]) :]
                if ready & ~select.POLLOUT:
                    chunk = self.stream.recv(1 << 18)
                    if not chunk:
                        return False
                    tail = tail[-len(marker.answer) :] + chunk
        except ConnectionError:
            return False
        return True

    def close(self, *, reset: bool = False) -> None:
        if reset:
            self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.stream.close()


class FrameAttacker:
    """Bursts of odd requests. `handled` counts frames after which the same connection answered, or which closed it;
    `fresh` those that nobody sent before."""

    def __init__(self, target: Target, draw: random.Random) -> None:
        self.handled = 0
        self.fresh = 0
        self.closings = 0
        self._target, self._draw = target, draw
        self._frames = Frames(draw, (target.honest.ledger_id,))
        self._pools: dict[int, list[bytes]] = {2: [], 3: []}
        self._peers: dict[int, Peer] = {}

    def round(self, count: int) -> None:
        """Send about `count` frames."""
        until = self.handled + count
        while self.handled < until:
            version = self._draw.choice((2, 3))
            pool = self._pools[version]
            what = self._draw.random()
            if what < 0.2:
                self._broken(version)
            elif what < 0.5 or len(pool) < FRESH:
                self._fresh(version, pool)
            else:
                self._tell(version, self._draw.choices(pool, k=BURST))
        self._target.check()

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close(reset=self._draw.random() < 0.5)
        self._peers.clear()

    def _fresh(self, version: int, pool: list[bytes]) -> None:
        """Requests that nobody sent before; those that the connection outlives are kept, to be sent again."""
        frames = [self._frames.next(version) for _ in range(FRESH)]
        self.fresh += len(frames)
        if not self._tell(version, frames):
            frames = [frame for frame in frames if self._tell(version, [frame])]
        pool += frames
        if len(pool) > POOL:
            del pool[: len(pool) - POOL]

    def _broken(self, version: int) -> None:
        """Frames that are no requests, one by one."""
        for _ in range(FRESH // 4):
            self.fresh += 1
            self._tell(version, [self._frames.next_broken(version)])

    def _tell(self, version: int, frames: Sequence[bytes]) -> bool:
        """False when the bookie closed the connection: then one frame counts, for it may have been the first."""
        data = b"".join(frames)
        peer = self._peers.get(version)
        if peer is None:
            peer = self._peers[version] = Peer(self._target)
        marker = attack_frames.marker(version, self._target.honest.ledger_id, 2**45 + self._draw.getrandbits(40))
        cut = self._draw.randrange(min(len(data), PIECE_BYTES_MAX)) if self._draw.random() < 0.05 else 0  # in pieces
        if peer.send(data[:cut]) and peer.answered(data[cut:] + marker.frame, marker):
            self.handled += len(frames)
            return True
        self.handled += 1
        self.closings += 1
        peer.close(reset=self._draw.random() < 0.5)
        del self._peers[version]
        return False


# ---- those that take room --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _held(target: Target, count: int, say: Callable[[Peer], bool]) -> Iterator[int]:
    """Up to `count` connections that are held; gives how many the bookie let in."""
    with contextlib.ExitStack() as stack:
        held = 0
        for _ in range(count):
            try:
                peer = Peer(target)
            except (ConnectionResetError, TimeoutError):
                continue  # refused, which is its right
            stack.callback(peer.close)
            peer.stream.settimeout(2.0)
            with contextlib.suppress(TimeoutError):
                held += say(peer)
        yield held


def hoard(target: Target, draw: random.Random) -> str:
    """Frames of the largest size, each but one byte of it: what is unfinished must not be kept for ever, or at all."""
    size = draw.choice((64 * KIB, MIB, FRAME_LIMIT_BYTES - 4))
    begun = struct.pack(">I", size) + bytes([draw.choice((0x0A, 2))]) + bytes(size - 2)
    with _held(target, HOARDERS, lambda peer: peer.send(begun)) as held:
        target.check()
        return f"{held} unfinished frames of {size} bytes"


def idle(target: Target, draw: random.Random) -> str:
    """Connections that say nothing, or one byte."""
    first = draw.choice((b"", b"\x00", b"\x00\x00\x00\x10"))
    with _held(target, IDLERS, lambda peer: not first or peer.send(first)) as held:
        target.check()
        return f"{held} idle connections"


def deafen(target: Target, draw: random.Random) -> str:
    """Ask for much, and read nothing of it."""
    version = draw.choice((2, 3))
    # Its own large entries: whatever is answered must wait in the requests, not in memory.
    ledger_id = attack_frames.FIRST_SHARED - 1
    with contextlib.closing(Peer(target)) as writer:
        body = attack_frames.sealed(ledger_id, 0, draw.randbytes(MIB))  # type: ignore[arg-type]
        writer.send(attack_frames.framed(struct.pack(">BBH", 2, 1, 0) + bytes(20) + body))
        marker = attack_frames.marker(2, target.honest.ledger_id, 2**45 + draw.getrandbits(40))
        writer.answered(marker.frame, marker)
    if version == 2:
        ask = attack_frames.framed(struct.pack(">BBHqq", 2, 2, 0, ledger_id, 0))
    else:
        ask = attack_frames.marker(3, ledger_id, 0).frame  # type: ignore[arg-type]
    with _held(target, DEAF, lambda peer: peer.send(ask * draw.choice((400, 4000)))) as held:
        target.check()
        return f"{held} connections that read none of their answers"


# ---- the other ports -------------------------------------------------------------------------------------------------

_METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "get", "", "G\x00T", "A" * 9000)
_PATHS = (
    "/metrics",
    "/",
    "//[",
    "//]",
    "//[::1",
    "/%",
    "/%zz",
    "/%ff%fe",
    "/" + "a" * 20_000,
    "/api/v1/bookie/state",
    "/api/v1/bookie/state/readonly",
    "/api/v1/bookie/gc",
    "/api/v1/ledger/metadata?ledger_id=-1",
    "/api/v1/ledger/metadata?ledger_id=99999999999999999999999",
    "/api/v1/ledger/read?ledger_id=\u00b2&start_entry_id=x",
    "/api/v1/ledger/list?print_metadata=true&page=-1",
    "/metrics?" + "a=b&" * 4000,
    "http://[",
    "*",
    "/\x00",
    "/metrics#[",
    "//user@[::1]:99999999/",
)
_HEADS = (
    "",
    "Content-Length: 5\r\n",
    "Content-Length: -1\r\n",
    "Content-Length: 99999999999999999999\r\n",
    "Content-Length: " + "9" * 5000 + "\r\n",
    "Content-Length: \u0665\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Expect: 100-continue\r\n",
    "Host\r\n",
    ":\r\n",
    "A: b\r\n" * 3000,
    "\x00: \x00\r\n",
)


def http(target: Target, draw: random.Random, port: int) -> str:
    """Requests that are none, on a port that speaks HTTP; every one is answered or closed."""
    for _ in range(HTTP_TRIES):
        line = (
            f"{draw.choice(_METHODS)} {draw.choice(_PATHS)} {draw.choice(('HTTP/1.1', 'HTTP/1.0', 'HTTP/9', ''))}\r\n"
        )
        data = (line + draw.choice(_HEADS) + "\r\n").encode("utf-8", "surrogatepass") + draw.randbytes(
            draw.choice((0, 0, 5, 70_000))
        )
        if draw.random() < 0.2:
            data = data[: draw.randrange(len(data))]
        _say_and_listen(port, data, draw)
        target.check()
    answer = _say_and_listen(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", None)
    if b" 200 " not in answer[:20]:
        raise Broken(f"metrics are not served any more after odd requests: {answer[:80]!r}")
    return f"{HTTP_TRIES} odd requests over HTTP"


def _say_and_listen(port: int, data: bytes, draw: random.Random | None) -> bytes:
    """Send `data`, return what comes back until the end. Raises Broken when it hangs."""
    answer = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as stream:
            stream.sendall(data)
            if draw is None or draw.random() < 0.9:
                stream.shutdown(socket.SHUT_WR)
                while chunk := stream.recv(1 << 16):
                    answer += chunk
    except ConnectionRefusedError as error:
        raise Broken(f"nobody listens on port {port} any more: {error}") from error
    except TimeoutError:
        raise Broken(f"port {port} neither answered nor closed: {data[:200]!r}") from None
    except OSError:
        pass  # it closed before all was said, which is its right
    return answer


def grpc_calls(target: Target, draw: random.Random, port: int) -> str:
    """Every method of the admin service with messages that are none or odd, and bytes that are no gRPC."""
    import grpc

    methods = (
        "GetStorageReport",
        "GrantRegeneration",
        "GetRepairStatus",
        "SetMode",
        "PrepareShutdownX",
        "Scrub",
        "\u00e4",
    )
    for _ in range(10):
        _say_and_listen(port, draw.randbytes(draw.choice((0, 9, 24, 5000))), draw)
        _say_and_listen(port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + draw.randbytes(draw.choice((9, 90, 9000))), draw)
    calls = 0
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        for method in methods:
            for message in (b"", b"\xff" * 100, _odd_message(draw), bytes(3 * MIB)):
                # Raw bytes in, raw bytes out. A bookie may refuse all of it; it may not end.
                call: Any = channel.unary_unary(f"/bookie.admin.v1.Admin/{method}")
                with contextlib.suppress(grpc.RpcError):
                    call(message, timeout=10)
                calls += 1
                target.check()
    return f"{calls} odd calls of the admin service"


def _odd_message(draw: random.Random) -> bytes:
    """Fields 1 to 12 of a wire type each, with numbers at their bounds; some are texts that are no UTF-8."""
    message = b""
    for number in range(1, 13):
        kind = draw.choice((0, 2))
        message += bytes([number << 3 | kind])
        message += b"\xff" * 9 + b"\x01" if kind == 0 else b"\x03\xff\xfe\xfd"
    return message
