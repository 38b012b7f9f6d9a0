"""Until `bookie.integrity` lands: open the store directly. A development bookie's boot, without any judgement."""

from collections.abc import Callable

from bookie.base.errors import BookieError
from bookie.ports import World
from bookie.ports.admin import State
from bookie.ports.metadata_store import MetadataStore
from bookie.server.options import ServerOptions
from bookie.storage import dirs, restart
from bookie.storage.store import EntryStore


class Boot:
    def __init__(self, options: ServerOptions, world: World) -> None:
        self._options = options
        self._world = world

    async def run(
        self, metadata: MetadataStore, *, on_state: Callable[[State], None], fail: Callable[[BookieError], None]
    ) -> EntryStore:
        on_state(State.REPLAYING)
        await dirs.prepare(self._world.disk, self._options.storage)
        await dirs.mark_dirty(self._world.disk, self._options.storage)
        return await restart.open_store(self._options.storage, self._world, fail=fail)

    async def ended_well(self) -> None:
        await dirs.clear_dirty(self._world.disk, self._options.storage)

    async def repair(self, store: EntryStore, metadata: MetadataStore) -> None:
        return
