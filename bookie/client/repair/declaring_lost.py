"""Declares entries of a closed ledger lost, after a person gave up what named bookies held of them.

The one way out where disks of all bookies of an entry are gone, for a ledger whose end is decided: its bookies would
look for the entry for ever, in limbo, and so would every worker. Declared lost in the ledger's own record, the entries
are owed by nobody any more (`LedgerMetadata.owed_ranges`): repairs, fills, workers and audits pass over them, and
readers are told "no such entry" by bookies that said "unknown" until then. Rule: spec/metadata.md#M57.

A copy on a bookie that is not in the entry's write set (any more) is copied back instead.

Never: an entry of which any bookie gives a good copy; while a bookie of its write set might still have one; without an
explicit list of the bookies that are given up. Nothing is deleted: a copy that turns up is still served.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass

from bookie.base import bitmaps, errors
from bookie.base.errors import Answer, BookieError
from bookie.base.ids import BookieId, EntryId, IdRange, LedgerId
from bookie.client.net.bookies import BookieClient
from bookie.client.repair import accepting_loss, recovery
from bookie.client.repair.holdings import Holdings
from bookie.client.shared import Shared, digest_of
from bookie.metadata import lost_entries
from bookie.metadata.ledger import LedgerMetadata
from bookie.metadata.loss_signature import SigningKey
from bookie.ports.metadata_store import find
from bookie.quorum import given_up as rules
from bookie.quorum import mending
from bookie.quorum.given_up import GivenUp
from bookie.quorum.shares import Group, Share
from bookie.storage.pause import pause
from bookie.wire import digest

# Entries that one act may declare lost: each is asked for at every bookie of its write set.
ENTRIES_MAX = 1 << 20
# The longest ledger that is searched; of a longer one a person names the entries.
_SEARCHED_MAX = 1 << 32
_WINDOW = 1 << 14
_ENTRIES_AT_ONCE = 32
_BOOKIES_AT_ONCE = 16
_LOOKS_AT_ONCE = 1024  # at a list, without a pause
_EVERY = Share(1, 1, 0)  # the share that has every entry


@dataclass(frozen=True, slots=True)
class LostPlan:
    """What would be declared lost: `runs`, inclusive, ascending; none when every entry has a copy. `found`: entries
    that their own bookies lack, and who gives them: they are copied back. `version`: of the record that was looked at.
    `said`: what the bookies of the first entry answered."""

    ledger_id: LedgerId
    metadata: LedgerMetadata
    version: int
    runs: tuple[IdRange, ...]
    found: Mapping[EntryId, BookieId]
    given_up: GivenUp
    said: str

    @property
    def count(self) -> int:
        """Return how many entries that are."""
        return lost_entries.count(self.runs)


async def plan(
    shared: Shared,
    ledger_id: LedgerId,
    bookies: Collection[BookieId],
    *,
    by: str,
    reason: str,
    after_crash: bool = False,
    corrupt: bool = False,
    entries: Sequence[IdRange] = (),
    key: SigningKey | None = None,
) -> LostPlan:
    """Find the entries that no bookie has, and hear every bookie that cannot deny one of them. Changes nothing.

    `entries`: look at these (their bytes may be bad on a bookie that lists them); else at those that nobody lists.
    `key`: signs the note.
    Raises GrantRefused with every reason why not, LedgerMissing, MetadataError, BadInput.
    """
    if not bookies or not reason.strip():
        raise errors.BadInput("declaring entries lost needs the names of their bookies, and the reason, for the record")
    ledgers = shared.ledgers
    await ledgers.store.sync(ledgers.path(ledger_id))
    metadata, version = await ledgers.get(ledger_id)
    if not metadata.is_closed:
        raise errors.GrantRefused("open", f"ledger {ledger_id} is {metadata.state.name}: its end comes first")
    if not metadata.has_password:
        raise errors.BadInput(f"ledger {ledger_id} has a record from before BookKeeper 4.2, which takes no such note")
    named = mending.named(metadata)
    gone = frozenset(await shared.watcher.look(named))
    lives = {each: shared.watcher.session(each) for each in named if each not in gone}  # of those that answer
    look = _Look(shared, ledger_id, metadata, gone)
    lost: list[IdRange] = []
    noted = sum(len(each.runs) for each in metadata.losses())
    async with contextlib.aclosing(_windows(shared, ledger_id, metadata, gone, entries)) as windows:
        async for window in windows:
            for entry_id in await look.at(window):
                if lost and lost[-1][1] == entry_id - 1:
                    lost[-1] = (lost[-1][0], entry_id)
                else:
                    lost.append((entry_id, entry_id))
            _refuse_too_much(ledger_id, lost, noted)
    found = await _copies_elsewhere(look, lost)
    await _refuse_who_may_answer(look, bookies, after_crash=after_crash, corrupt=corrupt)
    in_doubt = frozenset(look.doubts) - gone
    sessions = tuple((each, lives[each]) for each in sorted(in_doubt))
    claims = tuple(word for word, said in (("afterCrash", after_crash), ("corrupt", corrupt)) if said)
    seal = await accepting_loss.seal_of(shared, ledger_id, key)
    given_up = GivenUp(
        in_doubt, frozenset(look.doubts) & gone, sessions, by=by, reason=reason, claims=claims, seal=seal
    )
    return LostPlan(ledger_id, metadata, version, tuple(_without(lost, found)), found, given_up, look.said)


async def declare(shared: Shared, wanted: LostPlan) -> LedgerMetadata:
    """Copy back what was found, and write the entries of `wanted` into the ledger's record; return the record. May be
    repeated after any error: the next `plan` looks anew.

    Raises BookieUnavailable when a bookie restarted since `plan`, VersionConflict when the record changed, BadInput
    when it would become too long, LedgerMissing, MetadataError, and what a copy raises.
    """
    await shared.ledgers.get_again(wanted.ledger_id, wanted.metadata)
    if wanted.found:
        await _bring_back(shared, wanted)
    if not wanted.runs:
        metadata, version = await shared.ledgers.get(wanted.ledger_id)
        if version != wanted.version:
            raise errors.VersionConflict(
                f"ledger {wanted.ledger_id} was changed since it was looked at; nothing was declared lost: begin again"
            )
        return metadata
    await recovery.refuse_restarted(shared, wanted.given_up)
    act = lost_entries.Act(
        wanted.given_up.by,
        wanted.given_up.reason,
        shared.world.clock.wall_ms(),
        tuple(sorted(wanted.given_up.in_doubt | wanted.given_up.gone)),
        wanted.runs,
        recovery.TOOL,
        wanted.given_up.claims,
        tuple(sorted(wanted.given_up.gone)),
    )
    words, seal = lost_entries.said(act), wanted.given_up.seal
    if seal is not None:
        words = seal.signed(lost_entries.KEY, words, wanted.metadata)
    note = lost_entries.added(wanted.metadata.lost_note(), act, words)
    changed = wanted.metadata.with_custom(lost_entries.KEY, note)
    try:
        await shared.ledgers.put(wanted.ledger_id, changed, wanted.version)
    except errors.VersionConflict as error:
        stored, _ = await shared.ledgers.get_again(wanted.ledger_id, wanted.metadata)
        if act in stored.losses():  # the answer was lost, and somebody has changed the record since
            return stored
        raise errors.VersionConflict(
            f"ledger {wanted.ledger_id} was changed since it was looked at ({error}): nothing was declared lost; begin"
            " again"
        ) from error
    return changed


async def settle(
    shared: Shared,
    ledger_id: LedgerId,
    bookies: Collection[BookieId],
    *,
    by: str,
    reason: str,
    key: SigningKey | None = None,
) -> LedgerMetadata:
    """Decide the end of a ledger that has none (`accepting_loss`), then declare lost what it lacks; return its record.

    What is decided already is left as it is, so that this may be asked for again whatever became of the last answer.
    `bookies`: also such as this ledger does not name, which are no part of it: one loss has ledgers of several
    ensembles. `key`: signs what is written. Raises what the two acts raise.
    """
    metadata, _ = await shared.ledgers.get(ledger_id)
    named = [one for one in bookies if metadata.last_segment_names(one)]
    try:
        ending = await accepting_loss.plan(shared, ledger_id, named or bookies, by=by, reason=reason, key=key)
    except errors.GrantRefused as error:
        if error.reason != accepting_loss.CLOSED:
            raise
    else:
        await accepting_loss.accept(shared, ending)
    return await declare(shared, await plan(shared, ledger_id, bookies, by=by, reason=reason, key=key))


def _refuse_too_much(ledger_id: LedgerId, lost: Sequence[IdRange], noted: int) -> None:
    """Raise GrantRefused when these are too many for one act, or with those that are `noted` for a record."""
    if lost_entries.count(lost) > ENTRIES_MAX:
        raise errors.GrantRefused(
            "too_many",
            f"ledger {ledger_id}: more than {ENTRIES_MAX} entries have no copy, the most of one act: declare them a"
            " part at a time (`--entries`)",
        )
    if len(lost) + noted > lost_entries.RUNS_MAX:
        raise errors.GrantRefused(
            "too_many",
            f"ledger {ledger_id}: the entries without a copy are more than {lost_entries.RUNS_MAX} runs, the most that"
            " its record takes; save what is left of the ledger in another one, and delete it",
        )


class _Look:
    """Asks for entries at every bookie of their write sets. `doubts`: who could not deny an entry that nobody gave,
    and its answer. `said`: all answers of the first such entry."""

    def __init__(
        self, shared: Shared, ledger_id: LedgerId, metadata: LedgerMetadata, gone: Collection[BookieId]
    ) -> None:
        self.doubts: dict[BookieId, BookieError] = {}
        self.said = ""
        self.shared = shared
        self.ledger_id = ledger_id
        self.gone = gone
        self.bookies = BookieClient(shared.pool)
        self.metadata = metadata
        self._digest = digest_of(metadata)

    async def at(self, entries: Sequence[EntryId]) -> list[EntryId]:
        """Return those of `entries` of which no bookie gives a good copy."""
        lost: list[EntryId] = []
        for start in range(0, len(entries), _ENTRIES_AT_ONCE):
            batch = entries[start : start + _ENTRIES_AT_ONCE]
            answers = await asyncio.gather(*(self._ask(each) for each in batch))
            for entry_id, said in zip(batch, answers, strict=True):
                if said is None:
                    continue
                lost.append(entry_id)
                self.said = self.said or f"entry {entry_id}: " + "; ".join(f"{who}: {why}" for who, why in said.items())
                for bookie_id, error in said.items():
                    if error.answer is Answer.UNKNOWN:
                        self._doubt(bookie_id, error)
        return lost

    async def _ask(self, entry_id: EntryId) -> dict[BookieId, BookieError] | None:
        """Return each bookie's answer without a good copy; None when one has a copy."""
        said: dict[BookieId, BookieError] = {}
        for bookie_id in self.metadata.write_set(entry_id):
            if bookie_id in self.gone:
                said[bookie_id] = errors.BookieUnavailable(f"bookie {bookie_id} is not registered")
                continue
            problem = await self.problem_with(bookie_id, entry_id)
            if problem is None:
                return None
            said[bookie_id] = problem
        return said

    async def problem_with(self, bookie_id: BookieId, entry_id: EntryId) -> BookieError | None:
        """Return why the bookie gives no good copy of the entry; None when it does."""
        try:
            body = await self.bookies.read(bookie_id, self.ledger_id, entry_id)
            self._digest.open(body, self.ledger_id, entry_id)
        except BookieError as error:
            return error
        return None

    def _doubt(self, bookie_id: BookieId, error: BookieError) -> None:
        """Keep the answer that leaves most open: a bad copy says nothing about other entries."""
        known = self.doubts.setdefault(bookie_id, error)
        if _openness(error) > _openness(known):
            self.doubts[bookie_id] = error


