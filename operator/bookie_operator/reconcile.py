"""One pass over one cluster: read, decide, act, say when to look again."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from bookie.base.errors import BadInput
from bookie_operator import observe
from bookie_operator.execute import Executor
from bookie_operator.gateways import endings
from bookie_operator.gateways.bookies import Bookies
from bookie_operator.gateways.endings import Endings
from bookie_operator.gateways.kube import Kube, KubeForbidden, Manifest
from bookie_operator.identities import Identities
from bookie_operator.model import cluster as clusters
from bookie_operator.model import collisions, names
from bookie_operator.model.cluster import Cluster, SpecInvalid
from bookie_operator.plan import fleet
from bookie_operator.plan.observation import Term
from bookie_operator.resources import record
from bookie_operator.status import render

logger = logging.getLogger(__name__)

REFUSED_MS = 30_000


@dataclass(frozen=True, slots=True)
class Key:
    namespace: str
    name: str


class Reconciler:
    """Runs passes. A pass learns what the last one did only from live objects."""

    def __init__(
        self,
        kube: Kube,
        bookies: Bookies,
        executor: Executor,
        term: Callable[[], Term],
        wall_ms: Callable[[], int],
        pods: Endings,
        identities: Identities,
        *,
        image: str,
        version: str,
    ) -> None:
        self._kube = kube
        self._bookies = bookies
        self._executor = executor
        self._term = term
        self._wall_ms = wall_ms
        self._endings = pods
        self._identities = identities
        self._image = image
        self._version = version

    async def reconcile(self, key: Key) -> int | None:
        """Run one pass; return the milliseconds until the next look, None when the cluster is gone."""
        manifest = await self._kube.get(names.KIND, key.namespace, key.name)
        if manifest is None:
            await self._identities.forget(key.namespace, key.name)
            return None  # children go by their owner reference; claims stay
        if "deletionTimestamp" in manifest["metadata"]:
            return None
        try:
            cluster = clusters.parse(manifest)
        except SpecInvalid as error:
            await self._refuse(manifest, str(error))
            return REFUSED_MS
        if conflict := await self._name_conflict(manifest, cluster):
            await self._refuse(manifest, conflict, reason="NameConflict")
            return REFUSED_MS
        cluster, record_problem = await self._recalled(cluster)
        if cluster.status.observed_generation != cluster.generation:
            # First of all, before any child: say which generation is being worked on (spec/operator.md#K21).
            first = render.first(cluster.status, cluster.generation, self._wall_ms())
            version = await self._executor.write_status(cluster.ref, first)
            cluster = replace(cluster, status=first, is_recalled=False, resource_version=version)
        try:
            await self._identities.ensure(cluster)
            observation = await observe.look(
                self._kube,
                self._bookies,
                cluster,
                self._term(),
                now_ms=self._wall_ms(),
                image=self._image,
                version=self._version,
                record_problem=record_problem,
            )
        except KubeForbidden as error:
            # What was seen once is no evidence of now.
            blind = render.forbidden(cluster.status, cluster.generation, str(error), self._wall_ms())
            is_stored = blind == cluster.status and not cluster.is_recalled
            await self._executor.say(cluster.ref, blind, self._wall_ms(), is_stored=is_stored)
            return REFUSED_MS
        bookies, can_read_nodes = await endings.with_endings(self._kube, self._endings, cluster, observation.bookies)
        hindrances = self._executor.hindrances(cluster)
        seen = replace(observation, bookies=bookies, can_read_nodes=can_read_nodes, hindrances=hindrances)
        plan = fleet.decide(seen)
        await self._executor.run(plan)
        return plan.requeue_ms

    async def _name_conflict(self, manifest: Manifest, cluster: Cluster) -> str:
        """Return why this cluster must not have its names; "" when it may. A cluster that has lived has them
        already."""
        if cluster.status.instance_id is not None:
            return ""
        try:
            others = await self._kube.list(names.KIND, cluster.namespace)
            return collisions.find(manifest, others, await self._kube.list("PersistentVolumeClaim", cluster.namespace))
        except KubeForbidden:
            return ""  # the look that follows asks the same, and says that it may not

    async def _recalled(self, cluster: Cluster) -> tuple[Cluster, str]:
        """Return `cluster` with its status completed from the record; and why the record could not be read, or ""."""
        try:
            live = await self._kube.get("ConfigMap", cluster.namespace, names.record(cluster.name))
        except KubeForbidden as error:
            return cluster, str(error)
        try:
            recalled = record.recall(cluster.status, live)
            return replace(cluster, status=recalled, is_recalled=recalled != cluster.status), ""
        except BadInput as error:
            return cluster, str(error)

    async def _refuse(self, manifest: Manifest, message: str, reason: str = "SpecInvalid") -> None:
        """Say in the status why the operator cannot use the spec, and change nothing else."""
        ref, before = clusters.ref(manifest), clusters.parse_status(manifest.get("status"))
        generation = int(manifest["metadata"].get("generation", 1))
        status = render.refused(before, generation, message, self._wall_ms(), reason)
        if status != before:
            logger.warning("spec refused cluster=%s/%s message=%s", ref.namespace, ref.name, message)
        await self._executor.say(ref, status, self._wall_ms(), is_stored=status == before)
