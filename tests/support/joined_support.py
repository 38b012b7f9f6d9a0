"""The operator's own loop over the bookie's own classes: a Kubernetes in dictionaries, whose pods are machines of a
simulated cluster.

`JoinedWorld` is `operator_world_support.World` with other bookies: each pod's process is a `bookie.sim` node, with
simulated disks, network and metadata store; a claim that is new is an empty disk. The operator asks them through its
own gateway (`AdminPorts`): only the channel is played, which hands each message to the admin service of the process.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar, cast

import pytest

import accidents_support
import operator_support as make
import operator_world_support
from accidents_support import READS
from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, LedgerId
from bookie.integrity.options import GATED, KUBERNETES
from bookie.metadata import paths
from bookie.metadata.ledger import LedgerMetadata
from bookie.ports.admin import Contents, State
from bookie.rpc.calls import AdminCall
from bookie.rpc.client import AsyncAdminClient
from bookie.runtime.admin import _Admin
from bookie.sim import replicas
from bookie.sim.cluster import ROOT, VOLUMES, BookieNode, SimCluster
from bookie.sim.node import NodeCrashed, ProcessEnd
from bookie_operator.crash import CrashPoint
from bookie_operator.evidence.facts import Door
from bookie_operator.gateways.bookies import AdminPorts, BookieUnreachable
from bookie_operator.gateways.kube import KubeError, Manifest
from bookie_operator.model import cluster as clusters
from bookie_operator.model import names
from bookie_operator.reconcile import Key, Reconciler
from bookie_operator.workqueue import WorkQueue
from operator_world_support import KEY, SETTLING, Crashed, FakeBookie, Ports, World

T = TypeVar("T")
ENTRIES = 15  # of a ledger
BUILDING = 120  # seconds at most
SEEN_S = 5  # what the operator says may be so old
WELL = {"Ready": "True", "Degraded": "False", "DataAtRisk": "False", "StorageHealthy": "True"}
ORDERS = ("GrantRegeneration", "PrepareShutdown", "SetMode", "Drain", "FillHoles", "ForgetBookie")


class Fate:
    """What becomes of the n-th write of operators, each counted from the same moment: to the API server, or an order to
    a bookie. 0: nothing befalls any."""

    DIES, LOSES_ANSWER, LOSES_REQUEST = "the operator dies after", "the answer is lost of", "nobody hears of"

    def __init__(self, how: str = "", nth: int = 0) -> None:
        self.how = how
        self.nth = nth
        self.writes = 0

    def strikes(self, how: str) -> bool:
        """Count one write, when asked for the fate of this run."""
        if how != self.how:
            return False
        self.writes += 1
        return self.writes == self.nth

    @property
    def has_struck(self) -> bool:
        return self.writes >= self.nth > 0

    def answer(self, what: str, now_s: float) -> KubeError | None:
        """Return what the API server answers instead of doing or telling `what`."""
        return None

    def is_done(self, error: KubeError) -> bool:
        """Return True for a write that was done, and answered by `error`."""
        return False

    def listed(self, what: str, found: list[Manifest]) -> list[Manifest]:
        """Return what a list says, of which `found` is true."""
        return found


class Weather(Fate):
    """An API server that fails at one in `every` of its calls, reads too, by one of `STATUSES` after the other; every
    second write without an answer was done. The operator comes back by its own queue."""

    STATUSES = (409, 410, 429, 500, 503, 504, 0)
    RETRY_AFTER_MS = 4_000  # so long it wants to hear nothing of the same, after 429 and 503

    def __init__(self, every: int, first: int, of: str = "", statuses: Sequence[int] = STATUSES) -> None:
        """`first`: how many calls go well before the first that fails; `of`: only calls that begin so."""
        super().__init__("the API server fails")
        self.every, self.of, self.statuses = every, of, statuses
        self.next, self.failed = first, list[tuple[str, int]]()
        self.too_early: list[str] = []
        self.queue: WorkQueue[Key] | None = None
        self._closed: dict[str, float] = {}
        self._lost = 0

    @property
    def has_struck(self) -> bool:
        return bool(self.failed)

    def answer(self, what: str, now_s: float) -> KubeError | None:
        if now_s < self._closed.get(what, 0.0) - 0.01:
            self.too_early.append(f"{what} at {now_s:.1f} s, to be asked again at {self._closed[what]:.1f} s")
        if not what.startswith(self.of):
            return None
        self.next -= 1
        if self.next >= 0:
            return None
        status = self.statuses[len(self.failed) % len(self.statuses)]
        self.next = self.every - 1
        self.failed.append((what, status))
        retry_after_ms = self.RETRY_AFTER_MS if status in (429, 503) else 0
        self._closed[what] = now_s + retry_after_ms / 1_000
        return KubeError(what, status, "as the test wants it", retry_after_ms)

    def is_done(self, error: KubeError) -> bool:
        self._lost += error.http_status in (0, 504)
        return error.http_status in (0, 504) and self._lost % 2 == 1


class OldLists(Weather):
    """An API server of which one list in four is what the same list was up to eight reads ago."""

    KEPT = 8

    def __init__(self, seed: int) -> None:
        super().__init__(1, 1, of="nothing")
        self._random, self._known = random.Random(seed), dict[str, deque[list[Manifest]]]()
        self.stale = 0

    @property
    def has_struck(self) -> bool:
        return self.stale > 0

    def listed(self, what: str, found: list[Manifest]) -> list[Manifest]:
        before = self._known.setdefault(what, deque(maxlen=self.KEPT))
        before.append(found)
        old = self._random.choice(before) if not self._random.randrange(4) else found
        self.stale += old != found
        return copy.deepcopy(old)


class FatedServer:
    """The API server, in front of a world."""

    def __init__(self, world: JoinedWorld) -> None:
        self._world = world

    async def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        self._answer(f"get {kind} {name}")
        return await self._world.get(kind, namespace, name)

    async def list(self, kind: str, namespace: str, selector: str = "", *, fields: str = "") -> list[Manifest]:
        what = f"list {kind} {selector}{fields}"
        self._answer(what)
        return self._world.fate.listed(what, await self._world.list(kind, namespace, selector, fields=fields))

    def _answer(self, what: str) -> None:
        if error := self._world.fate.answer(what, asyncio.get_running_loop().time()):
            raise error

    async def apply(self, manifest: Manifest, **how: Any) -> Manifest:
        return await self._write(self._world.apply(manifest, **how), f"apply {_called(manifest)}")

    async def replace_status(self, manifest: Manifest, **how: Any) -> Manifest:
        self._world.judge_status(manifest)
        return await self._write(self._world.replace_status(manifest, **how), f"tell {_called(manifest)}")

    async def create(self, manifest: Manifest) -> Manifest:
        return await self._write(self._world.create(manifest), f"create {_called(manifest)}")

    async def merge(self, manifest: Manifest) -> Manifest:
        return await self._write(self._world.merge(manifest), f"merge {_called(manifest)}")

    async def replace(self, manifest: Manifest) -> Manifest:
        return await self._write(self._world.replace(manifest), f"replace {_called(manifest)}")

    async def delete(self, *what: Any, **how: Any) -> None:
        await self._write(self._world.delete(*what, **how), f"delete {what[0]} {what[2]}")

    async def _write(self, call: Coroutine[Any, Any, Any], what: str) -> Any:
        fate = self._world.fate
        if fate.strikes(Fate.LOSES_REQUEST):
            call.close()
            raise KubeError(what, 0, "connection reset")
        error = fate.answer(what, asyncio.get_running_loop().time())
        if error is not None and not fate.is_done(error):
            call.close()
            raise error
        done = await call
        if error is not None or fate.strikes(Fate.LOSES_ANSWER):
            raise error or KubeError(what, 0, "connection reset")
        return done


def _called(manifest: Manifest) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


class FatedDeath(CrashPoint):
    def __init__(self, world: JoinedWorld) -> None:
        super().__init__(0, "")
        self._world = world

    def after_write(self, what: str) -> None:
        if self._world.fate.strikes(Fate.DIES):
            raise Crashed


def cluster(seed: int, **settings: Any) -> SimCluster:
    """A simulated cluster without a bookie: pods bring them."""
    return SimCluster(
        seed, bookies=0, regeneration=GATED, volume_proof=KUBERNETES, fill_after_boot=True, client=READS, **settings
    )


@dataclass
class PodBookie(FakeBookie):
    """One pod's process, on a machine that outlives the pod."""

    node: BookieNode = cast(BookieNode, None)

    def start(self) -> None:
        self.node.node.pod_uid = self.pod_uid
        if self.node.settings.shares_filesystem:
            for path, volume in self.node.node.image.volumes.items():
                volume.source = operator_world_support.root_of_empty_dir(self.pod_uid, path.strip("/"))
        self.node.start()

    def tick(self) -> None:
        """Its kubelet starts the container again if the process ended."""
        if not self.node.is_running:
            self.node.start()
        self.state = self.node.state or State.STARTING
        if self.state is State.SERVING and isinstance(self.world, JoinedWorld):
            self.world.lacking.discard(self.bookie_id)

    def drain(self) -> None:
        """It does so itself."""


