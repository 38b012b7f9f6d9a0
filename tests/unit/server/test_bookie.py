"""One whole node in the simulator: the order of its life, and what others see of it at each step."""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

import monitoring_support
import server_support
from bookie.base import errors
from bookie.base.errors import Status
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.units import MIB
from bookie.client import cluster
from bookie.integrity.options import IntegrityOptions
from bookie.metadata import paths, registration, serde
from bookie.metadata.ledger import LedgerMetadata, LedgerState, Segment
from bookie.metadata.paths import LayoutKind
from bookie.ports import World
from bookie.ports.admin import Compaction, FillAction, Health, Member, OpenLedgers, State, StopTurn
from bookie.ports.metadata_store import MetadataStore, MetadataStores, Stored
from bookie.ports.metrics import Sample
from bookie.ports.network import Address, ByteStream
from bookie.server.bookie import Bookie
from bookie.server.drain import DrainOrder
from bookie.server.options import ServerOptions
from bookie.sim.metadata_store import KEEPER_HOST
from bookie.sim.node import ProcessEnd, SimNode, Simulation
from bookie.storage import block, formats
from bookie.storage.options import StorageOptions
from bookie.wire.messages import Request, Response
from client_session import ClientSession
from story_support import story

URI = "zk+hierarchical://zk:2181/ledgers"
ID = BookieId("bookie-1")
AVAILABLE = f"{paths.available('/ledgers')}/{ID}"
READONLY = f"{paths.readonly('/ledgers')}/{ID}"
OPTIONS = ServerOptions(
    bookie_id=ID,
    host="bookie",
    metadata_uri=URI,
    storage=StorageOptions(journal_dirs=("/data/journal",), ledger_dirs=("/data/ledgers",)),
    integrity=IntegrityOptions(volume_proof="none"),
    zone="zone-a",
    session_timeout_ms=6_000,
    metadata_patience_ms=20_000,
)


class Fleet:
    """A bookie and somebody who looks at it from another machine."""

    def __init__(self, simulation: Simulation, metadata: MetadataStore, world: World, observer: SimNode) -> None:
        self.simulation = simulation
        self.metadata = metadata
        self.world = world
        self.observer = observer
        self.node = simulation.node("bookie")
        self.bookie: Bookie
        self.outcome: list[BaseException | None] = []

    def start(self, options: ServerOptions = OPTIONS, refusing: "Refusing | None" = None) -> None:
        """A new process on the bookie's machine. `refusing`: what its metadata store does not let it do."""
        world = self.node.begin()
        if refusing is not None:
            refusing.stores = world.metadata_stores
            world = dataclasses.replace(world, metadata_stores=refusing)

        async def live() -> None:
            try:
                await self.bookie.run()
            except (errors.BookieError, AssertionError) as error:
                self.outcome.append(error)
            else:
                self.outcome.append(None)

        async def build() -> None:
            self.bookie = Bookie(options, world)
            self.node.spawn(live(), "bookie")

        self.node.spawn(build(), "build")

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        await self.simulation.until(condition, what)

    async def ready(self) -> None:
        await self.until(lambda: hasattr(self, "bookie") and self.bookie.ready.is_set(), "the bookie is ready")

    async def ended(self) -> BaseException | None:
        await self.until(lambda: bool(self.outcome), "the bookie ended")
        return self.outcome[-1]

    async def has_node(self, path: str) -> bool:
        try:
            await self.observer.do(self.metadata.get(path))
        except errors.NodeMissing:
            return False
        return True

    async def wait_node(self, path: str, *, present: bool) -> None:
        for _ in range(6000):
            if await self.has_node(path) is present:
                return
            await self.simulation.loop.sleep_ns(10_000_000)
        raise AssertionError(f"{path}: not {'there' if present else 'gone'} in a minute")

    async def dial(self) -> "Wire":
        deadline_ns = self.world.clock.monotonic_ns() + 5_000_000_000
        stream = await self.observer.do(self.world.network.dial(Address("bookie", 3181), deadline_ns))
        return Wire(self, stream)


class Refusing:
    """Metadata stores whose sessions may not read what is at `paths`, nor ask whether an answer about it is new."""

    def __init__(self) -> None:
        self.stores: MetadataStores
        self.paths: set[str] = set()
        self.stray: set[str] = set()  # paths: whoever reads there is told that he was cancelled

    async def connect(self, uri: str, *, session_timeout_ms: int = 30_000) -> Any:
        return _RefusingStore(await self.stores.connect(uri, session_timeout_ms=session_timeout_ms), self)


class _RefusingStore:
    def __init__(self, store: MetadataStore, told: Refusing) -> None:
        self._store, self._told = store, told

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _check(self, path: str) -> None:
        if path in self._told.paths:
            raise errors.MetadataDenied(f"no right to {path}")
        if path in self._told.stray:
            raise asyncio.CancelledError

    async def get(self, path: str) -> Stored:
        self._check(path)
        return await self._store.get(path)

    async def children(self, path: str) -> Sequence[str]:
        self._check(path)
        return await self._store.children(path)

    async def sync(self, path: str) -> None:
        self._check(path)
        await self._store.sync(path)


