"""Decides when the writer of an open ledger may be taken for dead: it has shown no sign of life for a while. Pure.

Rule: spec/bp46.md#T14. A wrong guess costs the writer its ledger, and no entry: whoever acts on it recovers the ledger.
"""

from dataclasses import dataclass

from bookie.base.ids import EntryId


@dataclass(frozen=True, slots=True)
class Silence:
    """How long a writer has shown no sign of life:
    neither its last confirmed entry nor the metadata's version changed."""

    since_ns: int
    last_confirmed: EntryId
    version: int

    def seen(self, now_ns: int, last_confirmed: EntryId, version: int) -> "Silence":
        """Return the silence after another look."""
        if (last_confirmed, version) == (self.last_confirmed, self.version):
            return self
        return Silence(now_ns, last_confirmed, version)

    def is_over(self, now_ns: int, *, grace_ns: int) -> bool:
        """Return True when the writer may be taken for dead."""
        return now_ns - self.since_ns >= grace_ns


def after_look(before: Silence | None, now_ns: int, last_confirmed: EntryId, version: int) -> Silence:
    """Return the silence after a look, the first one where `before` is None."""
    return Silence(now_ns, last_confirmed, version) if before is None else before.seen(now_ns, last_confirmed, version)
