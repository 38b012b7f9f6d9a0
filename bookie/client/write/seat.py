"""The two records of this wing: one unconfirmed entry, and one bookie in one slot of the ensemble."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId
from bookie.client.net.calls import AddOwner
from bookie.client.net.link import Link
from bookie.quorum.adds import PendingAdd


class Add(PendingAdd):
    """One unconfirmed entry: the frame that each bookie gets, and the answer "done" that each bookie sends."""

    __slots__ = ("confirmed", "done", "frame", "owner", "size")

    frame: bytes  # empty once it will not be sent again
    done: bytes
    size: int

    def __init__(self, owner: AddOwner, confirmed: "asyncio.Future[EntryId] | None") -> None:
        super().__init__()
        self.owner = owner
        self.confirmed = confirmed


@dataclass(slots=True, eq=False)
class Seat:
    """One bookie in one slot. Once it has failed or was replaced, the seat drops its answers.

    `owner`: the owner of the adds that this seat sends. The seat calls `on_failed` once, if the bookie fails before it
    is replaced.
    """

    owner: AddOwner
    slot: int
    bookie_id: BookieId
    link: Link
    on_failed: "Callable[[Seat, BookieError], None]"
    is_live: bool = True
    sent_bytes: int = 0  # sent and not answered yet
    # `SyncsConfirm` keeps these:
    is_asked: bool = False  # the bookie was asked which life it is
    takes_adds: bool = True  # we know which entries the bookie lacks
    is_back: bool = True  # the bookie has answered since it took its seat again
    is_forcing: bool = False

    def __post_init__(self) -> None:
        self.link.on_break(self.fail)

    def fail(self, error: BookieError) -> None:
        """Stop sending to a bookie that failed in this seat, and call `on_failed`."""
        if self.is_live:
            self.replaced()
            self.on_failed(self, error)

    def replaced(self) -> None:
        """When another bookie takes the slot, drop the answers that still come. The same bookie may get another seat,
        and they must not count there."""
        if self.is_live:
            self.retire()
            self.link.forget_adds(self.owner)

    def retire(self) -> None:
        """Stop listening. Adds that wait for a connection still go out: an entry belongs on its whole write set."""
        if self.is_live:
            self.is_live = False
            self.link.off_break(self.fail)