class Wire:
    """A raw connection: bytes in, bytes out."""

    def __init__(self, fleet: Fleet, stream: ByteStream) -> None:
        self.fleet = fleet
        self.stream = stream
        self.session: ClientSession[str] = ClientSession()

    async def ask(self, *requests: Request) -> list[Response]:
        """Send all requests at once; return their answers in the order of the requests."""
        return await self.fleet.observer.do(self._ask(requests))

    async def _ask(self, requests: tuple[Request, ...]) -> list[Response]:
        for request in requests:
            self.stream.write(self.session.send(request, "asked"))
        answers: list[Response] = []
        while len(answers) < len(requests):
            chunk = await self.stream.read()
            assert chunk, "the bookie closed the connection"
            answers += [response for _, response in self.session.receive(chunk)]
        return sorted(answers, key=lambda answer: answer.txn)

    async def send_raw(self, data: bytes) -> bytes:
        """Send bytes; return everything until the other side closes."""

        async def talk() -> bytes:
            self.stream.write([data])
            found = b""
            try:
                while chunk := await self.stream.read():
                    found += chunk
            except errors.BookieUnavailable:
                pass
            return found

        return await self.fleet.observer.do(talk())


def run(story: Callable[[Fleet], Coroutine[Any, Any, None]], *, seed: int = 1, formatted: bool = True) -> None:
    simulation = Simulation(seed)

    async def director() -> None:
        observer = simulation.node("observer")
        world = observer.begin()
        metadata = await observer.do(world.metadata_stores.connect(URI))
        if formatted:
            await observer.do(cluster.format_cluster(metadata, URI, world.entropy))
        fleet = Fleet(simulation, metadata, world, observer)
        await story(fleet)
        fleet.node.end()
        observer.end()

    simulation.run(director())


@story(run)
async def test_a_new_bookie_serves_registers_and_says_where_it_is(fleet: Fleet) -> None:
    fleet.start()
    await fleet.ready()

    stored = await fleet.observer.do(fleet.metadata.get(AVAILABLE))
    info = registration.load_service_info(ID, stored.data)
    assert info.bookie_endpoint is not None
    assert (info.bookie_endpoint.host, info.bookie_endpoint.port) == ("bookie", 3181)
    assert info.property("zone") == "zone-a"
    assert stored.owner != 0
    wire = await fleet.dial()
    added, read = await wire.ask(server_support.add(0), server_support.read(0))
    assert added.status is Status.EOK
    assert read.body == server_support.body(0)  # type: ignore[union-attr]
    assert fleet.bookie.admin.is_healthy(Health.SERVING)


@story(run)
async def test_a_stop_flushes_and_takes_the_record_along(fleet: Fleet) -> None:
    fleet.start()
    await fleet.ready()
    wire = await fleet.dial()
    await wire.ask(server_support.add(0))

    fleet.bookie.request_stop()
    assert await fleet.ended() is None
    assert not await fleet.has_node(AVAILABLE)
    assert fleet.bookie.admin.state is State.STOPPING
    fleet.node.end(ProcessEnd.EXIT)

    fleet.start()
    await fleet.ready()
    report = await fleet.node.do(fleet.bookie.admin.storage_report())
    assert report.verdict is not None
    assert report.verdict.value == "HEALTHY"
    (answer,) = await (await fleet.dial()).ask(server_support.read(0))
    assert answer.status is Status.EOK


@story(run)
async def test_a_bookie_names_every_other_one_that_the_metadata_store_knows(fleet: Fleet) -> None:
    fleet.start()
    await fleet.ready()
    gone = paths.cookie("/ledgers", BookieId("gone:3181"))
    await fleet.observer.do(fleet.metadata.create(gone, b"of a Java bookie"))
    looked_at = f"{paths.readonly('/ledgers')}/reads-only"
    await fleet.observer.do(fleet.metadata.create(looked_at, b"", parents=True))

    members = await fleet.node.do(fleet.bookie.admin.members())

    assert members == (
        Member("bookie-1", has_cookie=True, is_registered=True, is_writable=True, cookie_version=0),
        Member("gone:3181", has_cookie=True, is_registered=False, is_writable=False, cookie_version=0),
        Member("reads-only", has_cookie=False, is_registered=True, is_writable=False),
    )


@story(run)
async def test_a_killed_bookie_waits_out_its_old_record_and_registers_anew(fleet: Fleet) -> None:
    fleet.start()
    await fleet.ready()
    owner = (await fleet.observer.do(fleet.metadata.get(AVAILABLE))).owner
    fleet.node.end(ProcessEnd.KILL)
    del fleet.bookie

    fleet.start()
    await fleet.ready()

    assert (await fleet.observer.do(fleet.metadata.get(AVAILABLE))).owner != owner


@story(run)
async def test_a_lost_session_is_followed_by_a_new_record(fleet: Fleet) -> None:
    fleet.start()
    await fleet.ready()
    stored = await fleet.observer.do(fleet.metadata.get(AVAILABLE))

    fleet.simulation.keeper.end_session(stored.owner)
    await fleet.wait_node(AVAILABLE, present=True)

    await fleet.until(lambda: fleet.bookie.metrics.registrations == 2, "a second registration")
    assert (await fleet.observer.do(fleet.metadata.get(AVAILABLE))).owner != stored.owner


@story(run)
async def test_a_metadata_store_that_does_not_answer_is_a_figure_before_the_session_is_lost(fleet: Fleet) -> None:
    def figures() -> tuple[float, float]:
        samples = {sample.name: sample.value for sample in fleet.bookie.telemetry() if isinstance(sample, Sample)}
        return samples["bookie_metadata_connected"], samples["bookie_metadata_suspensions_total"]

    fleet.start()
    await fleet.ready()
    assert figures() == (1, 0)

    fleet.simulation.fabric.hold("bookie", KEEPER_HOST)
    await fleet.until(lambda: figures() == (0, 1), "the figures of a suspended session")
    fleet.simulation.fabric.release("bookie", KEEPER_HOST)

    await fleet.until(lambda: figures() == (1, 1), "the figures of one that goes on")
    assert fleet.bookie.metrics.registrations == 1, "the session was not lost"