def _openness(error: BookieError) -> int:
    if isinstance(error, errors.DigestMismatch):
        return 0
    return 1 if isinstance(error, errors.UnknownLedgerState) else 2


async def _windows(
    shared: Shared,
    ledger_id: LedgerId,
    metadata: LedgerMetadata,
    gone: Collection[BookieId],
    entries: Sequence[IdRange],
) -> AsyncGenerator[list[EntryId], None]:
    """Yield the entries to ask for, some thousands at a time: `entries`, or those that nobody lists who should."""
    if entries:
        asked = itertools.chain.from_iterable(range(first, last + 1) for first, last in _checked(metadata, entries))
        while batch := [EntryId(each) for each in itertools.islice(asked, _WINDOW)]:
            yield batch
        return
    if metadata.last_entry >= _SEARCHED_MAX:
        raise errors.BadInput(
            f"ledger {ledger_id} has {metadata.last_entry + 1} entries, too many to search: name those that are lost"
        )
    present = [each for each in mending.named(metadata) if each not in gone]
    said = await Holdings(shared).ask(ledger_id, metadata, present, reads=True)
    lists = {name: each.groups for name, each in said.items() if each.groups is not None}
    size, quorum = metadata.ensemble_size, metadata.write_quorum
    for segment, first, last in metadata.owed_ranges():
        assert last is not None, "it is closed"
        for start in range(first, last + 1, _WINDOW):
            end = min(last + 1, start + _WINDOW)
            absent = bitmaps.ones(end - start)
            for index, bookie_id in enumerate(segment.bookies):
                if bookie_id in lists:  # what it lists besides its share, no reader asks it for
                    share = bitmaps.striped(size, quorum, index, start, end - 1)
                    absent &= ~(bitmaps.drawn(lists[bookie_id], start, end) & share)
            if absent:
                yield [EntryId(each) for each in range(start, end) if absent >> (each - start) & 1]
            await pause()


