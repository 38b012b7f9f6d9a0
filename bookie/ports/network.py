"""Ordered streams of bytes between nodes.

Promised: bytes arrive in order, unchanged, at most once. Not promised: that they arrive, that the other side learns of
our close, or that chunks keep their borders.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from bookie.ports.disk import Buffer
from bookie.ports.tls import Certificate, Tls, TlsOptions


class Address(NamedTuple):
    """Where to listen or dial. The host "::" listens on all addresses, of IPv4 and of IPv6 where the machine has it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ByteStream(Protocol):
    """One connection. Raises BookieUnavailable when it breaks."""

    peer: str
    # Called by this stream, if set, whenever its outgoing queue is below its bound again, and when it is over.
    on_room: "Callable[[], None] | None"
    # Called by this stream, if set, with bytes that come while `read` waits; not from within a call of the owner's.
    # True: the owner has taken them, and `read` waits on. False: `read` returns them. Raises nothing.
    on_chunk: "Callable[[Buffer], bool] | None"

    @property
    def is_over(self) -> bool:
        """Return True once the stream is closed or broken: `write` then does nothing."""
        ...

    @property
    def is_stuffed(self) -> bool:
        """Return True while the outgoing queue is above its bound: the other side does not read."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """Return the bytes in the outgoing queue; after `close`, those that may still leave."""
        ...

    async def read(self) -> Buffer:
        """Return the next bytes, at least one; b"" at the end. The caller owns the buffer."""
        ...

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Queue bytes in order, without waiting. The buffers must not change afterwards. No-op once closed."""
        ...

    async def drained(self) -> None:
        """Wait until the outgoing queue is below its bound. Call after `write` in any loop (backpressure)."""
        ...

    async def start_tls(self, tls: Tls, deadline_ns: int) -> Certificate | None:
        """Encrypt everything from here on, once both sides agreed;
        return the other side's certificate, if it showed one.

        What was queued leaves in plain. Call it between two frames, with no `read` waiting: raises BadInput when plain
        bytes came after the last read (somebody may have put them there), BookieUnavailable when no handshake
        succeeds before `deadline_ns` (monotonic). After either the stream is closed.
        """
        ...

    def close(self) -> None:
        """Close at once; queued bytes may be lost, and are held for a moment."""
        ...

    def abort(self) -> None:
        """Close at once and drop the queued bytes."""
        ...


class Listener(Protocol):
    port: int

    async def close(self) -> None:
        """Stop accepting, and close the accepted connections."""
        ...


OnConnect = Callable[[ByteStream], Awaitable[None]]


class Network(Protocol):
    async def dial(self, address: Address, deadline_ns: int) -> ByteStream:
        """Connect before `deadline_ns` (monotonic). Raises BookieUnavailable."""
        ...

    async def listen(self, address: Address, on_connect: OnConnect) -> Listener:
        """Accept connections, each served by its own task running `on_connect`. Port 0 picks one.

        Raises RefusedToStart naming the address when it is in use.
        """
        ...

    def load_tls(self, options: TlsOptions, *, is_server: bool) -> Tls:
        """Read keys and trust. Raises BadInput naming the file and the reason when they cannot be used."""
        ...
