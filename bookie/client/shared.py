"""The state that all parts of one client share: options, world, connections to bookies, metadata store."""

from collections.abc import Collection
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_MS
from bookie.client.ledgers import LedgerStore
from bookie.client.net.free_space import FreeSpace
from bookie.client.net.pool import ConnectionPool
from bookie.client.net.watcher import BookieWatcher
from bookie.client.options import ClientOptions
from bookie.client.tasks import Tasks
from bookie.metadata.ledger import LedgerMetadata
from bookie.ports import World
from bookie.quorum import placement
from bookie.quorum.placement import Candidate
from bookie.quorum.schedule import Schedule
from bookie.wire.digest import Digest, DigestType


@dataclass(frozen=True, slots=True)
class Shared:
    """What all parts of one client share; handles keep a reference to it."""

    options: ClientOptions
    world: World
    tasks: Tasks
    ledgers: LedgerStore
    watcher: BookieWatcher
    pool: ConnectionPool
    free_space: FreeSpace

    async def pause(self, duration_ms: int) -> None:
        """Wait a little before trying again."""
        clock = self.world.clock
        await clock.sleep_until(clock.monotonic_ns() + duration_ms * NS_PER_MS)

    def new_ensemble(self, schedule: Schedule) -> tuple[BookieId, ...]:
        """Draw bookies for a new ledger. Raises NotEnoughBookies."""
        healthy, quarantined = self._drawn()
        zones_min = self.options.zones_per_write_quorum_min
        try:
            return placement.choose(schedule, healthy, zones_min=zones_min)
        except errors.NotEnoughBookies:
            return placement.choose(schedule, healthy + quarantined, zones_min=zones_min)

    def replacements(
        self,
        schedule: Schedule,
        ensemble: tuple[BookieId, ...],
        slots: tuple[int, ...],
        *,
        without: Collection[BookieId] = (),
    ) -> dict[int, BookieId]:
        """Draw bookies for failed `slots`, none of `without`; leaves out slots for which there is none.

        Takes a bookie in quarantine only where there is no other, even for the sake of a zone: else a writer would go
        to and fro between two bookies that fail.
        """
        found: dict[int, BookieId] = {}
        zones, zones_min = self.watcher.zones(), self.options.zones_per_write_quorum_min
        for candidates in self._drawn():
            rest = tuple(slot for slot in slots if slot not in found)
            filled = tuple(found.get(slot, bookie_id) for slot, bookie_id in enumerate(ensemble))
            # Never the failed bookies themselves, even when others have taken their slots.
            free = [one for one in candidates if one.bookie_id not in ensemble and one.bookie_id not in without]
            found |= placement.replace(
                schedule, filled, rest, free, zones=zones, machines=self.watcher.machines(), zones_min=zones_min
            )
        return found

    def _drawn(self) -> tuple[list[Candidate], list[Candidate]]:
        """Return the bookies that take writes, in random order: the healthy ones, and those in quarantine."""
        candidates = self.watcher.candidates()
        self.world.entropy.shuffle(candidates)
        if self.options.weigh_by_free_space:
            candidates = placement.weighted(candidates, self.free_space.free_bytes, self.world.entropy.randrange)
        quarantined = [candidate for candidate in candidates if self.pool.is_quarantined(candidate.bookie_id)]
        return [candidate for candidate in candidates if candidate not in quarantined], quarantined


def schedule_of(metadata: LedgerMetadata) -> Schedule:
    return Schedule(metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)


def digest_of(metadata: LedgerMetadata) -> Digest:
    """Return the digest and key that the metadata names (enableDigestTypeAutodetection). Raises BadInput."""
    try:
        return Digest(DigestType(metadata.digest_type), metadata.password)
    except ValueError:
        raise errors.BadInput(
            f"the ledger's digest type {metadata.digest_type} is not known here: this release knows 1 to 4"
        ) from None
