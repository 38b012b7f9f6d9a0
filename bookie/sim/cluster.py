"""SimCluster: bookies, clients and a metadata store in one process, all of them the product's own classes, unmodified.

The director (a test, a workload) steers: it starts and crashes nodes, holds links, awaits what clients do. It touches
nodes only from outside, as a person with a power switch would, and calls nothing of a bookie but its admin service.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from bookie.base.errors import BadInput, BookieError
from bookie.base.ids import BookieId, Incarnation, LedgerId
from bookie.base.units import MIB
from bookie.client.client import Client
from bookie.client.cluster import format_cluster
from bookie.client.options import ClientOptions
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.integrity.options import LOCAL, NONE, SCAN, IntegrityOptions
from bookie.metadata import cookie, paths, serde
from bookie.metadata.ledger import LedgerMetadata
from bookie.metadata.loss_signature import SigningKey
from bookie.ports.admin import Grant, State, StorageReport, Verdict
from bookie.server.bookie import Bookie
from bookie.server.options import ServerOptions
from bookie.server.security import SecurityOptions
from bookie.sim.faults import Dials
from bookie.sim.metadata_store import KEEPER_HOST
from bookie.sim.node import Defect, NodeCrashed, ProcessEnd, SimNode, Simulation
from bookie.sim.oracle import Oracle
from bookie.sim.wiretap import TWIN, Wiretap
from bookie.storage.collect_options import CompactionOptions, CompactionRule
from bookie.storage.options import StorageOptions
from bookie.storage.scrub_options import ScrubOptions

T = TypeVar("T")

URI = f"zk+hierarchical://{KEEPER_HOST}:2181/ledgers"
ROOT = paths.parse_uri(URI).root
JOURNAL, LEDGERS, INDEX = "/journal", "/ledgers", "/index"
VOLUMES = (JOURNAL, LEDGERS, INDEX)
PORT = 3181


@dataclass(frozen=True)
class SimSettings:
    """What a test may choose for its cluster. Defaults: no data in the journal (as in the demo), and bookies that
    repair themselves without a grant."""

    bookies: int = 3
    directories: int = 1  # of each role
    journal_write_data: bool = False
    touch_unjournaled_ledgers: bool = False
    varies_touches: bool = False  # each life of a bookie has that setting or not, as is drawn
    guard_fence: bool = True
    guard_limbo: bool = True
    regeneration: str = LOCAL
    volume_proof: str = NONE
    shares_filesystem: bool = False  # volumes may lie on the node's own disk
    phase_one: str = SCAN
    session_timeout_ms: int = 10_000
    answers_under_lease: bool = False
    open_ledger_grace_ms: int = 5_000
    fill_after_boot: bool = False  # off: tests of audits and evacuations make holes that must last
    flush_interval_ms: int = 5_000
    journal_file_bytes_max: int = 1 * MIB
    entry_log_bytes_max: int = 1 * MIB
    write_cache_bytes_max: int = 1 * MIB
    # Deleted ledgers, logs and rot are looked after in every run, not after hours.
    upkeep_interval_ms: int = 7_000
    surplus_wait_ms: int | None = None
    client: dict[str, Any] = field(default_factory=dict)
    security: SecurityOptions = field(default_factory=SecurityOptions)
    loss_key: SigningKey | None = None
    # In every bookie's process; None: in none.
    autorecovery: AutoRecoveryOptions | None = None


def _numbered(role: str, count: int) -> tuple[str, ...]:
    return (role, *(f"{role}-{number}" for number in range(2, count + 1)))


class BookieNode:
    """One bookie: its machine, and while it runs, its process.

    `machine` differs from `name`, the bookie's id, where a second process of one id runs (`SimCluster.twin`).
    """

    def __init__(self, simulation: Simulation, name: str, settings: SimSettings, *, machine: str = "") -> None:
        self.simulation = simulation
        self.machine = machine or name
        self.volumes = tuple(path for role in VOLUMES for path in _numbered(role, settings.directories))
        self.node: SimNode = simulation.node(self.machine, self.volumes)
        self.name = name
        self.settings = settings
        self.added = 0  # ledger directories, with their indexes, beyond those of `settings`
        self.may_add = False  # allowStorageExpansion
        self.process: Bookie | None = None
        self.ended: BaseException | None = None  # why the last process ended by itself, if it did with an error

    def options(self) -> ServerOptions:
        """Return the options with which every process of this bookie starts: only `add_directory` changes them."""
        settings = self.settings
        count = settings.directories + self.added
        return ServerOptions(
            bookie_id=BookieId(self.name),
            host=self.machine,
            port=PORT,
            metadata_uri=URI,
            session_timeout_ms=settings.session_timeout_ms,
            answers_under_lease=settings.answers_under_lease,
            gc_interval_ms=settings.upkeep_interval_ms,
            surplus_wait_ms=settings.surplus_wait_ms,
            security=settings.security,
            loss_key=settings.loss_key,
            autorecovery=settings.autorecovery,
            storage=StorageOptions(
                journal_dirs=_numbered(JOURNAL, settings.directories),
                ledger_dirs=_numbered(LEDGERS, count),
                index_dirs=_numbered(INDEX, count),
                journal_write_data=settings.journal_write_data,
                touch_unjournaled_ledgers=settings.touch_unjournaled_ledgers,
                journal_file_bytes_max=settings.journal_file_bytes_max,
                write_cache_bytes_max=settings.write_cache_bytes_max,
                flush_interval_ms=settings.flush_interval_ms,
                unjournaled_flush_interval_ms=settings.flush_interval_ms,
                entry_log_bytes_max=settings.entry_log_bytes_max,
                # Even whole logs are rewritten, over and over: their heads are not live.
                compaction=CompactionOptions(
                    minor=CompactionRule(0.5, settings.upkeep_interval_ms),
                    major=CompactionRule(0.9999, 2 * settings.upkeep_interval_ms),
                    entries_per_s=None,
                ),
                scrub=ScrubOptions(interval_ms=settings.upkeep_interval_ms),
            ),
            integrity=IntegrityOptions(
                regeneration=settings.regeneration,
                volume_proof=settings.volume_proof,
                shared_filesystem_ok=self.volumes if settings.shares_filesystem else (),
                allow_storage_expansion=self.may_add,
                open_ledger_grace_ms=settings.open_ledger_grace_ms,
                fill_after_boot=settings.fill_after_boot,
                phase_one=settings.phase_one,
                guard_fence=settings.guard_fence,
                guard_limbo=settings.guard_limbo,
            ),
        )

    def start(self) -> None:
        """Start a process over what the disks hold."""
        if self.settings.varies_touches:
            draws = self.simulation.random(f"touches {self.machine} {self.node.starts}")
            self.settings = replace(self.settings, touch_unjournaled_ledgers=draws.random() < 0.7)
        world = self.node.begin()
        self.ended = None
        life = self.node.life
        assert life is not None

        async def main() -> None:
            self.process = process = Bookie(self.options(), world)
            try:
                await process.run()
            except BookieError as error:
                self.ended = error
                self.simulation.event(self.machine, "gave up", str(error))

        task = self.simulation.loop.spawn(life, main(), f"{self.machine} main")
        task.add_done_callback(self._on_exit, context=self.simulation.loop.director.context)

    def _on_exit(self, task: "asyncio.Task[None]") -> None:
        """Note that the process returned by itself; the machine stays."""
        if not task.cancelled() and task.exception() is not None:
            self.simulation.violation(f"{self.machine} died of {task.exception()!r}")
        self.process = None
        self.node.end(ProcessEnd.EXIT)

    @property
    def is_running(self) -> bool:
        return self.node.life is not None

    @property
    def is_ready(self) -> bool:
        return self.process is not None and self.process.ready.is_set()

    @property
    def state(self) -> State | None:
        return self.process.admin.state if self.process is not None else None

    def crash(self, how: ProcessEnd = ProcessEnd.POWER_CUT) -> None:
        """End the process at once. POWER_CUT loses what is not synced, KILL what is only in the process."""
        self.process = None
        self.node.end(how)

    def crash_at_operation(self, operation: int, how: ProcessEnd, on_crash: Callable[[], None]) -> None:
        """End the process in the middle of its `operation`-th disk operation from now; 0: not any more."""
        self.node.crash_at_operation(operation, how)

        def crash() -> None:
            self.crash(how)
            on_crash()

        self.node.disk.on_crash = crash

    def stop(self) -> None:
        """Ask the process to stop in order; to wait for it, `SimCluster.until` it `is_running` no more."""
        assert self.process is not None
        self.process.request_stop()

    def wipe(self, *volumes: str) -> None:
        """Lose volumes (all by default) while the process is down, and mount empty ones in their places."""
        assert not self.is_running, f"{self.machine} uses its volumes"
        for path in volumes or self.volumes:
            self.node.image.wipe(path)
        self.simulation.event(self.machine, "wipe", " ".join(volumes or self.volumes))

    def add_directory(self) -> None:
        """Mount an empty volume for one more ledger directory and one for its index, and tell the next process of them,
        which may take them."""
        self.added += 1
        self.may_add = True
        for role in (LEDGERS, INDEX):
            path = _numbered(role, self.settings.directories + self.added)[-1]
            self.node.image.add_volume(path)
            self.volumes += (path,)

    async def report(self) -> StorageReport:
        """Return the report of the bookie's admin service. Raises NodeCrashed when it is down."""
        if self.process is None:
            raise NodeCrashed(self.machine)
        return await self.node.do(self.process.admin.storage_report(fresh=True))

    async def grant(self, *, accepts_stale: bool = False) -> None:
        """Play the operator: allow a bookie that waits to take over its identity with empty volumes, or with such that
        went back in time."""
        report = await self.report()
        assert report.verdict is Verdict.LOST or accepts_stale, f"{self.name} reports {report.verdict}: {report.reason}"
        await self.send(self.grant_for(report, accepts_stale=accepts_stale))

    def grant_for(self, report: StorageReport, *, accepts_stale: bool = False) -> Grant:
        """Return the grant that an operator who sees this report makes now."""
        return Grant(
            grant_id=f"grant-{self.name}-{self.simulation.loop.now_ns}",
            bookie_id=report.bookie_id,
            pod_uid=report.pod_uid,
            evidence_hash=report.evidence_hash,
            cookie_version=report.cookie_version,
            new_incarnation=Incarnation(report.incarnation + 1),
            operator_epoch=1,
            ttl_ms=60_000,
            issued_by="director",
            accepts_stale=accepts_stale,
        )

    async def send(self, grant: Grant) -> None:
        """Send a grant to the bookie's admin service. Raises NodeCrashed, and what refuses it."""
        if self.process is None:
            raise NodeCrashed(self.machine)
        await self.node.do(self.process.admin.grant(grant))


