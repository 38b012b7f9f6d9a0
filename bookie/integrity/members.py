"""Finds every bookie that the metadata store knows: by its cookie, by its registration, or by both.

The operator, which has no session with the metadata store, asks a bookie for this list before it lets another one go: a
bookie that no spec names may still hold data. Nothing is changed here.
"""

from bookie.metadata import paths
from bookie.ports.admin import Member
from bookie.ports.metadata_store import MetadataStore, find_children


async def members(store: MetadataStore, root: str) -> tuple[Member, ...]:
    """Return all bookies by id, as the store has them now (a sync goes first). Raises MetadataError."""
    await store.sync(root)
    cookies = set(await find_children(store, paths.cookies(root)))
    writable = set(await find_children(store, paths.available(root))) - {"readonly"}
    read_only = set(await find_children(store, paths.readonly(root)))
    return tuple(
        Member(
            bookie_id=name,
            has_cookie=name in cookies,
            is_registered=name in writable or name in read_only,
            is_writable=name in writable,
        )
        for name in sorted(cookies | writable | read_only)
    )
