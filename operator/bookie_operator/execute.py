"""Carries out one plan: the record, children and marks, the status, grants, events, then the roll-out's step.

The order is the safety argument. The disruption budget is closed before the operator acts on a loss; the grant is in
the stored status before the bookie hears of it; a step that fails stops every later step that could do harm. Every step
may be repeated: a crash between any two of them is repaired by the next pass (tests: crash after every write).
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from bookie.base.errors import BookieError
from bookie_operator.applied import Applied
from bookie_operator.crash import CrashPoint
from bookie_operator.evidence.facts import Door
from bookie_operator.gateways.bookies import Bookies, BookieUnreachable
from bookie_operator.gateways.kube import Kube, KubeError, KubeForbidden, Manifest
from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster, ClusterRef
from bookie_operator.model.status import BookieClusterStatus
from bookie_operator.plan.actions import (
    Action,
    Apply,
    DeleteChild,
    MarkClaim,
    ResumeBookie,
    SendGrant,
    StopBookie,
)
from bookie_operator.plan.children import Obstacle
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.observation import Observation
from bookie_operator.recorder import Recorder
from bookie_operator.resources import common, record
from bookie_operator.status import events, render, warnings

logger = logging.getLogger(__name__)

# A flush after a flush takes no time. One that does makes what the pass saw too old to end a bookie by it.
FLUSH_AGAIN_S = 2.0


class LostLease(BookieError):
    """This process may no longer act: it ends, and another operator process takes over."""

    fatal = True


class Executor:
    """Writes what a plan asks for; nothing else in the operator writes to children, status or bookies."""

    def __init__(
        self,
        kube: Kube,
        bookies: Bookies,
        recorder: Recorder,
        crash: CrashPoint,
        may_act: Callable[[], bool],
        loop_s: Callable[[], float],
    ) -> None:
        self._kube = kube
        self._bookies = bookies
        self._recorder = recorder
        self._crash = crash
        self._applied = Applied()
        self._may_act = may_act
        self._loop_s = loop_s
        self._hindrances: dict[tuple[str, str], dict[str, str]] = {}  # by namespace and cluster

    async def run(self, plan: FleetPlan) -> None:
        """Carry out `plan`. Raises KubeError (also for a conflict) to repeat the pass, LostLease to end the process."""
        cluster = plan.observation.cluster
        refused = [await self._remember(plan)]
        refused += [await self._act(plan.observation, action) for action in plan.actions]
        failures = [obstacle for obstacle in refused if obstacle is not None]
        if failures:
            # CRASH: the operator sends no grant and stops nobody until the whole protection is in place; the next pass
            # tries again.
            idle = replace(plan.rollout, action=None)
            plan = replace(plan, obstacles=(*plan.obstacles, *failures), sends=(), rollout=idle)
        status = render.render(plan)
        if status != cluster.status or cluster.is_recalled:
            await self.write_status(cluster.ref, status)
        for send in plan.sends:
            await self._grant(send)
        now_ms = plan.observation.now_ms
        for event in (*warnings.standing(status, now_ms), *events.between(cluster.status, status)):
            await self._recorder.record(cluster.ref, event, now_ms)
        if plan.rollout.action is not None:
            step = plan.rollout.status.step
            assert step is not None, "nobody is stopped whose turn is not stored"
            why = await self._roll(cluster.namespace, plan.rollout.action)
            self._hindrances[(cluster.namespace, cluster.name)] = {step.pod_uid: why} if why else {}

    def hindrances(self, cluster: Cluster) -> Mapping[str, str]:
        """Return, by pod uid, why the last stop of a bookie, or its resumption, did not succeed."""
        return self._hindrances.get((cluster.namespace, cluster.name), {})

    async def _remember(self, plan: FleetPlan) -> Obstacle | None:
        """Write the record before the operator does or says anything that rests on it."""
        cluster, observation = plan.observation.cluster, plan.observation
        wanted = record.config_map(cluster, render.render(plan))
        live = observation.children.get(("ConfigMap", names.record(cluster.name)))
        if observation.record_problem or record.is_kept(wanted, live):
            return None
        self._check_lease()
        try:
            if live is None:
                await self._kube.create(wanted)
            else:
                # CRASH: only over what this pass has read; somebody else's newer record is not written over.
                version = live["metadata"]["resourceVersion"]
                wanted = wanted | {"metadata": wanted["metadata"] | {"resourceVersion": version}}
                await self._kube.apply(wanted, manager=names.MANAGER)
        except KubeError as error:
            return _obstacle(error, f"keep the record in ConfigMap {names.record(cluster.name)}")
        self._crash.after_write("record")
        return None

    async def say(self, cluster: ClusterRef, status: BookieClusterStatus, now_ms: int, *, is_stored: bool) -> None:
        """End a pass that has no plan: store `status`, and send the warnings about the cluster in it."""
        if not is_stored:
            await self.write_status(cluster, status)
        for event in warnings.of_cluster(status, now_ms):
            await self._recorder.record(cluster, event, now_ms)

    async def write_status(self, cluster: ClusterRef, status: BookieClusterStatus) -> str:
        """Store `status` if nobody touched the resource since it was read. Returns the new resourceVersion."""
        self._check_lease()
        stored = await self._kube.apply(
            {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "metadata": {
                    "name": cluster.name,
                    "namespace": cluster.namespace,
                    "resourceVersion": cluster.resource_version,
                },
                "status": status.dump(),
            },
            manager=names.STATUS_MANAGER,
            subresource="status",
        )
        self._crash.after_write("status")
        return str(stored["metadata"].get("resourceVersion", ""))

    async def store(self, manifest: Manifest, manager: str) -> None:
        """Apply an object that is no child of one cluster alone: certificates and their authorities."""
        self._check_lease()
        await self._kube.apply(manifest, manager=manager)
        logger.info("done action=apply %s %s for=%s", manifest["kind"], manifest["metadata"]["name"], manager)
        self._crash.after_write(manifest["metadata"]["name"])

    async def _act(self, seen: Observation, action: Action) -> Obstacle | None:
        """Do one action. Returns an obstacle when the API server refuses for good; other errors pass through."""
        self._check_lease()
        cluster = seen.cluster
        if self._is_futile(seen, action):
            return _protection(action, _live(seen, action))
        stored: Manifest | None = None
        try:
            if isinstance(action, DeleteChild):
                await self._kube.delete(
                    action.kind,
                    cluster.namespace,
                    action.name,
                    uid=action.uid,
                    resource_version=action.resource_version,
                )
            else:
                manager = names.MANAGER if isinstance(action, Apply) else names.IDENTITY_MANAGER
                stored = await self._kube.apply(_manifest(seen, action), manager=manager)
                self._applied.note(_manifest(seen, action), stored, seen.now_ms)
        except KubeError as error:
            return _obstacle(error, str(action))
        logger.info("done cluster=%s/%s action=%s", cluster.namespace, cluster.name, action)
        self._crash.after_write(str(action))
        return _protection(action, stored)

    def _is_futile(self, seen: Observation, action: Action) -> bool:
        if isinstance(action, Apply):
            return self._applied.is_futile(action.manifest, _live(seen, action), seen.now_ms)
        return isinstance(action, MarkClaim) and self._applied.must_wait(_manifest(seen, action), seen.now_ms)

    async def _grant(self, send: SendGrant) -> None:
        """Send one grant. A lost answer is neither yes nor no: the next pass sees what the bookie did, or sends it
        again."""
        self._check_lease()
        try:
            answer = await self._bookies.grant(send.door, send.grant, send.ttl_ms)
        except BookieUnreachable as error:
            logger.warning("grant not delivered bookie=%s grant=%s error=%s", send.bookie, send.grant.id, error)
            return
        if answer.is_accepted:
            logger.info("grant accepted bookie=%s grant=%s", send.bookie, send.grant.id)
        else:
            logger.warning(
                "grant refused bookie=%s grant=%s reason=%s text=%s",
                send.bookie,
                send.grant.id,
                answer.refused_reason,
                answer.text,
            )
        self._crash.after_write(str(send))

    async def _roll(self, namespace: str, action: StopBookie | ResumeBookie) -> str:
        """Do the step of the roll-out whose turn is stored; return why it was refused, or "". The next pass tells, and
        tries again."""
        self._check_lease()
        try:
            if isinstance(action, StopBookie):
                return await self._stop(namespace, action)
            await self._bookies.resume(action.door)
        except BookieUnreachable as error:
            logger.warning("not done, tried again namespace=%s action=%s error=%s", namespace, action, error)
            return str(error)
        logger.info("done namespace=%s action=%s", namespace, action)
        self._crash.after_write(str(action))
        return ""

    async def _stop(self, namespace: str, action: StopBookie) -> str:
        """End a pod that serves only after its bookie said that everything is flushed, at once and for the second
        time: what the pass saw is not older than that. Return why it could not be, or "". Raises BookieUnreachable."""
        if action.door is not None:
            may_delete, why = await self._flush(action, action.door)
            if not may_delete:
                return why
        self._check_lease()  # the flush took its time
        try:
            # CRASH: exactly the pod that was seen; another one of this name, or one that changed since, is looked at
            # anew.
            await self._kube.delete(
                "Pod", namespace, action.bookie, uid=action.pod_uid, resource_version=action.resource_version
            )
        except KubeError as error:
            logger.warning("not stopped namespace=%s action=%s error=%s", namespace, action, error)
            if error.is_conflict:
                return ""
            refused = _obstacle(error, f"delete pod {action.bookie}")
            return f"{refused.reason}: {refused.message}"
        logger.info("done namespace=%s action=%s", namespace, action)
        self._crash.after_write(str(action))
        return ""

    async def _flush(self, action: StopBookie, door: Door) -> tuple[bool, str]:
        """Return (this pass may end the bookie, why the bookie could not flush)."""
        began_s = self._loop_s()
        is_flushed, text = await self._bookies.prepare_shutdown(door)
        took_s = self._loop_s() - began_s
        self._crash.after_write(f"flush of {action.bookie}")
        if not is_flushed:
            logger.warning("not stopped, it could not flush bookie=%s reason=%s", action.bookie, text)
            return False, f"{action.bookie} cannot flush: {text}"
        logger.info("flushed bookie=%s seconds=%.1f", action.bookie, took_s)
        return action.may_delete and took_s <= FLUSH_AGAIN_S, ""

    def _check_lease(self) -> None:
        if not self._may_act():
            raise LostLease("the lease is not ours any more (or cannot be renewed in time)")


def _obstacle(error: KubeError, what: str) -> Obstacle:
    """Return the obstacle for a refusal that no repetition changes. Raises any other `error`."""
    if isinstance(error, KubeForbidden):
        return Obstacle("PermissionMissing", f"could not {what}: {error}")
    if error.is_invalid:
        return Obstacle("ApplyRefused", f"could not {what}: {error}")
    raise error


def _live(seen: Observation, action: Action) -> Manifest | None:
    if not isinstance(action, Apply):
        return None
    return seen.children.get((action.manifest["kind"], action.manifest["metadata"]["name"]))


def _manifest(seen: Observation, action: Apply | MarkClaim) -> Manifest:
    """Return the manifest that `action` applies."""
    if isinstance(action, Apply):
        return action.manifest
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": action.name,
            "namespace": seen.cluster.namespace,
            "uid": action.uid,
            "annotations": dict(action.annotations),
        },
    }


def _protection(action: Action, stored: Manifest | None) -> Obstacle | None:
    """Return an obstacle when the disruption budget is not stored as applied: the operator then sends no grant."""
    if not isinstance(action, Apply) or action.manifest["kind"] != "PodDisruptionBudget":
        return None
    if stored is not None and common.is_applied({"spec": action.manifest["spec"]}, stored):
        return None
    return Obstacle(
        "ApplyRefused",
        f"{action} did not last: an admission policy or another controller changes it. Exempt it there, or set"
        " spec.disruption.pdb to false and protect the pods yourself",
    )
