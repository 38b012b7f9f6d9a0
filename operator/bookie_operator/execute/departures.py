"""Does the steps of bookies that leave, each after its state was stored: drain, end, forget."""

import logging

from bookie_operator.evidence.facts import Door
from bookie_operator.execute.hand import Hand, obstacle
from bookie_operator.gateways.bookies import BookieUnreachable
from bookie_operator.gateways.kube import KubeError
from bookie_operator.plan.actions import (
    CancelDrain,
    DeleteChild,
    DetachPool,
    ForgetBookie,
    LeaveStep,
    RemoveBookie,
    RetireBookie,
    StartDrain,
)

logger = logging.getLogger(__name__)


class Departures:
    def __init__(self, hand: Hand) -> None:
        self._hand = hand

    async def leave(self, namespace: str, action: LeaveStep) -> str:
        """Do one step of a bookie that leaves, whose state is stored; return why it could not be done, or ""."""
        self._hand.may_write()
        try:
            why = await self._do(namespace, action)
        except BookieUnreachable as error:
            why = str(error)
        if why:
            logger.warning("not done, tried again namespace=%s action=%s reason=%s", namespace, action, why)
            return why
        logger.info("done namespace=%s action=%s", namespace, action)
        self._hand.after_write(str(action))
        return ""

    async def _do(self, namespace: str, action: LeaveStep) -> str:
        bookies = self._hand.bookies
        match action:
            case StartDrain():
                status = await bookies.drain(
                    action.door,
                    operator_epoch=action.epoch,
                    bytes_per_second=action.bytes_per_second,
                    open_ledgers=action.open_ledgers,
                )
                return status.error
            case CancelDrain():
                await bookies.cancel_drain(action.door, operator_epoch=action.epoch)
                return ""
            case RetireBookie():
                return await self._retire(namespace, action)
            case DetachPool():
                return await self._detach(namespace, action)
            case RemoveBookie():
                return await self._remove(namespace, action)
            case ForgetBookie():
                answer = await bookies.forget_bookie(
                    action.door,
                    action.bookie_id,
                    cookie_version=action.cookie_version,
                    operator_epoch=action.epoch,
                )
                return "" if answer.is_forgotten else f"{answer.refused_reason}: {answer.text}"

    async def _retire(self, namespace: str, action: RetireBookie) -> str:
        """Flush a bookie that no ledger names, and lower the number of its StatefulSet; return why not, or "". Raises
        BookieUnreachable."""
        # CRASH: the number is lowered only after the flush said yes.
        if not (why := await self._flush(action, action.door)):
            _, why = await self._hand.scale(namespace, action.scale)
        return why

    async def _remove(self, namespace: str, action: RemoveBookie) -> str:
        """Flush a bookie of a pool whose StatefulSet is away, and delete its pod; return why not, or "". Raises
        BookieUnreachable."""
        if action.door is not None:
            # CRASH: the pod goes only after the flush said yes.
            if why := await self._flush(action, action.door):
                return why
            self._hand.may_write()  # the flush took its time
        # CRASH: exactly the pod that was seen; what changed since is looked at anew.
        pod = DeleteChild("Pod", action.bookie, action.pod_uid, action.resource_version, "it leaves its pool")
        return await self._take(namespace, action, pod)

    async def _flush(self, action: RetireBookie | RemoveBookie, door: Door) -> str:
        why = await self._hand.flush(action.bookie, action.pod_uid, door, action.epoch, is_sealed=True)
        self._hand.after_write(f"flush of {action.bookie}")
        return why

    async def _detach(self, namespace: str, action: DetachPool) -> str:
        """Delete a StatefulSet around its pods; return why not, or ""."""
        # CRASH: exactly the StatefulSet that was seen; what changed since is looked at anew.
        pool = DeleteChild(
            "StatefulSet", action.stateful_set, action.uid, action.resource_version, "made anew", is_orphaning=True
        )
        return await self._take(namespace, action, pool)

    async def _take(self, namespace: str, action: DetachPool | RemoveBookie, child: DeleteChild) -> str:
        """Delete exactly this object; return why the API server refuses; "" also for what changed since it was read:
        the next pass looks again."""
        with self._hand.failures.step("take", namespace, action.bookie) as step:
            try:
                step.check_may_try(str(action))
                await self._hand.delete(namespace, child)
            except KubeError as error:
                return "" if error.is_conflict else obstacle(step, error, str(action)).message
        return ""
