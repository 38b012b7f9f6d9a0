"""Tells people: the status of a cluster and of operations, and Events about what changed in them."""

import logging
from collections.abc import Callable, Iterable

from bookie_operator.execute import manifests
from bookie_operator.execute.hand import Hand
from bookie_operator.failures import Patience
from bookie_operator.gateways.kube import KubeError
from bookie_operator.model import names
from bookie_operator.model.cluster import ClusterRef
from bookie_operator.model.status import BookieClusterStatus
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.operations import Told
from bookie_operator.plan.ownership import Refusal
from bookie_operator.recorder import Recorder
from bookie_operator.status import events, operations, warnings

logger = logging.getLogger(__name__)


class Telling:
    def __init__(self, hand: Hand, recorder: Recorder, told: Callable[[ClusterRef, BookieClusterStatus], None]) -> None:
        """`told`: hears what each pass says of its cluster, also where that is stored already."""
        self._hand = hand
        self._recorder = recorder
        self._told = told
        self._patience = Patience(hand.loop_s)

    async def say(self, cluster: ClusterRef, status: BookieClusterStatus, *, is_stored: bool) -> None:
        """Let a pass have said `status`, and store it unless `is_stored`. Raises KubeError."""
        self._told(cluster, status)
        if not is_stored:
            await self.write_status(cluster, status)

    async def say_without_plan(
        self, cluster: ClusterRef, status: BookieClusterStatus, now_ms: int, *, is_stored: bool
    ) -> None:
        """End a pass that has no plan: as `say`, and send the warnings about the cluster in it. Raises KubeError."""
        await self.say(cluster, status, is_stored=is_stored)
        for event in warnings.of_cluster(status, now_ms):
            await self._recorder.record(cluster, event, now_ms)

    async def refuse(self, cluster: ClusterRef, refusal: Refusal, mine: str, now_ms: int) -> None:
        """Say that another operator keeps this cluster, in an Event alone: its status is the other's."""
        event = events.ClusterEvent(
            "KeptByAnother", "", f"{refusal.owner}-{mine}-{now_ms // warnings.REPEAT_MS}", refusal.message, True
        )
        await self._recorder.record(cluster, event, now_ms)

    async def write_status(self, cluster: ClusterRef, status: BookieClusterStatus) -> str:
        """Store `status` if nobody touched the resource since it was read. Returns the new resourceVersion. Raises
        KubeError."""
        self._hand.may_write()
        manifest = manifests.status_of(cluster, status)
        stored = await self._hand.kube.replace_status(manifest, manager=names.STATUS_MANAGER)
        self._hand.after_write("status")
        return str(stored["metadata"].get("resourceVersion", ""))

    async def report(self, plan: FleetPlan, status: BookieClusterStatus) -> None:
        """Send the Events of a pass whose `status` is stored, and write the status of its operations."""
        cluster, now_ms = plan.observation.cluster, plan.observation.now_ms
        for event in (*warnings.standing(status, now_ms), *events.between(cluster.status, status)):
            await self._recorder.record(cluster.ref, event, now_ms)
        await self.tell(plan.operations)
        for event in operations.events(plan.operations, plan.observation.operations, now_ms):
            await self._recorder.record(cluster.ref, event, now_ms)

    async def tell(self, told: Iterable[Told]) -> None:
        """Write the status of operations, each only over the version that was read. What the API server does not take
        is told by a later pass, no sooner than it asks for: what an operation did stands in the fleet and in the status
        of its cluster."""
        for one in told:
            operation = one.operation
            name = (operation.namespace, operation.name)
            if one.is_stored or self._patience.asked(name):
                continue
            self._hand.may_write()
            try:
                manifest = manifests.operation_status(operation, one.status)
                await self._hand.kube.replace_status(manifest, manager=names.STATUS_MANAGER)
            except KubeError as error:
                logger.warning("operation not told name=%s/%s error=%s", operation.namespace, operation.name, error)
                self._patience.refused(name, error)
                continue
            assert one.status.phase is not None
            logger.info(
                "operation name=%s/%s phase=%s message=%s",
                operation.namespace,
                operation.name,
                one.status.phase.value,
                one.status.message,
            )
            self._hand.after_write(f"operation {operation.name}")
