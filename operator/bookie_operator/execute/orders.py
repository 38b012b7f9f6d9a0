"""Orders to bookies that stop nobody: the grant, and what people's operations and the spec ask of a running bookie.

An answer that is lost is neither yes nor no: each order may be given again, and the next pass sees what the bookie did.
"""

import logging
from collections.abc import Awaitable, Mapping

from bookie.rpc.calls import OrderAnswer
from bookie_operator.execute.hand import Hand
from bookie_operator.gateways.bookies import BookieUnreachable
from bookie_operator.model.cluster import Cluster
from bookie_operator.plan.actions import ChangeSettings, FillHoles, RestoreCookie, SendGrant, SetAside
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.observation import Hindrance, LedgerAnswer

logger = logging.getLogger(__name__)


class Orders:
    def __init__(self, hand: Hand) -> None:
        self._hand = hand
        # By namespace and cluster; in that by the uid of an operation and a ledger.
        self._answers: dict[tuple[str, str], dict[tuple[str, str], LedgerAnswer]] = {}

    def ledger_answers(self, cluster: Cluster) -> Mapping[tuple[str, str], LedgerAnswer]:
        """Return, by the uid of an operation and a ledger, what bookies said of ending it."""
        return self._answers.get((cluster.namespace, cluster.name), {})

    async def grant(self, send: SendGrant) -> None:
        """Send one grant, which the stored status has already. A lost answer: the next pass sends it again."""
        self._hand.may_write()
        try:
            answer = await self._hand.bookies.grant(send.door, send.grant, send.ttl_ms)
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
        self._hand.after_write(str(send))

    async def give(self, plan: FleetPlan) -> dict[str, Hindrance]:
        """Give the orders of people's operations that stop nobody; return by bookie why one was not carried out."""
        namespace, found = plan.observation.cluster.namespace, dict[str, Hindrance]()
        for order in plan.asides:
            if told := await self.set_aside(namespace, order):
                found[order.bookie] = Hindrance(told)
        for ask in plan.cookies:
            if told := await self._restore_cookie(namespace, ask):
                found[ask.bookie] = Hindrance(told)
        await self._end_ledgers(plan)
        return found

    async def set_aside(self, namespace: str, action: SetAside) -> str:
        """Give the order that keeps a bookie out of service, or ends that; return why it was not done, or ""."""
        self._hand.may_write()
        answer = await _answer(
            self._hand.bookies.set_aside(action.door, action.bookie_id, action.order, operator_epoch=action.epoch)
        )
        return self._told(namespace, action, answer)

    async def fill(self, namespace: str, ask: FillHoles) -> None:
        """Ask a bookie to fill its holes."""
        self._hand.may_write()
        try:
            await self._hand.bookies.fill_holes(ask.door)
        except BookieUnreachable as error:
            logger.warning("not done, tried again namespace=%s action=%s error=%s", namespace, ask, error)
            return
        logger.info("done namespace=%s action=%s", namespace, ask)
        self._hand.after_write(str(ask))

    async def change_settings(self, namespace: str, order: ChangeSettings) -> None:
        """Have a bookie take settings as it runs. What was refused, the next pass sees in its report."""
        self._hand.may_write()
        answer = await _answer(
            self._hand.bookies.change_settings(order.door, dict(order.settings), operator_epoch=order.epoch)
        )
        self._told(namespace, order, answer)

    async def _restore_cookie(self, namespace: str, action: RestoreCookie) -> str:
        """Have a bookie make its cookie again; return why it did not, or ""."""
        self._hand.may_write()
        answer = await _answer(
            self._hand.bookies.restore_cookie(action.door, action.evidence_hash, operator_epoch=action.epoch)
        )
        return self._told(namespace, action, answer)

    async def _end_ledgers(self, plan: FleetPlan) -> None:
        """Have ledgers closed whose loss a person accepted; what was said is told, and stored, by the next pass.

        CRASH: an answer that is lost is asked for again, and a ledger that is closed is done.
        """
        cluster, now_ms = plan.observation.cluster, plan.observation.now_ms
        live = {one.operation.uid for one in plan.operations}
        known = {key: answer for key, answer in self.ledger_answers(cluster).items() if key[0] in live}
        self._answers[cluster.namespace, cluster.name] = known
        for order in plan.losses:
            self._hand.may_write()
            began_s = self._hand.loop_s()
            answer = await _answer(
                self._hand.bookies.accept_ledger_loss(
                    order.door,
                    order.ledger,
                    order.bookie_ids,
                    by=order.by,
                    reason=order.reason,
                    operator_epoch=order.epoch,
                )
            )
            is_missing = answer.refused_reason == "missing"
            is_done = answer.is_done or is_missing
            logger.warning("namespace=%s action=%s done=%s said=%s", cluster.namespace, order, is_done, answer.text)
            took_ms = int((self._hand.loop_s() - began_s) * 1000)
            said = LedgerAnswer(is_done, answer.text, now_ms + took_ms, took_ms, is_missing)
            known[order.operation_uid, order.ledger] = said
            self._hand.after_write(str(order))

    def _told(self, namespace: str, action: SetAside | RestoreCookie | ChangeSettings, answer: OrderAnswer) -> str:
        """Return why the order was not carried out, or ""."""
        if not answer.is_done:
            logger.warning("not done, tried again namespace=%s action=%s reason=%s", namespace, action, answer.text)
            return f"{answer.refused_reason}: {answer.text}"
        logger.info("done namespace=%s action=%s", namespace, action)
        self._hand.after_write(str(action))
        return ""


async def _answer(asked: Awaitable[OrderAnswer]) -> OrderAnswer:
    """Return how a bookie answers an order; that nobody could be asked is an answer too."""
    try:
        return await asked
    except BookieUnreachable as error:
        return OrderAnswer(False, "unreachable", str(error))
