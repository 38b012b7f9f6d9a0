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
        self.patience = Patience(loop_s)

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

    def reason(self, error: KubeError, *, lasting: str = "ApplyRefused", what: str = "") -> str:
        """Return the reason of Stalled for a refusal that no repetition changes, and for a failure that lasts
        (`lasting`). Raises any other `error`, which repeats the pass. `what`: which call of the step failed."""
        self.has_failed = True
        if not error.is_failure:
            return refusal_reason(error)
        if not self._failures.lasts(self._step):
            raise error
        self.asked_to_wait = error if error.retry_after_ms else self.asked_to_wait
        self._failures.patience.refused((*self._step, what), error)
        return lasting

    def lasts(self) -> bool:
        """Note that the step failed just now, for a reason of ours; return whether a person is told."""
        return self._failures.lasts(self._step)

    def check_may_try(self, what: str = "") -> None:
        """Raise what was told of the step's call `what` while the API server has asked not to be sent it again: for
        one beside which the pass goes on, with the step's other calls too."""
        error = self._failures.patience.asked((*self._step, what))
        if error is not None:
            raise error


class Patience:
    """What the API server asked not to be sent again before a time (Retry-After): calls beside which a pass goes on."""

    def __init__(self, loop_s: Callable[[], float]) -> None:
        self._loop_s = loop_s
        self._asked: dict[Step, tuple[float, KubeError]] = {}  # until when, and by what

    def asked(self, name: Step) -> KubeError | None:
        """Return why what is called so must not be sent now; None when it may be."""
        now_s = self._loop_s()
        self._asked = {one: each for one, each in self._asked.items() if now_s < each[0]}
        return self._asked[name][1] if name in self._asked else None

    def refused(self, name: Step, error: KubeError) -> None:
        """Note that the API server did not take what is called so, just now. What was not sent begins no new time."""
        if error.retry_after_ms and self.asked(name) is not error:
            self._asked[name] = (self._loop_s() + error.retry_after_ms / 1_000, error)


def refusal_reason(error: KubeError) -> str:
    """Return the reason of Stalled for a refusal that no repetition changes. Raises any other `error`."""
    if isinstance(error, KubeForbidden):
        return "PermissionMissing"
    if error.quota:
        return "QuotaExceeded"
    if error.is_refusal:
        return "ApplyRefused"
    raise error
