"""The story of one ledger in a run: what bookies were asked and answered about it, among the faults, nodes as lanes."""

import re
from collections.abc import Sequence

from bookie.base.errors import Status
from bookie.base.ids import EntryId, LedgerId
from bookie.metadata import paths
from bookie.sim.cluster import ROOT, SimCluster
from bookie.sim.network import SimStream
from bookie.sim.node import Simulation
from bookie.sim.trace import NOTE, Trace, TraceEvent
from bookie.wire.messages import AddRun, Incoming, ReadRequest, ReadRun, Response

# Each one counts: it is what a recovery builds on, so it is not joined with others.
FENCING = "fence and read"
_LEDGER = re.compile(r"\bledgers? (\d+)|ledger_id=(\d+)")


def ledger_of(defect: str) -> LedgerId | None:
    """Return the ledger that a defect is about, None when its text names none."""
    found = _LEDGER.search(defect)
    return None if found is None else LedgerId(int(found[1] or found[2]))


class Teller:
    """Notes every answer of a bookie about one ledger as an arrow from it to who asked."""

    def __init__(self, simulation: Simulation, ledger_id: LedgerId) -> None:
        self._simulation = simulation
        self._ledger_id = ledger_id

    def heard(self, stream: SimStream, request: Incoming, response: Response) -> None:
        if getattr(response, "ledger_id", None) != self._ledger_id:
            return
        entry_id: EntryId | None = getattr(response, "entry_id", None)
        status = "ok" if response.status is Status.EOK else response.status.name
        text = f"{_asked(request)}{'' if entry_id is None else f' {entry_id}'}: {status}"
        self._simulation.trace.arrow(self._simulation.loop.now_ns, stream.host, stream.peer_host, text)


def follow(cluster: SimCluster, ledger_id: LedgerId) -> None:
    """Note what bookies answer about one ledger, for `table`. Call before the run; the cluster keeps its trace."""
    cluster.wiretap.listener = Teller(cluster.simulation, ledger_id).heard


def _asked(request: Incoming) -> str:
    match request:
        case AddRun(is_recovery=True):
            return "write back"
        case AddRun():
            return "add"
        case ReadRequest(is_fencing=True):
            return FENCING
        case ReadRequest() | ReadRun():
            return "read"
    return type(request).__name__.removesuffix("Request")


def table(trace: Trace, ledger_id: LedgerId) -> list[str]:
    """Return the lines of the trace that matter for one ledger. Answers that only repeat an earlier one are counted."""
    path = paths.ledger_path(ROOT, ledger_id)
    return trace.table(_folded([event for event in trace.events if _matters(event, path, ledger_id)]))


def _matters(event: TraceEvent, path: str, ledger_id: LedgerId) -> bool:
    if event.target:
        return True
    if event.text.startswith(("store ", "lost ")):
        return f"{path} " in f"{event.text} "
    of = ledger_of(event.text)
    if event.mark == NOTE:
        return of == ledger_id
    return not event.text.startswith(("swarm", "session")) and of in (None, ledger_id)


def _folded(events: Sequence[TraceEvent]) -> list[TraceEvent]:
    """Join answers of one bookie to one client that follow each other and differ only in the entry."""
    told: list[TraceEvent] = []
    open_at: dict[tuple[str, str, str], int] = {}
    for event in events:
        if not event.target:
            open_at.clear()
            told.append(event)
            continue
        what, _, status = event.text.rpartition(": ")
        kind, _, entry = what.rpartition(" ") if what[-1:].isdigit() else (what, "", "")
        key = (event.node, event.target, f"{kind}: {status}")
        at = len(told) if kind == FENCING else open_at.setdefault(key, len(told))
        if at == len(told):
            told.append(event)
        elif entry:
            first = told[at].text.removeprefix(f"{kind} ").partition(":")[0].partition(" to ")[0]
            what = f"{kind} {first} to {entry}" if first != entry else f"{kind} {first}"
            told[at] = told[at]._replace(text=f"{what}: {status}")
    return told
