"""What all parts of one client share: its options, its world and its ways to bookies and metadata."""

from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_MS
from bookie.client.ledgers import LedgerStore
from bookie.client.options import ClientOptions
from bookie.client.pool import Pool
from bookie.client.tasks import Tasks
from bookie.client.watcher import BookieWatcher
from bookie.metadata.ledger import LedgerMetadata
from bookie.ports import World
from bookie.quorum import placement
from bookie.quorum.placement import Candidate
from bookie.quorum.schedule import Schedule
from bookie.wire.digest import Digest, DigestType


@dataclass(frozen=True, slots=True)
class Shared:
    """One per client; handles keep a reference."""

    options: ClientOptions
    world: World
    tasks: Tasks
    ledgers: LedgerStore
    watcher: BookieWatcher
    pool: Pool

    async def pause(self, duration_ms: int) -> None:
        """Wait a little before trying again."""
        clock = self.world.clock
        await clock.sleep_until(clock.monotonic_ns() + duration_ms * NS_PER_MS)

    def new_ensemble(self, schedule: Schedule) -> tuple[BookieId, ...]:
        """Draw bookies for a new ledger. Raises NotEnoughBookies."""
        return placement.choose(schedule, self._drawn(self.watcher.candidates()))

    def replacements(
        self, schedule: Schedule, ensemble: tuple[BookieId, ...], slots: tuple[int, ...]
    ) -> dict[int, BookieId]:
        """Draw bookies for failed `slots`; slots for which there is none are left out."""
        candidates = self._drawn(self.watcher.candidates())
        return placement.replace(schedule, ensemble, slots, candidates, zones=self.watcher.zones())

    def _drawn(self, candidates: list[Candidate]) -> list[Candidate]:
        """In random order; bookies in quarantine come last and are taken only when there is no other."""
        self.world.entropy.shuffle(candidates)
        return sorted(candidates, key=lambda candidate: self.pool.is_quarantined(candidate.bookie_id))


def schedule_of(metadata: LedgerMetadata) -> Schedule:
    return Schedule(metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)


def digest_of(metadata: LedgerMetadata) -> Digest:
    """The digest and key that the metadata names (enableDigestTypeAutodetection). Raises BadInput."""
    try:
        return Digest(DigestType(metadata.digest_type), metadata.password)
    except ValueError:
        raise errors.BadInput(f"digest type {metadata.digest_type} is not known here") from None