@story(run)
async def test_a_read_only_bookie_moves_its_record_and_back(fleet: Fleet) -> None:
    fleet.start()
    await fleet.ready()
    await fleet.until(lambda: fleet.bookie.admin.state is State.SERVING, "repair is done")

    state = await fleet.node.do(fleet.bookie.admin.set_read_only(True))
    assert state is State.READ_ONLY
    await fleet.wait_node(READONLY, present=True)
    await fleet.wait_node(AVAILABLE, present=False)

    await fleet.node.do(fleet.bookie.admin.set_read_only(False))
    await fleet.wait_node(AVAILABLE, present=True)
    await fleet.wait_node(READONLY, present=False)


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "not kept"])
@pytest.mark.parametrize("asked", [True, False], ids=["asked", "not asked"])
@pytest.mark.parametrize("end", [ProcessEnd.POWER_CUT, ProcessEnd.KILL])
@story(run)
async def test_read_only_by_hand_outlives_the_process_where_it_is_to(
    fleet: Fleet, *, kept: bool, asked: bool, end: ProcessEnd
) -> None:
    """`kept`: the setting when the mode was set; `asked`: the setting at the next start."""

    async def begin(fleet: Fleet, *, keeps: bool) -> None:
        fleet.start(dataclasses.replace(OPTIONS, keeps_mode=keeps))
        await fleet.ready()
        await fleet.until(lambda: fleet.bookie.admin.state in (State.SERVING, State.READ_ONLY), "repair is done")

    async def again(fleet: Fleet, *, keeps: bool) -> None:
        fleet.node.end(end)
        del fleet.bookie
        await begin(fleet, keeps=keeps)

    await begin(fleet, keeps=kept)
    await fleet.node.do(fleet.bookie.admin.set_read_only(True))
    await again(fleet, keeps=asked)
    stays = kept and asked
    assert fleet.bookie.admin.state is (State.READ_ONLY if stays else State.SERVING)
    await fleet.wait_node(READONLY if stays else AVAILABLE, present=True)

    await fleet.node.do(fleet.bookie.admin.set_read_only(False))
    await again(fleet, keeps=asked)
    assert fleet.bookie.admin.state is State.SERVING


async def served(fleet: Fleet) -> None:
    fleet.start()
    await fleet.ready()
    await fleet.until(lambda: fleet.bookie.admin.state is State.SERVING, "repair is done")


@story(run)
async def test_a_running_bookie_takes_other_rates_and_its_report_says_what_is_in_force(fleet: Fleet) -> None:
    fleet.start(dataclasses.replace(OPTIONS, live={"copyRateBytesPerSecond": "4096"}))
    await fleet.ready()
    admin = fleet.bookie.admin
    before = await fleet.node.do(admin.storage_report())

    await fleet.node.do(admin.change_settings({"copyRateBytesPerSecond": "", "scrubRateBytesPerSecond": "1000"}))
    after = await fleet.node.do(admin.storage_report())

    scrub = ("localScrubRateLimit=", "scrubRateBytesPerSecond=")
    assert before.live_settings == ("copyRateBytesPerSecond=4096", *scrub)
    assert after.live_settings == ("copyRateBytesPerSecond=", scrub[0], "scrubRateBytesPerSecond=1000")
    assert fleet.bookie.boot.copy_rate_bytes_per_s == 64 * MIB
    with pytest.raises(errors.BadInput, match="flushInterval"):
        await fleet.node.do(admin.change_settings({"flushInterval": "1", "copyRateBytesPerSecond": "2048"}))
    assert fleet.bookie.boot.copy_rate_bytes_per_s == 64 * MIB


@story(run)
async def test_settings_of_an_operator_of_before_are_refused(fleet: Fleet) -> None:
    await served(fleet)
    admin = fleet.bookie.admin
    await fleet.node.do(admin.change_settings({"copyRateBytesPerSecond": "2048"}, operator_epoch=5))

    with pytest.raises(errors.GrantRefused, match="epoch"):
        await fleet.node.do(admin.change_settings({"copyRateBytesPerSecond": "4096"}, operator_epoch=4))

    assert fleet.bookie.boot.copy_rate_bytes_per_s == 2048


def turn(fleet: Fleet, **changes: Any) -> StopTurn:
    ours = StopTurn(operator_epoch=5, pod_uid=fleet.bookie.world.host.pod_uid, ttl_ms=10_000)
    return dataclasses.replace(ours, **changes)


@pytest.mark.parametrize("by_hand", [False, True], ids=["writable before", "read-only before, by hand"])
@pytest.mark.parametrize("is_taken_back", [False, True], ids=["its time is over", "taken back"])
@story(run)
async def test_a_turn_that_ends_leaves_the_mode_that_was(fleet: Fleet, *, by_hand: bool, is_taken_back: bool) -> None:
    """spec/operator.md#Q10."""
    await served(fleet)
    admin = fleet.bookie.admin
    if by_hand:
        await fleet.node.do(admin.set_read_only(True))

    await fleet.node.do(admin.prepare_shutdown(turn(fleet, ttl_ms=10_000)))
    report = await fleet.node.do(admin.storage_report())
    await fleet.wait_node(READONLY, present=True)
    await fleet.wait_node(AVAILABLE, present=False)
    if is_taken_back:
        await fleet.node.do(admin.end_turn(operator_epoch=5))
    else:
        await fleet.simulation.loop.sleep_ns(12_000_000_000)

    after = await fleet.node.do(admin.storage_report())
    assert (report.state, report.read_only, report.has_turn) == (State.READ_ONLY, True, True)
    assert (after.read_only, after.has_turn) == (by_hand, False)
    assert "about to be stopped" in report.reason
    assert ("by hand" in report.reason, "by hand" in after.reason) == (by_hand, by_hand)
    assert "about to be stopped" not in after.reason
    await fleet.wait_node(READONLY if by_hand else AVAILABLE, present=True)
    await fleet.wait_node(AVAILABLE if by_hand else READONLY, present=False)


