"""Events as objects. The name is made from what the event is about, so the same event twice is one object."""

import logging

from bookie_operator.gateways.kube import Kube, KubeError
from bookie_operator.model import names, values
from bookie_operator.model.cluster import Cluster
from bookie_operator.resources import common
from bookie_operator.status.events import Event

logger = logging.getLogger(__name__)
_NOTE_MAX = 1000  # events.k8s.io/v1 allows 1 kB


class Recorder:
    """Best effort: an event that cannot be written is logged, and nothing waits for it."""

    def __init__(self, kube: Kube, identity: str) -> None:
        self._kube = kube
        self._identity = identity[:128]

    async def record(self, cluster: Cluster, event: Event, now_ms: int) -> None:
        try:
            await self._kube.create(self._manifest(cluster, event, now_ms))
        except KubeError as error:
            if not error.is_conflict:
                logger.warning("event not recorded reason=%s target=%s error=%s", event.reason, event.target, error)

    def _manifest(self, cluster: Cluster, event: Event, now_ms: int) -> common.Manifest:
        unique = common.digest([cluster.uid, event.reason, event.target, event.key])
        note = f"{event.target}: {event.message}" if event.target else event.message
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{cluster.name}.{unique}", "namespace": cluster.namespace},
            "eventTime": values.format_time(now_ms).replace("Z", ".000000Z"),
            "reportingController": names.MANAGER,
            "reportingInstance": self._identity,
            "action": event.reason,
            "reason": event.reason,
            "regarding": {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "namespace": cluster.namespace,
                "name": cluster.name,
                "uid": cluster.uid,
            },
            "note": note[:_NOTE_MAX],
            "type": "Warning" if event.is_warning else "Normal",
        }
