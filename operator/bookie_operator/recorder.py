"""Writes Events as objects. The name is made from the event's content, so that the same event twice is one object."""

import logging
from collections.abc import Callable

from bookie_operator.failures import Patience
from bookie_operator.gateways.kube import Kube, KubeError
from bookie_operator.model import names, values
from bookie_operator.model.cluster import ClusterRef
from bookie_operator.resources import common
from bookie_operator.status.events import ClusterEvent

logger = logging.getLogger(__name__)
_TOLD_MAX = 4096
_PER_MINUTE_MAX = 60  # of one cluster: a fleet in which everything fails must not fill the API server
_NOTE_MAX = 1000  # events.k8s.io/v1 allows 1 kB


class Recorder:
    """Writes Events, best effort: a failed write is logged, and no other work waits for it."""

    def __init__(self, kube: Kube, identity: str, loop_s: Callable[[], float]) -> None:
        self._kube = kube
        self._identity = identity[:128]
        self._told: dict[tuple[str, str], None] = {}  # (namespace, name) of the newest events, oldest first
        self._patience = Patience(loop_s)
        self._windows: dict[tuple[str, str], tuple[int, int]] = {}  # by cluster: (minute, events in it)

    async def record(self, cluster: ClusterRef, event: ClusterEvent, now_ms: int) -> None:
        """Create the event once: this process remembers its name, and the API server refuses it from others."""
        manifest = self._manifest(cluster, event, now_ms)
        name = (cluster.namespace, manifest["metadata"]["name"])
        if name in self._told or self._patience.asked(name) or not self._has_room(cluster, now_ms):
            return
        try:
            await self._kube.create(manifest)
        except KubeError as error:
            if not error.is_conflict:
                logger.warning("event not recorded reason=%s target=%s error=%s", event.reason, event.target, error)
                self._patience.refused(name, error)
                return
        self._told[name] = None
        if len(self._told) > _TOLD_MAX:
            del self._told[next(iter(self._told))]

    def _has_room(self, cluster: ClusterRef, now_ms: int) -> bool:
        """Return False when this cluster has used up its events of the minute; a later pass sends those that still
        hold."""
        key, minute = (cluster.namespace, cluster.name), now_ms // 60_000
        began, count = self._windows.get(key, (minute, 0))
        count = count + 1 if began == minute else 1
        self._windows[key] = (minute, count)
        return count <= _PER_MINUTE_MAX

    def _manifest(self, cluster: ClusterRef, event: ClusterEvent, now_ms: int) -> common.Manifest:
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