@story(run)
async def test_a_turn_that_is_renewed_goes_on_and_one_that_a_person_ends_is_over(fleet: Fleet) -> None:
    await served(fleet)
    admin = fleet.bookie.admin
    for _ in range(4):
        await fleet.node.do(admin.prepare_shutdown(turn(fleet, ttl_ms=10_000)))
        await fleet.simulation.loop.sleep_ns(6_000_000_000)
        assert admin.state is State.READ_ONLY

    assert await fleet.node.do(admin.set_read_only(False)) is State.SERVING


@story(run)
async def test_an_operator_that_is_not_the_newest_changes_nothing(fleet: Fleet) -> None:
    """spec/operator.md#Q11: its call may come late, when the turn of this bookie is long over."""
    await served(fleet)
    admin = fleet.bookie.admin
    await fleet.node.do(admin.end_turn(operator_epoch=7))

    for late in (
        admin.prepare_shutdown(turn(fleet, operator_epoch=6)),
        admin.set_read_only(True, operator_epoch=6),
        admin.prepare_shutdown(turn(fleet, operator_epoch=8, pod_uid="a pod before this one")),
        admin.prepare_shutdown(turn(fleet, operator_epoch=1 << 41)),
    ):
        with pytest.raises(errors.GrantRefused):
            await fleet.node.do(late)

    report = await fleet.node.do(admin.storage_report())
    assert (report.state, report.operator_epoch_seen) == (State.SERVING, 7), "what is refused moves no epoch"


@story(run)
async def test_a_report_says_which_formats_the_program_reads_and_writes_also_before_it_serves(fleet: Fleet) -> None:
    """docs/decisions/0023"""
    fleet.start()
    await fleet.until(lambda: hasattr(fleet, "bookie"), "the process began")
    before = await fleet.node.do(fleet.bookie.admin.storage_report())
    await fleet.ready()
    store = fleet.bookie.admin.store
    assert store is not None

    plain = await fleet.node.do(fleet.bookie.admin.storage_report())
    store.has_history = True
    grown = await fleet.node.do(fleet.bookie.admin.storage_report())

    assert before.formats == plain.formats == formats.known(has_history=False)
    assert grown.formats == formats.known(has_history=True)


@story(run)
async def test_a_turn_without_a_time_is_refused(fleet: Fleet) -> None:
    await served(fleet)

    for ttl_ms in (0, 3_600_001):
        with pytest.raises(errors.BadInput):
            await fleet.node.do(fleet.bookie.admin.prepare_shutdown(turn(fleet, ttl_ms=ttl_ms)))

    assert fleet.bookie.admin.state is State.SERVING


@story(run)
async def test_a_flush_that_outlasts_the_turn_is_no_proof(fleet: Fleet) -> None:
    await served(fleet)
    admin = fleet.bookie.admin
    assert admin.store is not None
    flush = admin.store.flush

    async def slow() -> None:
        await fleet.bookie.world.clock.sleep_until(fleet.bookie.world.clock.monotonic_ns() + 20_000_000_000)
        await flush()

    admin.store.flush = slow  # type: ignore[method-assign]
    with pytest.raises(errors.StorageFailed):
        await fleet.node.do(admin.prepare_shutdown(turn(fleet, ttl_ms=5_000)))


@story(run)
async def test_an_emptied_bookie_waits_for_a_grant_with_its_data_port_closed(fleet: Fleet) -> None:
    fleet.start()
    await fleet.ready()
    await fleet.until(lambda: fleet.bookie.admin.state is State.SERVING, "repair is done")
    fleet.node.end(ProcessEnd.POWER_CUT)
    fleet.node.image.wipe("/data")
    del fleet.bookie

    fleet.start()
    await fleet.until(
        lambda: hasattr(fleet, "bookie") and fleet.bookie.admin.state is State.WAITING_GRANT, "it waits for a grant"
    )

    assert fleet.bookie.admin.is_healthy(Health.PROCESS)
    assert not fleet.bookie.admin.is_healthy(Health.STORAGE)
    assert not fleet.bookie.admin.is_healthy(Health.SERVING)
    report = await fleet.node.do(fleet.bookie.admin.storage_report())
    assert report.data_port_open is False
    with pytest.raises(errors.BookieUnavailable):
        await fleet.dial()
    fleet.bookie.request_stop()
    assert await fleet.ended() is None


@story(run, formatted=False)
async def test_a_metadata_store_without_a_cluster_is_told(fleet: Fleet) -> None:
    fleet.start()

    error = await fleet.ended()

    assert isinstance(error, errors.RefusedToStart)
    assert "bookie cluster init" in str(error)


async def empty(fleet: Fleet, path: str) -> None:
    """Delete a node of the metadata store with all below it."""
    for name in await fleet.observer.do(fleet.metadata.children(path)):
        await empty(fleet, f"{path}/{name}")
    await fleet.observer.do(fleet.metadata.delete(path))


async def served_once(fleet: Fleet) -> None:
    """A bookie has been here, and has data."""
    fleet.start()
    await fleet.ready()
    await (await fleet.dial()).ask(server_support.add(0))
    fleet.bookie.request_stop()
    assert await fleet.ended() is None
    fleet.node.end(ProcessEnd.EXIT)
    fleet.outcome.clear()
    del fleet.bookie


