"""The bookie's side of one connection as a state machine: bytes in, messages out, and back. No sockets here.

The first byte of a frame tells the protocol; a connection turns from v3 to v2 for good at the first frame that is not
v3 (spec/wire.md#W4).
"""

from bookie.wire import runs, v2, v3
from bookie.wire.codes import V3_FIRST_BYTE
from bookie.wire.framing import FRAME_LIMIT_BYTES, PREFIX_SIZE, FrameSplitter, end_of_frame
from bookie.wire.messages import (
    REQUESTS_MAX,
    AddRequest,
    AddRunResponse,
    Buffer,
    Incoming,
    Outgoing,
    ReadRunResponse,
    Request,
)


class ServerSession:
    """The bookie's side. `receive` raises BadInput when the connection must be closed without an answer."""

    __slots__ = ("_frames", "_is_v2", "_left", "_left_start")

    def __init__(self, limit_bytes: int = FRAME_LIMIT_BYTES) -> None:
        self._frames = FrameSplitter(limit_bytes)
        self._is_v2 = False
        self._left = b""  # the chunk of which not all requests were handed out, and where they go on
        self._left_start = 0

    @property
    def is_between_frames(self) -> bool:
        """True when everything that was received belongs to a request that was handed out."""
        return self._frames.is_empty and not self._left

    @property
    def has_more(self) -> bool:
        """True when `receive_more` must be asked before the next chunk is received."""
        return bool(self._left)

    @property
    def needed_bytes(self) -> int:
        """The size of the frame that has begun, as far as it is known; 0 between two frames."""
        return self._frames.needed_bytes

    @property
    def kept_bytes(self) -> int:
        """How much of it is kept."""
        return self._frames.kept_bytes

    @property
    def limit_bytes(self) -> int:
        """The longest frame, its prefix included."""
        return self._frames.limit_bytes

    @limit_bytes.setter
    def limit_bytes(self, limit_bytes: int) -> None:
        self._frames.limit_bytes = limit_bytes

    def receive(self, chunk: Buffer) -> list[Incoming]:
        """Return the requests that became whole, adds and plain reads in runs. No read passes an add, nor an add a
        read; nothing passes a request of another kind, nor such a one anything.

        A chunk may hold tens of thousands of small requests: REQUESTS_MAX are unpacked at a time, a run counted as one,
        and the others are there for `receive_more`.
        """
        assert not self._left
        data = chunk if type(chunk) is bytes else bytes(chunk)
        incoming: list[Incoming] = []
        gathered = runs.Runs()
        begun, start = self._frames.complete(data)
        if begun:
            self._receive(begun, 0, gathered, incoming)
        return self._go_on(data, start, gathered, incoming)

    def receive_more(self) -> list[Incoming]:
        """Return the next requests of the same chunk, as `receive` does."""
        data, self._left = self._left, b""
        return self._go_on(data, self._left_start, runs.Runs(), [])

    def _go_on(self, data: bytes, start: int, gathered: runs.Runs, incoming: list[Incoming]) -> list[Incoming]:
        start = self._receive(data, start, gathered, incoming)
        if 0 < end_of_frame(data, start, self._frames.limit_bytes) <= len(data):
            self._left, self._left_start = data, start
        else:
            self._frames.keep(data, start)
        incoming += gathered.take()
        return incoming

    def _receive(self, data: bytes, start: int, gathered: runs.Runs, incoming: list[Incoming]) -> int:
        """Read the whole frames from `start` on, until there are enough; return the offset after the last."""
        limit_bytes = self._frames.limit_bytes
        for _ in range(REQUESTS_MAX):
            begun = start
            start = runs.scan(data, start, limit_bytes, gathered, is_v2=self._is_v2)
            end = end_of_frame(data, start, limit_bytes)
            if not 0 < end <= len(data):
                return start
            if start > begun and not gathered.is_empty:
                incoming += gathered.take()  # perhaps it only has to begin another run
                continue
            request = self._unpack(memoryview(data)[start + PREFIX_SIZE : end])
            if isinstance(request, AddRequest):
                incoming += gathered.put_add(request)
            else:
                incoming += gathered.take()
                incoming.append(request)
            start = end
        return start

    def _unpack(self, frame: memoryview) -> Request:
        if self._is_v2 or frame[0] != V3_FIRST_BYTE:
            # One way: Java's decoder never turns back to v3 either (BookieProtoEncoding.RequestDecoder).
            self._is_v2 = True
            return v2.unpack_request(frame)
        return v3.unpack_request(frame)


def pack_response(response: Outgoing) -> list[Buffer]:
    """Return the frame or frames of `response` in the protocol its request came in."""
    if isinstance(response, AddRunResponse):
        return runs.pack_add_answers(response)
    if isinstance(response, ReadRunResponse):
        return runs.pack_read_answers(response)
    return v3.pack_response(response) if response.version == v3.VERSION else v2.pack_response(response)
