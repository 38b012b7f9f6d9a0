"""The bookie's side of one connection as a state machine: bytes to messages, and messages to bytes. No sockets here.

The first byte of a frame tells its protocol version. At the first frame that is not v3, a connection turns to v2 for
good (spec/wire.md#W4).
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
    """Turns received chunks into requests. `receive` raises BadInput when the bookie must close the connection without
    an answer. `frames` tells how much of the next frame is here, and holds the limit on a frame's size."""

    __slots__ = ("_is_v2", "_left", "_left_start", "frames")

    def __init__(self, limit_bytes: int = FRAME_LIMIT_BYTES) -> None:
        self.frames = FrameSplitter(limit_bytes)
        self._is_v2 = False
        self._left = b""  # the chunk that still has requests for `receive_more`
        self._left_start = 0  # the offset of the first of those

    @property
    def is_between_frames(self) -> bool:
        """Return True when every received byte belongs to a request that was handed out."""
        return self.frames.is_empty and not self._left

    @property
    def has_more(self) -> bool:
        """Return True when the caller must call `receive_more` before it receives the next chunk."""
        return bool(self._left)

    def receive(self, chunk: Buffer) -> list[Incoming]:
        """Return the requests that became whole, adds and plain reads in runs. Requests keep their order, except that
        adds of different ledgers may pass each other, and so may plain reads.

        A chunk may hold tens of thousands of small requests. This unpacks REQUESTS_MAX, a run counted as one, and
        leaves the others to `receive_more`, so that one client does not hold the loop.
        """
        assert not self._left
        data = chunk if type(chunk) is bytes else bytes(chunk)
        incoming: list[Incoming] = []
        gathered = runs.Runs()
        begun, start = self.frames.complete(data)
        if begun:
            self._receive(begun, 0, gathered, incoming)
        return self._go_on(data, start, gathered, incoming)

    def receive_more(self) -> list[Incoming]:
        """Return the next requests of the same chunk, as `receive` does."""
        data, self._left = self._left, b""
        return self._go_on(data, self._left_start, runs.Runs(), [])

    def _go_on(self, data: bytes, start: int, gathered: runs.Runs, incoming: list[Incoming]) -> list[Incoming]:
        start = self._receive(data, start, gathered, incoming)
        if 0 < end_of_frame(data, start, self.frames.limit_bytes) <= len(data):
            self._left, self._left_start = data, start
        else:
            self.frames.keep(data, start)
        incoming += gathered.take()
        return incoming

    def _receive(self, data: bytes, start: int, gathered: runs.Runs, incoming: list[Incoming]) -> int:
        """Read the whole frames from `start` on, REQUESTS_MAX at most; return the offset after the last one read."""
        limit_bytes = self.frames.limit_bytes
        for _ in range(REQUESTS_MAX):
            begun = start
            start = runs.scan(data, start, limit_bytes, gathered, is_v2=self._is_v2)
            end = end_of_frame(data, start, limit_bytes)
            if not 0 < end <= len(data):
                return start
            if start > begun and not gathered.is_empty:
                incoming += gathered.take()  # the next frame may be plain too, and begin another run
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
    """Return the frame or frames of `response`, in the protocol version of its request."""
    if isinstance(response, AddRunResponse):
        return runs.pack_add_answers(response)
    if isinstance(response, ReadRunResponse):
        return runs.pack_read_answers(response)
    return v3.pack_response(response) if response.version == v3.VERSION else v2.pack_response(response)
