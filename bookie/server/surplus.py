"""Decides what is surplus: a closed ledger with entries here although its record names this bookie nowhere.

A repair or an ensemble change that named others left it, or a repair that was cut. What looks so may be the copy that
is about to count, since a repairer copies first and names us afterwards. So nothing goes before it was surplus in two
runs of the collection, as far apart as the settings say, and nothing came for it in between; and then only as
`server.giving_up` does it (spec/metadata.md#M56, docs/decisions/0024-surplus-is-given-up-under-the-lock.md).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.base.units import NS_PER_MS
from bookie.metadata import serde
from bookie.metadata.ledger import LedgerMetadata
from bookie.ports.metrics import Sample

WATCHED_MAX = 100_000  # ledgers at a time; the others wait until some of these are gone


def _load(record: bytes) -> LedgerMetadata | None:
    """Return what `record` says; None when it cannot be read."""
    try:
        return serde.load_ledger(record)
    except errors.BadInput:
        return None


def is_surplus(record: bytes, me: BookieId) -> bool:
    """Return True when `record` is of a closed ledger that `me` is nowhere in; False when it cannot be read."""
    if me.encode() in record:
        return False  # nearly always; a name that only contains ours is counted short
    metadata = _load(record)
    return metadata is not None and metadata.is_closed and not metadata.names(me)


def names(record: bytes, me: BookieId) -> bool:
    """Return True when `record` can be read and names `me`."""
    if me.encode() not in record:
        return False
    metadata = _load(record)
    return metadata is not None and metadata.names(me)


@dataclass(slots=True)
class Surplus:
    """The surplus that the run of the collection which goes on has found, and that of the last complete one.

    `wait_ms` None: surplus is counted alone.
    """

    wait_ms: int | None = None
    watched_max: int = WATCHED_MAX
    given_up: int = 0  # ledgers, in this life
    _now: dict[LedgerId, int] = field(default_factory=dict)  # since when it is surplus, and nothing came for it
    _uncounted: int = 0  # found beyond what is watched
    _before: dict[LedgerId, int] = field(default_factory=dict)
    _began_ns: int = 0
    _last: int | None = None

    def begin(self, now_ns: int) -> None:
        """Begin a run. What it does not find again was no surplus meanwhile, and must wait anew."""
        self._now, self._uncounted, self._began_ns = {}, 0, now_ns

    def found(self, ledger_id: LedgerId, now_ns: int, *, is_quiet: bool) -> None:
        """Note surplus. `is_quiet`: nothing came for it since it was found before."""
        if not is_quiet:  # also when this run does not come to its end: the next one would not hear of it
            self._before.pop(ledger_id, None)
        since_ns = self._before.get(ledger_id)
        if since_ns is None and len(self._now) >= self.watched_max:
            self._uncounted += 1
        else:
            self._now[ledger_id] = now_ns if since_ns is None else since_ns

    def end(self) -> bool:
        """Take over what a complete run has found. Return True when its number is news."""
        self._before = self._now
        was, self._last = self._last, len(self._now) + self._uncounted
        return self._last != (was or 0)

    def due(self) -> list[LedgerId]:
        """Return the ledgers of the last complete run that have been surplus, and quiet, for long enough before it."""
        if self.wait_ms is None:
            return []
        latest_ns = self._began_ns - max(1, self.wait_ms * NS_PER_MS)
        return [ledger_id for ledger_id, since_ns in self._before.items() if since_ns <= latest_ns]

    @property
    def ledgers(self) -> int | None:
        """Return the number of the last complete run; None before the first."""
        return self._last

    def samples(self) -> Iterator[Sample]:
        if self._last is not None:  # nobody has looked yet: no number is better than a zero
            text = "Closed ledgers with entries here whose records do not name this bookie."
            yield Sample("bookie_gc_surplus_ledgers", "gauge", text, self._last)
        text = "Ledgers whose surplus entries this process has deleted (gcOverreplicatedLedgers)."
        yield Sample("bookie_gc_surplus_given_up_total", "counter", text, self.given_up)