@pytest.mark.parametrize("change", ["emptied", "another root", "the root alone is left"])
@story(run)
async def test_a_bookie_with_data_is_never_told_to_make_a_cluster(fleet: Fleet, *, change: str) -> None:
    await served_once(fleet)
    options = OPTIONS
    if change == "another root":
        options = dataclasses.replace(OPTIONS, metadata_uri=URI.replace("/ledgers", "/chroot/ledgers"))
    else:
        await empty(fleet, "/ledgers")
    if change == "the root alone is left":
        await fleet.observer.do(fleet.metadata.create("/ledgers", b""))

    fleet.start(options)
    if change == "the root alone is left":
        await fleet.until(lambda: hasattr(fleet, "bookie") and fleet.bookie.admin.state is State.HELD, "it is held")
        said = (await fleet.node.do(fleet.bookie.admin.storage_report())).reason
    else:
        said = str(await fleet.ended())
        assert f"data of bookie {ID}, cluster " in said

    assert "init" not in said
    assert "restore" in said
    assert "metadataServiceUri" in said or "correct the URI" in said


@story(run)
async def test_ledgers_without_a_layout_record_are_not_taken_for_a_new_layout(fleet: Fleet) -> None:
    await fleet.observer.do(fleet.metadata.create(paths.ledger_path("/ledgers", LedgerId(8)), b"", parents=True))
    await fleet.observer.do(fleet.metadata.delete(paths.layout("/ledgers")))

    fleet.start()

    assert "/ledgers/LAYOUT is gone" in str(await fleet.ended())
    assert not await fleet.has_node(paths.layout("/ledgers"))


@pytest.mark.parametrize("kind", LayoutKind)
@story(run)
async def test_a_ledger_that_is_where_another_layout_has_it_is_not_collected(fleet: Fleet, *, kind: LayoutKind) -> None:
    fleet.start(dataclasses.replace(OPTIONS, gc_interval_ms=5_000))
    await fleet.ready()
    wire = await fleet.dial()
    await wire.ask(server_support.add(0))
    path = paths.ledger_path("/ledgers", LedgerId(7), kind)
    await fleet.observer.do(fleet.metadata.create(path, b"", parents=True))

    await fleet.simulation.loop.sleep_ns(12_000_000_000)

    (kept,) = await wire.ask(server_support.read(0))
    assert kept.status is Status.EOK


@story(run)
async def test_v2_and_v3_are_served_on_one_port(fleet: Fleet) -> None:
    fleet.start()
    await fleet.ready()
    old = await fleet.dial()
    old.session = ClientSession(version=2)
    new = await fleet.dial()

    (added,) = await old.ask(server_support.add(0))
    (read,) = await new.ask(server_support.read(0))
    (read_old,) = await old.ask(server_support.read(-1))

    assert added.status is Status.EOK
    assert read.body == server_support.body(0)  # type: ignore[union-attr]
    assert bytes(read_old.body) == server_support.body(0)  # type: ignore[union-attr,arg-type]
    assert read_old.entry_id == -1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "garbage",
    [
        bytes(4),
        (5 * 1024 * 1024).to_bytes(4, "big"),
        b"\x00\x00\x00\x02\x0a\xff",
        b"\x00\x00\x00\x04\x02\x05\x00\x00",
        b"\x00\x00\x00\x0a\x0a\x06\x08\x03\x10\x0d\x18\x01\x00\x00",
    ],
    ids=["empty frame", "too long", "no protobuf", "v2 opcode 5", "operation 13"],
)
@story(run)
async def test_what_is_no_request_closes_the_connection_without_an_answer(fleet: Fleet, *, garbage: bytes) -> None:
    fleet.start()
    await fleet.ready()
    wire = await fleet.dial()

    assert await wire.send_raw(garbage) == b""

    (answer,) = await (await fleet.dial()).ask(server_support.add(0))
    assert answer.status is Status.EOK


@story(run)
async def test_a_thousand_adds_in_one_go_are_all_answered(fleet: Fleet) -> None:
    fleet.start()
    await fleet.ready()
    wire = await fleet.dial()

    answers = await wire.ask(*(server_support.add(number) for number in range(1000)))

    assert {answer.status for answer in answers} == {Status.EOK}
    assert len({answer.txn for answer in answers}) == 1000


@story(run)
async def test_a_failed_sync_stops_the_node_and_acknowledges_nothing(fleet: Fleet) -> None:
    fleet.start()
    await fleet.ready()
    wire = await fleet.dial()
    fleet.node.disk_faults = dataclasses.replace(
        fleet.node.disk_faults, sync_fails_per_million=1_000_000, sync_fails_path="/data/journal"
    )
    fleet.node.disk.faults = fleet.node.disk_faults

    (answer,) = await wire.ask(server_support.add(0))

    assert answer.status is Status.EIO
    assert isinstance(await fleet.ended(), errors.DiskFailed)


@story(run)
async def test_a_metadata_store_that_is_away_for_a_while_does_not_stop_a_bookie(fleet: Fleet) -> None:
    fleet.start()
    await fleet.ready()
    wire = await fleet.dial()

    fleet.simulation.fabric.power_off("zk")
    await fleet.simulation.loop.sleep_ns(3_000_000_000)
    (answer,) = await wire.ask(server_support.add(0))

    assert answer.status is Status.EOK
    assert not fleet.outcome


@story(run)
async def test_a_deleted_ledger_is_forgotten_and_a_living_one_is_not(fleet: Fleet) -> None:
    fleet.start(dataclasses.replace(OPTIONS, gc_interval_ms=5_000))
    await fleet.ready()
    wire = await fleet.dial()
    await wire.ask(server_support.add(0))
    other = server_support.add(0)
    other.ledger_id = LedgerId(8)
    other.body = server_support.body(0, ledger_id=8)
    await wire.ask(other)
    await fleet.observer.do(fleet.metadata.create(paths.ledger_path("/ledgers", LedgerId(8)), b"", parents=True))

    await fleet.simulation.loop.sleep_ns(12_000_000_000)
    living = server_support.read(0)
    living.ledger_id = LedgerId(8)
    gone, kept = await wire.ask(server_support.read(0), living)

    assert gone.status is Status.ENOLEDGER
    assert kept.status is Status.EOK


