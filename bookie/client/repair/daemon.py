"""Auto-recovery as one process: an auditor and a worker beside each other, over one client.

Any number of such processes may run, beside Java's (spec/metadata.md#M45): one of all is the auditor, each works. It
begins by making Java's queue if there is none, and ends by giving back its vote and its locks.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Iterator

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_MS
from bookie.client.repair import progress_reports
from bookie.client.repair.auditor import Auditor
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.client.repair.marks import Marks
from bookie.client.repair.membership import Membership
from bookie.client.repair.replication_worker import ReplicationWorker
from bookie.client.shared import Shared
from bookie.client.tasks import Tasks
from bookie.ports.metrics import Sample

log = logging.getLogger(__name__)

# At least as long as the longest pause before one that ended begins again (`server.autorecovery`).
ENDED_TOLD_MS = 300_000


class AutoRecoveryDaemon:
    """`run` returns after `request_stop`. `me`: the name of this process in the vote. `ended_before`: what ended the
    one before it in this process; told for as long as a pause before the next may be, for one that ends each time may
    live no longer than until its first look."""

    def __init__(self, shared: Shared, me: BookieId, options: AutoRecoveryOptions, *, ended_before: str = "") -> None:
        root, store = shared.ledgers.root, shared.ledgers.store
        recovery = AutoRecovery(store, root)
        self._marks = Marks(store, root)
        # Each its own view: they look at different times, and each takes note of who came back.
        self._members = Membership(shared, recovery, options)
        self.worker = ReplicationWorker(shared, recovery, Membership(shared, recovery, options), options)
        self.auditor = Auditor(shared, recovery, self._members, me, options, self.worker.wake)
        self._stopping = asyncio.Event()
        self._me = me
        self._clock = shared.world.clock
        self._reports = recovery.reports
        self._ended_before = ended_before
        self._ended_told_until_ns = self._clock.monotonic_ns() + ENDED_TOLD_MS * NS_PER_MS

    def request_stop(self) -> None:
        """End in order: no new ledger is begun, copies under way are left, locks and vote are given back."""
        self._stopping.set()

    async def run(self) -> None:
        """Audit and work. Raises RefusedToStart for a queue of another form, MetadataError when it cannot begin."""
        await self._marks.prepare()
        async with Tasks() as tasks:
            tasks.spawn(self.auditor.run(), "auditor")
            tasks.spawn(self.worker.run(), "replication worker")
            tasks.spawn(self._report(), "reports")
            await self._stopping.wait()
        await self.auditor.withdraw()
        await self._reports.withdraw(self._me)
        log.info("auto-recovery ended")

    async def _report(self) -> None:
        """Tell of our progress, for people, until cancelled."""
        while True:
            try:
                progress = dataclasses.replace(self.worker.progress(), given_up=self._given_up())
                await self._reports.write(self._me, progress)
            except errors.MetadataError as error:
                log.debug("progress not told reason=%s", error)
            await self._clock.sleep_until(self._clock.monotonic_ns() + progress_reports.EVERY_MS * NS_PER_MS)

    def _given_up(self) -> str:
        """Return why nobody may rely on the last look, for a person; "" when all came to their ends."""
        is_told = self._clock.monotonic_ns() < self._ended_told_until_ns
        reasons = (
            ("it ended, and began again", self._ended_before if is_told else ""),
            ("audit", self.auditor.counts.incomplete),
            ("queue", self.worker.counts.given_up),
        )
        return "; ".join(f"{what}: {why}" for what, why in reasons if why)

    def samples(self) -> Iterator[Sample]:
        """Yield the metrics of this process."""
        audits, work, progress = self.auditor.counts, self.worker.counts, self.worker.progress()
        yield Sample("bookie_autorecovery_is_auditor", "gauge", "1 while this process leads.", audits.is_leading)
        counters = (
            ("audits", audits.audits, "Looks at all ledgers that reached their end."),
            ("ledgers_compared", audits.compared, "Ledgers whose bookies' lists were compared with the metadata."),
            ("ledgers_marked", audits.marked, "Ledgers marked because they lack replicas."),
            ("ledgers_mended", work.mended, "Marked ledgers that are whole again."),
            ("entries_copied", progress.entries_done, "Copies of entries made."),
            ("bytes_copied", progress.bytes_done, "Bytes of these copies."),
            ("attempts_failed", work.failures, "Attempts after which a ledger was not whole."),
            ("defects", audits.defects + work.defects, "Errors of ours at one ledger, which is blocked or not known."),
        )
        for name, value, text in counters:
            yield Sample(f"bookie_autorecovery_{name}_total", "counter", text, value)
        gauges = (
            ("ledgers_blocked", len(self.worker.blocked), "Marked ledgers that were tried and are not whole."),
            ("bookies_in_maintenance", len(self._members.leased), "Bookies whose absence counts as no loss now."),
        )
        perhaps: tuple[tuple[str, float | None, str], ...] = (
            ("ledgers_waiting", work.waiting, "Marked ledgers at the last look at the queue."),
            ("records_unreadable", audits.unreadable, "Ledgers that the last audit could not look at."),
            (
                "ledgers_misplaced",
                audits.misplaced,
                "Ledgers at the last audit whose copies lie closer than they need.",
            ),
            ("entries_left", progress.entries_left, "Copies still to be made for marked ledgers that are not blocked."),
            ("bytes_left", progress.bytes_left, "Bytes of these copies."),
            ("copy_entries_per_second", progress.entries_per_s, "Copies made a second, over the last minute."),
            ("copy_bytes_per_second", progress.bytes_per_s, "Bytes copied a second, over the last minute."),
            ("seconds_left", progress.seconds_left, "Until these copies are made, at this worker's speed alone."),
        )
        for name, value, text in gauges:
            yield Sample(f"bookie_autorecovery_{name}", "gauge", text, value)
        text = (
            "1 while the last look was broken off, so that other figures are of looks before it, or left something out."
        )
        for what, why in (("audit", audits.incomplete), ("queue", work.given_up)):
            yield Sample("bookie_autorecovery_given_up", "gauge", text, int(bool(why)), (("look", what),))
        for name, number, text in perhaps:
            if number is not None:  # what nobody has looked at, or knows, is not told: no number is better than a zero
                yield Sample(f"bookie_autorecovery_{name}", "gauge", text, number)
