"""Forgets a bookie that has left for good: deletes its cookie and the record of its journals' position.

Without its cookie nobody waits for its data any more, so this is the last gate before its volumes may go. Rule:
spec/metadata.md#M42. Never: while a process of it lives, or while a ledger, or a record that nobody can read, names it.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Collection
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_MS
from bookie.client.ledgers import LedgerStore
from bookie.client.repair import naming
from bookie.client.repair.naming import AffectedLedger
from bookie.metadata import cookie, paths
from bookie.ports.admin import BlockedLedger, References
from bookie.ports.clock import Clock
from bookie.ports.metadata_store import (
    ANY_VERSION,
    CheckOp,
    DeleteOp,
    MetadataStore,
    Op,
    PutOp,
    absent,
    create_if_missing,
    find,
    find_children,
)

# A client's session time-out. Who has heard nothing of the registrations for so long has no session any more, and reads
# the list of bookies again before it can make a ledger.
GONE_MS_MIN = 30_000
REFERENCES_SHOWN_MAX = 20
_REASON_CHARS_MAX = 400
# A survey that nobody went on with for so long is begun anew: its caller has given up.
_SURVEY_KEPT_MS = 120_000
ABSENT = -1
NOT_KNOWN = -1

Repair = tuple[str, int, int]  # a replication lock: its path, when it was made, and by which session


def unknown(bookie_id: BookieId, named_by: str = "no ledger names it") -> errors.BookieUnknown:
    """Return the error for an id that the cluster does not know: a mistyped id must not look like a bookie that holds
    nothing any more. `named_by`: what the caller has seen of ledgers that name it."""
    return errors.BookieUnknown(
        f"this cluster knows no bookie {bookie_id}: it has no cookie, and {named_by}; `bookie cluster list-bookies`"
        " shows those that there are"
    )


class Survey:
    """A look for what names one bookie. It may be interrupted at any point and goes on where it was, so that callers
    with short deadlines come to its end in clusters of any size.

    It shows what named the bookie when it began, and perhaps more: records that were read before a break are not read
    again, as in a look without one.
    """

    def __init__(self, bookie_id: BookieId, clock: Clock, *, depending_on: Collection[BookieId] = ()) -> None:
        """`depending_on`: look for the ledgers that depend on these bookies instead (`naming.look_at`)."""
        self._bookie_id = bookie_id
        self._depending_on = depending_on
        self._clock = clock
        self._began_ns = self._touched_ns = clock.monotonic_ns()
        self._after = naming.NO_LEDGER
        self._is_done = False
        self._turn = asyncio.Lock()  # two callers go on with it one after the other
        self._count = self._unreadable = 0
        self._first: list[BlockedLedger] = []

    def is_left(self) -> bool:
        """Return True when nobody went on with it for so long that it proves nothing any more."""
        return self._clock.monotonic_ns() - self._touched_ns > _SURVEY_KEPT_MS * NS_PER_MS

    async def finish(self, ledgers: LedgerStore) -> References:
        """Look at the rest; return what was found. Raises MetadataError: call it again."""
        async with self._turn:
            if not self._is_done:
                await self._go_on(ledgers)
        age_ms = (self._clock.monotonic_ns() - self._began_ns) // NS_PER_MS
        return References(self._bookie_id, self._count, tuple(self._first), self._unreadable, age_ms)

    async def _go_on(self, ledgers: LedgerStore) -> None:
        batches = naming.look_behind(
            ledgers,
            self._depending_on or (self._bookie_id,),
            self._after,
            beside_clients=self._clock,
            is_for_dependents=bool(self._depending_on),
        )
        async for last, batch in batches:
            for found in batch:
                if found is not None:
                    self._take(found)
            self._after = last
            self._touched_ns = self._clock.monotonic_ns()
        self._is_done = True

    def _take(self, found: AffectedLedger) -> None:
        self._count += 1
        self._unreadable += bool(found.problem)
        if len(self._first) < REFERENCES_SHOWN_MAX:
            self._first.append(BlockedLedger(found.ledger_id, (found.problem or found.role)[:_REASON_CHARS_MAX]))


class Surveys:
    """The surveys under way, one for each bookie, or set of bookies, asked about."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[tuple[BookieId, ...], Survey] = {}

    async def find(self, ledgers: LedgerStore, bookie_id: BookieId) -> References:
        """Return what names `bookie_id`, by a survey that begins now or that a caller left unfinished just now. Raises
        MetadataError."""
        return await self._find(ledgers, (bookie_id,), Survey(bookie_id, self._clock))

    async def find_dependents(self, ledgers: LedgerStore, bookies: Collection[BookieId]) -> References:
        """Return which ledgers depend on `bookies`, two or more, in the same way; `bookie_id` of the answer has all
        their names. Raises MetadataError."""
        wanted = tuple(sorted(set(bookies)))
        return await self._find(ledgers, wanted, Survey(BookieId(" ".join(wanted)), self._clock, depending_on=wanted))

    async def _find(self, ledgers: LedgerStore, asked: tuple[BookieId, ...], fresh: Survey) -> References:
        self._open = {each: survey for each, survey in self._open.items() if not survey.is_left()}
        survey = self._open.setdefault(asked, fresh)
        found = await survey.finish(ledgers)
        self._open = {each: other for each, other in self._open.items() if other is not survey}
        return found


