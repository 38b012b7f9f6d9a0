"""Decides when this bookie fills holes in place: once after each start, when it takes writes again after it refused
some, while it knows of bad entries, and when somebody asks. One run at a time."""

import asyncio
import logging
from dataclasses import dataclass, replace

from bookie.base.errors import BookieError
from bookie.base.rounds import Rounds
from bookie.base.units import NS_PER_S
from bookie.integrity.boot import Boot
from bookie.integrity.fill_progress import FillProgress
from bookie.ports.admin import FillStatus
from bookie.ports.clock import Clock
from bookie.ports.metadata_store import MetadataStore
from bookie.server.own_lease import OwnLease
from bookie.storage.bad_entries import BadEntries
from bookie.storage.store import EntryStore

log = logging.getLogger(__name__)

# Between two runs for bad entries. The pause grows while none is found that was not known before: what no bookie gives,
# or nobody owes, is asked for ever more seldom.
_BAD_PAUSE_NS = 3_600 * NS_PER_S
_BAD_PAUSE_MAX_NS = 24 * _BAD_PAUSE_NS
_JOB = "filling of holes"


@dataclass(slots=True)
class _Reason:
    """A count that only grows, as it stood when `asked`: a run for it was asked for the last time; when `filled`: the
    last run began that ended."""

    asked: int = 0
    filled: int = 0


class Filling:
    """The fills of one life. `start` and `status` at any time; `run` is the task that does the work.

    What ends a run ends the node only when it is fatal: `status` says why, and who asked may ask again.
    """

    def __init__(
        self,
        boot: Boot,
        store: EntryStore,
        clock: Clock,
        lease: OwnLease,
        *,
        after_boot: bool,
        rounds: Rounds | None = None,
    ) -> None:
        self._lease = lease
        self._rounds = rounds or Rounds()
        self._boot = boot
        self._store = store
        self._clock = clock
        self._progress = FillProgress(clock)
        self._asked = asyncio.Event()
        self._by_itself = after_boot
        self._refused = _Reason()  # writes
        self._bad = _Reason()  # entries found
        self._bad_asked_ns = -_BAD_PAUSE_NS
        self._bad_pause_ns = _BAD_PAUSE_NS
        if after_boot:
            self.start()

    def start(self) -> None:
        """Ask for a run. A run that is under way, or about to begin, is that run: it will do."""
        if not self._progress.is_running and not self._asked.is_set():
            self._progress.waits("a run was asked for; it begins once this bookie is registered and repaired")
            self._asked.set()

    def look(self) -> None:
        """Ask for a run when there is a reason to. One that is under way may have looked before, so another follows."""
        if not self._by_itself:
            return
        refused = self._store.writes_refused
        if not self._store.is_read_only and refused != self._refused.asked:
            self._refused.asked = refused  # writers went on without us
            self._progress.waits("this bookie takes writes again; a run looks for those that it refused")
            self._asked.set()
        if self._store.bad_entries:
            self._look_at_bad(self._store.bad_entries)

    def _look_at_bad(self, bad: BadEntries) -> None:
        now_ns, is_news = self._clock.monotonic_ns(), bad.found != self._bad.asked
        if now_ns - self._bad_asked_ns < (_BAD_PAUSE_NS if is_news else self._bad_pause_ns):
            return
        self._bad_pause_ns = _BAD_PAUSE_NS if is_news else min(2 * self._bad_pause_ns, _BAD_PAUSE_MAX_NS)
        self._bad.asked, self._bad_asked_ns = bad.found, now_ns
        self._progress.waits(f"{len(bad)} entries here are bad; a run fetches copies of them")
        self._asked.set()

    def status(self) -> FillStatus:
        found = self._progress.snapshot()
        return replace(found, is_whole=found.is_whole and self._has_looked_since)

    @property
    def _has_looked_since(self) -> bool:
        """Return True when a run that ended began after the last bad entry was found, and after the last refused write.
        The latter is said of a bookie that takes writes: one whose turn it is to stop refuses them, and is as whole as
        it was."""
        is_filled = self._store.writes_refused == self._refused.filled or self._store.is_read_only
        return (is_filled and self._store.bad_entries.found == self._bad.filled) or not self._by_itself

    @property
    def is_whole(self) -> bool:
        """Return True when a fill of this life ended with nothing missing and nothing blocked, and nothing was lost
        since."""
        is_filled = self._progress.is_whole and self._has_looked_since
        return is_filled and self._boot.progress.is_done and not self._store.quarantined

    async def run(self, metadata: MetadataStore, registered: asyncio.Event) -> None:
        """Fill when asked, until the process ends."""
        while True:
            await self._asked.wait()
            await registered.wait()  # before that writers leave us out, so that a run would have no end to reach
            await self._boot.progress.until_done()  # what is in limbo is the repair's
            self._asked.clear()
            bad = self._store.bad_entries
            refused, found, more = self._store.writes_refused, bad.found, frozenset(bad.more)
            try:
                await self._boot.fill(self._store, metadata, self._progress)
                self._refused.filled, self._bad.filled = refused, found
                bad.more -= more
                self._rounds.came_to_end(_JOB)
            except BookieError as error:
                if error.fatal:
                    raise
                self._rounds.given_up(_JOB, error)
                if not self._asked.is_set():
                    self._progress.waits_no_more(error)
                log.warning("filling of holes given up reason=%s", error)
            bad.forget_gone()
            if self.is_whole:
                await self._lease.end_of_before()