@story(run)
async def test_a_metadata_store_that_was_made_anew_deletes_nothing(fleet: Fleet) -> None:
    fleet.start(dataclasses.replace(OPTIONS, gc_interval_ms=5_000))
    await fleet.ready()
    wire = await fleet.dial()
    await wire.ask(server_support.add(0))
    stored = await fleet.observer.do(fleet.metadata.get(paths.instance_id("/ledgers")))
    await fleet.observer.do(fleet.metadata.put(paths.instance_id("/ledgers"), b"another", stored.version))

    await fleet.simulation.loop.sleep_ns(12_000_000_000)
    (kept,) = await wire.ask(server_support.read(0))

    assert kept.status is Status.EOK


@pytest.mark.parametrize("found", [b"\xff\xfe", b"x" * 500_000], ids=["no-text", "huge"])
@story(run)
async def test_an_instance_id_that_nobody_can_read_ends_no_bookie_and_deletes_nothing(
    fleet: Fleet, *, found: bytes
) -> None:
    fleet.start(dataclasses.replace(OPTIONS, gc_interval_ms=5_000))
    await fleet.ready()
    bookie, wire = fleet.bookie, await fleet.dial()
    await wire.ask(server_support.add(0))  # of a ledger that has no record
    path = paths.instance_id("/ledgers")
    stored = await fleet.observer.do(fleet.metadata.get(path))
    await fleet.observer.do(fleet.metadata.put(path, found, stored.version))

    await fleet.simulation.loop.sleep_ns(12_000_000_000)
    (kept,) = await wire.ask(server_support.read(0))
    report = await fleet.node.do(bookie.admin.collect_garbage(Compaction.NONE))

    assert kept.status is Status.EOK
    ((ledger_id, reason),) = ((each.ledger_id, each.reason) for each in report.undecided)
    assert ledger_id == 7
    assert reason.startswith(f"{path} in the metadata store is not the id of a cluster")
    assert len(reason) < 400


@story(run)
async def test_ledger_records_that_a_stranger_deleted_cost_not_one_ledger(fleet: Fleet) -> None:
    fleet.start(dataclasses.replace(OPTIONS, gc_interval_ms=5_000))
    await fleet.ready()
    bookie, wire = fleet.bookie, await fleet.dial()
    for ledger_id in range(7, 27):
        add = server_support.add(0)
        add.ledger_id = LedgerId(ledger_id)
        add.body = server_support.body(0, ledger_id=ledger_id)
        await wire.ask(add)

    await fleet.simulation.loop.sleep_ns(12_000_000_000)
    (kept,) = await wire.ask(server_support.read(0))

    assert kept.status is Status.EOK
    report = await fleet.node.do(bookie.admin.storage_report())
    assert report.garbage_held_ledgers == 20
    samples = {sample.name: sample.value for sample in bookie.telemetry() if isinstance(sample, Sample)}
    assert samples["bookie_gc_held_ledgers"] == 20
    assert samples["bookie_gc_day_ledgers"] == 0
    released = await fleet.node.do(bookie.admin.collect_garbage(Compaction.NONE, released=20))
    assert released.ledgers_deleted == 20
    assert bookie.admin.garbage_held == (0, 0)


@story(run)
async def test_closed_ledgers_that_name_others_are_counted_and_kept(fleet: Fleet) -> None:
    fleet.start(dataclasses.replace(OPTIONS, gc_interval_ms=5_000))
    await fleet.ready()
    bookie, wire = fleet.bookie, await fleet.dial()
    other = Segment(EntryId(0), (BookieId("other:3181"),))
    ours = Segment(EntryId(0), (OPTIONS.bookie_id,))
    closed = LedgerMetadata(1, 1, 1, (other,), LedgerState.CLOSED, EntryId(0), 7)
    records = {
        7: closed,
        8: dataclasses.replace(closed, segments=(ours,)),
        9: dataclasses.replace(closed, state=LedgerState.IN_RECOVERY, last_entry=EntryId(-1), length=0),
    }
    for ledger_id, record in records.items():
        add = server_support.add(0)
        add.ledger_id, add.body = LedgerId(ledger_id), server_support.body(0, ledger_id=ledger_id)
        await wire.ask(add)
        path = paths.ledger_path("/ledgers", LedgerId(ledger_id))
        await fleet.observer.do(fleet.metadata.create(path, serde.dump_ledger(record), parents=True))

    await fleet.simulation.loop.sleep_ns(12_000_000_000)
    (kept,) = await wire.ask(server_support.read(0))

    assert kept.status is Status.EOK
    samples = {sample.name: sample.value for sample in bookie.telemetry() if isinstance(sample, Sample)}
    assert samples["bookie_gc_surplus_ledgers"] == 1


def given_up(bookie: Bookie) -> dict[str, float]:
    found = (each for each in bookie.telemetry() if isinstance(each, Sample) and each.name == "bookie_round_given_up")
    return {dict(each.labels)["what"]: each.value for each in found}


