"""Decides what counts when a person gives up what bookies held of one ledger. Pure.

A ledger without an end stays without one while too many of its bookies cannot say what they had. If their data is gone
for good, that is for ever: bookies in limbo never deny, and never get out of limbo. Then a person may give up what was
on named bookies: from them "unknown" counts as "no", for this one recovery. Such a "no" proves nothing, so it never
stands for the answer of anybody else: each bookie that is not named must answer itself, and an entry is absent only
when its whole write set denies it. Whatever a named bookie still gives counts. Rule: spec/metadata.md#M49.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.errors import Answer, BookieError
from bookie.base.ids import BookieId, EntryId
from bookie.metadata import cookie
from bookie.metadata.loss_signature import Seal
from bookie.ports.metadata_store import Stored

# Entries behind the end that are each looked for, and how far on, at distances that double, a stripe is.
_LOOKS = 256
_LOOKS_DOUBLED = 24


@dataclass(frozen=True, slots=True)
class GivenUp:
    """`in_doubt`: they serve, and say that they may have lost entries of the ledger. `gone`: no process and no identity
    of theirs exists, so that none can ever answer. `sessions`: of the processes in doubt that were asked; another
    process of one of them may know more. `by`, `reason`: for the record. `tail`: what lies behind the first entry that
    is given up is given up too. `claims`: what the person said where nothing proves it, for the record. `seal`: signs
    the record; None: it is not signed."""

    in_doubt: frozenset[BookieId]
    gone: frozenset[BookieId]
    sessions: tuple[tuple[BookieId, int], ...] = ()
    by: str = ""
    reason: str = ""
    tail: bool = False
    claims: tuple[str, ...] = ()
    seal: Seal | None = None

    def judged(self, bookie_id: BookieId, error: BookieError) -> BookieError:
        """Return what an answer without an entry counts as. Silence of a bookie that serves counts as ever: it might
        still answer."""
        is_given_up = bookie_id in self.gone or (
            bookie_id in self.in_doubt and isinstance(error, errors.UnknownLedgerState)
        )
        if error.answer is Answer.UNKNOWN and is_given_up:
            return errors.NoSuchEntry(f"bookie {bookie_id}: given up: {error}")
        return error


@dataclass(frozen=True, slots=True)
class Hearing:
    """What is known of one bookie whose data is to be given up. `answer`: to a read of the ledger; None: it has the
    highest entry that it knows. `remains`: what the metadata store has of it by which it may come back with its data,
    if it is not registered; "": it was forgotten, or it is Java's and has no cookie. `has_begun_anew`: its identity was
    regenerated since the ledger was made, so that the disks which the ledger was on are void; an earlier loss says
    nothing of it."""

    bookie_id: BookieId
    is_named: bool
    is_registered: bool
    remains: str
    has_begun_anew: bool
    answer: BookieError | None


def has_begun_anew(life: Stored | None, identity: Stored | None, made: Stored | None) -> bool:
    """Return True when a bookie's identity is proven to have begun anew since a ledger was made. `life`: its record of
    lives. `identity`: its cookie. `made`: the ledger's record.

    A new identity writes over the cookie and notes in the record, in one transaction, which node that was and which
    version it got (decision 0003). The cookie that stands must be just that: whatever else writes it, puts it back or
    makes it anew (a volume more, a person, a backup) says nothing about the disks. A count of its writes proves nothing
    either: some may have been of another kind. What was first says the order of the store's changes, not its clocks:
    each of its servers has another one. A record without the note, of an older release or of a first life, proves
    nothing.
    """
    if life is None or identity is None or made is None:
        return False
    try:
        record = cookie.load_incarnation(life.data)
    except errors.BadInput:
        return False
    noted = (record.cookie_created_zxid, record.cookie_version)
    is_as_left = record.cookie_created_zxid != 0 and noted == (identity.created_zxid, identity.version)
    return is_as_left and identity.modified_zxid > made.created_zxid


def behind(end: EntryId, ensemble_size: int) -> Iterator[EntryId]:
    """Yield the entries to look for behind an end that was given up: a bookie in doubt does not tell its highest one,
    and gives each that it has. Ascending; a stripe at a time where not all are looked for."""
    yield from (EntryId(end + each) for each in range(1, _LOOKS + 1))
    for doubled in range(_LOOKS.bit_length(), _LOOKS_DOUBLED + 1):
        yield from (EntryId(end + (1 << doubled) + each) for each in range(ensemble_size))


def why_not(seen: Hearing, *, after_crash: bool, corrupt: bool = False) -> str:
    """Return why nobody may give up this bookie's data, and what to do; "" when a person may.

    `after_crash`: the person says that it lost what an unclean stop lost (no journal of entries), so that its identity
    did not begin anew. `corrupt`: the person says that what it has and cannot read is bad on its disk for good.
    """
    name = seen.bookie_id
    if not seen.is_named:
        return f"bookie {name} is not in the ensemble whose end is not decided: there is nothing to give up"
    if not seen.is_registered:
        if not seen.remains:
            return ""
        return (
            f"bookie {name} is not there, and {seen.remains} stands: its disks may be whole, and it may come back with"
            " them and answer; start it (if it waits for its cookie: `bookie node show`, `bookie cookie create`). Only"
            " if its disks are destroyed for certain, start it with empty ones (it asks for a grant and then answers"
            " that it may have lost entries), or forget it (`bookie cookie delete`)"
        )
    if seen.answer is None or seen.answer.answer is Answer.NEGATIVE:
        return f"bookie {name} answers for this ledger: what it has and what it denies counts, and is not given up"
    if isinstance(seen.answer, errors.DigestMismatch):
        return ""  # what it has is no copy, and no other answer follows
    if isinstance(seen.answer, errors.StorageFailed):
        if corrupt:
            return ""
        return (
            f"bookie {name} has it and cannot read it now ({seen.answer}): if its log tells of a passing fault, try"
            " again after that; only if its scrub lists the entry as bad (`bookie node scrub`): --corrupt"
        )
    if not isinstance(seen.answer, errors.UnknownLedgerState):
        return f"bookie {name} is registered and may still answer: {seen.answer}; try again when it does"
    if not seen.has_begun_anew and not after_crash:
        return (
            f"bookie {name} may have lost entries, but its identity never began anew, or nothing proves that it did:"
            " they may be on a disk of it that has failed (`bookie node show`); bring that back. If it lost them in an"
            " unclean stop, or their bytes are bad, or its disks were replaced before a volume was added, before its"
            " cookie or the ledger's record was put back, or under a release that did not note the cookie:"
            " --after-crash"
        )
    return ""
