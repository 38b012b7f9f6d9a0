"""Bounds the memory of frames that have begun and are not complete: which connections wait, and which are closed.

A small frame is let in at once. A large one asks for its whole size before more of it is read, and waits in line where
that is not free: TCP holds its sender up, and memory stays bounded however many send at once. What does not come to its
end makes room for others after a moment, and goes after its deadline also where nobody wants the room. Pure but for the
futures that wait.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from bookie.base.units import KIB, NS_PER_S

# Below this a frame never waits: 4,096 connections hold 256 MiB of them, for as long as nobody needs the room.
SMALL_BYTES = 64 * KIB
# A frame must be whole after this; where others wait for its room, after that.
DEADLINE_NS = 60 * NS_PER_S
CONTENDED_NS = 2 * NS_PER_S
# Those that wait hold what they had sent before they were held up: so many times the limit, the newest is refused.
WAITING_SHARE = 2


class FrameHolder(Protocol):
    """A connection with an unfinished frame."""

    def cut(self, reason: str) -> None:
        """Close the connection; it calls `Unfinished.leave` while closing."""
        ...


@dataclass(slots=True, eq=False)
class _Claim:
    """The frame that one connection has begun."""

    needed_bytes: int
    held_bytes: int
    began_ns: int
    room: "asyncio.Future[None] | None" = None


class Unfinished:
    """The unfinished frames of all connections."""

    def __init__(self, limit_bytes: int) -> None:
        self.used_bytes = 0  # promised to frames that are being read
        self.waiting_bytes = 0  # held by those that wait
        self._limit_bytes = limit_bytes
        self._claims: dict[FrameHolder, _Claim] = {}  # in the order in which they began
        self._waiting: dict[FrameHolder, _Claim] = {}

    def claim(
        self, holder: FrameHolder, needed_bytes: int, held_bytes: int, now_ns: int
    ) -> "asyncio.Future[None] | None":
        """Note that `holder` has the beginning of a frame of `needed_bytes` (0: no frame any more). The caller must
        await the result before it reads more of the frame."""
        self.leave(holder)
        if not needed_bytes:
            return None
        claim = self._claims[holder] = _Claim(needed_bytes, held_bytes, now_ns)
        if needed_bytes <= SMALL_BYTES or (not self._waiting and self._fits(claim)):
            self.used_bytes += needed_bytes
            return None
        if self.waiting_bytes + held_bytes > WAITING_SHARE * self._limit_bytes:
            del self._claims[holder]
            holder.cut("too many unfinished frames wait for room")
            return None
        claim.room = asyncio.get_running_loop().create_future()
        self._waiting[holder] = claim
        self.waiting_bytes += held_bytes
        return claim.room

    def leave(self, holder: FrameHolder) -> None:
        """Release the frame: it is complete, or its connection is closed."""
        claim = self._claims.pop(holder, None)
        if claim is None:
            return
        if claim.room is None:
            self.used_bytes -= claim.needed_bytes
        else:
            self._stop_waiting(holder, claim)
        if self._waiting:
            self._let_in()

    def look(self, now_ns: int) -> None:
        """Close connections that are late with a frame. Must be called a few times a second."""
        for holder in list(self._late(now_ns)):
            if not self._is_tight and now_ns - self._claims[holder].began_ns <= DEADLINE_NS:
                return  # the oldest made enough room
            holder.cut("the client did not finish its frame in time")
            self.leave(holder)

    @property
    def _is_tight(self) -> bool:
        return bool(self._waiting) or self.used_bytes > self._limit_bytes

    def _late(self, now_ns: int) -> Iterator[FrameHolder]:
        """Yield connections whose frames had time enough to be complete, oldest first;
        one that waits for room has longer."""
        for holder, claim in self._claims.items():
            if now_ns - claim.began_ns <= CONTENDED_NS:
                return
            if claim.room is None or now_ns - claim.began_ns > DEADLINE_NS:
                yield holder

    def _fits(self, claim: _Claim) -> bool:
        """Return True when there is room for the frame; a frame larger than the limit is let in alone."""
        return not self.used_bytes or self.used_bytes + claim.needed_bytes <= self._limit_bytes

    def _let_in(self) -> None:
        for holder, claim in list(self._waiting.items()):
            if not self._fits(claim):
                return
            self._stop_waiting(holder, claim)
            self.used_bytes += claim.needed_bytes

    def _stop_waiting(self, holder: FrameHolder, claim: _Claim) -> None:
        del self._waiting[holder]
        self.waiting_bytes -= claim.held_bytes
        assert claim.room is not None
        if not claim.room.done():
            claim.room.set_result(None)
        claim.room = None
