"""Runs one seed: draw the faults, the cluster and the workload; inject the faults; heal; read every entry back.

safety under faults ──► heal ──► liveness: all bookies repaired ──► every ledger read from first entry to last
"""

import dataclasses
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from bookie.base.ids import LedgerId
from bookie.integrity.options import BOUND, GATED, LOCAL, SCAN
from bookie.sim import faults, fleet_recovery, grants, replicas, replicator, retirement, story, workload
from bookie.sim import twins as second_processes
from bookie.sim.cluster import SimCluster, SimSettings
from bookie.sim.injector import Injector
from bookie.sim.loop import SimStuck
from bookie.sim.node import Defect
from bookie.sim.probes import Probes

FAULTS_S = 30.0


@dataclass
class SeedOutcome:
    """The result of one seed. `defect` None: every promise held."""

    seed: int
    digest: str
    defect: str | None
    virtual_s: float
    steps: int
    acknowledged: int
    read: int
    ledgers: int
    mixed: int  # adds that a bookie was given together with those of other ledgers
    broke: Counter[str]
    violations: list[str]
    trace: list[str]
    reached: Counter[str]  # probes, where the run was asked to count them
    parts: list[str]  # what the run was made of: faults as they came, faults of the whole world, applications

    def line(self) -> str:
        """Return one line for people."""
        broke = " ".join(f"{name}:{count}" for name, count in sorted(self.broke.items())) or "nothing"
        return (
            f"seed {self.seed:#x} {'DEFECT' if self.defect else 'ok'} {self.virtual_s:.0f} s"
            f" ledgers={self.ledgers} mixed={self.mixed} acknowledged={self.acknowledged} read={self.read}"
            f" steps={self.steps} broke [{broke}] digest={self.digest}"
        )


@dataclass(frozen=True, slots=True)
class Aspects:
    """What a run is about, beside its seed. The same seed under another aspect is another run.

    `accidents`: a small cluster without journaled data under the faults of BP-46 only: a missing guard shows soon.
    `crowding`: each writer writes many ledgers in step, so that bookies get adds of many ledgers together.
    `demanding`: applications that speak version 2, defer syncs, force, and want confirmed entries.
    `doubting`: bookies that lost volumes doubt every ledger and examine it beside serving (decisions/0021).
    `doubling`: bookies are made again elsewhere while their old processes live; else in some runs.
    `gated`: bookies that lost volumes wait for a grant, which comes late, twice, or too old.
    `varied`: passwords, tails, deletions; an ack quorum of one in some runs, in which no bookie loses anything.
    `recovering`: auto-recovery of ours runs in processes that are killed, and in bookies; bookies join; in the end
    every replica is there and equal.
    `remaking`: applications delete ledgers, and make others under their ids.
    `filling`: bookies fill their holes, and in the end every replica is there and equal, rot or not; none is spare.
    `replicating`: what dead bookies hold is copied elsewhere as Java's auto-recovery does it; no volume is lost then.
    `retiring`: bookies are emptied and retired meanwhile, and surplus replicas thrown away as Java's bookies do.
    `surplus`: bookies give up their surplus by themselves, after seconds; with `retiring` in place of Java's way.
    `touching`: no data in the journal, and it names the ledgers of which entries are in memory alone; in half of the
    runs each life of a bookie does so or not.
    `without`: what is left out of the run, by the names in `SeedOutcome.parts` (`sim.shrink`).
    """

    guard_fence: bool = True
    guard_limbo: bool = True
    faults_s: float = FAULTS_S
    accidents: bool = False
    demanding: bool = False
    retiring: bool = False
    surplus: bool = False
    replicating: bool = False
    recovering: bool = False
    doubling: bool = False
    filling: bool = False
    crowding: bool = False
    doubting: bool = False
    gated: bool = False
    varied: bool = False
    remaking: bool = False
    touching: bool = False
    without: frozenset[str] = frozenset()


