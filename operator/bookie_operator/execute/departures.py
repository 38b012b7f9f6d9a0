"""Does the steps of bookies that leave, each after its state was stored: drain, end, forget."""

import logging

from bookie_operator.execute import manifests
from bookie_operator.execute.hand import Hand
from bookie_operator.failures import Step
from bookie_operator.gateways.bookies import BookieUnreachable
from bookie_operator.gateways.kube import KubeError
from bookie_operator.model import names
from bookie_operator.plan.actions import (
    CancelDrain,
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
        why = await self._hand.flush(action.bookie, action.pod_uid, action.door, action.epoch, is_sealed=True)
        # CRASH: the number is lowered only after the flush said yes.
        self._hand.after_write(f"flush of {action.bookie}")
        if why:
            return why
        self._hand.may_write()  # the flush took its time
        try:
            await self._hand.kube.apply(manifests.manifest(namespace, action.scale), manager=names.SCALE_MANAGER)
        except KubeError as error:
            return self._refused(("scale", namespace, action.bookie), error, str(action.scale))
        return ""

    async def _remove(self, namespace: str, action: RemoveBookie) -> str:
        """Flush a bookie of a pool whose StatefulSet is away, and delete its pod; return why not, or "". Raises
        BookieUnreachable."""
        if action.door is not None:
            why = await self._hand.flush(action.bookie, action.pod_uid, action.door, action.epoch, is_sealed=True)
            # CRASH: the pod goes only after the flush said yes.
            self._hand.after_write(f"flush of {action.bookie}")
            if why:
                return why
            self._hand.may_write()  # the flush took its time
        try:
            # CRASH: exactly the pod that was seen; what changed since is looked at anew.
            await self._hand.kube.delete(
                "Pod", namespace, action.bookie, uid=action.pod_uid, resource_version=action.resource_version
            )
        except KubeError as error:
            return self._refused(("take", namespace, action.bookie), error, str(action))
        return ""

    async def _detach(self, namespace: str, action: DetachPool) -> str:
        """Delete a StatefulSet around its pods; return why not, or ""."""
        try:
            # CRASH: exactly the StatefulSet that was seen; what changed since is looked at anew.
            await self._hand.kube.delete(
                "StatefulSet",
                namespace,
                action.stateful_set,
                uid=action.uid,
                resource_version=action.resource_version,
                is_orphaning=True,
            )
        except KubeError as error:
            return self._refused(("take", namespace, action.bookie), error, str(action))
        return ""

    def _refused(self, step: Step, error: KubeError, what: str) -> str:
        """Return why the API server refused; "" for what changed since it was read: the next pass looks again."""
        return "" if error.is_conflict else self._hand.obstacle(step, error, what).message
