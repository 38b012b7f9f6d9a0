"""Two that write the maintenance lease of one bookie at once (spec/metadata.md#M50)."""

from typing import Any

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.client.repair.maintenance import Maintenance
from bookie.metadata import maintenance, paths
from bookie.metadata.maintenance import MaintenanceLease, StoredLease
from bookie.ports.metadata_store import ANY_VERSION, MetadataStore
from bookie.sim.node import Simulation

ROOT, ID = "/ledgers", BookieId("bookie-1")
OURS, ANNS = MaintenanceLease(600, "bookie", "it is to be stopped"), MaintenanceLease(3_600, "ann", "a new disk")


class Raced:
    """A store in which somebody else writes the lease between our look and our first write."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._is_raced = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put(self, path: str, data: bytes, version: int) -> int:
        if not self._is_raced:
            self._is_raced = True
            await self._store.put(path, maintenance.dump_lease(ANNS), ANY_VERSION)
        return await self._store.put(path, data, version)


def test_a_lease_is_judged_anew_when_another_was_written_since_the_look() -> None:
    simulation = Simulation("leases")
    judged: list[str] = []

    def decide(stands: StoredLease | None) -> MaintenanceLease | None:
        judged.append("" if stands is None else stands.lease.by)
        return None if stands is not None and stands.lease.by == "ann" else OURS

    async def run() -> str:
        node = simulation.node("clerk")
        store: Any = await node.do(node.begin().metadata_stores.connect(f"zk+hierarchical://zk:2181{ROOT}"))
        leases = Maintenance(store, ROOT)
        await node.do(leases.take(ID, OURS))
        looked = await node.do(leases.find(ID))
        assert looked is not None
        raced: Any = Raced(store)
        await node.do(Maintenance(raced, ROOT).change(ID, decide))
        with pytest.raises(errors.VersionConflict):
            await node.do(leases.end(ID, looked.version))
        return maintenance.load_lease((await node.do(store.get(paths.maintenance(ROOT, ID)))).data).by

    found = simulation.run(run())

    assert judged == ["bookie", "ann"]
    assert found == "ann"


def test_a_lease_that_nobody_can_read_hides_no_other_and_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    simulation = Simulation("leases")

    async def run() -> list[list[BookieId]]:
        node = simulation.node("clerk")
        store: Any = await node.do(node.begin().metadata_stores.connect(f"zk+hierarchical://zk:2181{ROOT}"))
        leases = Maintenance(store, ROOT)
        await node.do(store.create(paths.maintenance(ROOT, BookieId("bookie-0")), b"what is this", parents=True))
        await node.do(leases.take(ID, OURS))
        return [list(await node.do(leases.leases())) for _ in range(2)]

    with caplog.at_level("WARNING"):
        found = simulation.run(run())

    assert found == [[ID], [ID]]
    assert [each.getMessage()[:45] for each in caplog.records] == ["a maintenance lease counts as none bookie=boo"]
