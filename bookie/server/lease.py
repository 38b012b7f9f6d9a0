"""The lease: we answer only while the metadata store cannot have given our identity to another process.

Off by default: with it a bookie that cannot reach the metadata store falls silent within a session time-out; without
it clients, who know its address, go on. It is for clients that do not ask who is registered, Java's (docs/INTEGRITY.md
has the arithmetic and what is left).

    sent k-1      sent k  answered                                             ends
    ───┼────────────┼────────┼────────────────── ... ──────────────────────────┤
       └──── (100 - DRIFT_PERCENT) % of the session time-out, our clock ───────┘

Each round trip is a `sync`, which the leader answers. It proves that the leader has heard of the one before it: the
server that we talk to passes such news on at least once in a tick, in order, and rounds lie further apart than that.
The leader ends the session no sooner than a time-out after what it heard of was sent. Must never: count from an answer,
or from a round that another session began.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence

from bookie.base import errors
from bookie.base.units import NS_PER_MS
from bookie.ports.clock import Clock
from bookie.ports.metadata_store import CheckOp, MetadataStore, Session

log = logging.getLogger(__name__)

# Our clock may run so much slower than the leader's, and the leader's so much faster than time: far beyond any quartz.
DRIFT_PERCENT = 10
# Rounds in one time-out. Two lie between what a lease counts from and its renewal, so half of it bridges lost rounds.
ROUNDS = 6


class ServingLease:
    """Decides whether answers are allowed: facts in, `is_valid` out. Times are of the monotonic clock."""

    def __init__(self) -> None:
        self._sent_ns: int | None = None  # of the last round that was answered
        self._until_ns = 0

    def is_valid(self, now_ns: int) -> bool:
        """Return True while an answer may be given."""
        return now_ns < self._until_ns

    def heard(self, sent_ns: int, *, timeout_ns: int) -> None:
        """Note that a round sent at `sent_ns` was answered, in the same session as the round before."""
        if self._sent_ns is not None:
            self._until_ns = self._sent_ns + timeout_ns * (100 - DRIFT_PERCENT) // 100
        self._sent_ns = sent_ns

    def ended(self) -> None:
        """Note that the session is over: the lease ends."""
        self._sent_ns = None
        self._until_ns = 0


async def keep(
    lease: ServingLease,
    store: MetadataStore,
    path: str,
    clock: Clock,
    while_held: Callable[[], Awaitable[Sequence[CheckOp]]],
) -> None:
    """Renew the lease for ever. `while_held`: waits until this process may be the bookie."""

    def on_session(state: Session) -> None:
        if state is Session.LOST:
            lease.ended()

    unsubscribe = store.on_session(on_session)
    try:
        while True:
            await while_held()
            session, sent_ns, timeout_ns = store.session_id, clock.monotonic_ns(), store.session_timeout_ms * NS_PER_MS
            try:
                await store.sync(path)
            except errors.MetadataError as error:
                log.warning("lease not renewed reason=%s", error)
            else:
                if store.session_id == session:
                    lease.heard(sent_ns, timeout_ns=timeout_ns)
                else:
                    lease.ended()
            await clock.sleep_until(sent_ns + timeout_ns // ROUNDS)
    finally:
        unsubscribe()