def _checked(metadata: LedgerMetadata, entries: Sequence[IdRange]) -> list[IdRange]:
    """Return the ranges, ascending, without what was declared lost before. Raises BadInput."""
    found: list[IdRange] = []
    for first, last in sorted(entries):
        if not 0 <= first <= last <= metadata.last_entry:
            raise errors.BadInput(f"entries {first} to {last}: the ledger has entries 0 to {metadata.last_entry}")
        if last - first >= ENTRIES_MAX:
            raise errors.BadInput(f"entries {first} to {last} are more than {ENTRIES_MAX}, the most of one act")
        if found and first <= found[-1][1]:
            raise errors.BadInput(f"entry {first} is named twice")
        found.append((first, last))
    owed = [(begin, end) for _, begin, end in metadata.owed_ranges() if end is not None]
    return [
        (EntryId(max(first, begin)), EntryId(min(last, end)))
        for first, last in found
        for begin, end in owed
        if begin <= last and first <= end
    ]


async def _copies_elsewhere(look: _Look, lost: Sequence[IdRange]) -> dict[EntryId, BookieId]:
    """Return which registered bookie has a good copy of an entry whose write set it is not in: one that the ledger
    named once, or names in another place now. Raises GrantRefused when one does not say."""
    others = sorted(look.shared.watcher.records) if lost else []
    found: dict[EntryId, BookieId] = {}
    for start in range(0, len(others), _BOOKIES_AT_ONCE):
        asked = others[start : start + _BOOKIES_AT_ONCE]
        said = await asyncio.gather(*(_elsewhere(look, each, lost) for each in asked))
        if reasons := [reason for _, reason in said if reason]:
            raise errors.GrantRefused(
                "copy_elsewhere", f"ledger {look.ledger_id}: nothing is declared lost: {'; '.join(reasons)}"
            )
        for bookie_id, (held, _) in zip(asked, said, strict=True):
            found |= dict.fromkeys(held, bookie_id)
    return found


