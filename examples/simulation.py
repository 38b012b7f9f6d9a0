"""Write down an accident, and let a simulated cluster play it: the two accidents of BP-46, with our guards and without.

python examples/simulation.py

docs/SIMULATION.md walks through it. No ZooKeeper, no bookie and no clock are needed: everything is in this process.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.client import LedgerWriter
from bookie.sim import story
from bookie.sim.cluster import ClientNode, SimCluster
from bookie.sim.node import Defect, ProcessEnd

Accident = Callable[[SimCluster], Coroutine[Any, Any, str]]

LEDGER = LedgerId(0)  # the first one that is made
# A writer that tells its LAC by itself would save the entry of the second accident by another road.
QUIET: dict[str, Any] = {"explicit_lac_ms": 0, "request_timeout_ms": 4_000, "recovery_timeout_ms": 20_000}


async def append(cluster: SimCluster, client: ClientNode, writer: LedgerWriter, payload: bytes) -> None:
    """Append, and tell the oracle that the application was told so: from now on it misses the entry."""
    entry_id = await client(writer.append(payload))
    cluster.oracle.acknowledged(writer.id, entry_id, payload)


async def the_fence_is_lost(cluster: SimCluster) -> str:
    """Accident 1. A second client closes the ledger of a writer that it takes for dead; then a bookie loses the fence
    with its volumes, and the writer comes back."""
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    writer = await c1(c1.client.create())
    for machine in (*cluster.bookies, "zk"):
        cluster.partition("c1", machine)
    cluster.partition("c2", "bookie-2")  # which never hears of the fence
    await c2(c2.client.open(writer.id))  # recovers the ledger: it ends here
    cluster.bookies["bookie-1"].crash()
    cluster.bookies["bookie-1"].wipe()
    cluster.bookies["bookie-1"].start()
    await cluster.until_ready("bookie-1")
    cluster.heal()
    cluster.hold("bookie-0", "c1")  # the only one that remembers the fence answers late
    try:
        await append(cluster, c1, writer, b"one more")
    except (errors.LedgerFenced, errors.LedgerClosed) as error:
        return f"the writer is refused: {type(error).__name__}"
    return "the writer goes on behind the end"


async def an_acknowledged_entry_is_lost(cluster: SimCluster) -> str:
    """Accident 2. An entry is on two bookies. One has it in memory only, crashes and comes back; the other is out of
    reach while a client recovers the ledger."""
    c1, c2 = await cluster.client("c1"), await cluster.client("c2")
    writer = await c1(c1.client.create())
    cluster.hold("c1", "bookie-1")
    await append(cluster, c1, writer, b"an entry")
    c1.crash()
    cluster.bookies["bookie-0"].crash(ProcessEnd.KILL)
    cluster.partition("bookie-2", "bookie-0")
    cluster.partition("bookie-2", "c2")
    cluster.bookies["bookie-0"].start()
    await cluster.until_ready("bookie-0")
    try:
        reader = await c2(c2.client.open(writer.id))
    except errors.BookieError as error:
        return f"the recovery does not guess: {type(error).__name__}"
    return f"the ledger is closed at {reader.last_entry}"


def play(accident: Accident, **settings: Any) -> str:
    """Return what came of it: the story's own words, or the promise that broke; print the story of its ledger."""
    cluster = SimCluster(7, client=QUIET, flush_interval_ms=3_600_000, keep_trace=True, **settings)
    story.follow(cluster, LEDGER)
    try:
        outcome = cluster.run(accident)
    except Defect as defect:
        outcome = f"a promise broke: {defect}"
    print("\n".join(story.table(cluster.simulation.trace, LEDGER)))
    return outcome


def main() -> None:
    for accident, guard in ((the_fence_is_lost, "guard_fence"), (an_acknowledged_entry_is_lost, "guard_limbo")):
        for is_on in (True, False):
            print(f"{accident.__name__}, {guard}={is_on}")
            print(f"=> {play(accident, **{guard: is_on})}\n")


if __name__ == "__main__":
    main()
