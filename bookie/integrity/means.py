"""What a repair of this bookie works with: phase two and the filling of holes have the same."""

from dataclasses import dataclass

from bookie.base.ids import BookieId
from bookie.base.throttle import Throttle
from bookie.client.ledgers import LedgerStore
from bookie.integrity.copier import Copier, CopyCounts, Peers
from bookie.integrity.fresh import FreshLedgers
from bookie.integrity.metadata_retry import MetadataRetry
from bookie.integrity.opener import Opener
from bookie.integrity.options import IntegrityOptions
from bookie.ports import World
from bookie.storage.store import EntryStore

# Ledgers repaired at the same time: small ones hide each other's round trips. Entries under way are bounded apart.
LEDGERS_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class RepairMeans:
    """`throttle`: the bytes of all repairs of this bookie together."""

    store: EntryStore
    ledgers: LedgerStore
    me: BookieId
    opener: Opener
    peers: Peers
    options: IntegrityOptions
    world: World
    retry: MetadataRetry
    throttle: Throttle

    def fresh(self) -> FreshLedgers:
        """Make the reader of ledgers' metadata of one repair."""
        return FreshLedgers(self.ledgers, self.retry)

    def copier(self, progress: CopyCounts, *, verify: bool) -> Copier:
        """Make the copier of one repair, which counts in `progress`."""
        return Copier(
            self.store,
            self.me,
            self.peers,
            self.world.clock,
            self.throttle,
            progress,
            concurrency=self.options.copy_concurrency,
            verify=verify,
        )
