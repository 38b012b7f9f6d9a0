"""Estimates how far a worker is with the queue of marked ledgers: what is copied, what is left, how fast, until when.

What a ledger needs is known once it was looked at; of one that was not, the mean of the others stands. Blocked ledgers
are left out of what is left: nobody knows when they can go on. Times come in, nothing is awaited. Never: a time for
what stands still, or for what nobody has looked at.
"""

import json
import math
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields

from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.base.rate import Rate
from bookie.metadata.ledger import LedgerMetadata
from bookie.quorum import mending
from bookie.quorum.mending import Mending

# A ledger of small entries and one of large ones follow each other: over a minute the estimate does not jump.
_WINDOW_S = 60
_RATE_MIN = 0.01  # entries a second: what stands still
_RATES = ("entries_per_s", "bytes_per_s")
_MAYBE_UNKNOWN = ("entries_left", "bytes_left", "seconds_left")
_NUMBER_END = 1 << 63
_REASON_CHARS_MAX = 300


@dataclass(frozen=True, slots=True)
class Progress:
    """`ledgers_left`, `ledgers_blocked`: marked ones, each in one of the two. `entries_done`, `bytes_done`: copies
    since the start of the process. `entries_left`, `bytes_left`: of the ledgers that are left; None: not known.
    `seconds_left`: at the present speed of this worker alone. `given_up`: why its last look, as the auditor or as a
    worker, was broken off; "" when none was."""

    ledgers_left: int
    ledgers_blocked: int
    entries_done: int
    bytes_done: int
    entries_left: int | None
    bytes_left: int | None
    entries_per_s: float
    bytes_per_s: float
    seconds_left: int | None
    given_up: str = ""


class QueueProgress:
    """The queue as one worker sees it."""

    def __init__(self) -> None:
        self.entries = 0
        self.bytes = 0
        self._entry_rate, self._byte_rate = Rate(_WINDOW_S), Rate(_WINDOW_S)
        self._needs: dict[LedgerId, tuple[int, int]] = {}  # entries that are still to be copied, bytes of each
        self._looked_at = self._entries_found = self._bytes_found = 0  # at the first look at each ledger

    def judged(self, ledger_id: LedgerId, metadata: LedgerMetadata, found: Mending) -> None:
        """Note what a look at the ledger found; the last look counts."""
        count = sum(each.count for each in found.fills)
        count += sum(mending.share_size(metadata, each) for each in found.lost)
        last = metadata.last_entry
        if last is not None and last >= 0:
            entry_bytes = metadata.length // (last + 1)
        else:
            entry_bytes = self.bytes // max(1, self.entries)
        if ledger_id not in self._needs:
            self._looked_at += 1
            self._entries_found += count
            self._bytes_found += count * entry_bytes
        self._needs[ledger_id] = count, entry_bytes

    def copied(self, ledger_id: LedgerId, size: int, now_ns: int) -> None:
        """Count one copy of an entry, of `size` bytes."""
        self.entries += 1
        self.bytes += size
        self._entry_rate.add(1, now_ns)
        self._byte_rate.add(size, now_ns)
        entries, entry_bytes = self._needs.get(ledger_id, (0, 0))
        self._needs[ledger_id] = max(0, entries - 1), entry_bytes

    def estimate(self, marked: Collection[LedgerId], blocked: Collection[LedgerId], now_ns: int) -> Progress:
        """Return how far it is; what is not marked any more is forgotten."""
        self._needs = {each: need for each, need in self._needs.items() if each in marked}
        left = [each for each in marked if each not in blocked]
        seen = [self._needs[each] for each in left if each in self._needs]
        unseen = len(left) - len(seen)
        entries_left = bytes_left = None
        if not unseen or self._looked_at:
            entries_left = sum(each for each, _ in seen) + unseen * self._entries_found // max(1, self._looked_at)
            bytes_left = sum(count * each for count, each in seen) + unseen * self._bytes_found // max(
                1, self._looked_at
            )
        speed = self._entry_rate.per_second(now_ns)
        return Progress(
            ledgers_left=len(left),
            ledgers_blocked=len(marked) - len(left),
            entries_done=self.entries,
            bytes_done=self.bytes,
            entries_left=entries_left,
            bytes_left=bytes_left,
            entries_per_s=round(speed, 1),
            bytes_per_s=round(self._byte_rate.per_second(now_ns), 1),
            seconds_left=seconds_left(entries_left, speed),
        )


def seconds_left(entries_left: int | None, entries_per_s: float) -> int | None:
    """Return how long so many copies take at this speed; None when nobody can say."""
    if entries_left == 0:
        return 0
    return None if entries_left is None or entries_per_s < _RATE_MIN else math.ceil(entries_left / entries_per_s)


def together(found: Collection[Progress]) -> tuple[int | None, int | None, int | None]:
    """Return entries, bytes and seconds that are left for several workers on one queue: each sees the whole queue, and
    they work at once."""
    entries = max((each.entries_left for each in found if each.entries_left is not None), default=None)
    size = max((each.bytes_left for each in found if each.bytes_left is not None), default=None)
    return entries, size, seconds_left(entries, sum(each.entries_per_s for each in found))


def _shown(reason: str) -> str:
    """Return what anybody may have written as one line for a person; the same again for what it returned."""
    return "".join(each if each.isprintable() else "?" for each in reason[:_REASON_CHARS_MAX])


def dump_progress(progress: Progress) -> bytes:
    return json.dumps(asdict(progress), sort_keys=True).encode()


def load_progress(data: bytes) -> Progress:
    """Return the progress in `data`, which any process with rights on the node may have written. Raises BadInput."""
    try:
        found = json.loads(data)
        values = {each.name: found[each.name] for each in fields(Progress) if each.name != "given_up"}
        given_up = found.get("given_up", "")  # a release before this one does not tell
        if not isinstance(given_up, str):
            raise ValueError(f"given_up is {given_up!r}")
        for name, value in values.items():
            kinds = (int, float) if name in _RATES else (int,)
            is_unknown = value is None and name in _MAYBE_UNKNOWN
            if not is_unknown and not (type(value) in kinds and 0 <= value < _NUMBER_END):  # nan is in no range
                raise ValueError(f"{name} is {value!r}")
        return Progress(**values, given_up=_shown(given_up))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise errors.BadInput(f"the progress of a worker cannot be read ({error}): {data[:80]!r}") from error
