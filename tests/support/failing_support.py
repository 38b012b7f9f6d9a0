"""A client whose session with the metadata store fails at single nodes: an ACL, bytes, or a defect of ours."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import Client
from bookie.client.options import ClientOptions
from bookie.metadata import paths
from bookie.metadata.ledger import new_ledger
from bookie.ports.metadata_store import MetadataStore
from client_support import ROOT, URI, Fleet

GONE = BookieId("gone:1")


class Failing:
    """The metadata store, for a session in which reading or listing some paths raises."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.raises: dict[str, Exception] = {}
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _ask(self, path: str) -> None:
        self.reads += 1
        if path in self.raises:
            raise self.raises[path]

    async def get(self, path: str) -> Any:
        self._ask(path)
        return await self._store.get(path)

    async def children(self, path: str) -> Any:
        self._ask(path)
        return await self._store.children(path)


@contextlib.asynccontextmanager
async def failing(fleet: Fleet, **raises: Exception) -> AsyncIterator[tuple[Client, Failing]]:
    for each in fleet.bookies:
        await fleet.store.create(f"{paths.cookies(ROOT)}/{each.id}", b"", parents=True)
    world = fleet.machine.begin(name="failing")
    store = Failing(await world.metadata_stores.connect(URI))
    store.raises.update(raises)
    async with Client(ClientOptions(URI), world, store=store) as client:
        yield client, store
    await store.close()


async def made(client: Client, *numbers: int, by: BookieId = GONE, last: int = -1) -> None:
    """Closed ledgers that name b0 and `by`."""
    bookies = BookieId("b0"), by
    for number in numbers:
        shape = new_ledger(ensemble_size=2, write_quorum=2, ack_quorum=2, bookies=bookies)
        await client.shared.ledgers.create(shape.closed(EntryId(last), last + 1), LedgerId(number))
