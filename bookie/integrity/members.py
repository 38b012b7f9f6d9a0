"""Finds every bookie that the metadata store knows: by its cookie, by its registration, or by both.

The operator, which has no session with the metadata store, asks a bookie for this list before it lets another one go: a
bookie that no spec names may still hold data. Nothing is changed here.
"""

import asyncio

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.metadata import paths
from bookie.ports.admin import Member
from bookie.ports.metadata_store import MetadataStore, find, find_children


async def members(store: MetadataStore, root: str) -> tuple[Member, ...]:
    """Return all bookies by id, as the store has them now (a sync goes first). Raises MetadataError."""
    await store.sync(root)
    with_cookie = await find_children(store, paths.cookies(root))
    versions = await asyncio.gather(
        *(_cookie_version(store, paths.cookie(root, BookieId(name))) for name in with_cookie)
    )
    cookies = {name: version for name, version in zip(with_cookie, versions, strict=True) if version is not None}
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


async def _cookie_version(store: MetadataStore, path: str) -> int | None:
    """Return the version of a cookie's node; None when it is gone, -1 when nobody lets us read it: it is there, and
    that it is one bookie's keeps nobody from seeing the others."""
    try:
        stored = await find(store, path)
    except errors.MetadataDenied:
        return -1
    return None if stored is None else stored.version
