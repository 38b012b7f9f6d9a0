"""A client's side of one connection, as tests speak it: bytes in, answers out. No sockets here.

It matches answers to requests: by transaction id on v3, by ids and opcode on v2 (spec/wire.md#W43). The product's
own client keeps its calls in `bookie.client.net`.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from bookie.base.errors import BadInput
from bookie.wire import v2, v3
from bookie.wire.framing import FRAME_LIMIT_BYTES, FrameSplitter
from bookie.wire.messages import (
    AddRequest,
    AddResponse,
    AuthRequest,
    AuthResponse,
    BatchReadRequest,
    BatchReadResponse,
    Buffer,
    ReadRequest,
    ReadResponse,
    Request,
    Response,
)

Token = TypeVar("Token")


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
    """What a v2 answer can be matched by (spec/wire.md#W43)."""
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
