"""Takes, ends and lists maintenance leases: planned work on one bookie, which auto-recovery of ours leaves alone.

In place of `autorecovery disable`, which stops the repair of every other bookie too, and which somebody must remember
to undo. Java's auditor knows that switch alone. Rule: spec/metadata.md#M50.
"""

import logging
from collections.abc import Callable

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.metadata import maintenance, paths
from bookie.metadata.maintenance import MaintenanceLease, StoredLease
from bookie.ports.metadata_store import ANY_VERSION, MetadataStore, find, find_children

log = logging.getLogger(__name__)

_ATTEMPTS = 5
_NO_ANSWER = "the metadata store gave no answer: look, then try again"


class Maintenance:
    """The leases of the cluster at `root`."""

    def __init__(self, store: MetadataStore, root: str) -> None:
        self._store = store
        self._root = root
        self._told: dict[BookieId, str] = {}  # what was wrong with a lease, told once

    async def take(self, bookie_id: BookieId, lease: MaintenanceLease) -> None:
        """Take the lease, or take it anew. Raises MetadataError."""
        path = paths.maintenance(self._root, bookie_id)
        for _ in range(_ATTEMPTS):
            found = await find(self._store, path)
            if await self._is_written(path, lease, None if found is None else found.version):
                return
        raise errors.OutcomeUnknown(f"writing {path}: {_NO_ANSWER}")

    async def change(
        self, bookie_id: BookieId, decide: Callable[[StoredLease | None], MaintenanceLease | None]
    ) -> None:
        """Write what `decide` makes of the lease that stands, if that still stands then, else decide again; None:
        leave it. Raises BadInput for a lease that cannot be read and is to be judged, MetadataError."""
        path = paths.maintenance(self._root, bookie_id)
        for _ in range(_ATTEMPTS):
            stands = await self.find(bookie_id)
            lease = decide(stands)
            if lease is None:
                return
            if await self._is_written(path, lease, None if stands is None else stands.version):
                return
        raise errors.OutcomeUnknown(f"writing {path}: {_NO_ANSWER}")

    async def _is_written(self, path: str, lease: MaintenanceLease, version: int | None) -> bool:
        """Write the lease in the place of the one of `version` (None: of none). Return False where another stands, or
        nobody knows: written twice it only lasts from the second time."""
        data = maintenance.dump_lease(lease)
        try:
            if version is None:
                await self._store.create(path, data, parents=True)
            else:
                await self._store.put(path, data, version)
        except (errors.NodeExists, errors.NodeMissing, errors.VersionConflict, errors.OutcomeUnknown):
            return False
        return True

    async def find(self, bookie_id: BookieId) -> StoredLease | None:
        """Return the lease of one bookie, ended or not. Raises BadInput for one that cannot be read, MetadataError."""
        found = await find(self._store, paths.maintenance(self._root, bookie_id))
        return (
            None if found is None else StoredLease(maintenance.load_lease(found.data), found.modified_ms, found.version)
        )

    async def end(self, bookie_id: BookieId, version: int = ANY_VERSION) -> bool:
        """End the lease. Return False when there is none. Raises VersionConflict where another than that of `version`
        stands, MetadataError."""
        try:
            await self._store.delete(paths.maintenance(self._root, bookie_id), version)
        except errors.NodeMissing:
            return False
        return True

    async def leases(self) -> dict[BookieId, StoredLease]:
        """Return every lease that stands, ended ones too. One that nobody can read counts as none. Raises
        MetadataError."""
        found: dict[BookieId, StoredLease] = {}
        for name in sorted(await find_children(self._store, paths.maintenances(self._root))):
            bookie_id = BookieId(name)
            try:
                stored = await self.find(bookie_id)
            except (errors.BadInput, errors.MetadataDenied) as error:
                if self._told.get(bookie_id) != str(error):
                    self._told[bookie_id] = str(error)
                    log.warning("a maintenance lease counts as none bookie=%s reason=%s", bookie_id, error)
                continue
            if stored is not None:
                found[bookie_id] = stored
        return found
