"""Connects an application to a real cluster. A composition root.

async with connect("zk+hierarchical://127.0.0.1:2181/ledgers") as client:
    async with await client.create(password=b"secret") as writer:
        await writer.append(b"hello")
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from bookie.client import Client, ClientOptions
from bookie.ports.metadata_store import MetadataSecurity
from bookie.runtime import given_file, metadata_access, world


def metadata_security(path: str) -> MetadataSecurity:
    """Read how to reach the metadata store, and as whom, from a properties file with a bookie's names
    (zkEnableSecurity, zkJaasFile, zkDigestFile, zkTls...; docs/SECURITY.md): for
    `ClientOptions.metadata_security`. Raises BadInput."""
    return metadata_access.read(path)


def read_file(path: str, *, bytes_max: int = given_file.BYTES_MAX) -> bytes:
    """Read a file that an application was told to read (a secret, a list); a pipe for some seconds at most. Raises
    OSError whose `strerror` is a reason for people."""
    return given_file.read(path, bytes_max=bytes_max)


@contextlib.asynccontextmanager
async def connect(uri: str, **options: Any) -> AsyncIterator[Client]:
    """Connect to the cluster at `uri`; `options` are the fields of ClientOptions.

    Raises BadInput for unusable options, MetadataError naming the address when the metadata store is unreachable.
    """
    told = ClientOptions(uri, **options)
    async with world.open_world(metadata_security=told.metadata_security) as real, Client(told, real) as client:
        yield client
