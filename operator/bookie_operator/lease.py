"""Leader election on a Lease, by our own code (spec/operator.md#K30 says why): monotonic time, one owner, numbered
terms.

A lease alone is no fencing: a leader that lost it may not have noticed. Each term therefore takes an epoch of each
cluster, which bookies check (`plan/epoch.py`). No word of a cluster or a bookie changes the lease.
"""

import asyncio
import datetime as dt
import logging
from typing import Any

from bookie_operator import options
from bookie_operator.gateways.kube import Kube, KubeError, Manifest
from bookie_operator.plan.observation import Term

logger = logging.getLogger(__name__)


# `leaseTransitions` is an int32. It only tells terms apart, so that it may begin again.
_TERM_MAX = 2**31 - 1


class LeaderLease:
    """One process's hold on the lease. Times are loop times (monotonic); the wall clock decides nothing."""

    def __init__(self, kube: Kube, namespace: str, name: str, identity: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._term = 0
        self.hindrance = "has not asked for the lease yet"  # why we can neither lead nor wait; "" = nothing
        self._valid_until = 0.0
        self._seen: tuple[object, float] | None = None  # another holder's record, and since when it is the same

    def is_held(self) -> bool:
        """Return True while no other process can have taken the lease: renewed less than LEASE_GIVE_UP_S ago."""
        return _now() < self._valid_until

    def term(self) -> Term:
        return Term(self._identity, self._term, self.is_held())

    async def acquire(self) -> None:
        """Wait until this process has the lease; for ever, also while the API server does not answer."""
        while True:
            try:
                is_ours = await self._try()
                self.hindrance = ""
                if is_ours:
                    logger.info("lease acquired name=%s term=%s", self._name, self._term)
                    return
            except KubeError as error:
                self.hindrance = f"the lease cannot be taken: {error}"
                logger.warning("lease not acquired name=%s error=%s", self._name, error)
            await asyncio.sleep(options.LEASE_RETRY_S)

    async def keep(self) -> None:
        """Renew until the lease cannot be renewed in time or another process has it; then return: the process must
        end."""
        while self.is_held():
            await asyncio.sleep(options.LEASE_RENEW_S)
            try:
                if not await self._try():
                    logger.error("lease lost name=%s: somebody else holds it", self._name)
                    self._valid_until = 0.0
                    return
                self.hindrance = ""
            except KubeError as error:
                self.hindrance = f"the lease cannot be renewed: {error}"
                logger.warning("lease not renewed name=%s error=%s", self._name, error)
        logger.error("lease lost name=%s: not renewed in time", self._name)

    async def release(self) -> None:
        """Give the lease up, so that the next leader need not wait. Best effort."""
        if not self.is_held():
            return
        self._valid_until = 0.0
        try:
            manifest = await self._kube.get("Lease", self._namespace, self._name)
            if manifest is not None and manifest["spec"].get("holderIdentity") == self._identity:
                await self._kube.replace(manifest | {"spec": manifest["spec"] | {"holderIdentity": ""}})
        except KubeError as error:
            logger.info("lease not released error=%s", error)

    async def _try(self) -> bool:
        """Try once to take or renew the lease. Compare-and-set by resourceVersion: a race has one winner."""
        began = _now()
        manifest = await self._kube.get("Lease", self._namespace, self._name)
        if manifest is None:
            await self._kube.create(self._manifest({"leaseTransitions": 1}))
            return self._won(began, 1)
        spec: dict[str, Any] = manifest.get("spec") or {}
        transitions = int(spec.get("leaseTransitions") or 0)
        is_ours = spec.get("holderIdentity") == self._identity and transitions == self._term
        if not is_ours:
            if not self._may_take(spec):
                return False
            transitions = transitions % _TERM_MAX + 1
        renewed = self._manifest({"leaseTransitions": transitions})
        renewed["metadata"] = manifest["metadata"]
        try:
            await self._kube.replace(renewed)
        except KubeError as error:
            if error.is_conflict:
                return False if not is_ours else self.is_held()
            raise
        return self._won(began, transitions)

    def _may_take(self, spec: dict[str, Any]) -> bool:
        """Return True for a lease that is free, our own from a former life of this very pod, or not renewed for its
        whole duration as we saw it."""
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self._identity):
            return True
        record = (holder, spec.get("renewTime"), spec.get("leaseTransitions"))
        if self._seen is None or self._seen[0] != record:
            self._seen = (record, _now())
        duration_s = float(spec.get("leaseDurationSeconds") or options.LEASE_DURATION_S)
        return _now() - self._seen[1] > duration_s

    def _won(self, began: float, term: int) -> bool:
        self._term = term
        # Counted from before the request: the API server's view of our renewal is never older than ours.
        self._valid_until = began + options.LEASE_GIVE_UP_S
        return True

    def _manifest(self, spec: dict[str, Any]) -> Manifest:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": options.LEASE_DURATION_S,
                # Only that it is another one each time counts: whoever waits sees by it that we live.
                "renewTime": dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                **spec,
            },
        }


def _now() -> float:
    return asyncio.get_running_loop().time()
