"""Lists a ledger's entries by walking its whole index: a few walks at a time, beside all other reads.

A client whose ledger has many scattered entries can ask for long lists: they must cost other clients neither readers
nor memory. A list is made in the form it is sent in, and one that does not fit a frame is refused, never cut:
it would deny what it leaves out.
"""

from typing import Final

from bookie.base import errors
from bookie.base.budgets import Budgets
from bookie.base.errors import BookieError, Status
from bookie.base.ids import IdRange
from bookie.base.units import KIB
from bookie.server.boundary import Boundary
from bookie.server.metrics import ServerMetrics
from bookie.server.readers import Readers
from bookie.server.reads import Replier
from bookie.server.unsent import Unsent
from bookie.storage.store import EntryStore
from bookie.wire.availability import Encoder
from bookie.wire.messages import ListEntriesRequest, ListEntriesResponse

# Under way together; each holds a frame and the ids that caches have of its ledger (`budgets.memory_need_bytes`). One
# address has half of them, and of those that wait: behind it may be a whole fleet.
LISTS: Final = Budgets().lists
# That wait. Of one client: more than the 100 ledgers that Java's auditor asks about at a time, and too few for us to
# stop reading its socket: then its end would not be seen.
_WAITING_MAX: Final = 1024
_WAITING_EACH_MAX: Final = 128
# Of a frame, for what is around a list.
FRAME_REST_BYTES: Final = 1 * KIB


def listers(boundary: Boundary, unsent: Unsent) -> Readers:
    """Make the readers that walk for lists."""
    return Readers(
        boundary,
        unsent,
        at_once=LISTS,
        queue_max=_WAITING_MAX,
        width_max=1,
        lane_max=_WAITING_EACH_MAX,
        address_width=LISTS // 2,
        address_max=_WAITING_MAX // 2,
        kept=0,  # a list keeps a lister busy for long: behind so many no client waits it out
    )


class _ClientGone(Exception):
    """The client that asked for a list has closed its connection."""


class Lists:
    """Answers GET_LIST_OF_ENTRIES of all connections; part of the processor."""

    def __init__(self, store: EntryStore, listers: Readers, metrics: ServerMetrics, frame_bytes_max: int) -> None:
        self._list_bytes_max = frame_bytes_max - FRAME_REST_BYTES
        self._store = store
        self._listers = listers
        self._metrics = metrics

    def entries(self, request: ListEntriesRequest, to: Replier) -> None:
        """Answer once a lister is free; ETOOMANYREQUESTS when too many requests wait."""
        self._metrics.other_requests += 1
        to.slow_reads_began(1)
        if not self._listers.submit(request, to, self._walk):
            to.slow_reads_ended(1)
            self._refuse(request, to, errors.TooManyRequests("too many lists of entries wait"))

    async def _walk(self, request: ListEntriesRequest, to: Replier) -> bool:
        encoder = Encoder()

        def take(runs: list[IdRange]) -> None:
            if not self._listers.is_waited_for(to):
                raise _ClientGone
            encoder.add(runs)
            if encoder.size_bytes > self._list_bytes_max:
                raise errors.StorageFailed(
                    f"the list of ledger {request.ledger_id} does not fit a frame (nettyMaxFrameSizeBytes)"
                )

        try:
            await self._store.whole_list(request.ledger_id, take)
        except _ClientGone:
            pass
        except BookieError as error:
            self._refuse(request, to, error)
        else:
            ids = request.txn, request.version, Status.EOK, request.ledger_id
            to.reply(ListEntriesResponse(*ids, encoder.finish()))
        finally:
            to.slow_reads_ended(1)
        return True

    def _refuse(self, request: ListEntriesRequest, to: Replier, error: BookieError) -> None:
        self._metrics.errors[error.status] += 1
        to.reply(ListEntriesResponse(request.txn, request.version, error.status, request.ledger_id))
