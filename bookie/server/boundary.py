"""The boundary of a request: an error raised in serving it becomes EIO for its client, a counter and a log line.

Every callback that a request leaves behind (a completion of the store, a read that waits for the disk, a timer) goes
through here, because what a callback raises would else meet who calls it: the journal's task, a reader, the loop. Must
never swallow BookieError silently, nor a cancellation; what is about our own state `Doors` hands to the node.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from bookie.base.errors import BookieError, Status
from bookie.ports.doors import Doors
from bookie.wire.messages import Incoming, Outgoing
from bookie.wire.refusals import refusal

R = TypeVar("R", bound=Incoming)
T = TypeVar("T", bound="Requester")
Completion = Callable[[BookieError | None], None]


class Requester(Protocol):
    """A connection that waits for an answer."""

    peer: str

    def reply(self, response: Outgoing) -> None: ...

    def slow_reads_began(self, count: int) -> None:
        """Note that the client waits for `count` more answers; a client that waits for many must not ask for more."""
        ...

    def slow_reads_ended(self, count: int) -> None: ...

    def break_off(self) -> None:
        """Close the connection: no answer can be packed, and the client must not wait for one."""
        ...


class Boundary:
    """Runs the callbacks of all requests and catches what they raise."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def failed(self, door: str, error: Exception, request: Incoming, to: Requester) -> None:
        """Report `error` at the door, and answer the request with EIO."""
        self._doors.failed(door, error, to.peer)
        try:
            to.reply(refusal(request, Status.EIO))
        except Exception as again:
            self._doors.failed("refusal", again, to.peer)
            to.break_off()

    def completion(self, request: R, to: T, then: Callable[[R, T, BookieError | None], None]) -> Completion:
        """Return the callback for the store once `request` is done;
        it calls `then(request, to, error)` inside the boundary.

        Once the store has taken it, call `to.slow_reads_began(1)`: a client that waits for nothing must not fill the
        journal."""
        return partial(self._complete, request, to, then)

    def _complete(
        self, request: R, to: T, then: Callable[[R, T, BookieError | None], None], error: BookieError | None
    ) -> None:
        try:
            then(request, to, error)
        except Exception as failure:
            self.failed("completion", failure, request, to)
        finally:
            to.slow_reads_ended(1)

    def callback(self, request: R, to: T, then: Callable[[R, T, bool], None]) -> Callable[[R, bool], None]:
        """Return the callback for the end of a long poll; it calls `then(request, to, flag)` inside the boundary."""
        return partial(self._call, to, then)

    def _call(self, to: T, then: Callable[[R, T, bool], None], request: R, flag: bool) -> None:
        try:
            then(request, to, flag)
        except Exception as failure:
            self.failed("long poll", failure, request, to)
