"""`connect`: a Client in the real world, for applications. A composition root.

async with connect("zk+hierarchical://127.0.0.1:2181/ledgers") as client:
    async with await client.create(password=b"secret") as writer:
        await writer.append(b"hello")
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from bookie.client import Client, ClientOptions
from bookie.runtime import world


@contextlib.asynccontextmanager
async def connect(uri: str, **options: Any) -> AsyncIterator[Client]:
    """Connect to the cluster at `uri`; `options` are the fields of ClientOptions.

    Raises BadInput for unusable options, MetadataError naming the address when the metadata store is unreachable.
    """
    async with world.open_world() as real, Client(ClientOptions(uri, **options), real) as client:
        yield client
