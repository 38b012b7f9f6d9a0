"""Carries out one plan: the record, children and marks, the status, grants, events, then the roll-out's step.

The order is the safety argument. The disruption budget is closed before the operator acts on a loss; the grant is in
the stored status before the bookie hears of it; a step that fails stops every later step that could do harm. Every step
may be repeated: a crash between any two of them is repaired by the next pass (tests: crash after every write).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from bookie.base.errors import BookieError
from bookie.ports.admin import StopTurn
from bookie.rpc.calls import OrderAnswer
from bookie_operator.applied import Applied
from bookie_operator.crash import CrashPoint
from bookie_operator.evidence.facts import Door, RefusedSize
from bookie_operator.failures import Failures, Step
from bookie_operator.gateways.bookies import FLUSH_DEADLINE_S, Bookies, BookieUnreachable
from bookie_operator.gateways.kube import Kube, KubeError, KubeForbidden, Manifest
from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster, ClusterRef
from bookie_operator.model.status import BookieClusterStatus
from bookie_operator.plan.actions import (
    Action,
    Apply,
    CancelDrain,
    ChangeSettings,
    DeleteChild,
    DetachPool,
    FillHoles,
    FlushBookie,
    ForgetBookie,
    LeaveStep,
    MarkClaim,
    OwnClaim,
    RemoveBookie,
    ResizeClaim,
    RestoreCookie,
    ResumeBookie,
    RetireBookie,
    ScalePool,
    SendGrant,
    SetAside,
    StartDrain,
    StopBookie,
    StopFleet,
    is_made_anew,
    needs_record,
)
from bookie_operator.plan.children import Obstacle
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.observation import Hindrance, LedgerAnswer, Observation
from bookie_operator.plan.operations import Told
from bookie_operator.plan.ownership import Refusal
from bookie_operator.recorder import Recorder
from bookie_operator.resources import common, record
from bookie_operator.status import events, operations, render, warnings

logger = logging.getLogger(__name__)

# A flush after a flush takes no time. One that does makes what the pass saw too old to end a bookie by it.
FLUSH_AGAIN_S = 2.0
# How long a bookie refuses writes when it hears no more: longer than a flush may take, and renewed by each.
TURN_MS = 90_000
assert TURN_MS > 2 * FLUSH_DEADLINE_S * 1_000


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
        told: Callable[[ClusterRef, BookieClusterStatus], None] = lambda _cluster, _status: None,
    ) -> None:
        """`told`: hears what each pass says of its cluster, also where that is stored already."""
        self.writes = 0  # begun, of all clusters: to the API server and to bookies, Events aside
        self._told = told
        self._kube = kube
        self._bookies = bookies
        self._recorder = recorder
        self._crash = crash
        self._applied = Applied()
        self._may_act = may_act
        self._loop_s = loop_s
        self._refused: dict[tuple[str, str], dict[str, RefusedSize]] = {}  # by namespace and cluster, by claim
        self._hindrances: dict[tuple[str, str], dict[str, Hindrance]] = {}  # by namespace and cluster
        self._answers: dict[tuple[str, str], dict[tuple[str, str], LedgerAnswer]] = {}  # the same
        self._flushed: dict[tuple[str, str], str] = {}  # the same: uid of the pod that flushed for its eviction
        self.failures = Failures(loop_s)

    async def run(self, plan: FleetPlan) -> None:
        """Carry out `plan`. Raises KubeError (also for a conflict) to repeat the pass, LostLease to end the process."""
        cluster = plan.observation.cluster
        unkept = await self._remember(plan)
        failures = [unkept] if unkept is not None else []
        for action in plan.actions:
            if (unkept is not None and needs_record(action)) or (failures and is_made_anew(action)):
                continue  # the obstacle says why; the next pass tries again
            refused = await self._act(plan.observation, action)
            failures += [refused] if refused is not None else []
        if failures:
            plan = _held_back(plan, failures)
        else:
            self.failures.over(_writes(cluster))
        status = render.render(plan)
        self._told(cluster.ref, status)
        if status != cluster.status or cluster.is_recalled:
            await self.write_status(cluster.ref, status)
        for send in plan.sends:
            await self._grant(send)
        now_ms = plan.observation.now_ms
        for event in (*warnings.standing(status, now_ms), *events.between(cluster.status, status)):
            await self._recorder.record(cluster.ref, event, now_ms)
        await self.tell(plan.operations)
        for event in operations.events(plan.operations, plan.observation.operations, now_ms):
            await self._recorder.record(cluster.ref, event, now_ms)
        found = await self._replace_lost(plan)
        await self._resize(plan)
        key = (cluster.namespace, cluster.name)
        if plan.eviction.action is not None:
            turn = status.eviction.turn if status.eviction is not None else None
            assert turn is not None, "nobody makes room whose turn is not stored"
            why = await self._make_room(key, plan.eviction.action)
            found |= {turn.pod_uid: why} if why else {}
        if plan.rollout.action is not None:
            step = plan.rollout.status.step
            assert step is not None, "nobody is stopped whose turn is not stored"
            why = await self._roll(cluster.namespace, plan.rollout.action, now_ms)
            found |= {step.pod_uid: why} if why else {}
        found |= await self._give_orders(plan)
        if plan.hibernation.action is not None:
            assert plan.hibernation.has_the_turn, "no fleet is stopped whose state is not stored"
            found |= await self._stop_fleet(cluster.namespace, plan.hibernation.action)
        for resume in plan.hibernation.resumes:
            await self._roll(cluster.namespace, resume, now_ms)
        for ask in plan.fills:
            await self._fill(cluster.namespace, ask)
        for order in plan.settings:
            await self._change_settings(cluster.namespace, order)
        for leave in plan.leaving.steps:
            if told := await self._leave(cluster.namespace, leave):
                found[leave.bookie] = Hindrance(told)
        is_asked = plan.eviction.action is not None or plan.rollout.action is not None or plan.leaving.steps
        is_ordered = plan.asides or plan.cookies or plan.lost_nodes.actions
        if is_asked or is_ordered or plan.hibernation.action is not None:
            self._hindrances[key] = found

    async def _replace_lost(self, plan: FleetPlan) -> dict[str, Hindrance]:
        """Delete what lost nodes left behind; return, by name, what the API server does not delete.

        CRASH: the decision is stored; each deletion is of exactly the object that this pass saw, and the next pass goes
        on with what is left only while every proof still holds.
        """
        found = {}
        for action in plan.lost_nodes.actions:
            if (hindrance := await self._replace(plan.observation, action)) is not None:
                found[action.name] = hindrance
        return found

    async def _replace(self, seen: Observation, action: DeleteChild) -> Hindrance | None:
        """Delete what a lost node left behind; return why the API server does not, which the next pass tells
        (spec/operator.md#Y3). What may pass by itself raises KubeError."""
        try:
            refused = await self._act(seen, action, ("replace", seen.cluster.namespace, seen.cluster.name))
        except KubeError as error:
            if error.is_conflict or error.http_status == 429 or error.is_failure:
                raise
            return Hindrance(f"could not {action}: {error}")
        return Hindrance(refused.message, refused.reason) if refused is not None else None

    def refused_sizes(self, cluster: Cluster) -> Mapping[str, RefusedSize]:
        """Return, by claim uid, which request for another size the API server refused last."""
        return self._refused.get((cluster.namespace, cluster.name), {})

    def hindrances(self, cluster: Cluster) -> Mapping[str, Hindrance]:
        """Return, by pod uid, why the last stop of a bookie, or its resumption, did not succeed."""
        return self._hindrances.get((cluster.namespace, cluster.name), {})

    def ledger_answers(self, cluster: Cluster) -> Mapping[tuple[str, str], LedgerAnswer]:
        """Return, by the uid of an operation and a ledger, what bookies said of ending it."""
        return self._answers.get((cluster.namespace, cluster.name), {})

    async def _resize(self, plan: FleetPlan) -> None:
        """Ask for the sizes of one bookie's claims. A refusal that no repetition changes soon is remembered: the next
        pass tells it."""
        cluster = plan.observation.cluster
        key, live = (cluster.namespace, cluster.name), {growth.claim.uid for growth in plan.expansion.growing}
        known = {uid: refused for uid, refused in self.refused_sizes(cluster).items() if uid in live}
        self._refused[key] = known
        step: Step = ("resize", *key)
        for action in plan.expansion.actions:
            self._check_lease()
            try:
                await self._kube.apply(_resized(cluster.namespace, action), manager=names.SIZE_MANAGER)
            except KubeError as error:
                self.failures.reason(step, error)  # else the pass is repeated
                logger.warning("refused namespace=%s action=%s error=%s", cluster.namespace, action, error)
                known[action.uid] = RefusedSize(action.size, str(error), plan.observation.now_ms)
                return
            self.failures.over(step)
            known.pop(action.uid, None)
            logger.info("done namespace=%s action=%s", cluster.namespace, action)
            self._crash.after_write(str(action))

    def flushed(self, cluster: Cluster) -> frozenset[str]:
        """Return the uid of the pod whose bookie has said to this process that all is flushed, for its eviction."""
        return frozenset(self._flushed.get((cluster.namespace, cluster.name), "").split())

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
            return self._obstacle(_writes(cluster), error, f"keep the record in ConfigMap {names.record(cluster.name)}")
        self._crash.after_write("record")
        return None

    async def tell(self, told: Iterable[Told]) -> None:
        """Write the status of operations, each only over the version that was read. What the API server does not take
        is told by a later pass: what an operation did stands in the fleet and in the status of its cluster."""
        for one in told:
            if one.is_stored:
                continue
            self._check_lease()
            operation = one.operation
            metadata = {
                "name": operation.name,
                "namespace": operation.namespace,
                "uid": operation.uid,
                "resourceVersion": operation.resource_version,
            }
            manifest = {"apiVersion": names.API_VERSION, "kind": names.OPERATION_KIND, "metadata": metadata}
            try:
                await self._kube.apply(
                    manifest | {"status": one.status.dump()}, manager=names.STATUS_MANAGER, subresource="status"
                )
            except KubeError as error:
                logger.warning("operation not told name=%s/%s error=%s", operation.namespace, operation.name, error)
                continue
            assert one.status.phase is not None
            logger.info(
                "operation name=%s/%s phase=%s message=%s",
                operation.namespace,
                operation.name,
                one.status.phase.value,
                one.status.message,
            )
            self._crash.after_write(f"operation {operation.name}")

    async def say(self, cluster: ClusterRef, status: BookieClusterStatus, now_ms: int, *, is_stored: bool) -> None:
        """End a pass that has no plan: store `status`, and send the warnings about the cluster in it."""
        self._told(cluster, status)
        if not is_stored:
            await self.write_status(cluster, status)
        for event in warnings.of_cluster(status, now_ms):
            await self._recorder.record(cluster, event, now_ms)

    async def refuse(self, cluster: ClusterRef, refusal: Refusal, mine: str, now_ms: int) -> None:
        """Say that another operator keeps this cluster, in an Event alone: its status is the other's."""
        event = events.ClusterEvent(
            "KeptByAnother", "", f"{refusal.owner}-{mine}-{now_ms // warnings.REPEAT_MS}", refusal.message, True
        )
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

    async def _act(self, seen: Observation, action: Action, step: Step = ()) -> Obstacle | None:
        """Do one action. Returns an obstacle when the API server refuses for good, or fails for long at `step` (at the
        writes of the plan, unless it says otherwise); other errors pass through."""
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
                    is_orphaning=action.is_orphaning,
                )
            else:
                manifest = _manifest(seen.cluster.namespace, action)
                stored = await self._kube.apply(manifest, manager=_manager(action))
                self._applied.note(manifest, stored, seen.now_ms)
        except KubeError as error:
            return self._obstacle(step or _writes(cluster), error, str(action))
        logger.info("done cluster=%s/%s action=%s", cluster.namespace, cluster.name, action)
        self._crash.after_write(str(action))
        return _protection(action, stored)

    def _obstacle(self, step: Step, error: KubeError, what: str) -> Obstacle:
        """Return the obstacle for a refusal that no repetition changes, or for what the API server fails at for long: a
        webhook that is down must not keep the status from telling what else becomes of the fleet. Raises any other
        `error`, which repeats the pass."""
        reason = self.failures.reason(step, error)
        return Obstacle(reason, f"could not {what}{', tried again and again' if error.is_failure else ''}: {error}")

    def _is_futile(self, seen: Observation, action: Action) -> bool:
        if isinstance(action, Apply):
            return self._applied.is_futile(action.manifest, _live(seen, action), seen.now_ms)
        return isinstance(action, MarkClaim) and self._applied.must_wait(
            _manifest(seen.cluster.namespace, action), seen.now_ms
        )

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

    async def _make_room(self, key: tuple[str, str], action: FlushBookie | ResumeBookie) -> Hindrance | None:
        """Do the step of the eviction whose turn is stored; return why it was refused, if it was. The next pass tries
        again."""
        self._check_lease()
        self._flushed.pop(key, None)
        try:
            if isinstance(action, ResumeBookie):
                await self._bookies.resume(action.door, operator_epoch=action.epoch)
            else:
                # CRASH: when this process ends now, the bookie takes writes again by itself (spec/operator.md#Q10).
                turn = StopTurn(action.epoch, action.pod_uid, TURN_MS)
                is_flushed, text = await self._bookies.prepare_shutdown(action.door, turn)
                if not is_flushed:
                    return Hindrance(f"{action.bookie} cannot flush: {text}")
                self._flushed[key] = action.pod_uid
        except BookieUnreachable as error:
            logger.warning("not done, tried again cluster=%s/%s action=%s error=%s", *key, action, error)
            return Hindrance(str(error))
        logger.info("done cluster=%s/%s action=%s", *key, action)
        self._crash.after_write(str(action))
        return None

    async def _roll(self, namespace: str, action: StopBookie | ResumeBookie, now_ms: int) -> Hindrance | None:
        """Do the step of the roll-out whose turn is stored; return why it was refused, if it was. The next pass tells,
        and tries again."""
        self._check_lease()
        try:
            if isinstance(action, StopBookie):
                return await self._stop(namespace, action, now_ms)
            await self._bookies.resume(action.door, operator_epoch=action.epoch)
        except BookieUnreachable as error:
            logger.warning("not done, tried again namespace=%s action=%s error=%s", namespace, action, error)
            return Hindrance(str(error))
        logger.info("done namespace=%s action=%s", namespace, action)
        self._crash.after_write(str(action))
        return None

    async def _stop(self, namespace: str, action: StopBookie, now_ms: int) -> Hindrance | None:
        """End a pod that serves only after its bookie said that everything is flushed, at once and for the second
        time: what the pass saw is not older than that. Return why it could not be. Raises BookieUnreachable."""
        if action.door is not None:
            may_delete, why = await self._flush(action, action.door)
            if not may_delete:
                return Hindrance(why) if why else None
        if action.aside is not None and (told := await self._set_aside(namespace, action.aside)):
            return Hindrance(told)
        # CRASH: the order without the stop keeps nobody out who serves: the next pass stops it, or takes the order back
        # (plan/fencing.py).
        pod = DeleteChild("Pod", action.bookie, action.pod_uid, action.resource_version, "its turn to be stopped")
        for child in (action.claim, pod) if action.claim is not None else (pod,):
            is_gone, refused = await self._delete(namespace, child, now_ms)
            if not is_gone:
                return refused
            # CRASH: Kubernetes keeps a claim that is deleted while a pod uses it, with all that is on it: whoever leads
            # next finds it so, and ends the pod behind the same gates (plan/volume_replacement.py).
            self._crash.after_write(str(action if child is pod else child))
        return None

    async def _delete(self, namespace: str, child: DeleteChild, now_ms: int) -> tuple[bool, Hindrance | None]:
        """Delete exactly the object that was seen; return (it is gone or goes, why it was refused). Another one of this
        name, or one that changed since, is looked at anew: (False, None)."""
        self._check_lease()  # the flush took its time, or the deletion before this one
        step: Step = ("delete", namespace, child.kind, child.name)
        try:
            await self._kube.delete(
                child.kind, namespace, child.name, uid=child.uid, resource_version=child.resource_version
            )
        except KubeError as error:
            logger.warning("not stopped namespace=%s action=%s error=%s", namespace, child, error)
            if error.is_conflict:
                return False, None
            refused = self._obstacle(step, error, f"delete {child.kind} {child.name}")
            reason = refused.reason if isinstance(error, KubeForbidden) else "RolloutHalted"
            return False, Hindrance(f"{refused.reason}: {refused.message}", reason, now_ms)
        self.failures.over(step)
        logger.info("done namespace=%s action=%s", namespace, child)
        return True, None

    async def _flush(self, action: StopBookie, door: Door) -> tuple[bool, str]:
        """Return (this pass may end the bookie, why the bookie could not flush)."""
        began_s = self._loop_s()
        # CRASH: when this process ends now, the bookie takes writes again by itself (spec/operator.md#Q10). Sealed only
        # where the pod is deleted next, as recoveries would wait (#Q12).
        turn = StopTurn(action.epoch, action.pod_uid, TURN_MS, is_sealed=action.may_delete)
        is_flushed, text = await self._bookies.prepare_shutdown(door, turn)
        took_s = self._loop_s() - began_s
        self._crash.after_write(f"flush of {action.bookie}")
        if not is_flushed:
            logger.warning("not stopped, it could not flush bookie=%s reason=%s", action.bookie, text)
            return False, f"{action.bookie} cannot flush: {text}"
        logger.info("flushed bookie=%s seconds=%.1f", action.bookie, took_s)
        return action.may_delete and took_s <= FLUSH_AGAIN_S, ""

    async def _give_orders(self, plan: FleetPlan) -> dict[str, Hindrance]:
        """Give the orders of people's operations that stop nobody; return by bookie why one was not carried out."""
        namespace, found = plan.observation.cluster.namespace, dict[str, Hindrance]()
        for order in plan.asides:
            if told := await self._set_aside(namespace, order):
                found[order.bookie] = Hindrance(told)
        for ask in plan.cookies:
            if told := await self._restore_cookie(namespace, ask):
                found[ask.bookie] = Hindrance(told)
        await self._end_ledgers(plan)
        return found

    async def _set_aside(self, namespace: str, action: SetAside) -> str:
        """Give the order that keeps a bookie out of service, or ends that; return why it was not done, or ""."""
        self._check_lease()
        answer = await _answer(
            self._bookies.set_aside(action.door, action.bookie_id, action.order, operator_epoch=action.epoch)
        )
        if not answer.is_done:
            logger.warning("not done, tried again namespace=%s action=%s reason=%s", namespace, action, answer.text)
            return f"{answer.refused_reason}: {answer.text}"
        logger.info("done namespace=%s action=%s", namespace, action)
        self._crash.after_write(str(action))
        return ""

    async def _stop_fleet(self, namespace: str, action: StopFleet) -> dict[str, Hindrance]:
        """Have all bookies flush at once; and end them when each has said, for the second time and soon, that all is
        flushed. Return by pod uid why one could not."""
        self._check_lease()
        began_s = self._loop_s()
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self._flush_last(one, is_sealed=bool(action.scales))) for one in action.flushes]
        refused = {
            one.pod_uid: Hindrance(why)
            for one, task in zip(action.flushes, asked, strict=True)
            if (why := task.result())
        }
        self._crash.after_write(str(action))
        if refused or self._loop_s() - began_s > FLUSH_AGAIN_S:
            return refused
        for scale in action.scales:
            self._check_lease()  # the flush took its time
            try:
                # CRASH: between two StatefulSets: bookies of the others take writes again when their turn ends, and the
                # next pass has them flush again.
                await self._kube.apply(_manifest(namespace, scale), manager=names.SCALE_MANAGER)
            except KubeError as error:
                if not error.is_conflict:
                    why = self._obstacle(("scale", namespace, scale.stateful_set), error, str(scale)).message
                    refused |= {flush.pod_uid: Hindrance(why) for flush in action.flushes}
                return refused
            logger.info("done namespace=%s action=%s", namespace, scale)
            self._crash.after_write(str(scale))
        return refused

    async def _flush_last(self, one: FlushBookie, *, is_sealed: bool) -> str:
        """Return why this bookie did not flush; "" when it did."""
        turn = StopTurn(one.epoch, one.pod_uid, TURN_MS, is_sealed=is_sealed)
        try:
            is_flushed, text = await self._bookies.prepare_shutdown(one.door, turn)
        except BookieUnreachable as error:
            return str(error)
        return "" if is_flushed else f"{one.bookie} cannot flush: {text}"

    async def _restore_cookie(self, namespace: str, action: RestoreCookie) -> str:
        """Have a bookie make its cookie again; return why it did not, or ""."""
        self._check_lease()
        try:
            answer = await self._bookies.restore_cookie(action.door, action.evidence_hash, operator_epoch=action.epoch)
        except BookieUnreachable as error:
            return str(error)
        if not answer.is_done:
            logger.warning("refused namespace=%s action=%s reason=%s", namespace, action, answer.text)
            return f"{answer.refused_reason}: {answer.text}"
        logger.info("done namespace=%s action=%s", namespace, action)
        self._crash.after_write(str(action))
        return ""

    async def _end_ledgers(self, plan: FleetPlan) -> None:
        """Have ledgers closed whose loss a person accepted; what was said is told, and stored, by the next pass.

        CRASH: an answer that is lost is asked for again, and a ledger that is closed is done.
        """
        cluster, now_ms = plan.observation.cluster, plan.observation.now_ms
        live = {one.operation.uid for one in plan.operations}
        known = {key: answer for key, answer in self.ledger_answers(cluster).items() if key[0] in live}
        self._answers[cluster.namespace, cluster.name] = known
        for order in plan.losses:
            self._check_lease()
            began_s = self._loop_s()
            answer = await _answer(
                self._bookies.accept_ledger_loss(
                    order.door,
                    order.ledger,
                    order.bookie_ids,
                    by=order.by,
                    reason=order.reason,
                    operator_epoch=order.epoch,
                )
            )
            is_done = answer.is_done or answer.refused_reason == "missing"
            logger.warning("namespace=%s action=%s done=%s said=%s", cluster.namespace, order, is_done, answer.text)
            took_ms = int((self._loop_s() - began_s) * 1000)
            known[order.operation_uid, order.ledger] = LedgerAnswer(is_done, answer.text, now_ms + took_ms, took_ms)
            self._crash.after_write(str(order))

    async def _fill(self, namespace: str, ask: FillHoles) -> None:
        """Ask a bookie to fill its holes. An answer that is lost is no matter: the next pass sees whether it does."""
        self._check_lease()
        try:
            await self._bookies.fill_holes(ask.door)
        except BookieUnreachable as error:
            logger.warning("not done, tried again namespace=%s action=%s error=%s", namespace, ask, error)
            return
        logger.info("done namespace=%s action=%s", namespace, ask)
        self._crash.after_write(str(ask))

    async def _change_settings(self, namespace: str, order: ChangeSettings) -> None:
        """Have a bookie take settings as it runs. What is lost on the way, or refused, the next pass sees in its
        report."""
        self._check_lease()
        answer = await _answer(
            self._bookies.change_settings(order.door, dict(order.settings), operator_epoch=order.epoch)
        )
        if not answer.is_done:
            logger.warning("not done, tried again namespace=%s action=%s reason=%s", namespace, order, answer.text)
            return
        logger.info("done namespace=%s action=%s", namespace, order)
        self._crash.after_write(str(order))

    async def _leave(self, namespace: str, action: LeaveStep) -> str:
        """Do one step of a bookie that leaves, whose state is stored; return why it could not be done, or ""."""
        self._check_lease()
        try:
            match action:
                case StartDrain():
                    status = await self._bookies.drain(
                        action.door,
                        operator_epoch=action.epoch,
                        bytes_per_second=action.bytes_per_second,
                        open_ledgers=action.open_ledgers,
                    )
                    why = status.error
                case CancelDrain():
                    await self._bookies.cancel_drain(action.door, operator_epoch=action.epoch)
                    why = ""
                case RetireBookie():
                    why = await self._retire(namespace, action)
                case DetachPool() | RemoveBookie():
                    why = await self._take_away(namespace, action)
                case ForgetBookie():
                    answer = await self._bookies.forget_bookie(
                        action.door,
                        action.bookie_id,
                        cookie_version=action.cookie_version,
                        operator_epoch=action.epoch,
                    )
                    why = "" if answer.is_forgotten else f"{answer.refused_reason}: {answer.text}"
        except BookieUnreachable as error:
            why = str(error)
        if why:
            logger.warning("not done, tried again namespace=%s action=%s reason=%s", namespace, action, why)
            return why
        logger.info("done namespace=%s action=%s", namespace, action)
        self._crash.after_write(str(action))
        return ""

    async def _retire(self, namespace: str, action: RetireBookie) -> str:
        """Flush a bookie that no ledger names, and lower the number of its StatefulSet; return why not, or "". Raises
        BookieUnreachable."""
        # CRASH: its turn ends by itself (spec/operator.md#Q10); the number is lowered only after the flush said yes.
        turn = StopTurn(action.epoch, action.pod_uid, TURN_MS, is_sealed=True)
        is_flushed, text = await self._bookies.prepare_shutdown(action.door, turn)
        self._crash.after_write(f"flush of {action.bookie}")
        if not is_flushed:
            return f"{action.bookie} cannot flush: {text}"
        self._check_lease()  # the flush took its time
        try:
            await self._kube.apply(_manifest(namespace, action.scale), manager=names.SCALE_MANAGER)
        except KubeError as error:
            if error.is_conflict:
                return ""  # somebody changed the StatefulSet since it was read: the next pass looks again
            return self._obstacle(("scale", namespace, action.bookie), error, str(action.scale)).message
        return ""

    async def _take_away(self, namespace: str, action: DetachPool | RemoveBookie) -> str:
        """Take one bookie out of the middle of its pool: the StatefulSet first, then its pod; return why not, or "".
        Raises BookieUnreachable."""
        if isinstance(action, RemoveBookie) and action.door is not None:
            # CRASH: its turn ends by itself (spec/operator.md#Q10); the pod goes only after the flush said yes.
            turn = StopTurn(action.epoch, action.pod_uid, TURN_MS, is_sealed=True)
            is_flushed, text = await self._bookies.prepare_shutdown(action.door, turn)
            self._crash.after_write(f"flush of {action.bookie}")
            if not is_flushed:
                return f"{action.bookie} cannot flush: {text}"
            self._check_lease()  # the flush took its time
        is_pod = isinstance(action, RemoveBookie)
        try:
            # CRASH: exactly the object that was seen; what changed since is looked at anew.
            await self._kube.delete(
                "Pod" if is_pod else "StatefulSet",
                namespace,
                action.bookie if isinstance(action, RemoveBookie) else action.stateful_set,
                uid=action.pod_uid if isinstance(action, RemoveBookie) else action.uid,
                resource_version=action.resource_version,
                is_orphaning=not is_pod,
            )
        except KubeError as error:
            step: Step = ("take", namespace, action.bookie)
            return "" if error.is_conflict else self._obstacle(step, error, str(action)).message
        return ""

    def _check_lease(self) -> None:
        """Ask before each write, so that each is counted here too."""
        if not self._may_act():
            raise LostLease("the lease is not ours any more (or cannot be renewed in time)")
        self.writes += 1


