"""A bookie with data gets a ledger directory more: cut anywhere it goes on, and no lost volume passes for a new one."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import volumes_support
from bookie.base.ids import LedgerId
from bookie.integrity.options import BOUND, GATED, SCAN
from bookie.metadata import cookie, paths
from bookie.metadata.cookie import Cookie
from bookie.ports.admin import Contents, State, StorageReport, Verdict
from bookie.sim.cluster import ROOT, ClientNode, SimCluster
from bookie.sim.disk_image import FileImage
from bookie.sim.node import ProcessEnd
from sim_support import on_cluster
from story_support import Body, story

ADDED = ("/ledgers-2", "/index-2")
OLD = ("/journal", "/ledgers", "/index")


class Stage:
    """One bookie, which keeps its data in the journal and waits for grants, and what an application wrote."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.bookie = cluster.bookies["bookie-0"]
        self.ledgers: dict[LedgerId, list[bytes]] = {}
        self._clients = 0

    async def write(self, count: int) -> None:
        app = await self._client()
        for _ in range(count):
            writer = await app(app.client.create(ensemble_size=1, write_quorum=1, ack_quorum=1))
            payloads = [b"%d %d" % (writer.id, number) for number in range(3)]
            for payload in payloads:
                await app(writer.append(payload))
            await app(writer.close())
            self.ledgers[writer.id] = payloads
        app.crash()

    async def check(self) -> None:
        app = await self._client()
        for ledger_id, payloads in self.ledgers.items():
            reader = await app(app.client.open(ledger_id))
            entries = await app(reader.read(0, len(payloads) - 1))
            assert [bytes(entry.payload) for entry in entries] == payloads
        app.crash()

    async def _client(self) -> ClientNode:
        self._clients += 1
        return await self.cluster.client(f"app-{self._clients}")

    async def stop(self) -> None:
        self.bookie.stop()
        await self.cluster.until(lambda: not self.bookie.is_running, "the bookie stops")

    async def serve(self) -> None:
        self.bookie.start()
        await self.cluster.until_ready("bookie-0")

    async def held(self) -> StorageReport:
        """Start; return the report of the bookie, which is not to serve."""
        self.bookie.start()
        waiting = (State.HELD, State.WAITING_GRANT)
        await self.cluster.until(lambda: self.bookie.state in waiting, "the bookie waits")
        return await self.bookie.report()

    async def grown(self) -> None:
        """A bookie that served, was stopped, got a directory more, and served with it."""
        await self.write(3)
        await self.stop()
        self.bookie.add_directory()
        await self.serve()
        await self.write(4)

    @property
    def homes(self) -> list[int]:
        """How many ledgers each directory holds."""
        assert self.bookie.process is not None
        store = self.bookie.process.admin.store
        assert store is not None
        return [len(partition.table.known) for partition in store.partitions]

    @property
    def stored(self) -> Any:
        """The node of the cookie in the metadata store."""
        return self.cluster.simulation.keeper.tree.nodes[paths.cookie(ROOT, self.bookie.options().bookie_id)]

    def cookie_on(self, path: str) -> Cookie:
        volume = self.bookie.node.image.volumes[path]
        (file,) = [file for name, file in volume.root.files(path) if name.endswith("/VERSION")]
        assert isinstance(file, FileImage)
        return cookie.load_cookie(bytes(file.durable))


def growing(**settings: Any) -> Callable[[Body], Callable[..., None]]:
    return story(on_cluster, 1, bookies=1, journal_write_data=True, regeneration=GATED, **settings)


@growing()
async def test_a_bookie_gets_a_directory_more_and_finds_its_old_ledgers(cluster: SimCluster) -> None:
    stage = Stage(cluster)

    await stage.grown()

    await stage.check()
    assert stage.homes[1] > 0
    report = await stage.bookie.report()
    assert {volume.contents for volume in report.volumes} == {Contents.VALID}
    assert report.incarnation == 1
    for found in (cookie.load_cookie(stage.stored.data), *map(stage.cookie_on, (*OLD, *ADDED))):
        assert (found.ledger_dirs, found.index_dirs) == (("/ledgers", "/ledgers-2"), ("/index", "/index-2"))
    # From then on nothing needs the permission any more.
    await stage.stop()
    stage.bookie.may_add = False
    await stage.serve()
    await stage.check()


