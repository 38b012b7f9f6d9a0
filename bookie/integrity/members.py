"""Finds every bookie that the metadata store knows: by its cookie, by its registration, or by both.

The operator, which has no session with the metadata store, asks a bookie for this list before it lets another one go: a
bookie that no spec names may still hold data. Nothing is changed here.
"""

import asyncio

from bookie.base.ids import BookieId
from bookie.metadata import paths
from bookie.ports.admin import Member
from bookie.ports.metadata_store import MetadataStore, find, find_children


async def members(store: MetadataStore, root: str) -> tuple[Member, ...]:
    """Return all bookies by id, as the store has them now (a sync goes first). Raises MetadataError."""
    await store.sync(root)
    with_cookie = await find_children(store, paths.cookies(root))
    found = await asyncio.gather(*(find(store, paths.cookie(root, BookieId(name))) for name in with_cookie))
    cookies = {name: stored.version for name, stored in zip(with_cookie, found, strict=True) if stored is not None}
    writable = set(await find_children(store, paths.available(root))) - {"readonly"}
    read_only = set(await find_children(store, paths.readonly(root)))
    return tuple(
        Member(
            bookie_id=name,
            has_cookie=name in cookies,
            is_registered=name in writable or name in read_only,
            is_writable=name in writable,
            cookie_version=cookies.get(name, -1),
        )
        for name in sorted(cookies.keys() | writable | read_only)
    )