async def _elsewhere(look: _Look, bookie_id: BookieId, lost: Sequence[IdRange]) -> tuple[list[EntryId], str]:
    """Return of which of those entries whose write set it is not in a bookie gives a good copy; and why it does not
    say, "" when it does."""
    held: list[EntryId] = []
    try:
        groups: Sequence[Group] | None = await look.bookies.list_groups(bookie_id, look.ledger_id)
    except errors.NoSuchLedger:
        return held, ""
    except BookieError:
        groups = None  # in limbo it lists nothing and gives what it has; and some bookies of Java's never list
    async with contextlib.aclosing(_listed(look.metadata, bookie_id, groups, lost)) as batches:
        async for batch in batches:
            answers = await asyncio.gather(*(look.problem_with(bookie_id, each) for each in batch))
            for entry_id, error in zip(batch, answers, strict=True):
                match error:
                    case None:
                        held.append(entry_id)
                    case errors.NoSuchLedger():
                        return held, ""
                    case errors.NoSuchEntry() | errors.UnknownLedgerState() | errors.DigestMismatch():
                        continue
                    case _:
                        which = "names for other entries" if look.metadata.names(bookie_id) else "does not name"
                        return held, (
                            f"bookie {bookie_id}, which the ledger {which}, does not say whether it has entry"
                            f" {entry_id}: {error}; try again when it answers: while it is stopped nobody asks it, so"
                            " stop it for this only if its disks are gone for good"
                        )
    return held, ""


