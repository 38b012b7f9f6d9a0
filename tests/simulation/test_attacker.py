"""The attacker of `make attack` as an actor of the simulator: beside it, and under faults, every promise is kept."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

import attack_frames
import seeds_support
from bookie.base.errors import BookieError
from bookie.base.ids import EntryId, LedgerId
from bookie.client.write.writer import LedgerWriter
from bookie.ports import World
from bookie.ports.network import Address
from bookie.sim import faults, workload
from bookie.sim.cluster import PORT, SimCluster, SimSettings
from bookie.sim.injector import Injector
from bookie.sim.node import SimNode
from bookie.wire import codes
from bookie.wire.digest import Digest, DigestType
from bookie.wire.proto import bookkeeper_pb2 as proto

SEEDS = 4
FAULTS_S = 20.0
BURST = 60
ANSWER_NS = 2_000_000_000


class Attacker:
    """Dials one bookie after the other, sends odd requests, reads some of the answers, and lets go."""

    def __init__(self, cluster: SimCluster, load: workload.Workload, draw: random.Random) -> None:
        self.sent = 0
        self.met: dict[str, int] = {}
        self._cluster, self._load, self._draw = cluster, load, draw
        self._node: SimNode = cluster.simulation.node("attacker", ())
        self._stops = False

    def start(self) -> None:
        self._node.spawn(self._run(self._node.begin()), "attacker")

    def stop(self) -> None:
        self._stops = True

    async def _run(self, world: World) -> None:
        while not self._stops:
            name = self._draw.choice(tuple(self._cluster.bookies))
            try:
                await self._visit(world, name)
            except BookieError as error:
                self.met[type(error).__name__] = self.met.get(type(error).__name__, 0) + 1
            await world.clock.sleep_until(world.clock.monotonic_ns() + self._draw.randrange(200_000_000))

    async def _visit(self, world: World, name: str) -> None:
        known = tuple(self._load.ledgers[-5:]) or (LedgerId(1),)
        frames = attack_frames.Frames(self._draw, known, claims=False)
        stream = await world.network.dial(Address(name, PORT), world.clock.monotonic_ns() + ANSWER_NS)
        try:
            version = self._draw.choice((2, 3))
            for _ in range(self._draw.randrange(1, 5)):
                stream.write([frames.next(version) for _ in range(self._draw.randrange(1, BURST))])
                self.sent += 1
                if self._draw.random() < 0.7:
                    # A machine without power says nothing, for ever.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(ANSWER_NS / 1e9):
                            await stream.drained()
                            if not await stream.read():
                                return
        finally:
            stream.close()


@pytest.mark.parametrize("seed", [seeds_support.base_seed() + number for number in range(SEEDS)])
def test_a_fresh_seed_keeps_every_promise_beside_an_attacker(seed: int) -> None:
    draws = random.Random(f"attacked {seed}")
    swarm = faults.draw(draws)
    settings = SimSettings(bookies=4, journal_write_data=draws.random() < 0.5)
    # The wiretap reads the wire as honest requests; the oracle, and the reading of every ledger at the end, judge here.
    cluster = SimCluster(seed, settings, dials=faults.dials(swarm, seed), wiretap=False)
    load = workload.Workload(cluster, workload.draw(draws, bookies=4))
    injector = Injector(cluster, swarm, cluster.simulation.random("injector"), down_max=1)
    attacker = Attacker(cluster, load, draws)

    async def story(it: SimCluster) -> None:
        load.start()
        attacker.start()
        await injector.run(FAULTS_S)
        attacker.stop()
        await load.stop(timeout_s=600)
        await it.until_repaired(timeout_s=900)
        await workload.verify(it, load.ledgers)

    cluster.run(story, time_limit_s=7_200)

    print(
        f"seed {seed:#x}: {attacker.sent} bursts, met {attacker.met};"
        f" {cluster.oracle.entries_acknowledged} entries acknowledged"
    )
    assert attacker.sent
    assert not cluster.simulation.violations


def forged(ledger_id: LedgerId, entry_id: int) -> bytes:
    """An entry without a key that checks as its client's would: a checksum knows no password."""
    request = proto.Request()
    request.header.version, request.header.operation, request.header.txnId = 3, codes.Operation.ADD_ENTRY, entry_id + 1
    request.addRequest.ledgerId, request.addRequest.entryId, request.addRequest.masterKey = ledger_id, entry_id, b""
    sealed = Digest(DigestType.CRC32C, b"").seal(ledger_id, EntryId(entry_id), entry_id - 1, 7, b"forged")
    request.addRequest.body = b"".join(map(bytes, sealed))
    return attack_frames.framed(request.SerializeToString())


def test_a_recovery_takes_no_entry_that_a_stranger_wrote_without_a_key_before_the_writer_came() -> None:
    cluster = SimCluster(41, SimSettings(bookies=3), wiretap=False)

    async def story(it: SimCluster) -> None:
        app = await it.client("app")

        async def create() -> LedgerWriter:
            return await app.client.create(password=b"secret")

        writer = await app(create())
        attacker = it.simulation.node("attacker", ())
        world = attacker.begin()

        async def strike() -> None:
            for name in it.bookies:
                stream = await world.network.dial(Address(name, PORT), world.clock.monotonic_ns() + ANSWER_NS)
                last = attack_frames.marker(3, writer.id, 10**6)
                stream.write([*(forged(writer.id, number) for number in range(20)), last.frame])
                answers = b""
                while last.answer not in answers:
                    answers += await stream.read()
                stream.close()

        await attacker.do(strike())

        async def append() -> None:
            for _ in range(3):
                await writer.append(b"honest")

        await app(append())
        app.crash()
        reader = await it.client("reader")

        async def read() -> list[bytes]:
            opened = await reader.client.open(writer.id, b"secret")
            return [bytes(entry.payload) for entry in await opened.read(0, opened.last_entry)]

        assert await reader(read()) == [b"honest"] * 3

    cluster.run(story)
    assert not cluster.simulation.violations
