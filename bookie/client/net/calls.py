"""The units that a client sends to a bookie: one `Call` per question, one `AddBatch` per turn of a writer.

A client of protocol version 2 sends adds, reads and fences as v2. Requests that v2 cannot carry (long polls, LACs,
force, lists, information) go as v3 over a second connection, as Java's clients do (spec/wire.md#W6). Batch reads exist
in v2 only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from bookie.base.errors import BookieError
from bookie.base.ids import EntryId
from bookie.wire import messages, v2, v3
from bookie.wire.codes import V2Opcode
from bookie.wire.messages import Buffer, Request, Response

# Called once per call, on the loop, never from within `send`. The response is given with an error status too.
OnAnswer = Callable[[Any, Response | None, BookieError | None], None]

RESPONSE_OF: dict[type[Request], type[Response]] = {
    messages.AddRequest: messages.AddResponse,
    messages.ReadRequest: messages.ReadResponse,
    messages.BatchReadRequest: messages.BatchReadResponse,
    messages.WriteLacRequest: messages.WriteLacResponse,
    messages.ReadLacRequest: messages.ReadLacResponse,
    messages.ForceRequest: messages.ForceResponse,
    messages.ListEntriesRequest: messages.ListEntriesResponse,
    messages.BookieInfoRequest: messages.BookieInfoResponse,
}

# An answer finds its call by the transaction id in v3, by opcode and ids in v2 (spec/wire.md#W43).
Key = int | tuple[int, int, int]


class Call:
    """One question on its way to one bookie, and the function that gets the answer."""

    __slots__ = ("context", "expected", "expires", "frame", "is_over", "key", "on_answer", "timeout_ms")

    def __init__(self, request: Request, version: int, on_answer: OnAnswer, context: Any, timeout_ms: int) -> None:
        """Make a call. `request.txn` is set already, and unique in this client."""
        self.frame: list[Buffer] = v3.pack_request(request) if version == v3.VERSION else v2.pack_request(request)
        self.key = key_of(request, version)
        self.expected = RESPONSE_OF[type(request)]
        self.on_answer = on_answer
        self.context = context
        self.timeout_ms = timeout_ms
        self.expires = 0  # the connection's tick at which it is too late
        self.is_over = False  # nobody waits any more; on v2 the answer is still owed


class AddOwner(Protocol):
    """The sender of adds: it is called on the loop with their outcome. `origin`: the link that the adds went over."""

    def on_acks(self, origin: object, adds: list[Any]) -> None:
        """Hear that the bookie acknowledged these adds."""

    def on_synced(self, origin: object, last_synced: EntryId) -> None:
        """Hear that the bookie has the ledger on disk up to `last_synced` (BP-14; only ledgers with deferred sync)."""

    def on_failed(self, origin: object, error: BookieError) -> None:
        """Hear that an add of this owner failed at the bookie, or got no answer in time. The connection forgets the
        owner's other adds: their outcome is unknown."""


@dataclass(slots=True)
class AddBatch:
    """Adds of one owner that leave in one write. Several connections share one batch, so nobody changes it."""

    owner: AddOwner
    adds: dict[bytes, Any]  # by the answer that says "done"; each has its `owner`
    frames: list[bytes]
    size: int
    timeout_ms: int


def version_for(request: Request, preferred: int) -> int:
    """Return the encoding in which a client that prefers `preferred` sends `request`."""
    match request:
        case messages.BatchReadRequest():
            return v2.VERSION
        case messages.AddRequest(is_deferred=False) | messages.ReadRequest(previous_lac=None):
            return preferred
        case _:
            return v3.VERSION


def key_of(message: Request | Response, version: int) -> Key:
    """Return the key of a request, which the answer to it has too. `message` is one that a client sends, or the answer
    to one."""
    if version == v3.VERSION:
        return message.txn
    match message:
        case messages.AddRequest() | messages.AddResponse():
            return (V2Opcode.ADDENTRY, message.ledger_id, message.entry_id)
        case messages.ReadRequest() | messages.ReadResponse():
            return (V2Opcode.READENTRY, message.ledger_id, message.entry_id)
        case _:
            return (V2Opcode.BATCH_READ_ENTRY, message.txn, 0)
