"""One repairer of a ledger at a time, among ours and Java's: the lock that Java's replication workers take.

Java's bookies throw away what they hold of a closed ledger that does not name them, except while its lock is held
(metadata.md 13.2). So who copies entries to a bookie that is not named yet holds it until the metadata names it.
"""

import contextlib
from collections.abc import AsyncIterator

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.metadata import paths, repair
from bookie.ports.metadata_store import MetadataStore

_ATTEMPTS = 5


@contextlib.asynccontextmanager
async def locked(store: MetadataStore, root: str, ledger_id: LedgerId, holder: str) -> AsyncIterator[None]:
    """Hold the lock of `ledger_id` for the body. `holder` is ours alone: it tells our lock when an answer was lost.

    Raises TooManyRequests when another repairs the ledger, MetadataError.
    """
    path = paths.replication_lock(root, ledger_id)
    await _take(store, path, ledger_id, holder)
    try:
        yield
    finally:
        # Best effort: it is ephemeral, and at worst goes with our session.
        with contextlib.suppress(errors.MetadataError, errors.NodeMissing):
            await store.delete(path)


async def _take(store: MetadataStore, path: str, ledger_id: LedgerId, holder: str) -> None:
    for _ in range(_ATTEMPTS):
        try:
            await store.create(path, repair.dump_lock(holder), ephemeral=True, parents=True)
            return
        except (errors.NodeExists, errors.OutcomeUnknown):
            pass
        try:
            other = repair.load_lock((await store.get(path)).data)
        except errors.NodeMissing:
            continue  # it was released, or the lost create did not happen
        if other == holder:
            return
        raise errors.TooManyRequests(f"ledger {ledger_id} is being repaired by {other or 'another process'}")
    raise errors.OutcomeUnknown(f"locking ledger {ledger_id}: the metadata store gave no answer")