async def _bring_back(shared: Shared, wanted: LostPlan) -> None:
    """Copy what was found elsewhere to the bookies that owe it. Raises what a read or an add raises."""
    bookies, metadata = BookieClient(shared.pool), wanted.metadata
    verifier, key = digest_of(metadata), digest.master_key(metadata.password)
    takers: set[BookieId] = set()

    async def copy(entry_id: EntryId, holder: BookieId) -> None:
        body = await bookies.read(holder, wanted.ledger_id, entry_id)
        verifier.open(body, wanted.ledger_id, entry_id)
        here = [each for each in metadata.write_set(entry_id) if each in shared.watcher.records]
        if not here:
            raise errors.NotEnoughBookies(f"entry {entry_id} is on bookie {holder} alone, and none of its own is there")
        for each in here:
            await bookies.add(each, wanted.ledger_id, entry_id, body, key, is_recovery=True)
        takers.update(here)

    turns = iter(sorted(wanted.found.items()))
    while batch := list(itertools.islice(turns, _ENTRIES_AT_ONCE)):
        await asyncio.gather(*(copy(*each) for each in batch))
    for each in sorted(takers):
        # A bookie that does not journal acknowledges from memory. One in limbo forces nothing; its repair, which has
        # still to end, flushes before it does. CRASH: before that the entry is owed as ever, and found as it was now.
        with contextlib.suppress(errors.UnknownLedgerState):
            await bookies.force(each, wanted.ledger_id)


def _without(runs: Sequence[IdRange], entries: Collection[EntryId]) -> list[IdRange]:
    """Return the runs without these entries."""
    left: list[IdRange] = []
    taken = iter([*sorted(entries), None])
    next_taken = next(taken)
    for first, last in runs:
        begin = first
        while next_taken is not None and next_taken <= last:
            if begin < next_taken:
                left.append((begin, EntryId(next_taken - 1)))
            begin = EntryId(next_taken + 1)
            next_taken = next(taken)
        if begin <= last:
            left.append((begin, last))
    return left


async def _listed(
    metadata: LedgerMetadata, bookie_id: BookieId, groups: Sequence[Group] | None, lost: Sequence[IdRange]
) -> AsyncGenerator[list[EntryId], None]:
    """Yield those of the entries that are in `groups` and no share of the bookie's, a few at a time; without a list all
    that are no share of it."""
    batch: list[EntryId] = []
    looks = 0
    for first, last in lost:
        looks += 1
        is_in_some = groups is None or _EVERY.count_held(groups, first, last) > 0
        for number in range(first, last + 1) if is_in_some else ():
            looks += 1
            is_listed = groups is None or _EVERY.count_held(groups, number, number)
            if is_listed and bookie_id not in metadata.write_set(EntryId(number)):
                batch.append(EntryId(number))
            if len(batch) == _ENTRIES_AT_ONCE:
                yield batch
                batch = []
            if looks % _LOOKS_AT_ONCE == 0:
                await pause()
        if looks % _LOOKS_AT_ONCE == 0:
            await pause()
    if batch:
        yield batch


async def _refuse_who_may_answer(
    look: _Look, bookies: Collection[BookieId], *, after_crash: bool, corrupt: bool
) -> None:
    """Raise GrantRefused unless each bookie that could not deny an entry is named, and can never give it."""
    made = await find(look.shared.ledgers.store, look.shared.ledgers.path(look.ledger_id))
    reasons: list[str] = []
    for bookie_id, error in sorted(look.doubts.items()):
        if bookie_id not in bookies:
            reasons.append(f"bookie {bookie_id} may have entries that nobody else has, and is not given up: {error}")
            continue
        is_gone = bookie_id in look.gone
        seen = await accepting_loss.hearing(look.shared, made, bookie_id, error, is_named=True, is_gone=is_gone)
        if why := rules.why_not(seen, after_crash=after_crash, corrupt=corrupt):
            reasons.append(why)
    if reasons:
        raise errors.GrantRefused(
            "may_answer", f"ledger {look.ledger_id}: nothing is declared lost: {'; '.join(reasons)}"
        )
