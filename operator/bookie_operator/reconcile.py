"""One pass over one cluster: read, decide, act, say when to look again."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from bookie.base.errors import BadInput
from bookie_operator import observe, rests
from bookie_operator.execute.executor import Executor
from bookie_operator.failures import Attempt
from bookie_operator.gateways import endings
from bookie_operator.gateways.bookies import Bookies
from bookie_operator.gateways.endings import Endings
from bookie_operator.gateways.kube import Kube, KubeError, KubeForbidden, KubeReader, Manifest
from bookie_operator.identities import Identities
from bookie_operator.model import cluster as clusters
from bookie_operator.model import collisions, names
from bookie_operator.model.cluster import Cluster, SpecInvalid
from bookie_operator.plan import fleet, marks, operations, ownership, rollback, security_steps, staggering
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.observation import DependentsLook, Hindrance, MarksLook, Observation, Term
from bookie_operator.resources import record
from bookie_operator.rests import GlancedNodes, Rests
from bookie_operator.status import render

logger = logging.getLogger(__name__)

REFUSED_MS = 30_000
_LOOKS_MAX = 16
_WHAT_CHARS_MAX = 500  # of a defect, in a status: the log has all of it


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
        memory: Rests,
        nodes: GlancedNodes,
        *,
        image: str,
        version: str,
        rolling_max: int = 0,
        namespaces: tuple[str, ...] = (),
        owner: str = "",
        selector: str = "",
        refused: Callable[[str, str, str], None] = lambda _namespace, _name, _owner: None,
        ahead_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """`owner`: by what name clusters know this operator (plan/ownership.py). `selector`: labels of its clusters;
        "" = all. `refused`: hears who keeps a cluster that this operator leaves alone; "" = nobody else.
        `ahead_ms`: how far `wall_ms` is ahead of the API server's clock."""
        self._kube = kube
        self._bookies = bookies
        self._executor = executor
        self._term = term
        self._wall_ms = wall_ms
        self._endings = pods
        self._identities = identities
        self._rests = memory
        self._nodes = nodes
        self._image = image
        self._version = version
        self._rolling_max = rolling_max
        self._namespaces = namespaces  # that the operator watches; () = all
        self._owner = owner
        self._selector = selector
        self._refused = refused
        self._ahead_ms = ahead_ms
        self._looks: dict[Key, tuple[DependentsLook, ...]] = {}
        self._marks: dict[Key, MarksLook] = {}
        self._told: dict[Key, str] = {}  # why clusters are left alone, as the log says already

    def _now_ms(self) -> int:
        """Return now, by the API server's clock where ours differs (spec/operator.md#K36): no wait is over because the
        clock of our node was put ahead."""
        return self._wall_ms() - self._ahead_ms()

    async def reconcile(self, key: Key) -> int | None:
        """Run one pass; return the milliseconds until the next look, None when the cluster is gone. Raises whatever
        ended the pass: of the API server a KubeError, which its step tells; anything else is a defect of ours."""
        with self._executor.failures.step("pass", key.namespace, key.name) as step:
            try:
                return await self._pass(key)
            except KubeError:
                raise
            except Exception as error:  # the boundary of a pass: nobody else tells the cluster's owner
                if step.lasts():
                    await self._say_broken(key, error)
                raise

    async def _pass(self, key: Key) -> int | None:
        """Ask a fleet at rest alone; whatever it says otherwise than before makes the pass a full one."""
        place = (key.namespace, key.name)
        if (rest := self._rests.of(place)) is not None:
            before = rest.plan()
            if await self._is_as_before(key, before):
                return before.requeue_ms
            del before  # a full look makes another one beside it
        stirs, writes = self._rests.begin_look(place), self._executor.writes
        done = await self._look(key)
        if done is None or isinstance(done, int):
            return done
        if self._executor.writes == writes:
            self._rests.keep(place, done, stirs)
        return done.requeue_ms

    async def _is_as_before(self, key: Key, before: FleetPlan) -> bool:
        """Ask the bookies of a fleet at rest; return whether they give no reason to look at the rest of the world."""
        now_ms = self._now_ms()
        seen = await observe.glance(self._bookies, before.observation, self._term(), now_ms=now_ms)
        if seen is None:
            return False
        seen = await self._with_memory(self._nodes, seen)
        if why := rests.difference(before, fleet.decide(seen)):
            logger.debug("looks again cluster=%s/%s differs=%s", key.namespace, key.name, why)
            return False
        self._rests.glances += 1
        # An event that came meanwhile has queued the cluster again already.
        return True

    async def _with_memory(self, nodes: KubeReader, seen: Observation) -> Observation:
        """Return `seen` with what this process remembers of pods, stops and flushes; and the Nodes that matter. Its
        spec is the one that pods may be made of now."""
        seen = security_steps.between(seen)
        cluster = seen.cluster
        bookies, can_read_nodes = await endings.with_endings(nodes, self._endings, cluster, seen.bookies)
        known = replace(
            seen,
            bookies=bookies,
            can_read_nodes=can_read_nodes,
            hindrances=self._executor.hindrances(cluster),
            refused_sizes=self._executor.refused_sizes(cluster),
            flushed=self._executor.flushed(cluster),
            ledger_answers=self._executor.ledger_answers(cluster),
        )
        return fleet.with_turn(known)

    async def _look(self, key: Key) -> FleetPlan | int | None:
        """Read everything, decide and act. Return the plan that was carried out; without one, the milliseconds until
        the next look, None when the cluster is gone."""
        manifest = await self._kube.get(names.KIND, key.namespace, key.name)
        if manifest is None:
            self._rests.forget((key.namespace, key.name))
            self._looks.pop(key, None)
            self._marks.pop(key, None)
            await self._identities.forget(key.namespace, key.name)
            # Children go by their owner reference; claims stay.
            return await self._without_cluster(key, f"there is no BookieCluster {key.name} in {key.namespace}")
        if "deletionTimestamp" in manifest["metadata"]:
            return await self._without_cluster(key, f"BookieCluster {key.name} is being deleted")
        if self._selector:
            with self._executor.failures.step("selected", key.namespace, key.name) as step:
                try:
                    is_selected = await self._is_selected(key)
                except KubeError as error:
                    await self._say_unknown(key, step.reason(error, lasting="ReadFailed"), str(error))
                    raise
            if not is_selected:
                return None
        status = clusters.parse_status(manifest.get("status"))
        if await self._is_anothers(key, manifest, status.operator.owner):
            return REFUSED_MS
        try:
            cluster = clusters.parse(manifest)
        except SpecInvalid as error:
            await self._refuse(manifest, str(error))
            return REFUSED_MS
        stored_id = cluster.status.instance_id
        with self._executor.failures.step("record", key.namespace, key.name) as step:
            try:
                cluster, has_record, record_problem = await self._recalled(cluster)
            except KubeError as error:
                return await self._say_blind(cluster, step, error)
        cluster = cluster.as_of(self._now_ms())
        if await self._is_anothers(key, manifest, cluster.status.operator.owner):
            return REFUSED_MS
        # Who has lived has its names already. A status alone does not say so: it may come from a backup, or be forged.
        if not (stored_id and has_record):
            with self._executor.failures.step("names", key.namespace, key.name) as step:
                try:
                    conflict = await self._name_conflict(manifest, cluster)
                except KubeError as error:
                    return await self._say_blind(cluster, step, error)
            if conflict:
                await self._refuse(manifest, conflict, reason="NameConflict")
                return REFUSED_MS
        if cluster.status.operator.owner != self._owner and self._owner:
            cluster = await self._claimed(cluster)
        if cluster.status.observed_generation != cluster.generation:
            # First of all, before any child: say which generation is being worked on (spec/operator.md#K21).
            first = render.first(cluster.status, cluster.generation, self._now_ms())
            version = await self._executor.telling.write_status(cluster.ref, first)
            cluster = replace(cluster, status=first, is_recalled=False, resource_version=version)
        cluster = rollback.effective(cluster)
        with self._executor.failures.step("read", key.namespace, key.name) as step:
            try:
                seen = await self._seen(key, cluster, record_problem)
            except KubeError as error:
                return await self._say_blind(cluster, step, error)
        plan = fleet.decide(seen)
        await self._executor.run(plan)
        return plan

    async def _say_blind(self, cluster: Cluster, step: Attempt, error: KubeError) -> int:
        """Say that nothing is known, after a read that the API server refused, or at which it fails for long; return
        the milliseconds until the next look. Raises `error` while it may pass by itself."""
        reason = step.reason(error, lasting="ReadFailed")
        # What was seen once is no evidence of now.
        blind = render.forbidden(cluster.status, cluster.generation, reason, str(error), self._now_ms())
        is_stored = blind == cluster.status and not cluster.is_recalled
        await self._executor.telling.say_without_plan(cluster.ref, blind, self._now_ms(), is_stored=is_stored)
        if step.asked_to_wait is not None:
            raise step.asked_to_wait  # it is told; the next look is not before that time
        return REFUSED_MS

    async def _say_broken(self, key: Key, error: Exception) -> None:
        """Say that nothing is known, where `error` ends each pass: what the status said before may long be wrong."""
        what = f"{type(error).__name__}: {error}"[:_WHAT_CHARS_MAX]
        why = f"a defect of the operator ends each look ({what}); bookies go on, and nobody heals them"
        await self._say_unknown(key, "OperatorDefect", why)

    async def _say_unknown(self, key: Key, reason: str, why: str) -> None:
        """Say that nothing is known of a cluster whose status is ours, for a `reason` that lasts; best effort."""
        try:
            manifest = await self._kube.get(names.KIND, key.namespace, key.name)
            status = clusters.parse_status(manifest.get("status")) if manifest is not None else None
            if manifest is None or status is None or status.operator.owner != self._owner:
                return
            generation = int(manifest["metadata"].get("generation", 1))
            blind = render.forbidden(status, generation, reason, why, self._now_ms())
            ref, is_stored = clusters.ref(manifest), blind == status
            await self._executor.telling.say_without_plan(ref, blind, self._now_ms(), is_stored=is_stored)
        except KubeError as unsaid:
            logger.warning("not told cluster=%s/%s reason=%s error=%s", key.namespace, key.name, reason, unsaid)

    async def _seen(self, key: Key, cluster: Cluster, record_problem: str) -> Observation:
        """Return all that a plan for `cluster` depends on. Raises KubeError."""
        keys = await self._with_keys(cluster)
        observation = await observe.look(
            self._kube,
            self._bookies,
            cluster,
            self._term(),
            now_ms=self._now_ms(),
            image=self._image,
            version=self._version,
            record_problem=record_problem,
        )
        seen = await self._with_memory(self._kube, replace(observation, keys=keys))
        seen = await observe.by_name(self._kube, seen)
        known = await self._with_dependents(key, await self._with_others(seen))
        return await self._with_marks(key, known)

    async def _with_keys(self, cluster: Cluster) -> Hindrance | None:
        """Make and renew the certificates; return why they could not be, where what there is lets the operator look on.
        Raises KubeError where it does not, and for what may pass by itself."""
        with self._executor.failures.step("keys", cluster.namespace, cluster.name) as step:
            try:
                step.check_may_try()
                strange = await self._identities.ensure(cluster)
            except KubeError as error:
                reason = step.reason(error, lasting="ReadFailed")
                if not self._identities.can_look(cluster):
                    raise
                return Hindrance(f"the certificates of the admin ports cannot be kept: {error}", reason)
        return Hindrance(strange, "NameConflict") if strange else None

    async def _with_others(self, seen: Observation) -> Observation:
        """Return `seen` with the other clusters that roll out or ask to, while this one asks."""
        known = seen.cluster.status.rollout
        seen = replace(seen, rolling_max=self._rolling_max)
        if not self._rolling_max or known is None or not known.asks_for_turn:
            return seen
        try:
            found = [await self._kube.list(names.KIND, one, self._selector) for one in self._namespaces or ("",)]
        except KubeForbidden as error:
            return replace(seen, others_problem=str(error))
        others = staggering.contenders(
            one for some in found for one in some if one["metadata"]["uid"] != seen.cluster.uid
        )
        return replace(seen, others=others)

    async def _with_dependents(self, key: Key, seen: Observation) -> Observation:
        """Return `seen` with the looks for ledgers that depend on bookies (plan/dependents.py): those made before that
        still say something, and those to be made now."""
        known = self._looks.get(key, ())
        seen = replace(seen, dependents=known)
        asked = fleet.questions(seen)
        found = await observe.dependents(self._bookies, seen.cluster, asked, seen.now_ms)
        answered = [one.bookies for one in found]
        looks = (*(one for one in known if one.bookies not in answered), *found)[-_LOOKS_MAX:]
        if looks:
            self._looks[key] = looks
        return replace(seen, dependents=looks)

    async def _with_marks(self, key: Key, seen: Observation) -> Observation:
        """Return `seen` with the last look at auto-recovery's marks (plan/marks.py), made now where it is due."""
        known = self._marks.get(key)
        question = marks.to_ask(replace(seen, marks=known))
        if question is not None:
            found = await observe.marks(self._bookies, seen.cluster, question, seen.now_ms)
            known = self._marks[key] = marks.following(known, found)
        return replace(seen, marks=known)

    async def _is_selected(self, key: Key) -> bool:
        found = await self._kube.list(names.KIND, key.namespace, self._selector, fields=f"metadata.name={key.name}")
        return bool(found)

    async def _is_anothers(self, key: Key, manifest: Manifest, stored: str) -> bool:
        """Return True for a cluster that another operator keeps; say so, and touch nothing of it
        (spec/operator.md#I1)."""
        asked = str((manifest["metadata"].get("annotations") or {}).get(names.OPERATOR, ""))
        refusal = ownership.refusal(self._owner, asked, stored) if self._owner else None
        if refusal is None:
            return False
        self._refused(key.namespace, key.name, refusal.owner)
        if self._told.get(key) != refusal.message:
            self._told[key] = refusal.message
            logger.warning("left alone cluster=%s/%s why=%s", key.namespace, key.name, refusal.message)
        if refusal.is_conflict:
            await self._executor.telling.refuse(clusters.ref(manifest), refusal, self._owner, self._now_ms())
        return True

    async def _claimed(self, cluster: Cluster) -> Cluster:
        """Write our name into the status, over what was read: of two operators that find a new cluster at once, the API
        server lets one (spec/operator.md#I2). Conditions stay as they are."""
        operator = cluster.status.operator.model_copy(update={"owner": self._owner})
        claimed = cluster.status.model_copy(update={"operator": operator})
        version = await self._executor.telling.write_status(cluster.ref, claimed)
        self._told.pop(Key(cluster.namespace, cluster.name), None)
        self._refused(cluster.namespace, cluster.name, "")
        logger.info("claimed cluster=%s/%s owner=%s", cluster.namespace, cluster.name, self._owner)
        return replace(cluster, status=claimed, is_recalled=False, resource_version=version)

    async def _without_cluster(self, key: Key, why: str) -> int | None:
        """Tell the operations of a cluster that is not there what they wait for; return when to look at them again."""
        found, _ = await observe.operations_of(self._kube, key.namespace, key.name)
        told = operations.without_cluster(found, why, self._now_ms())
        await self._executor.telling.tell(told)
        return REFUSED_MS if told else None

    async def _name_conflict(self, manifest: Manifest, cluster: Cluster) -> str:
        """Return why this cluster must not have its names; "" when it may. Raises KubeError: nothing is made under
        names that may be another's."""
        others = await self._kube.list(names.KIND, cluster.namespace)
        return collisions.find(manifest, others, await self._kube.list("PersistentVolumeClaim", cluster.namespace))

    async def _recalled(self, cluster: Cluster) -> tuple[Cluster, bool, str]:
        """Return `cluster` with its status completed from the record; whether a record is there; and why it could not
        be used, or "". Raises KubeError: who keeps the cluster stands there too."""
        try:
            live = await self._kube.get("ConfigMap", cluster.namespace, names.record(cluster.name))
        except KubeForbidden as error:
            return cluster, False, str(error)
        try:
            recalled = record.recall(cluster.status, live)
        except BadInput as error:
            return cluster, True, str(error)
        return replace(cluster, status=recalled, is_recalled=recalled != cluster.status), live is not None, ""

    async def _refuse(self, manifest: Manifest, message: str, reason: str = "SpecInvalid") -> None:
        """Say in the status why the operator cannot use the spec, and change nothing else."""
        ref, before = clusters.ref(manifest), clusters.parse_status(manifest.get("status"))
        generation = int(manifest["metadata"].get("generation", 1))
        status = render.refused(before, generation, message, self._now_ms(), reason)
        if status != before:
            logger.warning("spec refused cluster=%s/%s message=%s", ref.namespace, ref.name, message)
        await self._executor.telling.say_without_plan(ref, status, self._now_ms(), is_stored=status == before)
