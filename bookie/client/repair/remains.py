"""Finds what the metadata store still has of a bookie that is not registered: does anybody wait for its data?

That a cookie is not there proves nothing. Somebody deleted its node, or restored a store without it, and the bookie
waits with all its data, registered nowhere, until it has its cookie back (COOKIE_MISSING). So only a bookie that was
forgotten (`forgetting`) counts as gone: its record of lives says so, in the transaction that deleted its cookie. Java's
bookies have no such record; of them a cookie is all there is (spec/metadata.md#M49). Never: "nothing" for a record that
cannot be read.
"""

from bookie.base.ids import BookieId
from bookie.metadata import cookie, paths
from bookie.ports.metadata_store import MetadataStore, find


async def of(store: MetadataStore, root: str, bookie_id: BookieId) -> str:
    """Return what stands of the bookie, for a person; "" when nothing does, or when it was forgotten. The caller has
    synced. Raises MetadataError."""
    if await find(store, paths.cookie(root, bookie_id)) is not None:
        return "its cookie"
    if await find(store, paths.process(root, bookie_id)) is not None:
        return "the sign of a process of it"
    if await find(store, paths.position(root, bookie_id)) is not None:
        return "the record of how far its disks reached"
    record = await find(store, paths.incarnation(root, bookie_id))
    return "" if record is None or cookie.is_forgotten(record.data) else "the record of its lives"