class ClientNode:
    """One client process on its own machine. Call it with a coroutine of the client: `await c1(c1.client.…)`."""

    def __init__(self, simulation: Simulation, name: str, options: dict[str, Any]) -> None:
        self.simulation = simulation
        self.node = simulation.node(name, ())
        self.name = name
        self.options = ClientOptions(**{"metadata_uri": URI, "session_timeout_ms": 10_000, **options})
        self.client: Client

    async def start(self) -> None:
        """Start the process and wait until its client is connected."""
        world = self.node.begin()
        client = Client(self.options, world)
        connected = asyncio.Event()

        async def main() -> None:
            async with client:
                connected.set()
                await self.simulation.loop.create_future()

        session = self.node.do(main())
        waiting = self.simulation.loop.create_task(session, name=f"{self.name} session")
        started = self.simulation.loop.create_task(connected.wait(), name=f"{self.name} start")
        await asyncio.wait([waiting, started], return_when=asyncio.FIRST_COMPLETED)
        if not connected.is_set():
            started.cancel()
            await waiting
        waiting.add_done_callback(_forget)
        self.client = client

    async def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in this process and wait for it from outside. Raises NodeCrashed."""
        return await self.node.do(work)

    def crash(self) -> None:
        """Kill the application: its ledgers stay open, its connections break."""
        self.node.end(ProcessEnd.KILL)


def _forget(task: "asyncio.Task[None]") -> None:
    """Note that a client's session ended, by a kill or by itself; the next call to it raises."""
    if not task.cancelled():
        task.exception()


