"""Remembers the result of each apply, so that the operator repeats none in vain.

An admission policy may rewrite what we apply, or another controller put back what we took away. Another apply would
have the same result, pass after pass. So an apply is futile when the object is still as our last apply of the very same
manifest left it; and when another program changes the object after each apply, the next apply waits longer. Only this
process remembers it: a new process applies once and then knows again.
"""

from dataclasses import dataclass

from bookie_operator.model import names
from bookie_operator.resources import common
from bookie_operator.resources.common import Manifest

_PAUSE_MS = 1_000  # doubled with each apply of the same wishes
# A disruption budget that somebody opens while data is at risk must not stay open for long.
_PAUSE_MS_MAX = 60_000


@dataclass(slots=True)
class _Last:
    wishes: str  # hash of what was applied
    outcome: str  # digest of what that came to
    applies: int
    not_before_ms: int


class Applied:
    """Remembers the last apply of each child; so there are as many entries as children."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str, str], _Last] = {}

    def is_futile(self, desired: Manifest, live: Manifest | None, now_ms: int) -> bool:
        """Return True when applying `desired` over `live` would change nothing, or must wait because another program
        undoes our applies."""
        last = self._last.get(_key(desired))
        if live is None or last is None or last.wishes != _wishes(desired):
            return False
        return _outcome(desired, live) == last.outcome or self.must_wait(desired, now_ms)

    def must_wait(self, desired: Manifest, now_ms: int) -> bool:
        """Return True while the last apply of this manifest is too fresh; for objects whose live state was not read."""
        last = self._last.get(_key(desired))
        return last is not None and last.wishes == _wishes(desired) and now_ms < last.not_before_ms

    def note(self, desired: Manifest, stored: Manifest, now_ms: int) -> None:
        """Remember the apply of `desired`. `stored`: what the API server answered to it."""
        key, before = _key(desired), self._last.get(_key(desired))
        applies = before.applies + 1 if before is not None and before.wishes == _wishes(desired) else 1
        pause_ms = min(_PAUSE_MS_MAX, _PAUSE_MS << min(applies - 1, 16)) if applies > 1 else 0
        self._last[key] = _Last(_wishes(desired), _outcome(desired, stored), applies, now_ms + pause_ms)


def _key(manifest: Manifest) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]


def _wishes(desired: Manifest) -> str:
    return str((desired["metadata"].get("annotations") or {}).get(names.APPLIED_HASH) or common.digest(desired))


def _outcome(desired: Manifest, found: Manifest) -> str:
    return common.digest(common.part(found, desired))
