"""Dials bookies: turns a bookie id into a connection to the bookie's current process.

A dial looks up the address, connects, and goes through the handshake, all before one deadline. When another process
registers the bookie meanwhile, the dial fails: nobody knows which of the two processes answered.
"""

import asyncio

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_MS
from bookie.client.net.connection import Connection
from bookie.client.net.handshake import Handshake
from bookie.client.net.watcher import BookieWatcher
from bookie.client.options import ClientOptions
from bookie.client.tasks import Tasks
from bookie.ports import World


class Dialer:
    """Dials for one client, and holds the objects that all its links share."""

    def __init__(self, options: ClientOptions, world: World, watcher: BookieWatcher, tasks: Tasks) -> None:
        self.handshake = Handshake(options, world)
        self.watcher = watcher
        self.tasks = tasks
        self.loop = asyncio.get_running_loop()
        self.now_ns = world.clock.monotonic_ns
        self._network = world.network
        self._dial_timeout_ms = options.dial_timeout_ms
        self._frame_limit_bytes = options.frame_limit_bytes

    async def dial(self, bookie_id: BookieId, *, version: int, origin: object) -> Connection:
        """Connect to `bookie_id`; `origin` is what the connection names to owners of adds. Raises BookieUnavailable."""
        address = self.watcher.address(bookie_id)
        if address is None:
            raise errors.BookieUnavailable(f"bookie {bookie_id} is not registered, so its address is unknown: start it")
        deadline_ns = self.now_ns() + self._dial_timeout_ms * NS_PER_MS
        session = self.watcher.session(bookie_id)
        stream = await self._network.dial(address, deadline_ns)
        await self.handshake.begin(bookie_id, stream, deadline_ns)
        if self.watcher.session(bookie_id) not in (session, 0):
            stream.close()
            raise errors.BookieUnavailable(f"another process registered as bookie {bookie_id} during the dial")
        doubt = self.handshake.doubt
        return Connection(bookie_id, stream, self._frame_limit_bytes, version=version, origin=origin, doubt=doubt)
