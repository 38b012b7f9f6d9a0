"""Decisions without a cluster: `render` and `plan` work on recorded objects. The same code decides as in production."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from bookie.base.errors import BadInput
from bookie.ports.admin import DrainStatus, FillStatus, MarkedLedgers, Member, References, RepairStatus, StorageReport
from bookie.rpc import encoding
from bookie_operator import observe
from bookie_operator.evidence.facts import Door
from bookie_operator.gateways import pod_types
from bookie_operator.gateways.bookies import BookieUnreachable
from bookie_operator.gateways.kube import Manifest
from bookie_operator.model import assignment, bounds, config, names, pools, structure, values
from bookie_operator.model import cluster as clusters
from bookie_operator.plan import fleet as plans
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.observation import Term
from bookie_operator.resources import fleet
from bookie_operator.status import render

# {kind: StorageReport, address: 10.0.0.1:3182, report: {...}} as `bookie integrity report --json` prints it; any port.
REPORT_KIND = "StorageReport"


class Recording:
    """Serves recorded objects (`items`) through the interfaces of the live ones, as far as the operator reads them."""

    def __init__(self, objects: Iterable[Manifest]) -> None:
        self._objects: list[Manifest] = []
        self._reports: dict[str, StorageReport] = {}
        for item in objects:
            if item.get("kind") == REPORT_KIND:
                report = encoding.from_json(StorageReport, item["report"])
                self._reports[item["address"].rpartition(":")[0]] = report
            else:
                self._objects.append(item)

    async def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        found = [one for one in await self.list(kind, namespace) if one["metadata"]["name"] == name]
        return found[0] if found else None

    async def list(self, kind: str, namespace: str, selector: str = "", *, fields: str = "") -> list[Manifest]:
        if fields:
            return []  # only the API server knows which fields can be asked for
        wanted = dict(part.split("=", 1) for part in selector.split(",") if part)
        return [
            one
            for one in self._objects
            if one["kind"] == kind
            and (not namespace or one["metadata"].get("namespace", "default") == namespace)
            and wanted.items() <= (one["metadata"].get("labels") or {}).items()
        ]

    async def report(self, door: Door, *, fresh: bool) -> StorageReport:
        try:
            return self._reports[door.address.rpartition(":")[0]]
        except KeyError:
            raise BookieUnreachable(f"no StorageReport of {door.address} in the recording") from None

    async def members(self, door: Door) -> tuple[Member, ...]:
        """Return the bookies of the recording whose report says that they have a cookie."""
        return tuple(
            Member(report.bookie_id, report.cookie_present, is_registered=report.state.serves)
            for report in self._reports.values()
        )

    async def repair(self, door: Door) -> RepairStatus:
        raise BookieUnreachable("a recording has no repair status")

    async def fill(self, door: Door) -> FillStatus:
        raise BookieUnreachable("a recording does not say how the filling of holes goes")

    async def look_at_drain(self, door: Door) -> DrainStatus:
        raise BookieUnreachable("a recording has no drain status")

    async def find_dependents(self, door: Door, bookie_ids: tuple[str, ...]) -> References:
        raise BookieUnreachable("a recording has no metadata")

    async def find_marked(self, door: Door, bookie_ids: tuple[str, ...]) -> MarkedLedgers:
        raise BookieUnreachable("a recording has no metadata")

    async def find_references(self, door: Door, bookie_id: str) -> References:
        raise BookieUnreachable("a recording has no metadata")


def items(documents: Iterable[Manifest]) -> list[Manifest]:
    """Return the objects of all lists. One that an API server has not named yet gets a name from us. Raises BadInput
    for one of our kinds that has none."""
    found = list[Manifest]()
    for item in (item for document in documents for item in document.get("items") or [document]):
        metadata, kind = item.get("metadata") or {}, item.get("kind")
        if metadata.get("generateName") and not metadata.get("name"):
            item = item | {"metadata": metadata | {"name": f"{metadata['generateName']}{len(found):05}"}}
        elif kind in (names.KIND, names.OPERATION_KIND) and not metadata.get("name"):
            raise BadInput(f"metadata.name of a {kind} is missing: give it one")
        found.append(item)
    return found


def _cluster(objects: Sequence[Manifest], name: str) -> clusters.Cluster:
    found = [item for item in objects if item.get("kind") == names.KIND]
    if len(found) != 1:
        others = sorted({str(item.get("kind", "something without a kind")) for item in objects} - {names.KIND})
        beside = f" (beside {', '.join(others)})" if others else ""
        raise BadInput(f"{name} must have one {names.KIND}, and it has {len(found)}{beside}: add or remove some")
    return clusters.parse(found[0])


def unknown(objects: Sequence[Manifest]) -> list[str]:
    """Return a sentence for each thing in our resources that this release does not know, and would leave out."""
    return [problem for item in objects for problem in structure.problems(item)]


def children(objects: Sequence[Manifest], image: str, *, name: str = "the file") -> tuple[dict[str, Any], ...]:
    """Return what the operator would make of the BookieCluster in `objects`; `name`: of where they come from."""
    if unheard := unknown(objects):
        raise BadInput("; ".join(unheard))
    cluster = _cluster(objects, name)
    wrong = (*bounds.problems(cluster.spec), *pools.problems(cluster.spec, config.problems))
    wrong = (*wrong, *pod_types.problems(cluster.spec.pod_template))
    assigned = assignment.assign(cluster.spec, {})
    if wrong := wrong or fleet.template_problems(cluster, assigned, image):
        raise BadInput("; ".join(wrong))
    return fleet.everything(cluster, cluster.spec.image or image)


def plan(objects: Sequence[Manifest], image: str, *, now_ms: int = 0, name: str = "the file") -> FleetPlan:
    """Return the plan that a new leader would make for the recorded situation at `now_ms` (0: its newest time)."""
    cluster = _cluster(objects, name)
    recording = Recording(objects)
    now_ms = now_ms or max((values.parse_time(one.since) for one in cluster.status.bookies), default=0)
    look = observe.look(recording, recording, cluster, Term("plan", 1), now_ms=now_ms, image=image, version="plan")
    return plans.decide(asyncio.run(look))


def status(plan: FleetPlan) -> dict[str, object]:
    return render.render(plan).dump()


def explain(plan: FleetPlan) -> list[str]:
    """Return one line per bookie, per closed gate, per action."""
    lines = []
    for one in plan.fleet:
        lines.append(f"{one.case.name}: {one.stage.value} ({one.evidence.conclusion.value}/{one.reason}) {one.message}")
        lines += [f"  gate {gate.name} closed: {gate.message}" for gate in plan.closed.get(one.case.name, ())]
    lines += [f"obstacle {obstacle.reason}: {obstacle.message}" for obstacle in plan.obstacles]
    stop = [plan.rollout.action] if plan.rollout.action is not None else []
    lines += [f"would {action}" for action in (*plan.actions, *plan.sends, *stop)]
    for told in plan.operations:
        phase = told.status.phase.value if told.status.phase is not None else ""
        lines.append(f"operation {told.operation.name}: {phase} {told.status.message}")
    lines.append(f"disruption budget maxUnavailable={plan.max_unavailable}, next look in {plan.requeue_ms} ms")
    return lines
