"""Auto-recovery of ours beside everything else: in processes of its own that are killed, in bookies where the run says
so, while new bookies join; in the end every ledger must become whole by it alone.

A ledger that does not is a defect, and what its workers say of it stands in the report.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from functools import partial

from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, LedgerId
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.client.repair.daemon import AutoRecoveryDaemon
from bookie.metadata import paths
from bookie.sim import replicas
from bookie.sim.cluster import ROOT, SimCluster
from bookie.sim.node import NodeCrashed, ended

# Of everybody: losses are acted on while the run still breaks things.
OPTIONS = AutoRecoveryOptions(
    loss_delay_ms=3_000,
    audit_interval_ms=10_000,
    check_interval_ms=10_000,
    probe_interval_ms=20_000,
    return_grace_ms=1_000,
    open_ledger_grace_ms=4_000,
    retry_ms=500,
    retry_ms_max=8_000,
    poll_ms=500,
)
_LIVES_S_MAX = 20.0
_JOINS_S_MAX = 15.0
_JOINS_MAX = 2


class FleetRecovery:
    """`processes` of auto-recovery until `stop`, which no process outlives; `settle` has them make everything whole."""

    def __init__(self, cluster: SimCluster, random_: random.Random, processes: int) -> None:
        self.counts: Counter[str] = Counter()
        self._cluster = cluster
        self._names = [f"recovery-{number}" for number in range(processes)]
        self._random = random_
        self._daemons: dict[str, AutoRecoveryDaemon] = {}
        self._is_calm = False
        self._is_stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loop = self._cluster.simulation.loop
        self._tasks += [loop.create_task(self._run(name), name=name) for name in self._names]
        self._tasks.append(loop.create_task(self._join(), name="joins"))

    def calm(self) -> None:
        """From now on no process is killed by us, and no bookie joins."""
        self._is_calm = True

    async def stop(self, *, timeout_s: float) -> None:
        self._is_stopping = self._is_calm = True
        for name in self._names:
            if name in self._daemons:
                self.counts["mended"] += self._daemons[name].worker.counts.mended
            self._cluster.simulation.node(name, ()).end()
        await ended(self._tasks, timeout_s=timeout_s)

    async def _run(self, name: str) -> None:
        """Run one process after the other, each until it is killed, by us or by the injector."""
        while not self._is_stopping:
            await asyncio.sleep(self._random.random() * 2)
            try:
                node = await self._cluster.client(name)
                daemon = self._daemons[name] = AutoRecoveryDaemon(node.client.shared, BookieId(f"{name}:1"), OPTIONS)
                running = asyncio.ensure_future(node(daemon.run()))
                running.add_done_callback(partial(self._judge, name, daemon))
                patience_s = None if self._is_calm else self._random.random() * _LIVES_S_MAX
                done, _ = await asyncio.wait([running], timeout=patience_s)
                if not done and self._is_calm:  # became calm meanwhile
                    await asyncio.wait([running])
                self.counts["mended"] += daemon.worker.counts.mended
                if not running.done():
                    self.counts["recovery killed"] += 1
                    node.crash()
                await running
            except (NodeCrashed, BookieError) as error:
                self.counts[f"recovery: {type(error).__name__}"] += 1
                self._cluster.simulation.node(name, ()).end()
            self._daemons.pop(name, None)

    def _judge(self, name: str, daemon: AutoRecoveryDaemon, _: object) -> None:
        """A defect ends nothing but the work on one ledger: so it is asked for."""
        if daemon.auditor.counts.defects or daemon.worker.counts.defects:
            told = daemon.worker.blocked, daemon.auditor.counts.left_out
            self._cluster.simulation.violation(f"DEFECT of auto-recovery {name}: {told}")

    async def _join(self) -> None:
        """Start bookies that nobody knew of."""
        for _ in range(self._random.randint(0, _JOINS_MAX)):
            await asyncio.sleep(self._random.random() * _JOINS_S_MAX)
            if self._is_calm:
                return
            self._cluster.join()
            self.counts["joined"] += 1

    # ---- the end -----------------------------------------------------------------------------------------------------

    async def settle(self, ledgers: Sequence[LedgerId], *, timeout_s: float = 600.0) -> None:
        """When every ledger is closed and all bookies serve: wait until every replica is there and no mark is left. It
        reports what does not become so."""
        loop = self._cluster.simulation.loop
        deadline = loop.time() + timeout_s
        while lacking := [*await self._lacking(ledgers), *self._marked()]:
            if loop.time() > deadline:
                said = {name: each.worker.blocked for name, each in self._daemons.items() if each.worker.blocked}
                self._cluster.simulation.violation(f"UNMENDED: {lacking[:5]} ({len(lacking)}); {said}")
                return
            await asyncio.sleep(5)

    def _marked(self) -> list[str]:
        """Return the marks that stand at this very moment."""
        queue = paths.underreplicated_ledgers(ROOT)
        nodes = self._cluster.simulation.keeper.tree.nodes
        return [f"mark {path}" for path in nodes if path.startswith(queue) and path.rpartition("/")[2][:3] == "urL"]

    async def _lacking(self, ledgers: Sequence[LedgerId]) -> list[str]:
        found: list[str] = []
        for ledger_id in ledgers:
            metadata = self._cluster.metadata_of(ledger_id)
            if metadata is not None and metadata.is_closed:
                try:
                    found += await replicas.copies(self._cluster, ledger_id, metadata.last_entry)
                except (NodeCrashed, BookieError) as error:
                    found.append(f"ledger {ledger_id}: {error}")
        return found
