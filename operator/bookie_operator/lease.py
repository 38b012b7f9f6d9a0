"""Leader election on a Lease, by ourselves (kopf.md 1.9 says why): monotonic time, one owner, an epoch.

The epoch is `leaseTransitions`: every acquisition raises it, and it travels with every grant, so that a bookie refuses
an operator that lost its lease without noticing. A lease alone is no fencing; together with the epoch it is.
"""

import asyncio
import logging
from typing import Any

from bookie_operator import options
from bookie_operator.gateways.kube import Kube, KubeError, Manifest
from bookie_operator.plan.observation import Leadership

logger = logging.getLogger(__name__)


class Lease:
    """One process's hold on the lease. Times are loop times (monotonic); the wall clock decides nothing."""

    def __init__(self, kube: Kube, namespace: str, name: str, identity: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._epoch = 0
        self._valid_until = 0.0
        self._seen: tuple[object, float] | None = None  # another holder's record, and since when it is the same

    @property
    def epoch(self) -> int:
        return self._epoch

    def is_held(self) -> bool:
        """True while nobody else can have taken it: renewed less than LEASE_GIVE_UP_S ago."""
        return _now() < self._valid_until

    def leadership(self) -> Leadership:
        return Leadership(self._identity, self._epoch, self.is_held())

    async def acquire(self, *, retry_s: float = 2.0) -> None:
        """Return when the lease is ours. Waits for ever; an API server that does not answer is waited for too."""
        while True:
            try:
                if await self._try():
                    logger.info("lease acquired name=%s epoch=%s", self._name, self._epoch)
                    return
            except KubeError as error:
                logger.warning("lease not acquired name=%s error=%s", self._name, error)
            await asyncio.sleep(retry_s)

    async def keep(self, *, renew_s: float = options.LEASE_RENEW_S) -> None:
        """Renew until it cannot be renewed in time or somebody else has it; then return: the process must end."""
        while self.is_held():
            await asyncio.sleep(renew_s)
            try:
                if not await self._try():
                    logger.error("lease lost name=%s: somebody else holds it", self._name)
                    self._valid_until = 0.0
                    return
            except KubeError as error:
                logger.warning("lease not renewed name=%s error=%s", self._name, error)
        logger.error("lease lost name=%s: not renewed in time", self._name)

    async def release(self) -> None:
        """Give it up, so that the next leader need not wait. Best effort."""
        if not self.is_held():
            return
        self._valid_until = 0.0
        try:
            manifest = await self._kube.get("Lease", self._namespace, self._name)
            if manifest is not None and manifest["spec"].get("holderIdentity") == self._identity:
                await self._kube.replace(manifest | {"spec": manifest["spec"] | {"holderIdentity": ""}})
        except KubeError as error:
            logger.info("lease not released error=%s", error)

    async def raise_epoch(self, above: int) -> None:
        """Make our epoch higher than `above`: a bookie has seen a later one than this lease knows (the Lease object was
        deleted, or the operator installed anew). Only the holder can: it is a compare-and-set on the lease itself.
        """
        manifest = await self._kube.get("Lease", self._namespace, self._name)
        if manifest is None or not self.is_held() or self._epoch > above:
            return
        began, spec = _now(), manifest["spec"]
        if (spec.get("holderIdentity"), spec.get("leaseTransitions")) != (self._identity, self._epoch):
            return
        await self._kube.replace(manifest | {"spec": spec | {"leaseTransitions": above + 1}})
        logger.warning("epoch raised from=%s to=%s: bookies have seen a later one", self._epoch, above + 1)
        self._won(began, above + 1)

    async def _try(self) -> bool:
        """One attempt to take or renew. Compare-and-set by resourceVersion: a race has one winner."""
        began = _now()
        manifest = await self._kube.get("Lease", self._namespace, self._name)
        if manifest is None:
            await self._kube.create(self._manifest({"leaseTransitions": 1}))
            return self._won(began, 1)
        spec: dict[str, Any] = manifest.get("spec") or {}
        transitions = int(spec.get("leaseTransitions") or 0)
        is_ours = spec.get("holderIdentity") == self._identity and transitions == self._epoch
        if not is_ours:
            if not self._may_take(spec):
                return False
            transitions += 1
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
        """Free, our own from a former life of this very pod, or not renewed for its whole duration as we saw it."""
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self._identity):
            return True
        record = (holder, spec.get("renewTime"), spec.get("leaseTransitions"))
        if self._seen is None or self._seen[0] != record:
            self._seen = (record, _now())
        duration_s = float(spec.get("leaseDurationSeconds") or options.LEASE_DURATION_S)
        return _now() - self._seen[1] > duration_s

    def _won(self, began: float, epoch: int) -> bool:
        self._epoch = epoch
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
                **spec,
            },
        }


def _now() -> float:
    return asyncio.get_running_loop().time()