@growing()
async def test_without_permission_a_longer_list_is_held(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    await stage.write(2)
    await stage.stop()
    stage.bookie.add_directory()
    stage.bookie.may_add = False

    report = await stage.held()

    assert report.verdict is Verdict.UNKNOWN_CONTENT
    assert "with allowStorageExpansion=true" in report.reason


@pytest.mark.parametrize("how", [ProcessEnd.KILL, ProcessEnd.POWER_CUT])
@pytest.mark.slow
def test_a_cut_at_any_disk_operation_of_the_change_is_gone_on_from(how: ProcessEnd) -> None:
    operation, cookies = 0, set()
    died = True
    while died:
        operation += 2 if operation > 20 else 1
        died, length = on_cluster(
            _cut_at(operation, how), operation, bookies=1, journal_write_data=True, regeneration=GATED
        )
        cookies.add(length)
    assert operation > 40, "the change was too short to say anything"
    assert cookies == {1, 2}, "the cut came before the cookie's change, and after it"


def _cut_at(operation: int, how: ProcessEnd) -> Callable[[SimCluster], Coroutine[Any, Any, tuple[bool, int]]]:
    async def tell(cluster: SimCluster) -> tuple[bool, int]:
        stage = Stage(cluster)
        bookie = stage.bookie
        await stage.write(2)
        await stage.stop()
        bookie.add_directory()
        bookie.start()
        bookie.node.crash_at_operation(operation, how)
        await cluster.until(lambda: not bookie.is_running or bookie.is_ready, "the cut")
        died = not bookie.is_running
        if not died:
            await stage.stop()
        length = len(cookie.load_cookie(stage.stored.data).ledger_dirs)
        await stage.serve()
        await stage.check()
        await stage.write(3)
        await stage.stop()
        bookie.may_add = False
        await stage.serve()
        await stage.check()
        assert len(cookie.load_cookie(stage.stored.data).ledger_dirs) == 2
        return died, length

    return tell


@growing()
async def test_a_cookie_that_was_set_back_makes_no_lost_volume_a_new_one(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    before = stage.stored.data
    await stage.grown()
    await stage.stop()
    stage.bookie.wipe(*ADDED)
    stage.stored.data = before

    report = await stage.held()

    assert report.verdict is Verdict.LOST
    assert {volume.path for volume in report.volumes if volume.contents is Contents.EMPTY} == set(ADDED)


@growing()
async def test_a_cookie_that_was_set_back_is_said_while_the_volume_is_there(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    before = stage.stored.data
    await stage.grown()
    await stage.stop()
    after, stage.stored.data = stage.stored.data, before

    report = await stage.held()

    assert report.verdict is Verdict.UNKNOWN_CONTENT
    assert "does not name it: restore the cookie" in report.reason
    stage.stored.data = after
    await cluster.until_ready("bookie-0")
    await stage.check()


@growing()
async def test_an_added_volume_that_is_empty_is_a_loss_as_any_other(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    await stage.grown()
    await stage.stop()
    stage.bookie.wipe(*ADDED)

    report = await stage.held()

    assert report.verdict is Verdict.LOST


@pytest.mark.parametrize("phase_one", [SCAN, BOUND])
@growing(given=("phase_one",))
async def test_beside_a_loss_no_volume_is_added_without_a_grant(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    await stage.write(3)
    await stage.stop()
    stage.bookie.wipe("/index")
    stage.bookie.add_directory()

    report = await stage.held()

    assert report.verdict is Verdict.LOST
    assert report.reason.endswith("cannot be added before that is repaired, so it is counted with them")
    await stage.bookie.grant()
    await cluster.until_ready("bookie-0")
    assert len(cookie.load_cookie(stage.stored.data).ledger_dirs) == 2
    assert stage.bookie.process is not None
    store = stage.bookie.process.admin.store
    assert store is not None
    for ledger_id in stage.ledgers:  # the only copies: nobody may say that they never were
        assert store.is_in_doubt(ledger_id)


@growing()
async def test_a_bookie_that_was_not_stopped_in_order_gets_it_too(cluster: SimCluster) -> None:
    stage = Stage(cluster)
    await stage.write(3)
    stage.bookie.crash()
    stage.bookie.add_directory()

    await stage.serve()

    await stage.check()


@growing()
async def test_old_volumes_from_before_the_change_are_repaired_in_its_shape(cluster: SimCluster) -> None:
    """The snapshot of an index knows no second directory; its journal and the others do."""
    stage = Stage(cluster)
    await stage.write(3)
    await stage.stop()
    old = volumes_support.snapshot(stage.bookie.node.image, "/index")
    stage.bookie.add_directory()
    await stage.serve()
    await stage.write(4)
    await stage.stop()
    volumes_support.put_back(stage.bookie.node.image, old)

    report = await stage.held()

    assert report.verdict is Verdict.STALE
    await stage.bookie.grant(accepts_stale=True)
    await cluster.until_ready("bookie-0")
    assert stage.bookie.process is not None
    store = stage.bookie.process.admin.store
    assert store is not None
    assert store.partitions[1].index.greatest_ledger() is not None