class SimCluster:
    """A whole cluster on one seed. `run(story)` starts it, runs the story, checks that nothing was left unhandled."""

    def __init__(
        self,
        seed: int | str,
        settings: SimSettings | None = None,
        *,
        dials: Dials | None = None,
        keep_trace: bool = False,
        wiretap: bool = True,
        **changes: Any,
    ) -> None:
        self.settings = settings or SimSettings(**changes)
        self.simulation = Simulation(seed, dials=dials, keep_trace=keep_trace)
        names = [f"bookie-{number}" for number in range(self.settings.bookies)]
        self.bookies = {name: BookieNode(self.simulation, name, self.settings) for name in names}
        self.clients: dict[str, ClientNode] = {}
        self._twins = 0
        self.oracle = Oracle(self.simulation.violation)
        # Told of each stored change of a ledger's metadata, at once; None: deleted.
        self.ledger_observers: list[Callable[[LedgerId, LedgerMetadata | None], None]] = [self.oracle.metadata_changed]
        self.simulation.keeper.observers.append(self._metadata_changed)
        self._machines = {node.machine: node for node in self.bookies.values()}
        self.wiretap = Wiretap(self.simulation.violation, self.metadata_of, self._is_replaced)
        self.ledger_observers.append(self.wiretap.metadata_changed)
        if wiretap:
            self.simulation.fabric.taps.append(self.wiretap)

    # ---- what is stored -------------------------------------------------------------------------------------------

    def metadata_of(self, ledger_id: LedgerId) -> LedgerMetadata | None:
        """The stored metadata of a ledger at this very moment, past all latency; None when there is none."""
        node = self.simulation.keeper.tree.nodes.get(paths.ledger_path(ROOT, ledger_id))
        return None if node is None else serde.load_ledger(node.data, node.created_ms)

    def _is_replaced(self, machine: str) -> bool:
        """Return True when another process has claimed the id of the bookie that runs on this machine."""
        node = self._machines.get(machine)
        if node is None:  # a test's own
            return False
        stored = self.simulation.keeper.tree.nodes.get(paths.incarnation(ROOT, BookieId(node.name)))
        mine = None if node.process is None else node.process.boot.record
        return mine is not None and stored is not None and cookie.load_incarnation(stored.data).boot_id != mine.boot_id

    def _metadata_changed(self, path: str) -> None:
        name = path.rpartition("/")[2]
        if path.startswith(ROOT) and name[:1] == "L" and name[1:].isdigit():
            ledger_id = paths.parse_ledger_path(ROOT, path)
            try:
                metadata = self.metadata_of(ledger_id)
            except BadInput:
                return  # a test made a record that nobody can read: no promise is in it
            for observer in self.ledger_observers:
                observer(ledger_id, metadata)

    # ---- steering -------------------------------------------------------------------------------------------------

    def run(self, story: Callable[["SimCluster"], Coroutine[Any, Any, T]], *, time_limit_s: float = 3600.0) -> T:
        """Format the cluster, start every bookie, run `story`. Raises Defect for anything that must not happen."""

        async def whole() -> T:
            await self.format()
            await self.simulation.loop.sleep_ns(self.simulation.dials.metadata.lag_ns)  # everybody can know of it
            for bookie in self.bookies.values():
                bookie.start()
            await self.until_ready()
            return await story(self)

        return self.simulation.run(whole(), time_limit_s=time_limit_s)

    async def format(self) -> None:
        """Make the cluster in the metadata store, as `bookie cluster init` does."""
        admin = self.simulation.node("admin", ())
        world = admin.begin()
        store = await admin.do(world.metadata_stores.connect(URI))
        await admin.do(format_cluster(store, URI, world.entropy))
        await admin.do(store.close())
        admin.end(ProcessEnd.EXIT)

    def join(self) -> BookieNode:
        """Start a bookie that nobody knew of; return it."""
        node = BookieNode(self.simulation, f"bookie-{len(self.bookies)}", self.settings)
        self.bookies[node.name] = self._machines[node.machine] = node
        node.start()
        return node

    def twin(self, name: str) -> BookieNode:
        """Return a second machine for the bookie `name`, with empty volumes; not started. Two processes of one id may
        run."""
        self._twins += 1
        made = BookieNode(self.simulation, name, self.settings, machine=f"{name}{TWIN}{self._twins}")
        self._machines[made.machine] = made
        return made

    def holders(self) -> list[BookieNode]:
        """Return every bookie, and each second machine of one that runs now: all that hold entries, or will again."""
        return [*self.bookies.values(), *(each for each in self._machines.values() if each.is_running)]

    async def client(self, name: str) -> ClientNode:
        """Return a new client process on the machine `name`; the machine may have had one before."""
        client = ClientNode(self.simulation, name, self.settings.client)
        await client.start()
        self.clients[name] = client
        return client

    async def until(self, condition: Callable[[], bool], what: str, *, timeout_s: float = 120.0) -> None:
        """Let the cluster run until `condition` holds. Raises Defect, naming `what`, when it does not in time."""
        await self.simulation.until(condition, what, timeout_s=timeout_s)

    async def until_ready(self, *names: str, timeout_s: float = 120.0) -> None:
        """Wait until these bookies (all by default) serve. Raises Defect at once when one of them gave up."""
        wanted = [self.bookies[name] for name in names or self.bookies]

        def all_ready() -> bool:
            for bookie in wanted:
                if not bookie.is_running:
                    raise Defect(f"{bookie.name} is not ready and does not run: {bookie.ended}")
            return all(bookie.is_ready for bookie in wanted)

        await self.until(all_ready, "bookies ready: " + " ".join(bookie.name for bookie in wanted), timeout_s=timeout_s)

    async def until_repaired(self, *names: str, timeout_s: float = 600.0) -> None:
        """Wait until these bookies serve and have nothing left to repair."""
        wanted = [self.bookies[name] for name in names or self.bookies]
        await self.until(
            lambda: all(bookie.state in (State.SERVING, State.READ_ONLY) for bookie in wanted),
            "bookies repaired: " + " ".join(bookie.name for bookie in wanted),
            timeout_s=timeout_s,
        )

    # ---- faults ---------------------------------------------------------------------------------------------------

    def hold(self, source: str, target: str) -> None:
        """Hold all bytes from one machine to another until `release`."""
        self.simulation.fabric.hold(source, target)

    def release(self, source: str, target: str) -> None:
        self.simulation.fabric.release(source, target)

    def partition(self, one: str, other: str) -> None:
        """Hold all bytes between the two machines, both ways."""
        self.hold(one, other)
        self.hold(other, one)

    def heal(self) -> None:
        """Release every link."""
        self.simulation.fabric.release_all()
