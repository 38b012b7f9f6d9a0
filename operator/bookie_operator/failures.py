"""What the API server fails at: for how long already. What passes by itself repeats the pass and is not told; what
lasts is told in the status, and the rest of the pass goes on.

Only this process remembers it: a new one begins to count anew.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bookie_operator.gateways.kube import KubeError, KubeForbidden

# An API server, or a webhook, that restarts is back by then.
TOLD_AFTER_S = 30.0
# Passes that fail are a minute apart at most (workqueue.py), and may take that long: what has not failed for so long
# is over.
_OVER_AFTER_S = 180.0

Step = tuple[str, ...]  # of a pass over one cluster


class Failures:
    """Since when each step of a pass has failed; as many entries as failed within the last minutes."""

    def __init__(self, loop_s: Callable[[], float]) -> None:
        self._loop_s = loop_s
        self._since: dict[Step, tuple[float, float]] = {}  # first and last failure, loop time

    @contextmanager
    def step(self, *step: str) -> Iterator["Attempt"]:
        """Try `step`, which may be several calls. It went well, and begins to count anew, where no call of it fails:
        the block asks nobody for a reason, and raises nothing."""
        this = Attempt(self, step)
        yield this
        if not this.has_failed:
            self._since.pop(step, None)

    def lasts(self, step: Step) -> bool:
        """Note that `step` failed just now; return whether it has for so long that a person is told."""
        now_s = self._loop_s()
        self._since = {one: each for one, each in self._since.items() if now_s - each[1] < _OVER_AFTER_S}
        first_s = self._since.get(step, (now_s, now_s))[0]
        self._since[step] = (first_s, now_s)
        return now_s - first_s >= TOLD_AFTER_S


class Attempt:
    """One try of a step."""

    def __init__(self, failures: Failures, step: Step) -> None:
        self._failures = failures
        self._step = step
        self.has_failed = False
        self.asked_to_wait: KubeError | None = None  # what was told, and must not be tried again at once

    def reason(self, error: KubeError, *, lasting: str = "ApplyRefused") -> str:
        """Return the reason of Stalled for a refusal that no repetition changes, and for a failure that lasts
        (`lasting`). Raises any other `error`, which repeats the pass."""
        self.has_failed = True
        if not error.is_failure:
            return refusal_reason(error)
        if not self._failures.lasts(self._step):
            raise error
        self.asked_to_wait = error if error.retry_after_ms else self.asked_to_wait
        return lasting


class Patience:
    """What the API server asked not to be sent again before a time (Retry-After), of writes that no pass waits for."""

    def __init__(self, loop_s: Callable[[], float]) -> None:
        self._loop_s = loop_s
        self._until_s: dict[tuple[str, str], float] = {}  # by namespace and name

    def lasts(self, name: tuple[str, str]) -> bool:
        """Return True while what is called so must not be sent."""
        now_s = self._loop_s()
        self._until_s = {one: until_s for one, until_s in self._until_s.items() if now_s < until_s}
        return name in self._until_s

    def refused(self, name: tuple[str, str], error: KubeError) -> None:
        """Note that the API server did not take what is called so, just now."""
        if error.retry_after_ms:
            self._until_s[name] = self._loop_s() + error.retry_after_ms / 1_000


def refusal_reason(error: KubeError) -> str:
    """Return the reason of Stalled for a refusal that no repetition changes. Raises any other `error`."""
    if isinstance(error, KubeForbidden):
        return "PermissionMissing"
    if error.quota:
        return "QuotaExceeded"
    if error.is_refusal:
        return "ApplyRefused"
    raise error
