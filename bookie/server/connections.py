"""All client connections of one bookie: limits their number and what they hold, and chooses the one to close first.

One address has half of them at most, so that it cannot shut out the others. At the bound the oldest goes that has said
nothing, of the address with most of those; where all have spoken, the newest is refused, in words. Connections that
have spoken notice nothing of that.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from bookie.base.budgets import Budgets
from bookie.base.units import NS_PER_MS, NS_PER_S
from bookie.ports.clock import Clock
from bookie.ports.doors import Doors
from bookie.ports.metrics import Sample
from bookie.server.unfinished import FrameHolder, Unfinished
from bookie.server.unsent import Debtor, Unsent

LOOK_NS = 500 * NS_PER_MS
# A client that has said nothing at all for this long goes, once more than half of all connections are taken.
SILENT_NS = 30 * NS_PER_S


class Guest(FrameHolder, Debtor, Protocol):
    """One connection, as this module sees it."""

    peer: str
    has_spoken: bool  # a whole request came, from somebody who has proven who he is where that is wanted


class Connections:
    """The open connections. `look` must be called a few times a second, as `run` does."""

    def __init__(self, budgets: Budgets, clock: Clock, doors: Doors) -> None:
        self.max = budgets.connections
        self.unfinished = Unfinished(budgets.unfinished_bytes)
        self.unsent = Unsent(budgets.unsent_bytes)
        self._clock = clock
        self._doors = doors
        self._came_ns: dict[Guest, int] = {}  # in the order in which they came
        self._of_host: dict[str, int] = {}
        self._silent: dict[str, dict[Guest, None]] = {}  # those that have said nothing, by address, the oldest first

    def why_not(self, peer: str) -> str | None:
        """Return why a connection from `peer` is refused now; None when it may join.
        May close a silent one to make room."""
        host = host_of(peer)
        if self._of_host.get(host, 0) >= max(1, self.max // 2) and not self._end_silent(host):
            return f"half of the {self.max} possible connections are from this address"
        if len(self._came_ns) >= self.max and not self._end_silent(self._most_silent()):
            return f"{self.max} connections are open, and no more are taken"
        return None

    def join(self, guest: Guest) -> None:
        self._came_ns[guest] = self._clock.monotonic_ns()
        host = host_of(guest.peer)
        self._of_host[host] = self._of_host.get(host, 0) + 1
        self._silent.setdefault(host, {})[guest] = None

    def spoke(self, guest: Guest) -> None:
        """Note that `guest.has_spoken` from now on."""
        host = host_of(guest.peer)
        silent = self._silent.get(host, {})
        silent.pop(guest, None)
        if not silent:
            self._silent.pop(host, None)

    def leave(self, guest: Guest) -> None:
        self.unfinished.leave(guest)
        self.unsent.note(guest, guest.untaken_bytes)  # they stay in memory until they leave: `look` sees when
        if self._came_ns.pop(guest, None) is None:
            return  # another has its place already
        self.spoke(guest)
        host = host_of(guest.peer)
        self._of_host[host] -= 1
        if not self._of_host[host]:
            del self._of_host[host]

    def _most_silent(self) -> str:
        return max(self._silent, key=lambda host: len(self._silent[host]), default="")

    def _end_silent(self, host: str) -> bool:
        """Close the oldest silent connection from `host` to make room; return False when there is none."""
        guest = next(iter(self._silent.get(host, ())), None)
        if guest is None:
            return False
        guest.cut("the client has said nothing, and another one wants its place")
        self.leave(guest)
        return True

    def look(self) -> None:
        """Close connections that are late with a frame, take no answers, or have sent nothing."""
        now_ns = self._clock.monotonic_ns()
        try:
            self.unfinished.look(now_ns)
            self.unsent.look(now_ns)
            self._cut_silent(now_ns)
        except Exception as error:
            self._doors.failed("connections", error)

    def _cut_silent(self, now_ns: int) -> None:
        excess = len(self._came_ns) - self.max // 2
        for guest, came_ns in list(self._came_ns.items()) if excess > 0 else ():
            if excess <= 0 or now_ns - came_ns <= SILENT_NS:
                return
            if not guest.has_spoken:
                guest.cut("the client has said nothing, and others may want its place")
                excess -= 1

    async def run(self, *then: Callable[[], None]) -> None:
        """Call `look`, then `then`, again and again until cancelled."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic_ns() + LOOK_NS)
            self.look()
            for each in then:
                each()

    def samples(self) -> Iterator[Sample]:
        for name, value, text in (
            ("connections_max", self.max, "Client connections that are taken at most."),
            ("unfinished_frames_bytes", self.unfinished.used_bytes, "Frames that have begun: their whole sizes."),
            ("waiting_frames_bytes", self.unfinished.waiting_bytes, "Held by frames that wait to be read on."),
            ("unsent_answers_bytes", self.unsent.total_bytes, "Answers that clients have not taken."),
        ):
            yield Sample(f"bookie_{name}", "gauge", text, value)


def host_of(peer: str) -> str:
    """Return the address in `peer`, without its port."""
    return peer.rpartition(":")[0]
