"""What every write of the operator passes: the lease before it, the memory of what fails, the test hook after it.

No other module may write to the API server or order a bookie without `may_write` before.
"""

from collections.abc import Callable

from bookie.base.errors import BookieError
from bookie.ports.admin import StopTurn
from bookie_operator.crash import CrashPoint
from bookie_operator.evidence.facts import Door
from bookie_operator.execute import manifests
from bookie_operator.failures import Attempt, Failures
from bookie_operator.gateways.bookies import FLUSH_DEADLINE_S, Bookies
from bookie_operator.gateways.kube import Kube, KubeError, Manifest
from bookie_operator.plan.actions import DeleteChild, ScalePool
from bookie_operator.plan.children import Obstacle

# How long a bookie refuses writes when it hears no more: longer than a flush may take, and renewed by each.
_TURN_MS = 90_000
assert _TURN_MS > 2 * FLUSH_DEADLINE_S * 1_000


class LostLease(BookieError):
    """This process may no longer act: it ends, and another operator process takes over."""

    fatal = True


class Hand:
    """Writes to the API server and orders to bookies, one operator process."""

    def __init__(
        self,
        kube: Kube,
        bookies: Bookies,
        crash: CrashPoint,
        may_act: Callable[[], bool],
        loop_s: Callable[[], float],
    ) -> None:
        self.kube = kube
        self.bookies = bookies
        self.loop_s = loop_s
        self.failures = Failures(loop_s)
        self.writes = 0  # begun, of all clusters: to the API server and to bookies, Events aside
        self._crash = crash
        self._may_act = may_act

    def may_write(self) -> None:
        """Ask before each write, so that each is counted here too. Raises LostLease."""
        if not self._may_act():
            raise LostLease("the lease is not ours any more (or cannot be renewed in time)")
        self.writes += 1

    def after_write(self, what: str) -> None:
        """Say that a write was acknowledged: a test may let the process end here."""
        self._crash.after_write(what)

    async def apply(self, manifest: Manifest, live: Manifest | None, *, manager: str) -> Manifest:
        """Apply over exactly the object that was seen (`live`); where there was none, make it. What somebody else has
        put there since is not taken: a conflict (spec/operator.md#I4). The caller has asked `may_write`. Raises
        KubeError."""
        if live is None:
            return await self.kube.apply(manifests.over(manifest, None), manager=manager)
        # Until 03210ed7 (28 November 2026) children were made by a POST. This may go when no object of then is left.
        if (handed := manifests.handed_to_applies(live, manager)) is not None:
            await self.kube.merge(handed)
            self.after_write(f"fields of {live['kind']} {live['metadata']['name']}")
            self.may_write()
        uid = {"uid": live["metadata"]["uid"]}
        return await self.kube.apply(manifest | {"metadata": manifest["metadata"] | uid}, manager=manager)

    async def delete(self, namespace: str, child: DeleteChild) -> None:
        """Delete exactly the object that was seen. The caller has asked `may_write`. Raises KubeError."""
        await self.kube.delete(
            child.kind,
            namespace,
            child.name,
            uid=child.uid,
            resource_version=child.resource_version,
            is_orphaning=child.is_orphaning,
        )

    async def scale(self, namespace: str, action: ScalePool) -> tuple[bool, str]:
        """Set the number of a StatefulSet; return (it is set, why the API server refuses). One that somebody changed
        since it was read is looked at anew by the next pass: (False, "")."""
        self.may_write()
        with self.failures.step("scale", namespace, action.stateful_set) as step:
            try:
                step.check_may_try(str(action))
                await self.kube.apply(manifests.manifest(namespace, action), manager=manifests.manager(action))
            except KubeError as error:
                return False, "" if error.is_conflict else obstacle(step, error, str(action)).message
        return True, ""

    async def flush(self, bookie: str, pod_uid: str, door: Door, epoch: int, *, is_sealed: bool) -> str:
        """Have a bookie refuse writes for its turn, and flush; return why it could not, or "". Raises
        BookieUnreachable. The caller has asked `may_write`.

        CRASH: when this process ends now, the bookie takes writes again by itself (spec/operator.md#Q10). `is_sealed`
        only where its pod ends next, as recoveries would wait (#Q12).
        """
        turn = StopTurn(epoch, pod_uid, _TURN_MS, is_sealed=is_sealed)
        is_flushed, text = await self.bookies.prepare_shutdown(door, turn)
        return "" if is_flushed else f"{bookie} cannot flush: {text}"


def obstacle(step: Attempt, error: KubeError, what: str) -> Obstacle:
    """Return the obstacle for a refusal that no repetition changes, or for what the API server fails at for long: a
    webhook that is down must not keep the status from telling what else becomes of the fleet. Raises any other `error`,
    which repeats the pass."""
    reason = step.reason(error, what=what)
    return Obstacle(reason, f"could not {what}{', tried again and again' if error.is_failure else ''}: {error}")
