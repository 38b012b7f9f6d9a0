"""One seed, one run: draw the faults, the cluster and the workload; break things; heal; demand everything back.

safety under faults ──► heal ──► liveness: all bookies repaired ──► every ledger read from first entry to last
"""

import dataclasses
import random
from dataclasses import dataclass, field

from bookie.sim import faults, retirement, workload
from bookie.sim.cluster import Settings, SimCluster
from bookie.sim.injector import Injector
from bookie.sim.loop import SimStuck
from bookie.sim.node import Defect

FAULTS_S = 30.0


@dataclass
class Outcome:
    """What one seed did. `defect` None: every promise held."""

    seed: int
    digest: str
    defect: str | None
    virtual_s: float
    steps: int
    acknowledged: int
    read: int
    ledgers: int
    facts: str
    broke: dict[str, int] = field(default_factory=dict)
    met: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)

    def line(self) -> str:
        """One line for people."""
        broke = " ".join(f"{name}:{count}" for name, count in sorted(self.broke.items())) or "nothing"
        return (
            f"seed {self.seed:#x} {'DEFECT' if self.defect else 'ok'} {self.virtual_s:.0f} s"
            f" ledgers={self.ledgers} acknowledged={self.acknowledged} read={self.read} steps={self.steps}"
            f" broke [{broke}] digest={self.digest}"
        )


def run_seed(
    seed: int,
    *,
    guard_fence: bool = True,
    guard_limbo: bool = True,
    keep_trace: bool = False,
    faults_s: float = FAULTS_S,
    wiretap: bool = True,
    accidents: bool = False,
    demanding: bool = False,
    retiring: bool = False,
) -> Outcome:
    """Run one seed to its end. Never raises for what the run found: that is in the outcome.

    `accidents`: a small cluster without journaled data under the faults of BP-46 only: a missing guard shows soon.
    `demanding`: applications that speak version 2, defer syncs, force, and want confirmed entries.
    `retiring`: bookies are emptied and retired meanwhile, and surplus replicas thrown away as Java's bookies do.
    """
    draws = random.Random(f"draws {seed}")
    swarm = faults.accidents(draws) if accidents else faults.draw(draws)
    bookies = 3 if accidents else draws.choice((3, 4, 4, 5))
    if retiring:  # somebody must be left to take over; and rot, which nobody notices, may leave nobody to copy from
        bookies, swarm = 5, dataclasses.replace(swarm, rot_percent=0)
    settings = Settings(
        bookies=bookies,
        journal_write_data=draws.random() < 0.4 and not accidents,
        guard_fence=guard_fence,
        guard_limbo=guard_limbo,
        flush_interval_ms=60_000 if accidents else draws.choice((200, 2_000, 60_000)),
        open_ledger_grace_ms=draws.choice((0, 3_000)),
        client={"explicit_lac_ms": 0} if accidents else {},
        journal_file_bytes_max=draws.choice((16_384, 1_000_000)),
        entry_log_bytes_max=draws.choice((16_384, 1_000_000)),
        write_cache_bytes_max=draws.choice((16_384, 1_000_000)),
    )
    plan = workload.draw(draws, bookies=bookies)
    if demanding:
        demands = random.Random(f"demands {seed}")
        plan = workload.demanding(demands, plan)
        settings = dataclasses.replace(settings, client={**settings.client, **workload.client_options(demands)})
    cluster = SimCluster(seed, settings, dials=faults.dials(swarm, seed), keep_trace=keep_trace, wiretap=wiretap)
    simulation = cluster.simulation
    injector = Injector(cluster, swarm, simulation.random("injector"), down_max=max(1, bookies - 3))
    load = workload.Workload(cluster, plan)
    retirements = retirement.Retirements(cluster, injector, simulation.random("retirements")) if retiring else None

    simulation.event("director", "swarm", f"{settings} {swarm.facts()} {plan}")
    defect = None
    try:
        cluster.run(lambda it: _story(it, load, injector, retirements, faults_s), time_limit_s=7_200)
    except (Defect, SimStuck, TimeoutError) as error:
        defect = "; ".join([f"{type(error).__name__}: {error}", *simulation.violations[:5]])
    return Outcome(
        seed=seed,
        digest=simulation.digest(),
        defect=defect,
        virtual_s=simulation.loop.time(),
        steps=simulation.loop.steps,
        acknowledged=cluster.oracle.entries_acknowledged,
        read=cluster.oracle.entries_read,
        ledgers=len(load.ledgers),
        facts=f"{swarm.facts()} bookies={bookies} {plan}",
        broke=injector.counts | (retirements.counts if retirements is not None else {}),
        met=load.errors,
        violations=list(simulation.violations),
        trace=simulation.trace.table() if keep_trace else [],
    )


async def _story(
    cluster: SimCluster,
    load: workload.Workload,
    injector: Injector,
    retirements: retirement.Retirements | None,
    faults_s: float,
) -> None:
    """Faults, then calm, then everything back."""
    load.start()
    if retirements is not None:
        retirements.start()
    await injector.run(faults_s)
    await load.stop(timeout_s=600)
    if retirements is not None:
        await retirements.stop(timeout_s=600)
    await cluster.until_repaired(timeout_s=900)
    if retirements is not None:
        retirements.replicas.check_all()
    await workload.verify(cluster, load.ledgers)