def _resized(namespace: str, action: ResizeClaim) -> Manifest:
    """Return what is applied to one claim: its request, and whose claim it must be (a volume that grows keeps its
    claim)."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": action.name,
            "namespace": namespace,
            "uid": action.uid,
            "resourceVersion": action.resource_version,
        },
        "spec": {"resources": {"requests": {"storage": action.size}}},
    }


def _writes(cluster: Cluster) -> Step:
    """Return the step of a pass in which it writes what comes before the status."""
    return "write", cluster.namespace, cluster.name


def _live(seen: Observation, action: Action) -> Manifest | None:
    if not isinstance(action, Apply):
        return None
    return seen.children.get((action.manifest["kind"], action.manifest["metadata"]["name"]))


def _manager(action: Apply | MarkClaim | OwnClaim | ScalePool) -> str:
    if isinstance(action, MarkClaim):
        return action.manager
    if isinstance(action, OwnClaim):
        return names.DELETION_MANAGER
    return names.SCALE_MANAGER if isinstance(action, ScalePool) else names.MANAGER


def _manifest(namespace: str, action: Apply | MarkClaim | OwnClaim | ScalePool) -> Manifest:
    """Return the manifest that `action` applies."""
    if isinstance(action, Apply):
        return action.manifest
    if isinstance(action, ScalePool):
        metadata = {"name": action.stateful_set, "namespace": namespace}
        metadata |= {"uid": action.uid, "resourceVersion": action.resource_version}
        return {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": metadata,
            "spec": {"replicas": action.replicas},
        }
    said: Manifest = (
        {"annotations": dict(action.annotations)}
        if isinstance(action, MarkClaim)
        else {"ownerReferences": [action.owner] if action.owner is not None else []}
    )
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": action.name, "namespace": namespace, "uid": action.uid} | said,
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


async def _answer(asked: Awaitable[OrderAnswer]) -> OrderAnswer:
    """Return how a bookie answers an order; that nobody could be asked is an answer too."""
    try:
        return await asked
    except BookieUnreachable as error:
        return OrderAnswer(False, "unreachable", str(error))


def _held_back(plan: FleetPlan, failures: Sequence[Obstacle]) -> FleetPlan:
    """Return `plan` without all that needs what could not be done."""
    # CRASH: the operator sends no grant and stops nobody until the whole protection is in place; the next pass tries
    # again.
    return replace(
        plan,
        obstacles=(*plan.obstacles, *failures),
        sends=(),
        lost_nodes=replace(plan.lost_nodes, actions=()),
        eviction=replace(plan.eviction, action=None),
        rollout=replace(plan.rollout, action=None),
        hibernation=replace(plan.hibernation, action=None),
        leaving=replace(plan.leaving, steps=()),
        expansion=replace(plan.expansion, actions=()),
        asides=(),
        cookies=(),
        losses=(),
        fills=(),
        settings=(),
    )
