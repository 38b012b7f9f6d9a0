"""The network between simulated machines: it delivers bytes in order, but late, in any chunks, held back or broken off.

`Fabric` is the network itself; `SimNetwork` is one process's port to it. A one-way partition holds bytes back (TCP
sends again); a reset breaks a connection for both sides; a machine without power is silent until it is back.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.units import KIB, NS_PER_MS, NS_PER_US
from bookie.ports.disk import Buffer
from bookie.ports.network import Address, OnConnect
from bookie.ports.tls import Certificate, Tls, TlsOptions
from bookie.sim.clock import SimClock
from bookie.sim.loop import SimFuture, SimLoop, SimProcess

QUEUE_BYTES_MAX = 256 * KIB
RETRY_NS = 200 * NS_PER_MS  # how often a dial that nobody answers, or a held-back connection, looks again


@dataclass(slots=True)
class NetworkFaults:
    """Dials of the whole network."""

    latency_ns: int = 200 * NS_PER_US
    chop_percent: int = 20  # how often a read gets less than there is
    reset_per_million: int = 0  # chance that a write breaks its connection
    stall_per_million: int = 0  # chance that a write is held back for stall_ns
    stall_ns: int = 3_000 * NS_PER_MS


class Fabric:
    """All links and listeners. `on_event(node, what, facts)` goes to the trace."""

    def __init__(
        self,
        loop: SimLoop,
        faults: NetworkFaults,
        random_: random.Random,
        on_event: Callable[[str, str, str], None] = lambda node, what, facts: None,
    ) -> None:
        self.loop = loop
        self.faults = faults
        self.random = random_
        self.on_event = on_event
        self.listeners: dict[Address, SimListener] = {}
        self.streams: list[SimStream] = []
        self.taps: list[Tap] = []
        self._held: dict[tuple[str, str], int] = {}
        self._powerless: dict[str, bool] = {}
        self._next_port = 40_000

    # ---- faults ---------------------------------------------------------------------------------------------------

    def hold(self, source: str, target: str) -> None:
        """Hold all bytes from `source` to `target` until `release`; calls nest."""
        self._held[source, target] = self._held.get((source, target), 0) + 1
        self.on_event(source, "hold", f"to={target}")

    def release(self, source: str, target: str) -> None:
        if (left := self._held.pop((source, target), 0) - 1) > 0:
            self._held[source, target] = left
        self.on_event(source, "release", f"to={target}")

    def release_all(self) -> None:
        self._held.clear()

    def is_held(self, source: str, target: str) -> bool:
        if not (self._held or self._powerless):  # nearly always: a hot path
            return False
        return (source, target) in self._held or source in self._powerless or target in self._powerless

    def reset(self, host: str) -> None:
        """Break the connections of `host` for both sides."""
        for stream in list(self.streams):
            if stream.host == host:
                stream.break_both()

    def power_off(self, host: str) -> None:
        """Take the machine away without a word: bytes under way to or from it wait or are lost."""
        self._powerless[host] = True

    def power_on(self, host: str) -> None:
        """Bring the machine back without its connections: in reality the other ends learn that when they next send,
        here at once."""
        self._powerless.pop(host, None)
        self.reset(host)

    def latency_ns(self) -> int:
        draw = self.random.random()
        return int(self.faults.latency_ns * (0.5 + draw + (8 * draw if draw > 0.97 else 0)))

    def new_port(self) -> int:
        self._next_port += 1
        return self._next_port


class Tap:
    """Sees every byte where a listening process reads and writes it: for checkers that decode the protocol."""

    def received(self, stream: "SimStream", data: bytes) -> None:
        """Hear that the process of the listening side was given `data`."""

    def sent(self, stream: "SimStream", data: bytes) -> None:
        """Hear that the process of the listening side wrote `data`."""


class SimStream:
    """bookie.ports.network.ByteStream: one end of a connection."""

    def __init__(self, fabric: Fabric, life: SimProcess, host: str, peer: Address, *, is_accepted: bool) -> None:
        self.peer = str(peer)
        self.host = host
        self.peer_host = peer.host
        self.life = life
        self.is_accepted = is_accepted
        self.fabric = fabric
        self.other: SimStream
        self._inbox = bytearray()
        self._queue: deque[tuple[int, bytes]] = deque()  # to the other end: due time and bytes; b"" is the end
        self._queued_bytes = 0
        self._is_delivering = False
        self.on_room: Callable[[], None] | None = None
        self.on_chunk: Callable[[Buffer], bool] | None = None
        self._refused = b""  # by `on_chunk`: what `read` returns next
        self._is_closed = False
        self._is_broken = False
        self._is_at_end = False
        self._reader: SimFuture | None = None
        self._drainers: list[SimFuture] = []

    # ---- the port -------------------------------------------------------------------------------------------------

    async def read(self) -> Buffer:
        self.life.check()
        assert self._reader is None, "two readers of one stream"
        while not self._inbox and not self._refused:
            if self._is_broken:
                raise errors.BookieUnavailable(f"connection to {self.peer} broke")
            if self._is_at_end or self._is_closed:
                return b""
            self._reader = self.fabric.loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        chunk, self._refused = self._refused or self._take(), b""
        return chunk

    def _take(self) -> bytes:
        size, random_ = len(self._inbox), self.fabric.random
        if size > 1 and random_.random() * 100 < self.fabric.faults.chop_percent:
            size = random_.randint(1, size - 1)
            chunk = bytes(self._inbox[:size])
            del self._inbox[:size]
        else:
            chunk = bytes(self._inbox)
            self._inbox.clear()
        self.other._queue_shrank(size)
        if self.is_accepted:
            for tap in self.fabric.taps:
                tap.received(self, chunk)
        return chunk

    @property
    def is_over(self) -> bool:
        return self._is_broken or self._is_closed

    @property
    def is_stuffed(self) -> bool:
        return self._queued_bytes > QUEUE_BYTES_MAX and not self.is_over

    @property
    def unsent_bytes(self) -> int:
        return self._queued_bytes

    def write(self, buffers: Sequence[Buffer]) -> None:
        self.life.check()
        if self._is_closed or self._is_broken:
            return
        data = b"".join(buffers)
        if not data:
            return
        faults, random_ = self.fabric.faults, self.fabric.random
        if faults.reset_per_million and random_.random() * 1_000_000 < faults.reset_per_million:
            self.fabric.on_event(self.host, "reset", f"to={self.peer_host}")
            self.break_both()
            return
        if self.is_accepted:
            for tap in self.fabric.taps:
                tap.sent(self, data)
        self._queued_bytes += len(data)
        self._enqueue(data)

    async def drained(self) -> None:
        self.life.check()
        while self._queued_bytes > QUEUE_BYTES_MAX:
            if self._is_broken:
                raise errors.BookieUnavailable(f"connection to {self.peer} broke")
            if self._is_closed:
                return
            waiter = self.fabric.loop.create_future()
            self._drainers.append(waiter)
            await waiter

    async def start_tls(self, tls: Tls, deadline_ns: int) -> Certificate | None:
        raise AssertionError("this network loads no TLS, so nobody has any to start")

    def close(self) -> None:
        self.life.check()
        self.close_now()

    def abort(self) -> None:
        self.life.check()
        self.break_both()

    # ---- inside the network -----------------------------------------------------------------------------------------

    def close_now(self) -> None:
        """Close this end, as the kernel does for a process that ended: the other end reads to the end of the bytes."""
        if self._is_closed:
            return
        self._is_closed = True
        if self in self.fabric.streams:
            self.fabric.streams.remove(self)
        self._wake()
        if not self._is_broken:
            self._enqueue(b"")

    def break_both(self) -> None:
        """Reset: bytes under way are lost, both ends learn it, each after its own latency."""
        for end in (self, self.other):
            end._queue.clear()
            due_ns = self.fabric.loop.now_ns + self.fabric.latency_ns()
            self.fabric.loop.call_at_ns(due_ns, end._break, context=self.fabric.loop.director.context)

    def _break(self) -> None:
        self._is_broken = True
        self._inbox.clear()
        if self in self.fabric.streams:
            self.fabric.streams.remove(self)
        self._wake()

    def _enqueue(self, data: bytes) -> None:
        fabric = self.fabric
        delay_ns = fabric.latency_ns()
        stalls = fabric.faults.stall_per_million
        if stalls and fabric.random.random() * 1_000_000 < stalls:
            delay_ns += fabric.faults.stall_ns
        due_ns = max(fabric.loop.now_ns + delay_ns, self._queue[-1][0] if self._queue else 0)
        self._queue.append((due_ns, data))
        self._schedule()

    def _schedule(self) -> None:
        if self._queue and not self._is_delivering:
            self._is_delivering = True
            loop = self.fabric.loop
            due_ns = max(self._queue[0][0], loop.now_ns)
            loop.call_at_ns(due_ns, self._deliver, context=loop.director.context)

    def _deliver(self) -> None:
        self._is_delivering = False
        fabric, other = self.fabric, self.other
        if fabric.is_held(self.host, self.peer_host):
            self._is_delivering = True
            retry_ns = fabric.loop.now_ns + RETRY_NS
            fabric.loop.call_at_ns(retry_ns, self._deliver, context=fabric.loop.director.context)
            return
        while self._queue and self._queue[0][0] <= fabric.loop.now_ns:
            data = self._queue.popleft()[1]
            if not data:
                other._is_at_end = True
            elif other._is_closed:
                self._queue_shrank(len(data))
            else:
                other._inbox += data
        other._wake()
        self._schedule()

    def _queue_shrank(self, size: int) -> None:
        was_stuffed = self._queued_bytes > QUEUE_BYTES_MAX
        self._queued_bytes -= size
        if self._queued_bytes <= QUEUE_BYTES_MAX:
            self._wake_drainers()
            if was_stuffed and self.on_room is not None:
                self.fabric.loop.call_soon(self.on_room, context=self.life.context)

    def _offer(self) -> None:
        """Hand bytes to the owner where `read` waits for them; wake it with those that are not taken."""
        while self._inbox and self.on_chunk is not None and self._reader is not None and not self._reader.done():
            chunk = self._take()
            if not self.on_chunk(chunk):
                self._refused = chunk
                self._reader.set_result(None)
        if self._is_at_end and self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _wake(self) -> None:
        if self._inbox and self.on_chunk is not None and not self.is_over:
            self.fabric.loop.call_soon(self._offer, context=self.life.context)
        elif self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
        if self.is_over:
            self._wake_drainers()
            if self.on_room is not None:
                self.fabric.loop.call_soon(self.on_room, context=self.life.context)

    def _wake_drainers(self) -> None:
        for waiter in self._drainers:
            if not waiter.done():
                waiter.set_result(None)
        self._drainers.clear()


class SimListener:
    """bookie.ports.network.Listener."""

    def __init__(self, fabric: Fabric, life: SimProcess, address: Address, on_connect: OnConnect) -> None:
        self.port = address.port
        self.life = life
        self.address = address
        self._fabric = fabric
        self._on_connect = on_connect
        self._accepted: list[SimStream] = []

    def accept(self, stream: SimStream) -> None:
        self._accepted.append(stream)
        self._fabric.loop.spawn(self.life, self._serve(stream), f"connection from {stream.peer}")

    async def _serve(self, stream: SimStream) -> None:
        try:
            await self._on_connect(stream)
        except errors.BookieError:
            pass  # the connection broke; whoever served it has said so
        finally:
            stream.close_now()
            if stream in self._accepted:
                self._accepted.remove(stream)

    async def close(self) -> None:
        self.life.check()
        self.stop()
        for stream in list(self._accepted):
            stream.close_now()

    def stop(self) -> None:
        """Accept no more connections."""
        if self._fabric.listeners.get(self.address) is self:
            del self._fabric.listeners[self.address]


class SimNetwork:
    """bookie.ports.network.Network of one process on the machine `host`."""

    def __init__(self, fabric: Fabric, life: SimProcess, host: str, clock: SimClock) -> None:
        self.fabric = fabric
        self.host = host
        self._life = life
        self._clock = clock
        self._streams: list[SimStream] = []
        self._listeners: list[SimListener] = []

    async def dial(self, address: Address, deadline_ns: int) -> SimStream:
        self._life.check()
        fabric, loop = self.fabric, self.fabric.loop
        host = self.host if address.host in ("127.0.0.1", "localhost") else address.host
        deadline_true_ns = self._clock.true_ns(deadline_ns)
        await loop.sleep_ns(fabric.latency_ns())
        while fabric.is_held(self.host, host) or fabric.is_held(host, self.host):
            left_ns = deadline_true_ns - loop.now_ns
            if left_ns <= 0:
                raise errors.BookieUnavailable(f"{address} did not answer in time")
            await loop.sleep_ns(min(left_ns, RETRY_NS))
        await loop.sleep_ns(fabric.latency_ns())
        listener = fabric.listeners.get(Address(host, address.port))
        if listener is None or listener.life.is_dead:
            raise errors.BookieUnavailable(f"{address} refused the connection: nobody listens there")
        near = SimStream(fabric, self._life, self.host, Address(host, address.port), is_accepted=False)
        far = SimStream(fabric, listener.life, host, Address(self.host, fabric.new_port()), is_accepted=True)
        near.other, far.other = far, near
        fabric.streams += [near, far]
        listener.accept(far)
        return near

    async def listen(self, address: Address, on_connect: OnConnect) -> SimListener:
        self._life.check()
        await self.fabric.loop.sleep_ns(0)
        bound = Address(self.host, address.port or self.fabric.new_port())
        if bound in self.fabric.listeners:
            raise errors.RefusedToStart(f"{bound} is in use by another process; choose another port")
        listener = SimListener(self.fabric, self._life, bound, on_connect)
        self.fabric.listeners[bound] = listener
        self._listeners.append(listener)
        return listener

    def load_tls(self, options: TlsOptions, *, is_server: bool) -> Tls:
        """Refuse TLS: the wiretap's checkers read the bytes on the wire, and encryption adds no fault that a stream
        lacks."""
        raise errors.BadInput("the simulated network has no TLS: leave the TLS options out of a simulation")

    def process_ended(self, *, silently: bool) -> None:
        """End the connections of a process that is gone. `silently`: nobody closes them (the power is off)."""
        for listener in self._listeners:
            listener.stop()
        if not silently:
            for stream in [stream for stream in self.fabric.streams if stream.life is self._life]:
                stream.close_now()