@story(run)
async def test_a_job_whose_every_round_is_given_up_is_told_until_one_comes_to_its_end(fleet: Fleet) -> None:
    """Its other figures stood as the last good round left them, and a log alone said that none came to its end."""
    refusing = Refusing()
    fleet.start(dataclasses.replace(OPTIONS, gc_interval_ms=5_000), refusing)
    await fleet.ready()
    bookie, wire = fleet.bookie, await fleet.dial()
    of_the_position, of_the_ledger = paths.position("/ledgers", ID), paths.ledger_path("/ledgers", LedgerId(7))
    assert bookie.admin.drains is not None
    await fleet.simulation.loop.sleep_ns(12_000_000_000)
    jobs = {"drain", "filling of holes", "garbage collection", "report of the position"}
    assert given_up(bookie) == dict.fromkeys(jobs - {"drain"}, 0)

    refusing.paths |= {of_the_position, of_the_ledger, "/ledgers", paths.available("/ledgers")}
    add = server_support.add(0)
    add.ledger_id, add.body = LedgerId(7), server_support.body(0, ledger_id=7)
    await wire.ask(add)
    bookie.admin.drains[0].start(DrainOrder(ID, None, OpenLedgers.WAIT))
    await fleet.node.do(bookie.admin.fill_holes(FillAction.START))
    await fleet.simulation.loop.sleep_ns(30_000_000_000)

    assert given_up(bookie) == dict.fromkeys(jobs, 1)
    refusing.paths.clear()
    await fleet.node.do(bookie.admin.fill_holes(FillAction.START))
    await fleet.simulation.loop.sleep_ns(90_000_000_000)
    assert given_up(bookie) == dict.fromkeys(jobs, 0)


@story(run)
async def test_a_fill_that_ended_before_it_began_is_not_said_to_be_about_to_begin(fleet: Fleet) -> None:
    refusing = Refusing()
    fleet.start(OPTIONS, refusing)
    await fleet.ready()
    await fleet.simulation.loop.sleep_ns(12_000_000_000)
    assert (await fleet.node.do(fleet.bookie.admin.fill_holes(FillAction.LOOK))).is_whole

    refusing.paths.add(paths.available("/ledgers"))
    assert (await fleet.node.do(fleet.bookie.admin.fill_holes(FillAction.START))).is_waiting
    await fleet.simulation.loop.sleep_ns(12_000_000_000)

    told = await fleet.node.do(fleet.bookie.admin.fill_holes(FillAction.LOOK))
    assert not told.is_waiting
    assert told.reason.startswith("the run ended before it began: no right to")


@story(run)
async def test_a_part_that_ends_while_the_bookie_serves_on_stops_it_and_is_named(fleet: Fleet) -> None:
    """A cancellation that nobody here asked for passes every `except Exception`, and ends a task without a word."""
    refusing = Refusing()
    fleet.start(OPTIONS, refusing)
    await fleet.ready()

    refusing.stray.add(paths.position("/ledgers", ID))
    add = server_support.add(0)
    add.ledger_id, add.body = LedgerId(7), server_support.body(0, ledger_id=7)
    await (await fleet.dial()).ask(add)

    error = await fleet.ended()
    assert isinstance(error, AssertionError)
    assert "position" in str(error)


UNJOURNALED = dataclasses.replace(OPTIONS, storage=dataclasses.replace(OPTIONS.storage, journal_write_data=False))


@pytest.mark.parametrize("error", [errors.BadInput("ours"), errors.RefusedToStart("another process is this bookie")])
def test_whatever_ends_a_node_with_healthy_disks_is_preceded_by_a_flush(
    error: errors.BookieError, caplog: pytest.LogCaptureFixture
) -> None:
    """Without data in the journal 892 acknowledged entries of three bookies had become undecidable."""

    async def story(fleet: Fleet) -> None:
        fleet.start(UNJOURNALED)
        await fleet.ready()
        (added,) = await (await fleet.dial()).ask(server_support.add(0))
        assert added.status is Status.EOK

        fleet.bookie.fail(error)
        assert await fleet.ended() is error
        fleet.node.end(ProcessEnd.EXIT)

        fleet.start(UNJOURNALED)
        await fleet.ready()
        assert "UNCLEAN" not in caplog.text
        present, absent = await (await fleet.dial()).ask(server_support.read(0), server_support.read(1))
        assert (present.status, absent.status) == (Status.EOK, Status.ENOENTRY)

    with caplog.at_level("INFO"):
        run(story)


def test_storage_that_failed_is_not_written_to_any_more(caplog: pytest.LogCaptureFixture) -> None:
    async def story(fleet: Fleet) -> None:
        fleet.start(UNJOURNALED)
        await fleet.ready()
        await (await fleet.dial()).ask(server_support.add(0))

        fleet.bookie.fail(errors.DiskFailed("a sync failed"))
        await fleet.ended()
        fleet.node.end(ProcessEnd.EXIT)

        fleet.start(UNJOURNALED)
        await fleet.ready()
        assert caplog.text.count("verdict=UNCLEAN") == 1

    with caplog.at_level("INFO"):
        run(story)


@story(run)
async def test_only_an_error_about_our_own_state_ends_the_node_from_the_loop(fleet: Fleet) -> None:
    fleet.start()
    await fleet.ready()

    fleet.bookie.uncaught(AssertionError("of a library"))
    (answer,) = await (await fleet.dial()).ask(server_support.add(0))
    assert answer.status is Status.EOK

    with pytest.raises(errors.CorruptFile) as met:
        block.find(b"\xff\xff\xff\xff", EntryId(1))
    fleet.bookie.uncaught(met.value)
    assert await fleet.ended() is met.value