def run_seed(
    seed: int,
    *,
    keep_trace: bool = False,
    wiretap: bool = True,
    probing: bool = False,
    story_of: LedgerId | None = None,
    **aspects: Any,
) -> SeedOutcome:
    """Run one seed to its end. Never raises for a defect of the run: the outcome has it. `aspects`: see `Aspects`.

    `probing`: count the probes (`sim.probes`) that the run reaches. `keep_trace`: the outcome has every event.
    `story_of`: it has those of one ledger, with what bookies answered. All three leave the run what it is.
    """
    about = Aspects(**aspects)
    swarm, settings, plan = _drawn(seed, about)
    keeps = keep_trace or story_of is not None
    cluster = SimCluster(seed, settings, dials=faults.dials(swarm, seed), keep_trace=keeps, wiretap=wiretap)
    simulation = cluster.simulation
    injector = Injector(
        cluster,
        swarm,
        simulation.random("injector"),
        down_max=max(1, settings.bookies - 3),
        without=about.without,
    )
    load = workload.Workload(cluster, plan, without=about.without)
    actors = _actors(cluster, injector, swarm, about)
    defect, probes = None, Probes()
    simulation.event("director", "swarm", f"{settings} {swarm.facts()} {plan}")
    if story_of is not None:
        story.follow(cluster, story_of)
    try:
        with _counting(cluster, probes) if probing else nullcontext():
            cluster.run(lambda it: _story(it, load, injector, actors, about.faults_s), time_limit_s=7_200)
    except (Defect, SimStuck, TimeoutError) as error:
        defect = "; ".join([f"{type(error).__name__}: {error}", *simulation.violations[:5]])
    table = simulation.trace.table() if story_of is None else story.table(simulation.trace, story_of)
    return SeedOutcome(
        seed=seed,
        digest=simulation.digest(),
        defect=defect,
        virtual_s=simulation.loop.time(),
        steps=simulation.loop.steps,
        acknowledged=cluster.oracle.entries_acknowledged,
        read=cluster.oracle.entries_read,
        ledgers=len(load.ledgers),
        mixed=cluster.wiretap.mixed_adds,
        broke=sum((actor.counts for actor in actors), injector.counts + load.counts),
        violations=list(simulation.violations),
        trace=table if keeps else [],
        reached=probes.reached,
        parts=[*injector.acts, *swarm.parts(), *load.names],
    )


def _drawn(seed: int, about: Aspects) -> tuple[faults.Swarm, SimSettings, workload.WorkloadShape]:
    """Return the faults, the cluster and the workload of a seed."""
    draws = random.Random(f"draws {seed}")
    swarm = faults.accidents(draws) if about.accidents else faults.draw(draws)
    bookies = 3 if about.accidents else draws.choice((3, 4, 4, 5))
    swarm, bookies = _fitted(swarm, bookies, about)
    varieties = random.Random(f"varieties {seed}")
    is_lone = about.varied and varieties.random() < 0.3
    if is_lone:
        swarm = dataclasses.replace(swarm, wipe_percent=0, sync_failure_percent=0, full_percent=0, rot_percent=0)
        swarm = dataclasses.replace(swarm, has_twins=False)
    settings = dataclasses.replace(
        _settings(draws, bookies, accidents=about.accidents),
        guard_fence=about.guard_fence,
        guard_limbo=about.guard_limbo,
        fill_after_boot=about.filling,
        phase_one=BOUND if about.doubting else SCAN,
        regeneration=GATED if about.gated else LOCAL,
    )
    if about.recovering:
        recoveries = random.Random(f"recoveries {seed}")
        settings = dataclasses.replace(
            settings,
            autorecovery=fleet_recovery.OPTIONS if recoveries.random() < 0.5 else None,
            fill_after_boot=recoveries.random() < 0.5,
        )
    if about.surplus:
        settings = dataclasses.replace(settings, surplus_wait_ms=1_500, upkeep_interval_ms=1_000)
    if about.touching:
        varies = random.Random(f"touches {seed}").random() < 0.5
        settings = dataclasses.replace(
            settings, journal_write_data=False, touch_unjournaled_ledgers=True, varies_touches=varies
        )
    plan = workload.draw(draws, bookies=bookies)
    if is_lone:
        settings = dataclasses.replace(settings, journal_write_data=True)
    if about.varied:
        plan = workload.varied(varieties, plan, is_lone=is_lone)
    if about.filling:
        plan = dataclasses.replace(plan, ensemble_size=3, write_quorum=3, ack_quorum=2)
    if about.crowding:
        plan = workload.crowded(random.Random(f"crowd {seed}"), plan)
    if about.remaking:
        plan = workload.remaking(random.Random(f"remakers {seed}"), plan)
    if about.demanding:
        demands = random.Random(f"demands {seed}")
        plan = workload.demanding(demands, plan)
        settings = dataclasses.replace(settings, client={**settings.client, **workload.client_options(demands)})
    return swarm.without(about.without), settings, plan


