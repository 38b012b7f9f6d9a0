"""Tells in the metadata store how far each worker of ours is, so that a person anywhere can ask.

One ephemeral node for each process, below `underreplication/progress`, where Java neither lists nor deletes. It is for
people alone: nobody decides by it, and a report that is missing or late means nothing. Never: a write for each entry.
"""

import contextlib

from bookie.base import errors
from bookie.client.repair import queue_progress
from bookie.client.repair.queue_progress import Progress
from bookie.metadata import paths
from bookie.ports.metadata_store import MetadataStore, find, find_children

EVERY_MS = 10_000


class ProgressReports:
    """The reports of the cluster at `root`."""

    def __init__(self, store: MetadataStore, root: str) -> None:
        self._store = store
        self._root = root

    async def write(self, name: str, progress: Progress) -> None:
        """Write the report of the process `name`, ours, unless it stands already. Raises MetadataError."""
        path, data = paths.recovery_progress(self._root, name), queue_progress.dump_progress(progress)
        found = await find(self._store, path)
        if found is None:
            await self._store.create(path, data, ephemeral=True, parents=True)
        elif found.owner == self._store.session_id and found.data != data:
            await self._store.put(path, data, found.version)

    async def withdraw(self, name: str) -> None:
        """Remove our report; best effort: it ends with our session at the latest."""
        path = paths.recovery_progress(self._root, name)
        with contextlib.suppress(errors.MetadataError):
            found = await find(self._store, path)
            if found is not None and found.owner == self._store.session_id:
                await self._store.delete(path)

    async def read(self) -> dict[str, Progress]:
        """Return the reports of all processes that live, by name. Raises MetadataError."""
        found: dict[str, Progress] = {}
        for name in sorted(await find_children(self._store, paths.recovery_progresses(self._root))):
            with contextlib.suppress(errors.MetadataDenied):  # somebody else's: those of the others are told
                if (progress := await self.find(name)) is not None:
                    found[name] = progress
        return found

    async def find(self, name: str) -> Progress | None:
        """Return the report of one process; None when there is none, or only one of another release. Raises
        MetadataError."""
        stored = await find(self._store, paths.recovery_progress(self._root, name))
        if stored is None:
            return None
        try:
            return queue_progress.load_progress(stored.data)
        except errors.BadInput:
            return None
