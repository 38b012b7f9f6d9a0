"""The real world of one node: every port with its real implementation."""

import contextlib
from collections.abc import AsyncIterator

from bookie.ports import Host, World
from bookie.ports.metadata_store import MetadataSecurity
from bookie.ports.ordered_store import OrderedStore
from bookie.runtime.clock import SystemClock
from bookie.runtime.disk import SystemDisk
from bookie.runtime.entropy import SystemEntropy
from bookie.runtime.network import TcpNetwork
from bookie.runtime.zookeeper import ZooKeeperStores


@contextlib.asynccontextmanager
async def open_world(
    host: Host | None = None, metadata_security: MetadataSecurity | None = None
) -> AsyncIterator[World]:
    """Give the real world, on the running loop. Threads and connections begin when they are first needed.

    The node closes the files, sessions and listeners that it opened; connections and disk threads that are left over
    end here.
    """
    clock = SystemClock()
    disk = SystemDisk()
    network = TcpNetwork(clock)
    try:
        yield World(
            clock=clock,
            disk=disk,
            ordered_stores=_RocksStores(),
            network=network,
            metadata_stores=ZooKeeperStores(metadata_security),
            entropy=SystemEntropy(),
            host=host or Host(),
        )
    finally:
        await network.close()
        disk.close()


class _RocksStores:
    """RocksDB, imported when an index is opened: it comes with the extra `bookie`, which clients need not install."""

    async def open(self, directory: str) -> OrderedStore:
        from bookie.runtime.rocksdb import RocksStores

        return await RocksStores().open(directory)

    async def open_read_only(self, directory: str) -> OrderedStore:
        from bookie.runtime.rocksdb import RocksStores

        return await RocksStores().open_read_only(directory)