def _actors(cluster: SimCluster, injector: Injector, swarm: faults.Swarm, about: Aspects) -> "list[Actor]":
    random_ = cluster.simulation.random
    actors: list[Actor] = []
    if swarm.has_twins:
        actors.append(second_processes.Twins(cluster, injector, random_("twins")))
    if about.replicating:
        actors.append(replicator.Replicator(cluster, random_("replicator")))
    if about.recovering:
        processes = 1 if cluster.settings.autorecovery is not None else 2
        actors.append(fleet_recovery.FleetRecovery(cluster, random_("fleet recovery"), processes))
    if about.gated:
        actors.append(grants.Grants(cluster, random_("grants")))
    if about.retiring:
        actors.append(retirement.Retirements(cluster, injector, random_("retirements"), as_java=not about.surplus))
    return actors


@contextmanager
def _counting(cluster: SimCluster, probes: Probes) -> Iterator[None]:
    cluster.ledger_observers.append(probes.metadata_changed)
    with probes.listening():
        yield
    probes.answered(cluster.wiretap.refusals)


def _fitted(swarm: faults.Swarm, bookies: int, about: Aspects) -> tuple[faults.Swarm, int]:
    """Return faults and bookies without what the aspects of this run cannot stand."""
    if about.doubling:
        swarm = dataclasses.replace(swarm, has_twins=True, rot_percent=0, sync_failure_percent=0, full_percent=0)
    # Somebody must be left to take over; rot, which nobody notices, may leave nobody to copy from.
    if about.retiring or about.recovering:
        bookies, swarm = 5, dataclasses.replace(swarm, rot_percent=0, has_twins=False)
    if about.replicating:
        bookies, swarm = 5, dataclasses.replace(swarm, rot_percent=0, wipe_percent=0, has_twins=False, kill_percent=8)
    if about.gated:
        swarm = dataclasses.replace(swarm, wipe_percent=max(4, swarm.wipe_percent))
    if about.filling:
        bookies, swarm = 3, dataclasses.replace(swarm, has_twins=False)  # nobody is spare
    return swarm, bookies


def _settings(draws: random.Random, bookies: int, *, accidents: bool) -> SimSettings:
    return SimSettings(
        bookies=bookies,
        directories=1 if accidents else draws.choice((1, 1, 2, 3)),
        journal_write_data=draws.random() < 0.4 and not accidents,
        flush_interval_ms=60_000 if accidents else draws.choice((200, 2_000, 60_000)),
        open_ledger_grace_ms=draws.choice((0, 3_000)),
        client={"explicit_lac_ms": 0} if accidents else {},
        journal_file_bytes_max=draws.choice((16_384, 1_000_000)),
        entry_log_bytes_max=draws.choice((16_384, 1_000_000)),
        write_cache_bytes_max=draws.choice((16_384, 1_000_000)),
    )


class Actor(Protocol):
    """A task that acts beside the workload and the injector. `counts`: its actions, for the summary."""

    counts: Counter[str]

    def start(self) -> None: ...

    async def stop(self, *, timeout_s: float) -> None:
        """Finish what is under way. Raises Defect when that takes too long."""
        ...


async def _story(
    cluster: SimCluster, load: workload.Workload, injector: Injector, actors: Sequence[Actor], faults_s: float
) -> None:
    """Run the faults, then calm, then read every entry back."""
    load.start()
    for actor in actors:
        actor.start()
    await injector.run(faults_s)
    for actor in actors:
        if isinstance(actor, fleet_recovery.FleetRecovery):
            actor.calm()
        elif not isinstance(actor, retirement.Retirements | grants.Grants):
            await actor.stop(timeout_s=600)
    await load.stop(timeout_s=600)
    retirements = [actor for actor in actors if isinstance(actor, retirement.Retirements)]
    for leaving in retirements:
        await leaving.stop(timeout_s=600)
    await cluster.until_repaired(timeout_s=900)
    for actor in actors:
        if isinstance(actor, grants.Grants):
            await actor.stop(timeout_s=60)
    for leaving in retirements:
        leaving.replicas.check_all()
    left = load.left()
    await workload.verify(cluster, left, password=load.password)
    for actor in actors:
        if isinstance(actor, fleet_recovery.FleetRecovery):
            await actor.settle(left)
            await actor.stop(timeout_s=60)
            return
    if cluster.settings.fill_after_boot:
        await replicas.check_whole(cluster, left)
    elif not injector.swarm.rot_percent:
        await replicas.check_kept(cluster, left)
