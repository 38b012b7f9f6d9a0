"""Ends bookies whose turn is stored: for a roll-out, an eviction, a hibernation. No bookie that serves ends before it
said that everything is flushed, in this very pass."""

import asyncio
import logging

from bookie_operator.evidence.facts import Door
from bookie_operator.execute.hand import Hand, obstacle
from bookie_operator.execute.orders import Orders
from bookie_operator.gateways.bookies import BookieUnreachable
from bookie_operator.gateways.kube import KubeError, KubeForbidden
from bookie_operator.model.cluster import Cluster
from bookie_operator.plan.actions import DeleteChild, FlushBookie, ResumeBookie, StopBookie, StopFleet
from bookie_operator.plan.observation import Hindrance

logger = logging.getLogger(__name__)

# A flush after a flush takes no time. One that does makes what the pass saw too old to end a bookie by it.
FLUSH_AGAIN_S = 2.0


class Stops:
    def __init__(self, hand: Hand, orders: Orders) -> None:
        self._hand = hand
        self._orders = orders
        self._flushed: dict[tuple[str, str], str] = {}  # by namespace and cluster: the pod that flushed, its uid

    def flushed(self, cluster: Cluster) -> frozenset[str]:
        """Return the uid of the pod whose bookie has said to this process that all is flushed, for its eviction."""
        return frozenset(self._flushed.get((cluster.namespace, cluster.name), "").split())

    async def make_room(self, cluster: Cluster, action: FlushBookie | ResumeBookie) -> Hindrance | None:
        """Do the step of the eviction whose turn is stored; return why it was refused, if it was. The next pass tries
        again."""
        key = (cluster.namespace, cluster.name)
        self._hand.may_write()
        self._flushed.pop(key, None)
        try:
            if isinstance(action, ResumeBookie):
                await self._hand.bookies.resume(action.door, operator_epoch=action.epoch)
            else:
                if why := await self._flush(action, action.door, is_sealed=False):
                    return Hindrance(why)
                self._flushed[key] = action.pod_uid
        except BookieUnreachable as error:
            logger.warning("not done, tried again cluster=%s/%s action=%s error=%s", *key, action, error)
            return Hindrance(str(error))
        logger.info("done cluster=%s/%s action=%s", *key, action)
        self._hand.after_write(str(action))
        return None

    async def roll(self, namespace: str, action: StopBookie | ResumeBookie, now_ms: int) -> Hindrance | None:
        """Do the step of the roll-out whose turn is stored; return why it was refused, if it was. The next pass tells,
        and tries again."""
        self._hand.may_write()
        try:
            if isinstance(action, StopBookie):
                return await self._stop(namespace, action, now_ms)
            await self._hand.bookies.resume(action.door, operator_epoch=action.epoch)
        except BookieUnreachable as error:
            logger.warning("not done, tried again namespace=%s action=%s error=%s", namespace, action, error)
            return Hindrance(str(error))
        logger.info("done namespace=%s action=%s", namespace, action)
        self._hand.after_write(str(action))
        return None

    async def stop_fleet(self, namespace: str, action: StopFleet) -> dict[str, Hindrance]:
        """Have all bookies flush at once; and end them when each has said, for the second time and soon, that all is
        flushed. Return by pod uid why one could not."""
        self._hand.may_write()
        began_s = self._hand.loop_s()
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self._flush_last(one, is_sealed=bool(action.scales))) for one in action.flushes]
        refused = {
            one.pod_uid: Hindrance(why)
            for one, task in zip(action.flushes, asked, strict=True)
            if (why := task.result())
        }
        self._hand.after_write(str(action))
        if refused or self._hand.loop_s() - began_s > FLUSH_AGAIN_S:
            return refused
        for scale in action.scales:
            # CRASH: between two StatefulSets: bookies of the others take writes again when their turn ends, and the
            # next pass has them flush again.
            is_done, why = await self._hand.scale(namespace, scale)
            if not is_done:
                return refused | {flush.pod_uid: Hindrance(why) for flush in action.flushes if why}
            logger.info("done namespace=%s action=%s", namespace, scale)
            self._hand.after_write(str(scale))
        return refused

    async def _stop(self, namespace: str, action: StopBookie, now_ms: int) -> Hindrance | None:
        """End a pod that serves only after its bookie said that everything is flushed, at once and for the second
        time: what the pass saw is not older than that. Return why it could not be. Raises BookieUnreachable."""
        if action.door is not None:
            may_delete, why = await self._flush_again(action, action.door)
            if not may_delete:
                return Hindrance(why) if why else None
        if action.aside is not None and (told := await self._orders.set_aside(namespace, action.aside)):
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
            self._hand.after_write(str(action if child is pod else child))
        return None

    async def _flush_again(self, action: StopBookie, door: Door) -> tuple[bool, str]:
        """Return (this pass may end the bookie, why the bookie could not flush)."""
        began_s = self._hand.loop_s()
        why = await self._flush(action, door, is_sealed=action.may_delete)
        took_s = self._hand.loop_s() - began_s
        self._hand.after_write(f"flush of {action.bookie}")
        if why:
            logger.warning("not stopped, it could not flush bookie=%s reason=%s", action.bookie, why)
            return False, why
        logger.info("flushed bookie=%s seconds=%.1f", action.bookie, took_s)
        return action.may_delete and took_s <= FLUSH_AGAIN_S, ""

    async def _delete(self, namespace: str, child: DeleteChild, now_ms: int) -> tuple[bool, Hindrance | None]:
        """Delete exactly the object that was seen; return (it is gone or goes, why it was refused). Another one of this
        name, or one that changed since, is looked at anew: (False, None)."""
        self._hand.may_write()  # the flush took its time, or the deletion before this one
        what = f"delete {child.kind} {child.name}"
        with self._hand.failures.step("delete", namespace, child.kind, child.name) as step:
            try:
                step.check_may_try(what)
                await self._hand.delete(namespace, child)
            except KubeError as error:
                logger.warning("not stopped namespace=%s action=%s error=%s", namespace, child, error)
                if error.is_conflict:
                    return False, None
                refused = obstacle(step, error, what)
                reason = refused.reason if isinstance(error, KubeForbidden) else "RolloutHalted"
                return False, Hindrance(f"{refused.reason}: {refused.message}", reason, now_ms)
        logger.info("done namespace=%s action=%s", namespace, child)
        return True, None

    async def _flush_last(self, one: FlushBookie, *, is_sealed: bool) -> str:
        """Return why this bookie did not flush; "" when it did."""
        try:
            return await self._flush(one, one.door, is_sealed=is_sealed)
        except BookieUnreachable as error:
            return str(error)

    async def _flush(self, one: FlushBookie | StopBookie, door: Door, *, is_sealed: bool) -> str:
        return await self._hand.flush(one.bookie, one.pod_uid, door, one.epoch, is_sealed=is_sealed)
