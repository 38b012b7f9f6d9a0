"""One pass over one cluster: read, decide, act, say when to look again."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from bookie_operator import observe
from bookie_operator.execute import Executor
from bookie_operator.gateways.bookies import Bookies
from bookie_operator.gateways.kube import Kube, Manifest
from bookie_operator.model import cluster as clusters
from bookie_operator.model import names
from bookie_operator.model.cluster import SpecInvalid
from bookie_operator.plan import fleet
from bookie_operator.plan.observation import Leadership
from bookie_operator.status import render

logger = logging.getLogger(__name__)

AGAIN_MS = 200
REFUSED_MS = 30_000


@dataclass(frozen=True, slots=True)
class Key:
    namespace: str
    name: str


class Reconciler:
    """Level-based: a pass knows what the last one did only by what it can see."""

    def __init__(
        self,
        kube: Kube,
        bookies: Bookies,
        executor: Executor,
        leadership: Callable[[], Leadership],
        wall_ms: Callable[[], int],
        raise_epoch: Callable[[int], Awaitable[None]],
        *,
        image: str,
        version: str,
    ) -> None:
        self._kube = kube
        self._bookies = bookies
        self._executor = executor
        self._leadership = leadership
        self._wall_ms = wall_ms
        self._raise_epoch = raise_epoch
        self._image = image
        self._version = version

    async def reconcile(self, key: Key) -> int | None:
        """Milliseconds until the next look; None when there is nothing to look at any more."""
        manifest = await self._kube.get(names.KIND, key.namespace, key.name)
        if manifest is None or "deletionTimestamp" in manifest["metadata"]:
            return None  # children go by their owner reference; claims stay
        try:
            cluster = clusters.parse(manifest)
        except SpecInvalid as error:
            await self._refuse(manifest, str(error))
            return REFUSED_MS
        if cluster.status.observed_generation != cluster.generation:
            # First of all, before any child: say which generation is being worked on (operators.md 5.6).
            first = render.first(cluster.status, cluster.generation, self._wall_ms())
            version = await self._executor.write_status(cluster.address, first)
            cluster = replace(cluster, status=first, resource_version=version)
        observation = await observe.look(
            self._kube,
            self._bookies,
            cluster,
            self._leadership(),
            now_ms=self._wall_ms(),
            image=self._image,
            version=self._version,
        )
        epoch_seen = max((case.report.operator_epoch_seen for case in observation.bookies if case.report), default=0)
        if epoch_seen > observation.leadership.epoch:
            await self._raise_epoch(epoch_seen)
        plan = fleet.decide(observation)
        await self._executor.run(plan)
        return plan.requeue_ms

    async def _refuse(self, manifest: Manifest, message: str) -> None:
        """A spec that the CRD let through and we cannot use: say so, change nothing."""
        metadata = manifest["metadata"]
        before = clusters.parse_status(manifest.get("status"))
        generation = int(metadata.get("generation", 1))
        status = render.refused(before, generation, message, self._wall_ms())
        if status != before:
            logger.warning("spec refused cluster=%s/%s message=%s", metadata["namespace"], metadata["name"], message)
            await self._executor.write_status(clusters.address(manifest), status)
