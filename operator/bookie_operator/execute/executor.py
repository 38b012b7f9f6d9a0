"""Carries out one plan, in the order that the safety rests on (the package's page)."""

import logging
from collections.abc import Callable, Mapping

from bookie_operator.applied import Applied
from bookie_operator.crash import CrashPoint
from bookie_operator.evidence.facts import RefusedSize
from bookie_operator.execute import manifests
from bookie_operator.execute.departures import Departures
from bookie_operator.execute.hand import Hand, obstacle
from bookie_operator.execute.orders import Orders
from bookie_operator.execute.stops import Stops
from bookie_operator.execute.telling import Telling
from bookie_operator.failures import Attempt
from bookie_operator.gateways.bookies import Bookies
from bookie_operator.gateways.kube import Kube, KubeError, Manifest
from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster, ClusterRef
from bookie_operator.model.status import BookieClusterStatus
from bookie_operator.plan import fleet
from bookie_operator.plan.actions import Action, Apply, DeleteChild, MarkClaim, is_made_anew, needs_record
from bookie_operator.plan.children import Obstacle
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.observation import Hindrance, LedgerAnswer, Observation
from bookie_operator.recorder import Recorder
from bookie_operator.resources import common, record
from bookie_operator.status import render

logger = logging.getLogger(__name__)


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
        self._hand = hand = Hand(kube, bookies, crash, may_act, loop_s)
        self.telling = Telling(hand, recorder, told)
        self.failures = hand.failures
        self._orders = Orders(hand)
        self._stops = Stops(hand, self._orders)
        self._departures = Departures(hand)
        self._applied = Applied()
        self._refused: dict[tuple[str, str], dict[str, RefusedSize]] = {}  # by namespace and cluster, by claim
        self._hindrances: dict[tuple[str, str], dict[str, Hindrance]] = {}  # by namespace and cluster

    @property
    def writes(self) -> int:
        """How many writes were begun, of all clusters: to the API server and to bookies, Events aside."""
        return self._hand.writes

    def refused_sizes(self, cluster: Cluster) -> Mapping[str, RefusedSize]:
        """Return, by claim uid, which request for another size the API server refused last."""
        return self._refused.get((cluster.namespace, cluster.name), {})

    def hindrances(self, cluster: Cluster) -> Mapping[str, Hindrance]:
        """Return, by pod uid, why the last stop of a bookie, or its resumption, did not succeed."""
        return self._hindrances.get((cluster.namespace, cluster.name), {})

    def ledger_answers(self, cluster: Cluster) -> Mapping[tuple[str, str], LedgerAnswer]:
        """Return, by the uid of an operation and a ledger, what bookies said of ending it."""
        return self._orders.ledger_answers(cluster)

    def flushed(self, cluster: Cluster) -> frozenset[str]:
        """Return the uid of the pod whose bookie has said to this process that all is flushed, for its eviction."""
        return self._stops.flushed(cluster)

    async def run(self, plan: FleetPlan) -> None:
        """Carry out `plan`. Raises KubeError (also for a conflict) to repeat the pass, LostLease to end the process."""
        cluster = plan.observation.cluster
        status = render.render(plan)
        failures, asked_to_wait = await self._write(plan, status)
        if failures:
            plan = fleet.held_back(plan, failures)
            status = render.render(plan)
        is_stored = status == cluster.status and not cluster.is_recalled
        await self.telling.say(cluster.ref, status, is_stored=is_stored)
        for send in plan.sends:
            await self._orders.grant(send)
        await self.telling.report(plan, status)
        found = await self._replace_lost(plan)
        await self._resize(plan)
        found |= await self._take_turns(plan, status)
        is_asked = plan.eviction.action is not None or plan.rollout.action is not None or plan.leaving.steps
        is_ordered = plan.asides or plan.cookies or plan.lost_nodes.actions
        if is_asked or is_ordered or plan.hibernation.action is not None:
            self._hindrances[_key(plan)] = found
        if asked_to_wait is not None:
            raise asked_to_wait  # all that could be done is done and told; the next pass is not before that time

    async def store(self, manifest: Manifest, live: Manifest | None, manager: str) -> None:
        """Apply over `live` an object that is no child of one cluster alone: certificates and their authorities. Raises
        KubeError."""
        self._hand.may_write()
        await self._hand.apply(manifest, live, manager=manager)
        logger.info("done action=apply %s %s for=%s", manifest["kind"], manifest["metadata"]["name"], manager)
        self._hand.after_write(manifest["metadata"]["name"])

    # ---- before the status -------------------------------------------------------------------------------------------

    async def _write(self, plan: FleetPlan, status: BookieClusterStatus) -> tuple[list[Obstacle], KubeError | None]:
        """Write the record of `status`, children and marks; return what could not be done, and with which of these
        refusals the API server asked to be left alone for a while."""
        with self.failures.step("write", *_key(plan)) as step:
            unkept = await self._remember(plan, status, step)
            failures = [unkept] if unkept is not None else []
            for action in plan.actions:
                if (unkept is not None and needs_record(action)) or (failures and is_made_anew(action)):
                    continue  # the obstacle says why; the next pass tries again
                refused = await self._act(plan.observation, action, step)
                failures += [refused] if refused is not None else []
            return failures, step.asked_to_wait

    async def _remember(self, plan: FleetPlan, status: BookieClusterStatus, step: Attempt) -> Obstacle | None:
        """Write the record of `status` before the operator does or says anything that rests on it."""
        cluster, observation = plan.observation.cluster, plan.observation
        wanted = record.config_map(cluster, status)
        live = observation.children.get(("ConfigMap", names.record(cluster.name)))
        if observation.record_problem or record.is_kept(wanted, live):
            return None
        self._hand.may_write()
        try:
            # CRASH: only over what this pass has read; somebody else's newer record is not written over.
            await self._hand.kube.apply(manifests.over(wanted, live), manager=names.MANAGER)
        except KubeError as error:
            return obstacle(step, error, f"keep the record in ConfigMap {names.record(cluster.name)}")
        self._hand.after_write("record")
        return None

    async def _act(self, seen: Observation, action: Action, step: Attempt) -> Obstacle | None:
        """Do one action, a part of `step`. Returns an obstacle when the API server refuses for good, or fails for long;
        other errors pass through."""
        self._hand.may_write()
        cluster = seen.cluster
        if self._is_futile(seen, action):
            return _protection(action, _live(seen, action))
        stored: Manifest | None = None
        try:
            step.check_may_try(str(action))
            if isinstance(action, DeleteChild):
                await self._hand.delete(cluster.namespace, action)
            else:
                manifest = manifests.manifest(seen.cluster.namespace, action)
                manager = manifests.manager(action)
                if isinstance(action, Apply):
                    stored = await self._hand.apply(manifest, _live(seen, action), manager=manager)
                else:
                    stored = await self._hand.kube.apply(manifest, manager=manager)  # it says which claim it is about
                self._applied.note(manifest, stored, seen.now_ms)
        except KubeError as error:
            return obstacle(step, error, str(action))
        logger.info("done cluster=%s/%s action=%s", cluster.namespace, cluster.name, action)
        self._hand.after_write(str(action))
        return _protection(action, stored)

    def _is_futile(self, seen: Observation, action: Action) -> bool:
        if isinstance(action, Apply):
            return self._applied.is_futile(action.manifest, _live(seen, action), seen.now_ms)
        return isinstance(action, MarkClaim) and self._applied.must_wait(
            manifests.manifest(seen.cluster.namespace, action), seen.now_ms
        )

    # ---- after the status --------------------------------------------------------------------------------------------

    async def _replace_lost(self, plan: FleetPlan) -> dict[str, Hindrance]:
        """Delete what lost nodes left behind; return, by name, what the API server does not delete.

        CRASH: the decision is stored; each deletion is of exactly the object that this pass saw, and the next pass goes
        on with what is left only while every proof still holds.
        """
        found = {}
        with self.failures.step("replace", *_key(plan)) as step:
            for action in plan.lost_nodes.actions:
                if (hindrance := await self._replace(plan.observation, action, step)) is not None:
                    found[action.name] = hindrance
        return found

    async def _replace(self, seen: Observation, action: DeleteChild, step: Attempt) -> Hindrance | None:
        """Delete what a lost node left behind; return why the API server does not, which the next pass tells
        (spec/operator.md#Y3). What may pass by itself raises KubeError."""
        try:
            refused = await self._act(seen, action, step)
        except KubeError as error:
            if error.is_conflict or error.is_failure:
                raise
            return Hindrance(f"could not {action}: {error}")
        return Hindrance(refused.message, refused.reason) if refused is not None else None

    async def _resize(self, plan: FleetPlan) -> None:
        """Ask for the sizes of one bookie's claims. A refusal that no repetition changes soon is remembered: the next
        pass tells it."""
        cluster = plan.observation.cluster
        key, live = _key(plan), {growth.claim.uid for growth in plan.expansion.growing}
        known = {uid: refused for uid, refused in self.refused_sizes(cluster).items() if uid in live}
        self._refused[key] = known
        with self.failures.step("resize", *key) as step:
            for action in plan.expansion.actions:
                self._hand.may_write()
                try:
                    step.check_may_try()
                    await self._hand.kube.apply(
                        manifests.resized(cluster.namespace, action), manager=names.SIZE_MANAGER
                    )
                except KubeError as error:
                    step.reason(error)  # else the pass is repeated
                    logger.warning("refused namespace=%s action=%s error=%s", cluster.namespace, action, error)
                    known[action.uid] = RefusedSize(action.size, str(error), plan.observation.now_ms)
                    return
                known.pop(action.uid, None)
                logger.info("done namespace=%s action=%s", cluster.namespace, action)
                self._hand.after_write(str(action))

    async def _take_turns(self, plan: FleetPlan, status: BookieClusterStatus) -> dict[str, Hindrance]:
        """Do the steps of those whose turn the stored `status` has, and give the orders; return, by pod uid (by name
        for an order and a departure), why one was not done."""
        cluster, found = plan.observation.cluster, dict[str, Hindrance]()
        namespace, now_ms = cluster.namespace, plan.observation.now_ms
        if plan.eviction.action is not None:
            turn = status.eviction.turn if status.eviction is not None else None
            assert turn is not None, "nobody makes room whose turn is not stored"
            why = await self._stops.make_room(cluster, plan.eviction.action)
            found |= {turn.pod_uid: why} if why else {}
        if plan.rollout.action is not None:
            step = plan.rollout.status.step
            assert step is not None, "nobody is stopped whose turn is not stored"
            why = await self._stops.roll(namespace, plan.rollout.action, now_ms)
            found |= {step.pod_uid: why} if why else {}
        found |= await self._orders.give(plan)
        if plan.hibernation.action is not None:
            assert plan.hibernation.has_the_turn, "no fleet is stopped whose state is not stored"
            found |= await self._stops.stop_fleet(namespace, plan.hibernation.action)
        for resume in plan.hibernation.resumes:
            await self._stops.roll(namespace, resume, now_ms)
        for ask in plan.fills:
            await self._orders.fill(namespace, ask)
        for order in plan.settings:
            await self._orders.change_settings(namespace, order)
        for leave in plan.leaving.steps:
            if told := await self._departures.leave(namespace, leave):
                found[leave.bookie] = Hindrance(told)
        return found


def _key(plan: FleetPlan) -> tuple[str, str]:
    """Return namespace and name of the cluster."""
    return plan.observation.cluster.namespace, plan.observation.cluster.name


def _live(seen: Observation, action: Action) -> Manifest | None:
    if not isinstance(action, Apply):
        return None
    return seen.children.get((action.manifest["kind"], action.manifest["metadata"]["name"]))


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
