"""Carries out one plan: children and marks, then the status, then grants, then events. One action, one log line.

The order is the safety argument. The disruption budget is closed before anything may follow from a loss; the grant is
in the stored status before the bookie hears of it; whatever fails stops everything after it that could do harm. Every
step may be repeated: a crash between any two of them is repaired by the next pass (tests: crash after every write).
"""

import logging
from collections.abc import Callable
from dataclasses import replace

from bookie.base.errors import BookieError
from bookie_operator.crash import CrashPoint
from bookie_operator.gateways.bookies import Bookies, BookieUnreachable
from bookie_operator.gateways.kube import Kube, KubeError
from bookie_operator.model import names
from bookie_operator.model.cluster import Address, Cluster
from bookie_operator.model.status import BookieClusterStatus
from bookie_operator.plan.actions import Action, Apply, SendGrant
from bookie_operator.plan.children import Obstacle
from bookie_operator.plan.fleet import Plan
from bookie_operator.recorder import Recorder
from bookie_operator.status import events, render

logger = logging.getLogger(__name__)


class LostLease(BookieError):
    """We may no longer act. The process ends; another one takes over."""

    fatal = True


class Executor:
    """The only place that writes."""

    def __init__(
        self, kube: Kube, bookies: Bookies, recorder: Recorder, crash: CrashPoint, may_act: Callable[[], bool]
    ) -> None:
        self._kube = kube
        self._bookies = bookies
        self._recorder = recorder
        self._crash = crash
        self._may_act = may_act

    async def run(self, plan: Plan) -> None:
        """Raises KubeError (conflicts included) when the pass must be repeated, LostLease when we must stop."""
        cluster = plan.observation.cluster
        failures = [failure for action in plan.actions if (failure := await self._act(cluster, action)) is not None]
        if failures:
            # CRASH: without the whole protection in place nobody is let loose; the next pass tries again.
            plan = replace(plan, obstacles=plan.obstacles + tuple(failures), sends=())
        status = render.render(plan)
        if status != cluster.status:
            await self.write_status(cluster.address, status)
        for send in plan.sends:
            await self._grant(send)
        for event in events.between(cluster.status, status):
            await self._recorder.record(cluster, event, plan.observation.now_ms)

    async def write_status(self, address: Address, status: BookieClusterStatus) -> str:
        """Store `status` if nobody touched the resource since it was read. Returns the new resourceVersion."""
        self._check_lease()
        stored = await self._kube.apply(
            {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "metadata": {
                    "name": address.name,
                    "namespace": address.namespace,
                    "resourceVersion": address.resource_version,
                },
                "status": status.dump(),
            },
            manager=names.STATUS_MANAGER,
            subresource="status",
        )
        self._crash.after_write("status")
        return str(stored["metadata"].get("resourceVersion", ""))

    async def _act(self, cluster: Cluster, action: Action) -> Obstacle | None:
        """None when done; an obstacle when the API server refuses for good. Other errors pass through."""
        self._check_lease()
        try:
            if isinstance(action, Apply):
                await self._kube.apply(action.manifest, manager=names.MANAGER)
            else:
                await self._kube.apply(
                    {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "metadata": {
                            "name": action.name,
                            "namespace": cluster.namespace,
                            "uid": action.uid,
                            "annotations": dict(action.annotations),
                        },
                    },
                    manager=names.IDENTITY_MANAGER,
                )
        except KubeError as error:
            if error.is_forbidden:
                return Obstacle("PermissionMissing", f"could not {action}: {error}")
            if error.is_invalid:
                return Obstacle("ApplyRefused", f"could not {action}: {error}")
            raise
        logger.info("done cluster=%s/%s action=%s", cluster.namespace, cluster.name, action)
        self._crash.after_write(str(action))
        return None

    async def _grant(self, send: SendGrant) -> None:
        """An answer that got lost is neither yes nor no: the next pass sees what the bookie does, or repeats."""
        self._check_lease()
        try:
            answer = await self._bookies.grant(send.address, send.grant, send.ttl_ms)
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

    def _check_lease(self) -> None:
        if not self._may_act():
            raise LostLease("the lease is not ours any more (or cannot be renewed in time)")
