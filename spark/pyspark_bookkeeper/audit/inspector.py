"""Asks bookies what they hold, ledger by ledger, and compares. One inspector per unit of work.

The inspector reads a ledger's record before it asks the bookies, and again afterwards if it found anything: under a
record that moved meanwhile nothing is proven, and it looks anew. It reports what a second look finds, some time later,
among the entries that the first one judged, so that it does not call a copy missing that is still on its way. It looks
at a ledger that is too young when it is old enough, and counts as not known what is not known then. It writes, recovers
and fences nothing.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from bookie.base import errors
from bookie.base.errors import Answer, BookieError
from bookie.base.groups import ungrouped
from bookie.base.ids import BookieId, LedgerId
from bookie.client import Client
from bookie.client.admin import LedgerRecord
from pyspark_bookkeeper.audit import compare, sampling, tally
from pyspark_bookkeeper.audit.compare import Holding, ReplicaFinding, Unknown
from pyspark_bookkeeper.audit.sampling import Chosen, Sampler
from pyspark_bookkeeper.audit.tally import Figures

log = logging.getLogger(__name__)

LEDGERS_AT_ONCE = 64  # per task: with E = 3 some 200 requests on their way, which no bookie notices
YOUNG_WAIT_MAX_MS = 60_000  # for ledgers to come of age, in each unit; with a longer grace time they stay young
LOOKS_MAX = 3  # at a ledger whose record moves
SILENT_AFTER = 3  # requests in a row without an answer: the bookie is not asked again in this unit


@dataclass(frozen=True, slots=True)
class Rules:
    """`grace_ms`: a ledger whose record changed within it is left alone. `asks_all`: also bookies that the ledger does
    not name, which is how forgotten replicas are found. `reads`: which copies are read, one of `sampling.HOW`."""

    grace_ms: int = 60_000
    second_look_ms: int = 2_000
    asks_all: bool = True
    reads: str = sampling.NOTHING


@dataclass(slots=True)
class UnitResult:
    findings: list[ReplicaFinding] = field(default_factory=list)
    figures: Figures = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Look:
    """The result of one look at a ledger: figures to count, and findings, if any, among entries 0..end-1."""

    figures: Figures
    findings: tuple[ReplicaFinding, ...] = ()
    end: int = 0
    bad: Chosen = field(default_factory=dict)  # the copies that were read and were not what they should be
    unknown: str = ""  # one of tally.UNKNOWN
    why: str = ""

    def rows(self, ledger_id: LedgerId) -> Iterator[ReplicaFinding]:
        """Return the findings; for a ledger that is not known, a row that says so."""
        if self.unknown:
            yield ReplicaFinding(ledger_id, "", self.unknown, 0, -1, 0, self.why)
        yield from self.findings


def _skipped(state: str, why: str = "") -> _Look:
    return _Look(tally.skipped(state, why), unknown=state if state in tally.UNKNOWN else "", why=why)


@dataclass(frozen=True, slots=True)
class _Again:
    """The bounds of a second look, from the first one: it judges no entry from `end` on (None: all confirmed ones), and
    reads only the `bad` copies again (None: it chooses anew)."""

    end: int | None = None
    bad: Chosen | None = None


class LedgerInspector:
    """Audits ledgers one by one. `zones`: the registered bookies, each with its zone."""

    def __init__(self, client: Client, zones: Mapping[BookieId, str], rules: Rules) -> None:
        self._client = client
        self._zones = zones
        self._rules = rules
        self._sampler = Sampler(client, rules.reads)
        self._unanswered: Counter[BookieId] = Counter()

    async def audit(self, ledger_ids: Iterable[LedgerId]) -> UnitResult:
        """Audit a unit of ledgers. Raises MetadataError when the metadata store does not answer."""
        looks = await self._look_at_all({ledger_id: _Again() for ledger_id in ledger_ids})
        if young := [ledger_id for ledger_id, look in looks.items() if look.unknown == tally.YOUNG]:
            await self._client.shared.pause(min(self._rules.grace_ms, YOUNG_WAIT_MAX_MS))
            looks |= await self._look_at_all({ledger_id: _Again() for ledger_id in young})
        suspects = {ledger_id: _Again(look.end, look.bad) for ledger_id, look in looks.items() if look.findings}
        if suspects:
            await self._client.shared.pause(self._rules.second_look_ms)
            again = await self._look_at_all(suspects)
            for ledger_id, look in again.items():  # the second one read again what was bad, and nothing else
                _keep_read(look.figures, looks[ledger_id].figures)
            looks |= again
        result = UnitResult(figures=tally.total(look.figures for look in looks.values()))
        for ledger_id in sorted(looks):
            result.findings += looks[ledger_id].rows(ledger_id)
        return result

    async def _look_at_all(self, ledgers: Mapping[LedgerId, _Again]) -> dict[LedgerId, _Look]:
        looks: dict[LedgerId, _Look] = {}
        remaining = iter(ledgers.items())

        async def work() -> None:
            for ledger_id, again in remaining:
                looks[ledger_id] = await self._look(ledger_id, again)

        async with ungrouped(BookieError), asyncio.TaskGroup() as group:
            for _ in range(LEDGERS_AT_ONCE):
                group.create_task(work())
        return looks

    async def _look(self, ledger_id: LedgerId, again: _Again) -> _Look:
        try:
            for _ in range(LOOKS_MAX):
                look = await self._look_once(ledger_id, again)
                if look is not None:
                    return look
        except errors.LedgerMissing:
            return _skipped(tally.GONE)
        except errors.UNREADABLE as error:
            return _skipped(tally.UNREADABLE, f"ledger {ledger_id}: {error}")
        except errors.MetadataError:
            raise
        except Exception as error:  # of a kind that nobody expected, at this ledger: the others are audited
            log.exception("error at one ledger ledger_id=%d", ledger_id)
            return _skipped(tally.UNREADABLE, f"ledger {ledger_id}: {type(error).__name__}: {error}")
        return _skipped(tally.MOVED)

    async def _look_once(self, ledger_id: LedgerId, again: _Again) -> _Look | None:
        """Look once. Return None when the record changed meanwhile: then the findings prove nothing."""
        admin = self._client.admin
        record = await admin.record(ledger_id)
        metadata = record.metadata
        if self._client.shared.world.clock.wall_ms() - record.modified_ms < self._rules.grace_ms:
            return _skipped(tally.YOUNG)
        # Asked first: what is confirmed now is on an ack quorum by the time bookies say what they hold.
        confirmed_end, why_unsure = await self._end(ledger_id, record)
        end = confirmed_end if again.end is None else min(confirmed_end, again.end)
        compare.check_end(end)  # before anything is counted up to there
        named = dict.fromkeys(bookie for segment in metadata.segments for bookie in segment.bookies)
        asked = list(dict.fromkeys([*named, *self._zones])) if self._rules.asks_all else list(named)
        answers = await asyncio.gather(*(self._ask(bookie, ledger_id) for bookie in asked))
        holdings = dict(zip(asked, answers, strict=True))
        is_final = metadata.is_closed and end == confirmed_end
        read = await self._sampler.read(ledger_id, metadata, end, holdings, again.bad)
        comparison = compare.compare(metadata, end, holdings, self._zones, is_final=is_final, read=read)
        if not comparison.is_clean and (await admin.record(ledger_id)).version != record.version:
            return None
        state = tally.UNSURE if why_unsure else tally.CLOSED if metadata.is_closed else tally.OPEN
        figures = tally.of(comparison, state, write_quorum=metadata.write_quorum)
        if why_unsure:
            figures.update(tally.reason(why_unsure))
        bad = {bookie: found for bookie, found in read.items() if found}
        findings = tuple(comparison.findings(ledger_id))
        return _Look(figures, findings, end, bad, tally.UNSURE if why_unsure else "", why_unsure)

    async def _end(self, ledger_id: LedgerId, record: LedgerRecord) -> tuple[int, str]:
        """Return how many entries may be judged; and "", or why only those of sealed segments: no quorum said the
        LAC."""
        try:
            return await self._client.admin.last_confirmed(ledger_id, record.metadata) + 1, ""
        except errors.MetadataError:
            raise
        except BookieError as error:
            why = f"ledger {ledger_id} is open, and no quorum says which entry is its last confirmed one: {error}"
            return record.metadata.last_segment.first_entry, why

    async def _ask(self, bookie_id: BookieId, ledger_id: LedgerId) -> Holding:
        if self._unanswered[bookie_id] >= SILENT_AFTER:
            return Unknown(_silent(bookie_id))
        try:
            groups = await self._client.bookies.list_groups(bookie_id, ledger_id)
        except errors.RequestTimedOut:
            self._unanswered[bookie_id] += 1
            return Unknown(_silent(bookie_id))
        except BookieError as error:
            if error.answer is Answer.NEGATIVE:
                groups = []
            else:
                return Unknown(_said(bookie_id, error))
        self._unanswered[bookie_id] = 0
        return groups


def _keep_read(figures: Figures, first: Figures) -> None:
    """Take the first look's figures of what was read: the second look read only the bad copies.

    Never more than the second look promises: of a ledger that is gone by now, or moved, no copy counts as read, or it
    would stand for the unread copy of another ledger.
    """
    for key in [key for key in {**figures, **first} if key[-1] == "read"]:
        figures[key] = min(first[key], figures[(*key[:-1], "expected")])


def _silent(bookie_id: BookieId) -> str:
    return (
        f"bookie {bookie_id} does not answer: its machine is gone, or it is a Java bookie on DbLedgerStorage, "
        "which never tells its list of entries"
    )


def _said(bookie_id: BookieId, error: BookieError) -> str:
    match error:
        case errors.UnknownLedgerState():
            return f"bookie {bookie_id} has the ledger in limbo: it may have lost entries and is being repaired"
        case errors.BookieUnavailable():
            return f"bookie {bookie_id} cannot be reached"
        case _:
            return f"bookie {bookie_id} answered with {type(error).__name__}: {error}"
