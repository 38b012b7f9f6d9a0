"""Remembers which fleets are at rest, so that a pass over one asks its bookies alone and the API server nothing.

A *full look* reads everything live. When it wrote nothing and wants nothing, the fleet is at rest, and the passes that
follow only *glance*: they ask the bookies anew, put the answers beside what the full look read, and decide again. What
a glance decides is never carried out. It only says whether the plan and the status are still the same ones; when they
are not, a full look follows in the same pass (spec/operator.md#K34). So what is stale here can delay a decision and
never make one.

A plan holds everything that a look read: 300 KB of objects for 4 bookies. Between glances it is kept packed, in 11 KB.

A rest ends with any event of the cluster or of its children, with another version of the cluster, with the lease, and
by itself after FULL_LOOK_MS: that bounds what a lost event, or a kind that nobody watches, costs
(spec/operator.md#K35).
"""

import dataclasses
import hashlib
import pickle
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from bookie_operator.gateways.kube import KubeReader, Manifest
from bookie_operator.plan import fleet
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.status import render

# What a missed event costs at most. 50 fleets of 12 bookies then ask about 3 times a second, and 27 without rests.
FULL_LOOK_MS = 300_000
_SPREAD_MS = 60_000  # fleets that came to rest together do not end it together
# Nodes are in no watch. Every look of a fleet to which they matter had them at most a quiet pass old before.
NODE_AGE_MS = 25_000
_PACKED_LEVEL = 1  # the default one takes twice as long, for a tenth less
assert NODE_AGE_MS < fleet.QUIET_MS < _SPREAD_MS < FULL_LOOK_MS

# Of a plan, what is different in each pass of a fleet at rest: ages, and what was read.
_OF_THE_LOOK = ("observation", "fleet")
_WISHES = tuple(one.name for one in dataclasses.fields(FleetPlan) if one.name not in _OF_THE_LOOK)

FleetKey = tuple[str, str]  # namespace, name


@dataclass(frozen=True, slots=True)
class Rest:
    """What the last full look at a fleet saw and decided: nothing to do. `packed`: that plan. `resource_version`: of
    the cluster, as it was read. `until_ms`: monotonic."""

    packed: bytes
    resource_version: str
    until_ms: int

    @staticmethod
    def of(plan: FleetPlan, until_ms: int) -> "Rest":
        packed = zlib.compress(pickle.dumps(plan, pickle.HIGHEST_PROTOCOL), _PACKED_LEVEL)
        return Rest(packed, plan.observation.cluster.resource_version, until_ms)

    def plan(self) -> FleetPlan:
        """Return the plan, made anew: milliseconds for 12 bookies."""
        found = pickle.loads(zlib.decompress(self.packed))  # bytes that this process made, and nobody else saw
        assert isinstance(found, FleetPlan)
        return found


def may_begin(plan: FleetPlan) -> bool:
    """Return True when the passes after `plan`, which wrote nothing, may glance."""
    seen = plan.observation
    known = seen.cluster.status.rollout
    depends_on_others = known is not None and known.asks_for_turn  # on clusters that a glance does not read
    is_read = not (seen.record_problem or seen.operations_problem or seen.others_problem)
    return (
        plan.requeue_ms >= fleet.QUIET_MS
        and is_read
        and seen.leadership.is_held
        and not depends_on_others
        and not seen.cluster.is_recalled
        and render.render(plan) == seen.cluster.status
    )


def difference(before: FleetPlan, now: FleetPlan) -> str:
    """Return what `now`, a plan of a glance, has otherwise than `before`, of the full look; "" when nothing."""
    if now.observation.leadership != before.observation.leadership:
        return "leadership"
    changed = next((name for name in _WISHES if getattr(now, name) != getattr(before, name)), "")
    return changed or ("status" if render.render(now) != before.observation.cluster.status else "")


class Rests:
    """The fleets at rest. Events end a rest at any time, also in the middle of the look that would begin it."""

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._monotonic_ms = monotonic_ms
        self._rests: dict[FleetKey, Rest] = {}
        self._stirs: dict[FleetKey, int] = {}  # events so far
        self.glances = 0  # passes that asked the API server nothing about a fleet
        self.looks = 0

    def stir(self, key: FleetKey) -> None:
        """Something about this fleet may have changed: the next pass reads everything."""
        self._stirs[key] = self._stirs.get(key, 0) + 1
        self._rests.pop(key, None)

    def heed(self, key: FleetKey, resource_version: str) -> bool:
        """End the rest of a cluster whose resource is not the version that was read, whoever wrote it; True when it
        had one."""
        rest = self._rests.get(key)
        if rest is not None and rest.resource_version != resource_version:
            self.stir(key)
            return True
        return False

    def of(self, key: FleetKey) -> Rest | None:
        """Return the rest that a pass may glance by; None when it must read everything."""
        rest = self._rests.get(key)
        return rest if rest is not None and self._monotonic_ms() < rest.until_ms else None

    def begin_look(self, key: FleetKey) -> int:
        """End the rest, and return what `keep` asks for: events that come from now on are news to the look."""
        self._rests.pop(key, None)
        self.looks += 1
        return self._stirs.get(key, 0)

    def keep(self, key: FleetKey, plan: FleetPlan, stirs: int) -> None:
        """Begin a rest by the look that just ended, unless an event came while it read."""
        if stirs == self._stirs.get(key, 0) and may_begin(plan):
            spread = int.from_bytes(hashlib.sha256("/".join(key).encode()).digest()[:4], "big") % _SPREAD_MS
            self._rests[key] = Rest.of(plan, self._monotonic_ms() + FULL_LOOK_MS - spread)

    def forget(self, key: FleetKey) -> None:
        """Drop what is known of a cluster that is gone."""
        self._rests.pop(key, None)
        self._stirs.pop(key, None)


class GlancedNodes:
    """The Nodes as glances see them: each read at most once in NODE_AGE_MS, for all fleets together."""

    def __init__(self, kube: KubeReader, monotonic_ms: Callable[[], int]) -> None:
        self._kube = kube
        self._monotonic_ms = monotonic_ms
        self._known: dict[str, tuple[int, Manifest | None]] = {}  # by name: when it was read

    async def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        """Return a Node. Raises KubeForbidden, and KubeError when the API server does not answer."""
        assert kind == "Node", "a glance asks the API server for nothing else"
        now_ms = self._monotonic_ms()
        if name not in self._known or now_ms - self._known[name][0] > NODE_AGE_MS:
            self._known = {one: found for one, found in self._known.items() if now_ms - found[0] <= NODE_AGE_MS}
            self._known[name] = now_ms, await self._kube.get(kind, namespace, name)
        return self._known[name][1]

    async def list(self, kind: str, namespace: str, selector: str = "", *, fields: str = "") -> list[Manifest]:
        raise AssertionError("a glance lists nothing")
