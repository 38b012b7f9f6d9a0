"""Where a cluster is made, and what is not taken for one (spec/metadata.md#M5, M6)."""

import pytest

from bookie.base import errors
from bookie.client import cluster
from bookie.metadata import paths
from bookie.ports.metadata_store import MetadataStore, find
from sim_support import Machine

URI = "zk+hierarchical://zk:2181/ledgers"
DEEP = "zk+hierarchical://zk:2181/a/b/c"


async def _connected(machine: Machine) -> MetadataStore:
    return await machine.begin().metadata_stores.connect(URI)


def test_a_cluster_is_made_at_any_depth() -> None:
    machine = Machine(1)

    async def story() -> None:
        world = machine.begin()
        store = await world.metadata_stores.connect(DEEP)
        made = await cluster.format_cluster(store, DEEP, world.entropy)
        assert await cluster.instance_id(store, "/a/b/c") == made

    machine.run(story)


def test_what_else_is_in_the_metadata_store_is_no_empty_cluster_and_stays_as_it_is() -> None:
    machine = Machine(1)

    async def story() -> None:
        store = await _connected(machine)
        await store.create("/ledgers/quota", b"", parents=True)

        with pytest.raises(errors.NoCluster, match="no cluster at /ledgers"):
            await cluster.check_exists(store, "/ledgers")
        with pytest.raises(errors.NoCluster, match="no cluster at /ledgers"):
            await cluster.open_ledgers(store, paths.parse_uri(URI), must_exist=True)
        assert await find(store, paths.layout("/ledgers")) is None

    machine.run(story)


@pytest.mark.parametrize("left", ["available", "cookies"])
def test_a_cluster_from_before_instance_ids_is_one(left: str) -> None:
    machine = Machine(1)

    async def story() -> None:
        store = await _connected(machine)
        await store.create(f"/ledgers/{left}", b"", parents=True)

        await cluster.check_exists(store, "/ledgers")
        assert await cluster.instance_id(store, "/ledgers") == ""
        assert await cluster.open_ledgers(store, paths.parse_uri(URI), must_exist=True)

    machine.run(story)