@story(run)
async def test_every_figure_of_a_bookie_that_an_alert_or_a_panel_names_is_given(fleet: Fleet) -> None:
    fleet.start()
    await fleet.ready()
    # Before these there is no figure of them.
    await fleet.until(lambda: fleet.bookie.boot.progress.is_done, "the repair")
    await fleet.node.do(fleet.bookie.admin.collect_garbage(Compaction.NONE))

    given = {sample.name for sample in fleet.bookie.telemetry()}

    named = monitoring_support.figures("bookie_") - monitoring_support.figures("bookie_operator_")
    # These two are of the files, not of the node: tests/unit/runtime/test_certificates.py.
    assert named - given == {"bookie_certificate_ends_seconds", "bookie_certificate_renew_by_seconds"}
    assert len(named) >= 12


@story(run)
async def test_what_a_boot_a_drain_or_a_collection_has_not_counted_is_no_figure_and_least_of_all_a_zero(
    fleet: Fleet,
) -> None:
    """A bookie without its disks, which waits for a grant, said that no ledger was in limbo; a drain that waited for
    the metadata store said that no ledger was left."""

    def figures() -> dict[str, float]:
        return {sample.name: sample.value for sample in fleet.bookie.telemetry() if isinstance(sample, Sample)}

    of_the_repair = {"bookie_ledgers_limbo", "bookie_repair_ledgers_pending", "bookie_incarnation"}
    of_the_drain = {"bookie_drain_ledgers_left", "bookie_drain_ledgers_blocked"}
    of_the_collection = {"bookie_gc_undecided_ledgers", "bookie_gc_held_ledgers", "bookie_gc_surplus_ledgers"}
    fleet.start()
    await fleet.until(lambda: hasattr(fleet, "bookie"), "its begin")
    assert not of_the_repair & figures().keys()
    await fleet.ready()
    await fleet.until(lambda: of_the_repair <= figures().keys(), "the figures of the repair")
    assert [figures()[name] for name in sorted(of_the_repair)] == [1, 0, 0]
    assert figures()["bookie_draining"] == 0
    assert not of_the_drain & figures().keys()

    assert not of_the_collection & figures().keys()
    await fleet.node.do(fleet.bookie.admin.collect_garbage(Compaction.NONE))
    assert [figures()[name] for name in of_the_collection] == [0, 0, 0]

    assert fleet.bookie.admin.drains is not None
    fleet.bookie.admin.drains[0].start(DrainOrder(OPTIONS.bookie_id, None, OpenLedgers.WAIT))
    assert figures()["bookie_draining"] == 1
    assert not of_the_drain & figures().keys()

    await fleet.until(lambda: of_the_drain <= figures().keys(), "the first look of the drain")
    assert [figures()[name] for name in of_the_drain] == [0, 0]


@story(run)
async def test_ledgers_that_nobody_can_judge_are_in_report_and_metrics(fleet: Fleet) -> None:
    fleet.start()
    await fleet.ready()
    bookie = fleet.bookie
    store = bookie.boot.store
    assert store is not None
    await fleet.simulation.until(lambda: bookie.boot.progress.is_done, "the repair")  # which would mend it
    store.partitions[0].table.quarantine(LedgerId(7), "its journal holds a master key of 70000 bytes")

    report = await fleet.node.do(bookie.admin.storage_report())

    samples = {sample.name: sample.value for sample in bookie.telemetry() if isinstance(sample, Sample)}
    assert [(found.ledger_id, found.reason[:11]) for found in report.quarantined] == [(7, "its journal")]
    assert (report.quarantined_count, samples["bookie_ledgers_quarantined"]) == (1, 1)
    assert report.directories_failed == ()


@story(run)
async def test_one_ledger_that_nobody_can_repair_keeps_no_other_from_being_collected(fleet: Fleet) -> None:
    fleet.start()
    await fleet.ready()
    bookie, wire = fleet.bookie, await fleet.dial()
    await fleet.until(lambda: bookie.boot.progress.is_done, "the first look")
    for ledger_id in (7, 8):
        add = server_support.add(0)
        add.ledger_id, add.body = LedgerId(ledger_id), server_support.body(0, ledger_id=ledger_id)
        await wire.ask(add)
    path = paths.ledger_paths("/ledgers", LedgerId(7))[0]
    await fleet.observer.do(fleet.metadata.create(path, b"nobody can read this", parents=True))
    store = bookie.boot.store
    assert store is not None
    await fleet.node.do(store.protect([(LedgerId(7), True, True, None)]))
    store.partitions[0].table.quarantine(LedgerId(7), "a test says so")
    await fleet.until(lambda: LedgerId(7) in bookie.boot.progress.blocked, "an attempt at the repair")

    found = await fleet.node.do(bookie.admin.collect_garbage(Compaction.MAJOR, released=1))

    assert (bookie.admin.state, found.ledgers_deleted) == (State.REPAIRING, 1)
    assert [ledger_id async for ledger_id in store.ledgers()] == [7]
    assert "compact" not in found.refused or "switched off" in found.refused


@pytest.mark.parametrize(("patience_ms", "ends_s"), [(3_000, 3), (1, 1), (40_000, 40)])
@story(run)
async def test_a_metadata_store_that_never_answers_is_waited_for_as_long_as_was_said(
    fleet: Fleet, *, patience_ms: int, ends_s: int
) -> None:
    nowhere = dataclasses.replace(
        OPTIONS,
        metadata_uri="zk+hierarchical://nowhere:2181/ledgers",
        session_timeout_ms=30_000,
        metadata_patience_ms=patience_ms,
    )

    begun_ns = fleet.simulation.loop.now_ns
    fleet.start(nowhere)

    error = await fleet.ended()

    assert isinstance(error, errors.RefusedToStart)
    assert "nowhere:2181" in str(error)
    assert "check metadataServiceUri" in str(error)
    assert ends_s <= (fleet.simulation.loop.now_ns - begun_ns) / 1e9 < ends_s + 0.5
