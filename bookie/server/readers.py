"""Runs reads that must wait for the disk: a few workers for all clients, no task per request, a queue per client.

A lane's next read begins when its client takes answers. Addresses take turns, and so do the clients at one: a client
that asks for much and takes nothing holds up itself alone, and costs no more than its first few answers.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from bookie.base.units import KIB
from bookie.server.boundary import Boundary, Requester
from bookie.server.connections import host_of
from bookie.server.unsent import SMALL_DEBT_BYTES, Unsent
from bookie.storage.pause import pause
from bookie.wire.messages import Incoming

# Reads of one turn share a hop to a thread (`runtime.read_pool`), so this many cost few hops; and no more than so many
# entries of the largest size are in memory on their way from the disk.
READERS = 32
# The same while half of the room for answers is taken: what is under way then comes on top of the other half.
READERS_TIGHT = 4
# maxPendingReadRequestsPerThread of Java; beyond it ETOOMANYREQUESTS.
QUEUE_MAX = 10_000
# Reads of one client that are under way together: at first, and at most. One answer that is large makes it one.
WIDTH_FIRST = 4
# Reads of one client that are taken, however many the others have waiting: who asks for little is not refused for them.
KEPT = 4
LARGE_BYTES = 512 * KIB


class Reader(Requester, Protocol):
    """A client with reads that wait for the disk."""

    @property
    def queued_bytes(self) -> int:
        """Return the bytes of answers queued in this turn."""
        ...

    @property
    def untaken_bytes(self) -> int:
        """Return the bytes of answers that the client has not taken."""
        ...

    @property
    def takes_answers(self) -> bool:
        """Return False while the client has not taken its answers; `Readers.resume` is called when it has."""
        ...


# Answers; False: there is more to answer, later, when the client takes it.
Work = Callable[[Any, Any], Awaitable[bool]]


@dataclass(slots=True, eq=False)
class _Address:
    """The address of clients: its count of jobs, and its lanes that may begin."""

    ready: deque["_Lane"] = field(default_factory=deque)  # each once at most
    is_queued: bool = False
    count: int = 0  # jobs that wait or run
    running: int = 0


@dataclass(slots=True, eq=False)
class _Lane:
    """The reads of one client, in the order they arrived."""

    to: Reader
    address: _Address
    width: int
    jobs: deque[tuple[Incoming, Work]] = field(default_factory=deque)
    running: int = 0
    is_queued: bool = False


class Readers:
    """Runs jobs; those of one client begin in the order they arrived."""

    def __init__(
        self,
        boundary: Boundary,
        unsent: Unsent,
        *,
        at_once: int = READERS,
        queue_max: int = QUEUE_MAX,
        width_max: int = READERS,
        lane_max: int = QUEUE_MAX,
        address_width: int = READERS,
        address_max: int = QUEUE_MAX,
        kept: int = KEPT,
    ) -> None:
        """Limits: `at_once` jobs run at a time, `width_max` of one client, `address_width` of one address; `lane_max`
        jobs of one client wait; `address_max` jobs of one address, and `queue_max` of all, wait or run; above these two
        a client may still have `kept` of its own waiting."""
        self.count = 0  # jobs that wait or run
        self._unsent = unsent
        self._is_held_up = False  # until all clients together took enough
        self._is_roomy = asyncio.Event()  # most of the workers wait for it while answers are many
        self._boundary = boundary
        self._at_once = at_once
        self._queue_max = queue_max
        self._width_max = width_max
        self._lane_max = lane_max
        self._address_width = address_width
        self._address_max = address_max
        self._kept = kept
        self._lanes: dict[Reader, _Lane] = {}
        self._addresses: dict[str, _Address] = {}  # those with jobs
        self._ready: asyncio.Queue[_Address] = asyncio.Queue()  # each once at most

    def submit(self, request: Incoming, to: Reader, work: Work) -> bool:
        """Queue `work(request, to)`; return False, and queue nothing, when too many wait."""
        lane = self._lanes.get(to)
        address = lane.address if lane is not None else self._addresses.get(host_of(to.peer)) or _Address()
        waiting = len(lane.jobs) if lane is not None else 0
        is_crowded = self.count >= self._queue_max or address.count >= self._address_max
        if waiting >= (self._kept if is_crowded else self._lane_max):
            return False
        if lane is None:
            lane = self._lanes[to] = _Lane(to, address, min(WIDTH_FIRST, self._width_max))
        lane.jobs.append((request, work))
        self._count(lane, 1)
        self._offer(lane)
        return True

    def resume(self, to: Reader) -> None:
        """Go on with the lane of a client that takes answers again."""
        lane = self._lanes.get(to)
        if lane is not None:
            self._offer(lane)

    def is_waited_for(self, to: Reader) -> bool:
        """Return False once the client is gone: a long job asks between its pieces, and ends then."""
        return to in self._lanes

    def forget(self, to: Reader) -> None:
        """Drop the lane of a client that is gone, with the reads that wait in it."""
        lane = self._lanes.pop(to, None)
        if lane is not None:
            self._count(lane, -len(lane.jobs))
            lane.jobs.clear()

    def _count(self, lane: _Lane, more: int) -> None:
        self.count += more
        lane.address.count += more
        if lane.address.count:
            self._addresses[host_of(lane.to.peer)] = lane.address
        else:
            del self._addresses[host_of(lane.to.peer)]

    def _offer(self, lane: _Lane) -> None:
        if not lane.is_queued and self._may_begin(lane):
            lane.is_queued = True
            lane.address.ready.append(lane)
        self._offer_address(lane.address)

    def _offer_address(self, address: _Address) -> None:
        if not address.is_queued and address.ready and address.running < self._address_width:
            address.is_queued = True
            self._ready.put_nowait(address)

    def _may_begin(self, lane: _Lane) -> bool:
        if self._unsent.is_full:
            self._is_held_up = True
            return False
        return bool(lane.jobs) and lane.running < lane.width and lane.to.takes_answers

    def room_bytes(self, to: Reader, of_one: int) -> int:
        """Return how many bytes of answers may be made at once for `to`: `of_one`, and while all clients together have
        too many unsent bytes, few, and only for one who takes his. So who follows the end of a ledger goes on."""
        return min(of_one, SMALL_DEBT_BYTES - to.untaken_bytes) if self._unsent.is_full else of_one

    def look(self) -> None:
        """Go on when all clients were held up and need not be any more. Must be called a few times a second."""
        if not self._unsent.is_tight:
            self._is_roomy.set()
        if self._is_held_up and not self._unsent.is_full:
            self._is_held_up = False
            # Who takes his answers first: there may soon be no room again.
            for lane in sorted(self._lanes.values(), key=lambda lane: lane.to.untaken_bytes):
                self._offer(lane)

    async def run(self) -> None:
        """Run jobs until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._at_once):
                group.create_task(self._work(number), name=f"reader {number}")

    async def _work(self, number: int) -> None:
        while True:
            address = await self._ready.get()
            if number >= READERS_TIGHT and self._unsent.is_tight:
                self._ready.put_nowait(address)  # for one of those that go on
                self._is_roomy.clear()
                await self._is_roomy.wait()
                continue
            address.is_queued = False
            lane = address.ready.popleft()
            lane.is_queued = False
            if self._may_begin(lane):
                request, work = lane.jobs.popleft()
                lane.running += 1
                address.running += 1
                self._offer(lane)
                await self._do(lane, request, work)
                # A read that finds its bytes in memory waits for nothing. Unless the loop turns, no answer is written,
                # none is counted, and no client's end is seen: 8,000 reads for clients that were gone took 14 s.
                await pause()
            else:
                self._offer_address(address)

    async def _do(self, lane: _Lane, request: Incoming, work: Work) -> None:
        """Run one job, or a piece of it; catch whatever it raises."""
        is_done = True
        try:
            is_done = await work(request, lane.to)
        except Exception as error:
            self._boundary.failed("read", error, request, lane.to)
        finally:
            lane.running -= 1
            lane.address.running -= 1
            self._count(lane, -1)
        if lane.to not in self._lanes:  # gone meanwhile
            self._offer_address(lane.address)
            return
        lane.width = 1 if lane.to.queued_bytes > LARGE_BYTES else min(lane.width + 1, self._width_max)
        if not is_done:
            lane.jobs.appendleft((request, work))
            self._count(lane, 1)
        self._offer(lane)
        if not lane.jobs and not lane.running:
            del self._lanes[lane.to]
