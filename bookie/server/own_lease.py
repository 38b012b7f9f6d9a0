"""The maintenance lease that a bookie takes for itself before it is stopped, and ends when it is whole again.

    prepare_shutdown ── lease ── stop ── boot ── holes filled ── no lease
           └──────────── LEASE_S at most ────────────┘

So a roll-out causes no marks, also where a stop takes longer than the cluster's delay. It is a courtesy: nothing waits
for it, and no stop fails because of it. A lease that a person took stands. Rule: spec/metadata.md#M50.
"""

import logging

from bookie.base import errors
from bookie.base.units import NS_PER_S
from bookie.client.repair.maintenance import Maintenance
from bookie.integrity.boot import Boot
from bookie.metadata import maintenance
from bookie.metadata.maintenance import MaintenanceLease, StoredLease
from bookie.ports.clock import Clock
from bookie.ports.time_limit import TimeLimit

log = logging.getLogger(__name__)

# A pod that is deleted, scheduled, started, replayed and filled: minutes. What takes longer is worth a copy.
LEASE_S = 600
# A roll-out tells us every few seconds; the lease is not written that often.
_RENEW_S = 60
# The metadata store may be away, and the stop shall not wait for it.
_PATIENCE_S = 2


class OwnLease:
    """`take` and `end` never raise what a metadata store may do, unless it is fatal."""

    def __init__(self, boot: Boot, clock: Clock) -> None:
        self._boot = boot
        self._clock = clock
        self._taken_ns: int | None = None
        self._is_to_be_stopped = False

    async def take(self) -> None:
        """Take the lease, or renew it. A person's that would end sooner lasts as long, and stays that person's."""
        self._is_to_be_stopped = True
        now_ns = self._clock.monotonic_ns()
        if self._taken_ns is not None and now_ns - self._taken_ns < _RENEW_S * NS_PER_S:
            return
        try:
            async with TimeLimit(_PATIENCE_S):
                await self._leases().change(self._boot.bookie_id, lambda stands: _after(stands, self._clock.wall_ms()))
        except (errors.BookieError, TimeoutError) as error:
            _check_not_fatal(error)
            log.warning("no maintenance lease taken, so this stop may cause marks reason=%s", error)
        else:
            self._taken_ns = now_ns

    async def end_of_before(self) -> None:
        """End the lease of the life before, now that this bookie is whole; but not while it is to be stopped again."""
        if not self._is_to_be_stopped:
            await self.end()

    async def end(self) -> None:
        """End the lease that this bookie took, in this life or the one before. One that stays ends by itself."""
        self._taken_ns = None
        self._is_to_be_stopped = False
        try:
            async with TimeLimit(_PATIENCE_S):
                leases = self._leases()
                stands = await leases.find(self._boot.bookie_id)
                if stands is not None and stands.lease.by == maintenance.BOOKIE:
                    await leases.end(self._boot.bookie_id, stands.version)
        except (errors.BookieError, TimeoutError) as error:
            _check_not_fatal(error)
            log.debug("maintenance lease not ended reason=%s", error)

    def _leases(self) -> Maintenance:
        """Raises MetadataError while there is no session yet."""
        ledgers = self._boot.ledgers
        return Maintenance(ledgers.store, ledgers.root)


def _after(stands: StoredLease | None, wall_ms: int) -> MaintenanceLease | None:
    """Return the lease to write now; None when the one that stands will do."""
    if stands is None or stands.until_ms <= wall_ms or stands.lease.by == maintenance.BOOKIE:
        return MaintenanceLease(LEASE_S, maintenance.BOOKIE, "it is to be stopped")
    if stands.until_ms >= wall_ms + LEASE_S * 1000:
        return None
    return MaintenanceLease(LEASE_S, stands.lease.by, stands.lease.reason)


def _check_not_fatal(error: errors.BookieError | TimeoutError) -> None:
    if isinstance(error, errors.BookieError) and error.fatal:
        raise error