@dataclass
class JoinedWorld(World):
    """What happens outside the operator: `settle` is the second of the controllers and kubelets; what bookies do in
    it, they do themselves."""

    simulated: SimCluster = cast(SimCluster, None)
    nodes: dict[str, BookieNode] = field(default_factory=dict)
    grants: int = 0  # that bookies were sent, also such as they had
    served: dict[str, float] = field(default_factory=dict)  # pod -> when it last served, loop time
    lacking: set[str] = field(default_factory=set)  # ids of bookies whose disks are gone, until they serve as whole
    fate: Fate = field(default_factory=Fate)
    is_orderly: bool = False  # what is killed now is asked to end
    replaced: dict[str, str] = field(default_factory=dict)  # pod -> the volume that a person wants replaced
    ending: list[BookieNode] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)  # of passes
    records: dict[LedgerId, LedgerMetadata] = field(default_factory=dict)  # as the metadata store has them now

    # ---- the judge: knows what the metadata store and the processes know, and nothing of the operator's rules ------

    def watch(self) -> None:
        """See each change of the metadata store, when it is stored."""
        self.simulated.ledger_observers.append(self._record_changed)
        self.simulated.simulation.keeper.observers.append(self._cookie_changed)
        self.on_lowered = self._judge_lowered

    def _record_changed(self, ledger_id: LedgerId, metadata: LedgerMetadata | None) -> None:
        self.records.pop(ledger_id, None)
        if metadata is not None:
            self.records[ledger_id] = metadata

    def ledgers_of(self, bookie_id: str) -> list[LedgerId]:
        """The ledgers whose metadata names a bookie."""
        return [one for one, metadata in self.records.items() if metadata.names(BookieId(bookie_id))]

    def has_cookie(self, bookie_id: str) -> bool:
        return paths.cookie(ROOT, BookieId(bookie_id)) in self.simulated.simulation.keeper.tree.nodes

    def runs(self, bookie_id: str) -> bool:
        return bookie_id in self.nodes and self.nodes[bookie_id].is_running

    def _cookie_changed(self, path: str) -> None:
        for bookie_id in self.nodes:
            if path != paths.cookie(ROOT, BookieId(bookie_id)) or self.has_cookie(bookie_id):
                continue
            self.forgotten.append(bookie_id)
            if self.runs(bookie_id) or self.ledgers_of(bookie_id):
                self.wrong.append(f"{bookie_id} is forgotten, and runs, or is named by {self.ledgers_of(bookie_id)}")

    def _judge_lowered(self, pod: str) -> None:
        """A pod goes with the number of its StatefulSet when no ledger names its bookie, or when all refused writes a
        second ago and are to sleep."""
        bookie_id, is_asleep = _id_of(pod), self.spec()["lifecycle"].get("hibernate", False)
        states = {one.name: one.state for one in self.bookies.values()}
        if is_asleep and set(states.values()) != {State.READ_ONLY}:
            self.wrong.append(f"{pod} falls asleep while bookies are {states}")
        if not is_asleep and (states.get(pod) is State.SERVING or self.ledgers_of(bookie_id)):
            self.wrong.append(f"{pod} goes, is {states.get(pod)}, and is named by {self.ledgers_of(bookie_id)}")

    def _judge_deletion(self, name: str, live: Manifest) -> None:
        """The volume of a bookie that left goes when no process, no cookie and no ledger is of it any more; that of one
        that stays, while it has flushed and all others serve."""
        volume, _, pod = name.partition("-")
        bookie_id = _id_of(pod)
        if pod not in self.replaced:
            if self.runs(bookie_id) or self.has_cookie(bookie_id) or self.ledgers_of(bookie_id):
                self.wrong.append(f"claim {name} is deleted, and its bookie runs, has a cookie, or is named")
            return
        states = {one.bookie_id: one.state for one in self.bookies.values()}
        mine = states.pop(bookie_id, None)
        if volume != self.replaced[pod] or mine is not State.READ_ONLY or set(states.values()) != {State.SERVING}:
            self.wrong.append(f"claim {name} is deleted while its bookie is {mine} and others are {states}")

    def _judge_stop(self, pod: str, live: Manifest) -> None:
        """A pod whose volumes go with it is stopped when no ledger names its bookie."""
        if operator_world_support.ephemeral_volumes(live) and self.ledgers_of(_id_of(pod)):
            self.wrong.append(f"{pod} is stopped, and what is named by {self.ledgers_of(_id_of(pod))} goes with it")

    def judge_grant(self, bookie_id: str) -> None:
        """Nobody is given up while another lacks what it had: an ack quorum of two survives the loss of one."""
        if others := self._lack(bookie_id):
            self.wrong.append(f"{bookie_id} is granted a new life while {others} lack their data")

    def judge_status(self, manifest: Manifest) -> None:
        """Nobody is said to serve who has not for some seconds, and all is not called well while one lacks data."""
        if manifest["kind"] != names.KIND:
            return
        now_s, told = self.simulated.simulation.loop.time(), clusters.parse_status(manifest["status"])
        self._note_who_serves()
        late = [name for name, seen_s in self.served.items() if now_s - seen_s > SEEN_S]
        found = {one.type: one.status for one in told.conditions}
        serving = {one.name for one in told.bookies if one.state == "Serving"}
        # Where nothing was seen each bookie stands there as it was last seen.
        if found.get("Ready") != "Unknown" and (wrong := [name for name in late if name in serving]):
            self.wrong.append(f"at {now_s:.0f} s {wrong} are said to serve, and have not for {SEEN_S} s")
        if WELL.items() <= found.items() and self._lack():
            self.wrong.append(f"at {now_s:.0f} s all is said to be well, and {self._lack()} lack their data")

    def _lack(self, *but: str) -> list[str]:
        """Who lost what some ledger's metadata says it has."""
        away = [one for one in sorted(self.lacking - {*but}) if self.nodes[one].state is not State.SERVING]
        return [one for one in away if self.ledgers_of(one)]

    def _new_bookie(self, name: str, bookie_id: str, pod_uid: str, contents: dict[str, Contents]) -> FakeBookie:
        node = self.nodes.get(bookie_id)
        if node is None:
            node = BookieNode(self.simulated.simulation, bookie_id, self.simulated.settings)
            self.nodes[bookie_id] = self.simulated.bookies[bookie_id] = node
        elif Contents.EMPTY in contents.values():
            self.lacking.add(bookie_id)
            node.wipe(*[f"/{volume}" for volume, found in contents.items() if found is Contents.EMPTY])
        assert sorted(f"/{volume}" for volume in contents) == sorted(VOLUMES)
        return PodBookie(self, name, bookie_id, pod_uid, dict.fromkeys(contents, Contents.VALID), node=node)

    def end(self, pod: str) -> None:
        """A pod that the API server is told to delete (by the operator, a StatefulSet, an eviction) ends in order: its
        kubelet asks the process to."""
        self.is_orderly = True
        try:
            super().end(pod)
        finally:
            self.is_orderly = False

    def kill(self, pod: str, *, by_force: bool = False) -> None:
        for each in self.bookies.values():
            if each.name != pod or not isinstance(each, PodBookie):
                continue
            if self.is_orderly and each.node.process is not None:
                each.node.stop()
                self.ending.append(each.node)
            else:
                each.node.crash(ProcessEnd.KILL)
        one = self.objects.get(("Pod", pod))
        if one is not None and operator_world_support.ephemeral_volumes(one) and self.has_cookie(_id_of(pod)):
            self.lacking.add(_id_of(pod))
        super().kill(pod, by_force=by_force)

    async def _all_ended(self) -> None:
        """No pod takes the place of one whose process is still there."""
        while self.ending:
            node = self.ending.pop()
            await self.simulated.until(lambda node=node: not node.is_running, f"{node.name} ends")  # type: ignore[misc]

    def loop_s(self) -> float:
        return self.simulated.simulation.loop.time()

    def settle(self) -> None:
        self.now_ms = make.NOW_MS + int(self.simulated.simulation.loop.time() * 1_000)
        self.step_ms = 0
        super().settle()
        self._note_who_serves()

    def _note_who_serves(self) -> None:
        for one in self.bookies.values():
            state = self.nodes[one.bookie_id].state
            if state is not None and state.serves:
                self.served[one.name] = self.simulated.simulation.loop.time()

    # ---- the operator ---------------------------------------------------------------------------------------------

    @property
    def ports(self) -> Ports:
        return self._ports

    def operator(self, crash: CrashPoint | None = None, **how: Any) -> Reconciler:
        self._ports = PlayedPorts(self)
        return super().operator(crash or FatedDeath(self), kube=FatedServer(self), **how)

    async def run(  # type: ignore[override]
        self,
        *operators: Reconciler,
        passes: int,
        until: Callable[[], bool] = lambda: False,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        """Pass after pass, a second apart, until `until()`; a new operator after each death. Of several operators each
        believes that it leads. `meanwhile`: what somebody does in each of these seconds."""
        if isinstance(self.fate, Weather):
            await self._run_queue(*operators, passes=passes, until=until, meanwhile=meanwhile)
            return
        leading = list(operators)
        for number in range(passes):
            if number > SETTLING and until():
                return
            for place, operator in enumerate(leading):
                try:
                    await operator.reconcile(KEY)
                except Crashed:
                    leading[place] = self.operator(has_watched=False)
                except BookieError as error:
                    self.failures.append(str(error))  # the work queue comes back to it
            meanwhile()
            await self._all_ended()
            self.settle()
            await asyncio.sleep(1)

    async def _run_queue(
        self, operator: Reconciler, *, passes: int, until: Callable[[], bool], meanwhile: Callable[[], object]
    ) -> None:
        """As `run`, while the operator's own queue says when a pass is; something changes every second."""

        async def handle(key: Key) -> int | None:
            try:
                return await operator.reconcile(key)
            except BookieError as error:
                self.failures.append(str(error))
                raise
            except Exception as error:
                self.wrong.append(f"a pass broke: {error!r}")
                raise

        assert isinstance(self.fate, Weather)
        self.fate.queue = queue = self.fate.queue or WorkQueue[Key](handle)
        running = asyncio.get_running_loop().create_task(queue.run())
        for number in range(passes):
            if number > SETTLING and until():
                break
            queue.add(KEY)
            meanwhile()
            await self._all_ended()
            self.settle()
            await asyncio.sleep(1)
        running.cancel()
        await asyncio.wait([running])


class PlayedPorts(AdminPorts):
    """The gateway of one operator process."""

    def __init__(self, world: JoinedWorld) -> None:
        super().__init__()
        self._world = world

    def _client(self, door: Door) -> AsyncAdminClient:
        if door.uid and self.identity(door.uid) is None:
            raise BookieUnreachable(f"admin port {door.address}: there is no certificate for cluster {door.uid} yet")
        return cast(AsyncAdminClient, PlayedClient(self._world, door))


class PlayedClient:
    """What `AsyncAdminClient` is to the gateway: one call of the admin service of the process behind a door."""

    def __init__(self, world: JoinedWorld, door: Door) -> None:
        self._world = world
        self._door = door

    async def __aenter__(self) -> PlayedClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def ask(self, call: AdminCall[T]) -> T:
        fate, is_order = self._world.fate, call.method in ORDERS
        if is_order and fate.strikes(Fate.LOSES_REQUEST):
            raise errors.BookieUnavailable(f"the admin port at {self._door.address} did not answer")
        answer = await self._do(call, first=False)
        if call.method == "GrantRegeneration":
            self._world.grants += 1
            self._world.judge_grant(self._world.bookies[self._door.address].bookie_id)
        if is_order and fate.strikes(Fate.LOSES_ANSWER):
            raise errors.BookieUnavailable(f"the admin port at {self._door.address} did not answer")
        return call.read(answer)

    async def first(self, call: AdminCall[T]) -> T | None:
        return call.read(await self._do(call, first=True))

    async def _do(self, call: AdminCall[Any], *, first: bool) -> Any:
        bookie = self._world.bookies.get(self._door.address)
        if not isinstance(bookie, PodBookie) or bookie.node.process is None:
            raise errors.BookieUnavailable(f"the admin port at {self._door.address} did not answer")
        answer = getattr(_Admin(bookie.node.process.admin), call.method)(call.request, None)
        try:
            return await bookie.node.node.do(anext(answer) if first else answer)
        except NodeCrashed as error:
            raise errors.BookieUnavailable(f"the admin port at {self._door.address} did not answer") from error


def _id_of(pod: str) -> str:
    parsed = names.parse_pod("ledgers", pod)
    assert parsed is not None, pod
    return names.bookie_id("data", "ledgers", *parsed)


def world(simulated: SimCluster, **spec_changes: Any) -> JoinedWorld:
    """A cluster resource that nobody has looked at yet; each volume is a disk of its own."""
    out = JoinedWorld(simulated=simulated)
    out.watch()
    out.put(make.manifest(**spec_changes))
    out.add_node("node")
    return out


class Application:
    """A writer that goes on for as long as the story lasts, with a new ledger whenever one ends, and a reader that
    reads one ledger after the other, to its end or as far as it is confirmed."""

    def __init__(self, simulated: SimCluster) -> None:
        self.simulated = simulated
        self.is_over = False
        self.ledgers: list[LedgerId] = []
        self.failures: list[str] = []
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._write()), loop.create_task(self._read())]

    async def stop(self) -> None:
        self.is_over = True
        await asyncio.gather(*self._tasks)

    async def end(self) -> None:
        """Stop; then every ledger is opened once more and read to its end."""
        await self.stop()
        for ledger_id in self.ledgers:
            await accidents_support.verify(self.simulated, ledger_id)

    async def _write(self) -> None:
        client, oracle = await self.simulated.client("writer"), self.simulated.oracle
        while not self.is_over:
            try:
                writer = await client(client.client.create())
                self.ledgers.append(writer.id)
                for number in range(ENTRIES):
                    payload = b"ledger %d entry %d" % (writer.id, number)
                    oracle.acknowledged(writer.id, await client(writer.append(payload)), payload)
                    await asyncio.sleep(0.5)
                await client(writer.close())
            except BookieError as error:
                self.failures.append(f"{type(error).__name__}: {error}")
                await asyncio.sleep(0.5)

    async def _read(self) -> None:
        client, oracle = await self.simulated.client("reader"), self.simulated.oracle
        while not self.is_over:
            await asyncio.sleep(1)
            for ledger_id in self.ledgers[-5:]:
                try:
                    reader = await client(client.client.open_no_recovery(ledger_id))
                    for entry in await client(reader.read(0, reader.last_entry)) if reader.last_entry >= 0 else ():
                        oracle.read(ledger_id, entry.entry_id, bytes(entry.payload))
                except BookieError as error:
                    self.failures.append(f"{type(error).__name__}: {error}")


def some(values: Iterable[Any], at_once: Sequence[Any]) -> list[Any]:
    """All of `values`, as parameters: those of `at_once` in every run of the tests, the others in the long ones."""
    rest = pytest.mark.slow
    alone = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*value, marks=() if value in at_once or value[0] in at_once else rest) for value in alone]


async def in_service(cluster: SimCluster, *elsewhere: str) -> JoinedWorld:
    """A fleet as the operator makes it from nothing; the pods of `elsewhere` are on a node of that name."""
    made = world(cluster)
    if elsewhere:
        made.add_node("elsewhere")
        made.places = dict.fromkeys(elsewhere, "elsewhere")
    if cluster.settings.shares_filesystem:
        made.edit(**operator_world_support.on_ephemeral_volumes(made.spec()))
    await made.run(made.operator(), passes=BUILDING, until=made.is_quiet)
    assert made.is_quiet(), made.status()
    return made


async def healed(cluster: SimCluster, world: JoinedWorld, application: Application) -> None:
    """The fleet is whole: by the operator's word, by the oracle's, and by a look at every replica."""
    assert world.is_quiet(), world.status()
    assert world.wrong == []
    await application.end()
    await cluster.until_repaired()
    await replicas.check_whole(cluster, application.ledgers)
