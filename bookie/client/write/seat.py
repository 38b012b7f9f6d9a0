"""One entry on its way, and one bookie in one slot of the ensemble: what the rest of this wing is about."""

import asyncio
from collections.abc import Callable

from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId
from bookie.client.net.calls import AddOwner
from bookie.client.net.link import Link
from bookie.quorum.adds import PendingAdd


class Add(PendingAdd):
    """One unconfirmed entry: its request, sent as it is to each bookie, and the answer "done" that each gives."""

    __slots__ = ("confirmed", "done", "frame", "owner", "size")

    frame: bytes  # empty once it will not be sent again
    done: bytes
    size: int

    def __init__(self, owner: AddOwner, confirmed: "asyncio.Future[EntryId] | None") -> None:
        super().__init__()
        self.owner = owner
        self.confirmed = confirmed


class Seat:
    """One bookie in one slot. Answers that come after it failed or was replaced go nowhere."""

    __slots__ = (
        "_on_failed",
        "_owner",
        "bookie_id",
        "is_asked",
        "is_back",
        "is_forcing",
        "is_live",
        "link",
        "sent_bytes",
        "slot",
        "takes_adds",
    )

    def __init__(
        self,
        owner: AddOwner,
        slot: int,
        bookie_id: BookieId,
        link: Link,
        on_failed: "Callable[[Seat, BookieError], None]",
    ) -> None:
        """`owner` of the adds that go here. `on_failed` is called once, if the bookie fails before it is replaced."""
        self._owner = owner
        self._on_failed = on_failed
        self.slot = slot
        self.bookie_id = bookie_id
        self.link = link
        self.link.on_break(self.fail)
        self.is_live = True
        self.sent_bytes = 0  # and not answered
        # Kept by `SyncsConfirm`:
        self.is_asked = False  # which life it is
        self.takes_adds = True  # it is known what it lacks
        self.is_back = True  # it did what it was asked for since it took its seat again
        self.is_forcing = False

    def fail(self, error: BookieError) -> None:
        """The bookie failed: it is sent nothing more in this seat, and whoever cares is told why."""
        if self.is_live:
            self.replaced()
            self._on_failed(self, error)

    def replaced(self) -> None:
        """Its answers to what it was sent must not be taken for answers to what it may be sent in another seat."""
        if self.is_live:
            self.retire()
            self.link.forget_adds(self._owner)

    def retire(self) -> None:
        """Listen no more; what waits for a connection is still sent: every entry belongs on its whole write set."""
        if self.is_live:
            self.is_live = False
            self.link.off_break(self.fail)
