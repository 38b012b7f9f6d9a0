"""One connection as a state machine, for each side: bytes in, messages out, and back. No sockets here.

The server tells the protocol by the first byte of a frame and turns from v3 to v2 for good at the first frame that is
not v3 (wire-protocol.md 2). The client matches answers to requests: by transaction id on v3, by ids and opcode on v2
(wire-protocol.md 9.2).
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from bookie.base.errors import BadInput
from bookie.wire import runs, v2, v3
from bookie.wire.codes import V3_FIRST_BYTE
from bookie.wire.framing import FRAME_LIMIT_BYTES, PREFIX_SIZE, FrameSplitter, end_of_frame
from bookie.wire.messages import (
    AddRequest,
    AddResponse,
    AddRunResponse,
    AuthRequest,
    AuthResponse,
    BatchReadRequest,
    BatchReadResponse,
    Buffer,
    Incoming,
    Outgoing,
    ReadRequest,
    ReadResponse,
    ReadRunResponse,
    Request,
    Response,
)

Token = TypeVar("Token")


class ServerSession:
    """The bookie's side. `receive` raises BadInput when the connection must be closed without an answer."""

    __slots__ = ("_frames", "_is_v2")

    def __init__(self, limit_bytes: int = FRAME_LIMIT_BYTES) -> None:
        self._frames = FrameSplitter(limit_bytes)
        self._is_v2 = False

    @property
    def is_between_frames(self) -> bool:
        """True when everything that was received belongs to a request that was handed out."""
        return self._frames.is_empty

    def receive(self, chunk: Buffer) -> list[Incoming]:
        """Return the requests that became whole, adds and plain reads in runs. No read passes an add, nor an add a
        read; nothing passes a request of another kind, nor such a one anything."""
        data = chunk if type(chunk) is bytes else bytes(chunk)
        incoming: list[Incoming] = []
        gathered = runs.Runs()
        begun, start = self._frames.complete(data)
        if begun:
            self._receive(begun, 0, gathered, incoming)
        start = self._receive(data, start, gathered, incoming)
        incoming += gathered.take()
        self._frames.keep(data, start)
        return incoming

    def _receive(self, data: bytes, start: int, gathered: runs.Runs, incoming: list[Incoming]) -> int:
        """Read the whole frames from `start` on; return the offset after the last."""
        limit_bytes = self._frames.limit_bytes
        while True:
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


class ClientSession(Generic[Token]):
    """The client's side of one connection. `Token` is whatever the caller wants back with the answer."""

    __slots__ = ("_frames", "_next_txn", "_unpack", "_v2_waiting", "_waiting", "version")

    def __init__(self, version: int = v3.VERSION, limit_bytes: int = FRAME_LIMIT_BYTES) -> None:
        self.version = version
        self._frames = FrameSplitter(limit_bytes)
        self._next_txn = 1
        self._waiting: dict[int, Token] = {}
        self._v2_waiting: dict[tuple[int, int, int], deque[int]] = {}
        self._unpack: Callable[[memoryview], Response] = (
            v3.unpack_response if version == v3.VERSION else v2.unpack_response
        )

    @property
    def waiting(self) -> int:
        """How many requests have no answer yet."""
        return len(self._waiting)

    def send(self, request: Request, token: Token) -> list[Buffer]:
        """Give `request` its transaction id (and version) and return its frame. Raises BadInput if v2 cannot say it."""
        request.txn = txn = self._next_txn
        request.version = self.version
        buffers = v3.pack_request(request) if self.version == v3.VERSION else v2.pack_request(request)
        self._next_txn = txn + 1
        self._waiting[txn] = token
        if self.version != v3.VERSION:
            self._v2_waiting.setdefault(_v2_key(request), deque()).append(txn)
        return buffers

    def receive(self, chunk: Buffer) -> list[tuple[Token, Response]]:
        """Return the answers that became whole, each with its request's token; answers to nobody are dropped.

        Raises BadInput when the stream cannot be read any more.
        """
        answers: list[tuple[Token, Response]] = []
        for frame in self._frames.feed(chunk):
            response = self._unpack(frame)
            if self.version != v3.VERSION:
                response.txn = self._v2_txn(response)
            token = self._waiting.pop(response.txn, None)
            if token is not None:
                answers.append((token, response))
        return answers

    def abandon(self, txn: int) -> Token | None:
        """Forget one request (its deadline passed); a late answer is then dropped."""
        return self._waiting.pop(txn, None)

    def abandon_all(self) -> list[Token]:
        """Forget every request, in order: the connection broke."""
        tokens = list(self._waiting.values())
        self._waiting.clear()
        self._v2_waiting.clear()
        return tokens

    def _v2_txn(self, response: Response) -> int:
        """The oldest request still waiting under the answer's key, 0 if none."""
        queue = self._v2_waiting.get(_v2_key(response))
        txn = 0
        while queue and txn == 0:
            candidate = queue.popleft()
            txn = candidate if candidate in self._waiting else 0
        if queue is not None and not queue:
            del self._v2_waiting[_v2_key(response)]
        return txn


def _v2_key(message: Request | Response) -> tuple[int, int, int]:
    """What a v2 answer can be matched by (wire-protocol.md 9.2)."""
    match message:
        case AddRequest() | AddResponse():
            return (1, message.ledger_id, message.entry_id)
        case ReadRequest() | ReadResponse():
            return (2, message.ledger_id, message.entry_id)
        case BatchReadRequest() | BatchReadResponse():
            return (7, message.txn, 0)
        case AuthRequest() | AuthResponse():
            return (3, 0, 0)
        case _:
            raise BadInput(f"protocol version 2 does not know {type(message).__name__}")
