"""Knows which bookies are present, away, or lost, for auditor and workers (spec/metadata.md#M46, M50)."""

import logging
from collections.abc import Iterable

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_MS, NS_PER_S
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.client.repair.maintenance import Maintenance
from bookie.client.shared import Shared
from bookie.metadata import paths
from bookie.ports.metadata_store import find_children
from bookie.quorum import absences, mending
from bookie.quorum.absences import Absences
from bookie.quorum.maintenance import Leases
from bookie.quorum.mending import Standing

log = logging.getLogger(__name__)


class Membership:
    """One process's view; `look` renews it. `lost` is empty while the whole picture is not believable."""

    def __init__(self, shared: Shared, recovery: AutoRecovery, options: AutoRecoveryOptions) -> None:
        self._shared = shared
        self._recovery = recovery
        self._delay_ns = self._own_delay_ns = options.loss_delay_ms * NS_PER_MS
        self._absences = Absences()
        self._returned: dict[BookieId, None] = {}
        self._known: list[BookieId] = []
        self._maintenance = Maintenance(shared.ledgers.store, shared.ledgers.root)
        self._leases = Leases()
        self._leased: frozenset[BookieId] = frozenset()  # as `look_at_leases` last found it
        self._told = ""  # of a delay that cannot be read
        self.is_believable = True
        shared.watcher.on_change(self._saw)  # for as long as the client: who came back for a moment only came back too

    def _saw(self) -> None:
        self._note(())

    async def look(self) -> None:
        """Learn of bookies and of the delay. Raises MetadataError."""
        ledgers, watcher = self._shared.ledgers, self._shared.watcher
        self._delay_ns = await self._delay()
        self._known = [BookieId(name) for name in await find_children(ledgers.store, paths.cookies(ledgers.root))]
        self._note(self._known)
        self.is_believable = absences.is_believable(watcher.records, self._known)
        await self.look_at_leases()

    async def _delay(self) -> int:
        """Return the cluster's delay, or our own where nobody set one, or somebody set what is none: repair goes on."""
        try:
            delay_s = await self._recovery.delay_s()
        except errors.BadInput as error:
            if self._told != str(error):
                self._told = str(error)
                log.warning("the cluster's delay counts as not set reason=%s", error)
            return self._own_delay_ns
        self._told = ""
        return self._own_delay_ns if delay_s is None else delay_s * NS_PER_S

    async def look_at_leases(self) -> None:
        """Learn of maintenance leases. Whoever is asked about is away already, and its lease was taken before that; so
        the store is synced first where a loss is in sight. A bookie whose lease ended counts as one that came back.
        Raises MetadataError."""
        ledgers = self._shared.ledgers
        if self._absences.lost(self._shared.pool.now_ns(), delay_ns=self._delay_ns):
            await ledgers.store.sync(ledgers.root)
        self._leases.seen(await self._maintenance.leases(), self._shared.pool.now_ns())
        before, self._leased = self._leased, self.leased
        ended = sorted(before - self._leased)
        self._returned.update(dict.fromkeys(each for each in ended if each in self._shared.watcher.records))

    @property
    def leased(self) -> frozenset[BookieId]:
        """The bookies under maintenance: none of them is lost, and nobody looks for their holes."""
        return self._leases.valid(self._shared.pool.now_ns(), self._shared.world.clock.wall_ms())

    def _note(self, bookies: Iterable[BookieId]) -> None:
        now_ns = self._shared.pool.now_ns()
        self._returned.update(dict.fromkeys(self._absences.seen(bookies, self._shared.watcher.records, now_ns)))

    def take_returned(self) -> list[BookieId]:
        """Return, once each, the bookies that came back since the last call."""
        found, self._returned = list(self._returned), {}
        return found

    @property
    def lost(self) -> frozenset[BookieId]:
        """The bookies that count as lost. A caller may work for hours between two looks: so whether the picture is
        believable is asked anew."""
        present = self._shared.watcher.records
        if not self.is_believable or not absences.is_believable(present, self._known):
            return frozenset()
        found = self._absences.lost(self._shared.pool.now_ns(), delay_ns=self._delay_ns)
        return frozenset(each for each in found if each not in present) - self.leased

    def until_loss_ms(self, at_most_ms: int) -> float:
        """Return how long it is until the next bookie that is away counts as lost; `at_most_ms` if that is longer."""
        now_ns = self._shared.pool.now_ns()
        due_ns = self._absences.next_loss_ns(now_ns, delay_ns=self._delay_ns)
        return at_most_ms if due_ns is None else min(at_most_ms, (due_ns - now_ns) / NS_PER_MS)

    def standings(self, bookies: Iterable[BookieId]) -> dict[BookieId, Standing]:
        """Return the standing of each bookie that a ledger names; of one without a cookie it counts from the first
        question on."""
        named = list(bookies)
        self._note(named)
        return mending.standings_of(named, self._shared.watcher.records, self.lost)

    def away(self, bookies: Iterable[BookieId]) -> str:
        """Return how long each of `bookies` is away, and how long it may be, for a person."""
        now_ns = self._shared.pool.now_ns()
        return ", ".join(
            f"{each} for {self._absences.away_ns(each, now_ns) // NS_PER_S} s of {self._delay_ns // NS_PER_S} s"
            for each in bookies
        )
