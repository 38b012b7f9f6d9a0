"""The metadata of one ledger: an immutable value and its legal transitions.

The rules are those of Apache BookKeeper: OPEN -> IN_RECOVERY -> CLOSED, or OPEN -> CLOSED by the writer; CLOSED is
final (spec/bp46.md#S4); segments have strictly increasing first entries. A transition that is not legal raises BadInput
and changes nothing. Never: I/O, merging of two versions, or a decision about *when* to make a transition.
"""

import bisect
import dataclasses
import enum
from collections.abc import Iterator
from dataclasses import dataclass, field

from bookie.base import errors
from bookie.base.ids import INVALID_ENTRY_ID, BookieId, EntryId, IdRange
from bookie.metadata import lost_entries

# Digest numbers as the metadata stores them (DataFormats.proto, LedgerMetadataFormat.DigestType).
DIGEST_CRC32C = 3


class LedgerState(enum.Enum):
    """DataFormats.proto, LedgerMetadataFormat.State."""

    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


@dataclass(frozen=True, slots=True)
class Segment:
    """One ensemble and the first entry it holds; it ends where the next segment begins, or never."""

    first_entry: EntryId
    bookies: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """One stored version of a ledger's metadata. `last_entry` and `length` mean something only when CLOSED.

    `has_password` False: a ledger from before 4.2, whose record has neither password nor digest. `stores_ctime`: the
    record itself has the creation time, not only the node's stat. `format_version`: an update is written in the version
    that was read (LedgerMetadataSerDe).
    """

    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    segments: tuple[Segment, ...]
    state: LedgerState = LedgerState.OPEN
    last_entry: EntryId = INVALID_ENTRY_ID
    length: int = 0
    digest_type: int = DIGEST_CRC32C
    password: bytes = field(default=b"", repr=False)
    has_password: bool = True
    custom: tuple[tuple[str, bytes], ...] = ()
    ctime_ms: int = -1
    stores_ctime: bool = False
    ctoken: int = 0
    format_version: int = 3

    def __post_init__(self) -> None:
        if not self.ensemble_size >= self.write_quorum >= self.ack_quorum >= 1:
            raise errors.BadInput(
                f"ensemble size {self.ensemble_size}, write quorum {self.write_quorum}, ack quorum {self.ack_quorum}: "
                "must be ensemble >= write quorum >= ack quorum >= 1"
            )
        if not self.segments:
            raise errors.BadInput("the ledger metadata names no ensemble")
        previous = -1
        for segment in self.segments:
            if segment.first_entry <= previous:
                raise errors.BadInput(f"segments are out of order: {segment.first_entry} follows {previous}")
            if len(segment.bookies) != self.ensemble_size:
                raise errors.BadInput(
                    f"the segment at entry {segment.first_entry} has {len(segment.bookies)} bookies: "
                    f"it must have as many as the ensemble size, {self.ensemble_size}"
                )
            previous = segment.first_entry

    # ---- questions ---------------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self.state is LedgerState.CLOSED

    @property
    def last_segment(self) -> Segment:
        return self.segments[-1]

    def segment_of(self, entry_id: EntryId) -> Segment:
        """Return the segment that holds `entry_id` (>= 0): the one with the greatest first entry not above it
        (CONFORMANCE.md#P6)."""
        found = bisect.bisect_right(self.segments, entry_id, key=lambda segment: segment.first_entry) - 1
        if found < 0:
            raise errors.BadInput(f"entry {entry_id} lies before the first segment")
        return self.segments[found]

    def segment_ranges(self) -> tuple[tuple[Segment, EntryId, EntryId | None], ...]:
        """Return each segment with its first and last entry, inclusive; last is None where the segment has no end yet.

        The last segment of a closed ledger ends at `last_entry`, and is empty when that lies before its first.
        """
        ends: list[EntryId | None] = [EntryId(after.first_entry - 1) for after in self.segments[1:]]
        ends.append(self.last_entry if self.is_closed else None)
        return tuple((segment, segment.first_entry, end) for segment, end in zip(self.segments, ends, strict=True))

    def owed_ranges(self) -> Iterator[tuple[Segment, EntryId, EntryId | None]]:
        """Yield what `segment_ranges` returns, without the entries that were declared lost (spec/metadata.md#M57): what
        its bookies must hold. Several ranges of a segment follow each other, and there may be none of it."""
        runs = self.lost_runs()
        for segment, first, last in self.segment_ranges():
            if last is None or not runs:
                yield segment, first, last
                continue
            begin = first
            for position in range(bisect.bisect_left(runs, first, key=lambda run: run[1]), len(runs)):
                start, end = runs[position]
                if start > last:
                    break
                if begin < start:
                    yield segment, begin, EntryId(start - 1)
                begin = EntryId(end + 1)
            if begin <= last:
                yield segment, begin, last

    def lost_runs(self) -> list[IdRange]:
        """Return the entries that were declared lost: inclusive, ascending, none touching the next. Only a closed
        ledger has any: before that nobody knows which entries it has."""
        note = self.lost_note() if self.is_closed else None
        return list(lost_entries.runs_of(note)) if note is not None else []

    def losses(self) -> tuple[lost_entries.Act, ...]:
        """Return what persons declared lost, the first act first."""
        note = self.lost_note()
        return lost_entries.load(note) if note is not None else ()

    def lost_note(self) -> bytes | None:
        """Return the note of what was declared lost, as it stands in the record: readable or not, and also where the
        ledger is not closed, so that nobody heeds it; None where there is none."""
        return next((value for key, value in self.custom if key == lost_entries.KEY), None)

    def loss_of(self, entry_id: EntryId) -> lost_entries.Act | None:
        """Return the act that declared this entry lost, if any did."""
        if not self.is_closed:
            return None
        return next((act for act in self.losses() if any(a <= entry_id <= b for a, b in act.runs)), None)

    def write_set(self, entry_id: EntryId) -> tuple[BookieId, ...]:
        """Return the bookies that hold `entry_id`, in order: ensemble index (entry + k) mod E, k = 0..W-1
        (CONFORMANCE.md#P7)."""
        bookies = self.segment_of(entry_id).bookies
        size = self.ensemble_size
        return tuple(bookies[(entry_id + k) % size] for k in range(self.write_quorum))

    def names(self, bookie_id: BookieId) -> bool:
        """True when `bookie_id` is in any ensemble."""
        return any(bookie_id in segment.bookies for segment in self.segments)

    def last_segment_names(self, bookie_id: BookieId) -> bool:
        """True when `bookie_id` is in the last ensemble, which takes the adds."""
        return bookie_id in self.last_segment.bookies

    def was_replaced_by(self, stored: "LedgerMetadata") -> bool:
        """Return True when `stored`, which stands under this ledger's id, is of another ledger: this one was deleted,
        and that one made with its id. What never changes tells, and the time where both are known."""
        mine = (self.ensemble_size, self.write_quorum, self.ack_quorum, self.digest_type, self.password)
        other = (stored.ensemble_size, stored.write_quorum, stored.ack_quorum, stored.digest_type, stored.password)
        return mine != other or (min(self.ctime_ms, stored.ctime_ms) >= 0 and self.ctime_ms != stored.ctime_ms)

    # ---- transitions -------------------------------------------------------------------------------------------------

    def with_ensemble(self, first_entry: EntryId, bookies: tuple[BookieId, ...]) -> "LedgerMetadata":
        """Return the metadata after an ensemble change: `bookies` from `first_entry` on.
        Replaces a last segment that starts there.

        Rule: EnsembleUtils.java; CONFORMANCE.md#P19, spec/bp46.md#S14.
        """
        self._refuse_when_closed("an ensemble change")
        _refuse_duplicates(bookies)
        last = self.last_segment.first_entry
        if first_entry < last:
            raise errors.BadInput(f"an ensemble change at entry {first_entry} lies before the last segment ({last})")
        kept = self.segments[:-1] if first_entry == last else self.segments
        return self._changed(segments=(*kept, Segment(first_entry, bookies)))

    def in_recovery(self) -> "LedgerMetadata":
        """OPEN -> IN_RECOVERY. A ledger in recovery stays as it is: any client may continue another's recovery."""
        self._refuse_when_closed("a recovery")
        return self if self.state is LedgerState.IN_RECOVERY else self._changed(state=LedgerState.IN_RECOVERY)

    def closed(self, last_entry: EntryId, length: int) -> "LedgerMetadata":
        """-> CLOSED at `last_entry` (-1: empty). Closing again at the same end changes nothing; any other end raises
        BadInput (spec/bp46.md#S4, S6)."""
        if last_entry < INVALID_ENTRY_ID or length < 0:
            raise errors.BadInput(f"cannot close at entry {last_entry} with length {length}")
        if self.is_closed:
            if (self.last_entry, self.length) != (last_entry, length):
                raise errors.BadInput(
                    f"already closed at entry {self.last_entry}, length {self.length}; "
                    f"cannot close at entry {last_entry}, length {length}"
                )
            return self
        return self._changed(state=LedgerState.CLOSED, last_entry=last_entry, length=length)

    def with_custom(self, key: str, value: bytes) -> "LedgerMetadata":
        """Return the metadata with `key` in its custom part."""
        rest = tuple((each, old) for each, old in self.custom if each != key)
        return self._changed(custom=tuple(sorted((*rest, (key, value)))))

    def replaced(self, first_entry: EntryId, old: BookieId, new: BookieId) -> "LedgerMetadata":
        """Return the metadata after re-replication:
        `new` replaces `old` in the segment that starts at `first_entry`; any state."""
        index = next((i for i, segment in enumerate(self.segments) if segment.first_entry == first_entry), None)
        if index is None or old not in self.segments[index].bookies:
            raise errors.BadInput(f"no segment at entry {first_entry} names {old}")
        bookies = tuple(new if bookie == old else bookie for bookie in self.segments[index].bookies)
        _refuse_duplicates(bookies)
        segments = (*self.segments[:index], Segment(first_entry, bookies), *self.segments[index + 1 :])
        return self._changed(segments=segments)

    def _refuse_when_closed(self, what: str) -> None:
        if self.is_closed:
            raise errors.BadInput(f"the ledger is closed: {what} is not possible")

    def _changed(self, **changes: object) -> "LedgerMetadata":
        # As in Java, an update forgets the creator's token: its only use is to find a create whose answer was lost.
        return dataclasses.replace(self, ctoken=0, **changes)  # type: ignore[arg-type]


def new_ledger(
    *,
    ensemble_size: int,
    write_quorum: int,
    ack_quorum: int,
    bookies: tuple[BookieId, ...],
    digest_type: int = DIGEST_CRC32C,
    password: bytes = b"",
    custom: tuple[tuple[str, bytes], ...] = (),
    ctoken: int = 0,
) -> LedgerMetadata:
    """Return the metadata of a ledger about to be created: OPEN, one segment from entry 0. Raises BadInput unless
    E >= W >= A >= 1 (CONFORMANCE.md#P5)."""
    _refuse_duplicates(bookies)
    return LedgerMetadata(
        ensemble_size=ensemble_size,
        write_quorum=write_quorum,
        ack_quorum=ack_quorum,
        segments=(Segment(EntryId(0), bookies),),
        digest_type=digest_type,
        password=password,
        custom=custom,
        ctoken=ctoken,
    )


def _refuse_duplicates(bookies: tuple[BookieId, ...]) -> None:
    if len(dict.fromkeys(bookies)) != len(bookies):
        raise errors.BadInput(f"a bookie appears twice in the ensemble {', '.join(bookies)}")