@dataclass(slots=True)
class _Absence:
    """Since when (ns) one bookie is seen to be gone, in which life it was last, and the repairs of then that may still
    name it. `survey`: begun when all of that was over."""

    since_ns: int
    life_version: int
    repairs: frozenset[Repair]
    survey: Survey | None = None


class Forgetting:
    """Forgets bookies on demand; remembers since when each is gone, as long as this process lives."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._absences: dict[BookieId, _Absence] = {}
        self._afterwards: dict[BookieId, Survey] = {}  # of bookies that were forgotten, until that was answered

    async def forget(self, ledgers: LedgerStore, bookie_id: BookieId, *, cookie_version: int) -> str:
        """Forget `bookie_id`, or say that it was forgotten before; return a sentence.

        Raises GrantRefused (registered, cookie_changed, too_soon, locked, named), MetadataError. A caller that is told
        "too_soon" or "locked" asks again: its first call began the time.
        """
        store, root = ledgers.store, ledgers.root
        await store.sync(root)
        if where := await living(store, root, bookie_id):
            self._absences.pop(bookie_id, None)
            raise errors.GrantRefused("registered", f"bookie {bookie_id} is alive: {where} exists")
        cookie = await find(store, paths.cookie(root, bookie_id))
        if cookie is None:
            return await self._told_afterwards(ledgers, bookie_id)
        if cookie.version != cookie_version:
            raise errors.GrantRefused(
                "cookie_changed",
                f"the order names version {cookie_version} of the cookie of bookie {bookie_id}, and it is at"
                f" {cookie.version}: look at that bookie again",
            )
        absence = await self._absence(store, root, bookie_id)
        if absence.survey is None or absence.survey.is_left():
            absence.survey = Survey(bookie_id, self._clock)
        found = await absence.survey.finish(ledgers)
        if found.count:
            absence.survey = None
            raise errors.GrantRefused("named", _still_named(found))
        # While we looked, anything may have happened: the transaction fails if a process of it is there, or was there
        # and changed its record, or if the cookie is not the one that was judged.
        self._afterwards[bookie_id] = Survey(bookie_id, self._clock)  # now: the answer may be lost, or its caller go
        try:
            await forget(store, root, bookie_id, cookie_version=cookie_version, life_version=absence.life_version)
        except (errors.VersionConflict, errors.NodeExists, errors.NodeMissing) as error:
            self._absences.pop(bookie_id, None)
            self._afterwards.pop(bookie_id, None)
            raise errors.GrantRefused(
                "registered", f"records of bookie {bookie_id} changed while it was to be forgotten ({error}): it lives"
            ) from None
        return await self._told_afterwards(ledgers, bookie_id)

    async def _absence(self, store: MetadataStore, root: str, bookie_id: BookieId) -> _Absence:
        """Return since when the bookie is gone. Raises GrantRefused while that is too short, as this process saw it."""
        now_ns = self._clock.monotonic_ns()
        life = await find(store, paths.incarnation(root, bookie_id))
        life_version = ABSENT if life is None else life.version
        running = await repairs(store, root)
        absence = self._absences.get(bookie_id)
        if absence is None or absence.life_version != life_version:
            absence = self._absences[bookie_id] = _Absence(now_ns, life_version, running)
        absence.repairs &= running
        left_ms = GONE_MS_MIN - (now_ns - absence.since_ns) // NS_PER_MS
        if left_ms > 0:
            raise errors.GrantRefused(
                "too_soon",
                f"bookie {bookie_id} must be gone for {GONE_MS_MIN // 1000} s, so that no client can choose it any"
                f" more: ask again in {left_ms} ms",
            )
        if absence.repairs:
            path = min(absence.repairs)[0]
            raise errors.GrantRefused(
                "locked",
                f"a repair that began while bookie {bookie_id} was there may still name it (lock {path}):"
                " ask again when it has ended",
            )
        return absence

    async def _told_afterwards(self, ledgers: LedgerStore, bookie_id: BookieId) -> str:
        """Look once more after the deletion. What names the bookie now was named after our look, when it took no entry
        any more: nothing is lost, and a person needs to hear of it."""
        self._absences.pop(bookie_id, None)
        survey = self._afterwards.get(bookie_id)
        if survey is None:
            return f"bookie {bookie_id} has no cookie: it was forgotten before"
        found = await survey.finish(ledgers)
        self._afterwards.pop(bookie_id, None)
        if not found.count:
            return f"bookie {bookie_id} is forgotten: no ledger named it, before and after"
        return f"bookie {bookie_id} is forgotten, but since then: {_still_named(found)}; it holds none of their entries"


async def forget(
    store: MetadataStore,
    root: str,
    bookie_id: BookieId,
    *,
    cookie_version: int = ANY_VERSION,
    life_version: int | None = None,
    needs_cookie: bool = True,
) -> bool:
    """Delete the cookie of `bookie_id` and the record of its journals' position, in one transaction, which also notes
    in its record of lives that nobody waits for it any more (`remains`). `cookie_version`, `life_version`: of the
    cookie and the record of lives that the caller has judged (ABSENT: there was no record); else the present ones.
    Return False without a cookie; then nothing changes, unless not `needs_cookie`: a person says so.

    The position is about this life's disks only: without the cookie no process compares anything with it, and a new
    bookie that gets this id must not find it. Raises VersionConflict, NodeMissing, NodeExists when a process of this
    bookie runs, begins, or changes a record meanwhile: then both stay as they were.
    """
    ops: list[Op] = []
    present = (*_registrations(root, bookie_id), paths.process(root, bookie_id))
    record = paths.incarnation(root, bookie_id)
    for path in (*present, record, paths.cookie(root, bookie_id)):
        await create_if_missing(store, path.rpartition("/")[0], parents=True)  # in Java's clusters some are missing
    for path in present:
        ops += absent(path)
    # A process that claims this id, from now on, changes its record of lives before it relies on the cookie.
    life = await find(store, record)
    if life_version is None:
        life_version = ABSENT if life is None else life.version
    if life_version == ABSENT:
        ops += absent(record)
    else:
        ops.append(_noted(record, b"" if life is None else life.data, life_version))
    cookie_path, position = paths.cookie(root, bookie_id), paths.position(root, bookie_id)
    found = await find(store, cookie_path)
    if found is not None:
        version = found.version if cookie_version == ANY_VERSION else cookie_version
        ops.append(DeleteOp(cookie_path, version))
    elif needs_cookie:
        return False
    else:
        ops += absent(cookie_path)
    with contextlib.suppress(errors.NodeMissing):  # of Java's bookies, and of those that never journaled
        ops.append(DeleteOp(position, (await store.get(position)).version))
    await store.transact(ops)
    return found is not None


def _noted(path: str, data: bytes, version: int) -> Op:
    """Return the change that notes in a record of lives that its bookie is forgotten. One that cannot be read stays as
    it is: then nobody believes that the bookie is gone."""
    try:
        return PutOp(path, cookie.forgotten(data), version)
    except errors.BadInput:
        return CheckOp(path, version)


async def living(store: MetadataStore, root: str, bookie_id: BookieId) -> str:
    """Return the node that shows a process of this bookie, registered or beginning to be; "" when there is none."""
    for path in (*_registrations(root, bookie_id), paths.process(root, bookie_id)):
        if await find(store, path) is not None:
            return path
    return ""


async def repairs(store: MetadataStore, root: str) -> frozenset[Repair]:
    """Return the repairs under way now, Java's and ours: each holds a lock. One that chose a bookie while that was
    writable names it at its end, which no list of ledgers shows before. A node of no session is no repair's; one that
    may not be read may be one's, for as long as it is there."""
    parent = paths.replication_locks(root)
    locks = [f"{parent}/{name}" for name in await find_children(store, parent)]

    async def look(path: str) -> Repair | None:
        try:
            lock = await find(store, path)
        except errors.MetadataDenied:
            return path, NOT_KNOWN, NOT_KNOWN
        return (path, lock.created_ms, lock.owner) if lock is not None and lock.owner else None

    return frozenset(each for each in await asyncio.gather(*map(look, locks)) if each is not None)


def _registrations(root: str, bookie_id: BookieId) -> tuple[str, str]:
    return f"{paths.available(root)}/{bookie_id}", f"{paths.readonly(root)}/{bookie_id}"


def _still_named(found: References) -> str:
    first = "; ".join(f"{each.ledger_id} ({each.reason})" for each in itertools.islice(found.first, 3))
    more = ", ..." if found.count > 3 else ""
    return f"{found.count} ledgers name bookie {found.bookie_id}: {first}{more}"
