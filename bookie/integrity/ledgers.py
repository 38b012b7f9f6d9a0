"""Decides for one ledger what a bookie that may have lost data must do:
marks, then steps until nothing is missing. Pure.

The marks (phase one), by what the metadata store says *after* the loss:

    state                 names us          marks
    CLOSED, IN_RECOVERY   or not            fence: a recovery may have fenced us before the loss, and only its metadata
                                            change, which precedes every fence, still tells. Not naming us proves
                                            nothing: the fragment may have been replaced or re-replicated since.
    any                   in some ensemble  limbo: entries of ours may be gone, so never say no
    IN_RECOVERY           no                limbo too: a recovery names the bookies that it brought in only when it
                                            closes the ledger, and we may have taken entries as one of them
    OPEN                  in the last one   limbo alone: no recovery began, so no fence of ours is lost; limbo refuses
                                            normal adds with "unknown", and the writer lives on by an ensemble change

Stronger than BookKeeper's own check on purpose (spec/bp46.md#R9). The steps (phase two)
end in clearing limbo, and nothing clears a fence. Never: a decision on metadata older than the loss.
"""

import enum
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bookie.base.ids import INVALID_ENTRY_ID, BookieId, EntryId, IdRange
from bookie.metadata.ledger import LedgerMetadata, LedgerState
from bookie.quorum.shares import Share, Stretch


class Loss(enum.Enum):
    """Which data may be lost."""

    UNFLUSHED = "unflushed"  # a crash without a journal of entries: entries, but no fence (fences are journaled)
    VOLUMES = "volumes"  # disks: anything


@dataclass(frozen=True, slots=True)
class LedgerMarks:
    fence: bool
    limbo: bool


def marks(
    metadata: LedgerMetadata, me: BookieId, loss: Loss, *, guard_fence: bool = True, guard_limbo: bool = True
) -> LedgerMarks:
    """Return the marks for one ledger. Only the simulation switches guards off."""
    is_named = metadata.names(me)
    is_open = metadata.state is LedgerState.OPEN
    may_hold = is_named or metadata.state is LedgerState.IN_RECOVERY
    fence = guard_fence and not is_open and (may_hold or loss is Loss.VOLUMES)
    # Limbo refuses normal adds too. Where one guard is off, the other must not do its work.
    limbo = guard_limbo and may_hold and (guard_fence or not metadata.is_closed)
    if guard_fence and not guard_limbo and is_open:
        fence = metadata.last_segment_names(me)
    return LedgerMarks(fence=fence, limbo=limbo)


def unreadable_marks(data: bytes, me: BookieId) -> LedgerMarks:
    """Return the marks for a record that cannot be read. All formats store bookie ids as text:
    without our id in it, no limbo.

    The fence costs nothing: no client can use such a ledger either.
    """
    return LedgerMarks(fence=True, limbo=me.encode() in data)


class Step(enum.Enum):
    """What a ledger in limbo needs next."""

    CLEAR = "clear"  # nothing of it is ours (any more)
    WAIT = "wait"  # a live writer may change its ensemble by itself
    RECOVER = "recover"  # decide its end
    COPY = "copy"  # our fragments are sealed: fetch what is missing, flush, clear, flush


def next_step(metadata: LedgerMetadata | None, me: BookieId, *, may_have_writer: bool) -> Step:
    """Return the next step. `metadata` None: deleted. `may_have_writer`:
    a writer may still be alive (used only when OPEN).

    A fragment is sealed when the ledger is closed or a later segment begins: then its end is decided, without any
    answer of ours (spec/bp46.md#S9). While a ledger is being recovered, nobody but that recovery knows whom it will
    name.
    """
    if metadata is None:
        return Step.CLEAR
    if metadata.state is LedgerState.IN_RECOVERY:
        return Step.RECOVER
    if not metadata.names(me):
        return Step.CLEAR
    if metadata.is_closed or not metadata.last_segment_names(me):
        return Step.COPY
    return Step.WAIT if may_have_writer else Step.RECOVER


def stretches(
    metadata: LedgerMetadata, me: BookieId, runs: Sequence[IdRange], *, confirmed: EntryId = INVALID_ENTRY_ID
) -> Iterator[tuple[Stretch, bool]]:
    """Yield our share of every segment that names us, ascending, split where `runs` (inclusive, ascending) begin and
    end, with True for a stretch inside a run. A segment without an end yields what is `confirmed` of it: no entry
    behind that is decided (spec/bp46.md#R24). What was declared lost is no share of anybody's (spec/metadata.md#M57).

    Each costs the same, and some have no entry of ours: a caller can pause between any two of them.
    """
    size, quorum = metadata.ensemble_size, metadata.write_quorum
    for segment, first, end in metadata.owed_ranges():
        if me not in segment.bookies:
            continue
        last = confirmed if end is None else end
        share = Share(size, quorum, segment.bookies.index(me))
        begin = first
        for position in range(bisect_left(runs, begin, key=lambda run: run[1]), len(runs)):
            start, end = runs[position]
            if start > last:
                break
            yield Stretch(share, begin, EntryId(start - 1)), False
            yield Stretch(share, max(begin, start), min(last, end)), True
            begin = EntryId(end + 1)
        yield Stretch(share, begin, last), False


def has_open_share(metadata: LedgerMetadata, me: BookieId) -> bool:
    """Return True when entries of ours may follow whose end is not decided yet: then the LAC limits what is ours."""
    return not metadata.is_closed and metadata.last_segment_names(me)


def owed(metadata: LedgerMetadata, me: BookieId, first: EntryId, last: EntryId) -> int:
    """Return how many of the entries first..last have us in their write set; 0 when `last` lies before `first`."""
    found = stretches(metadata, me, [], confirmed=last)
    return sum(one.share.count(max(one.first, first), min(one.last, last)) for one, _ in found)


def sources(metadata: LedgerMetadata, me: BookieId, entry_id: EntryId, failed: dict[BookieId, int]) -> list[BookieId]:
    """Return the bookies to ask for an entry: its write set without us, least failed first, then spread by entry id."""
    peers = [bookie for bookie in metadata.write_set(entry_id) if bookie != me]
    turn = entry_id % len(peers) if peers else 0
    return sorted(peers[turn:] + peers[:turn], key=lambda bookie: failed.get(bookie, 0))
