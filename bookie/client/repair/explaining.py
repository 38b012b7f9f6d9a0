"""Explains to a person what one ledger lacks, what auto-recovery would do about it, and what stands against that.

It looks anew, with the rules of the worker (`quorum.mending`), and changes nothing: what a running worker thinks is in
its own log. A bookie that is not registered is judged as lost here, whatever the delay: a person wants to know what
would follow. What became of it, as far as the metadata store can tell, is said beside (`quorum.whereabouts`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client.net.bookies import BookieClient
from bookie.client.repair.autorecovery import NOT_KNOWN, AutoRecovery, FoundLock
from bookie.client.repair.holdings import Holdings
from bookie.client.repair.maintenance import Maintenance
from bookie.client.repair.marks import FoundMark, Marks
from bookie.client.shared import Shared, digest_of
from bookie.metadata import paths
from bookie.metadata.ledger import LedgerMetadata, LedgerState
from bookie.metadata.maintenance import StoredLease
from bookie.ports.metadata_store import Stored, find
from bookie.quorum import mending, whereabouts
from bookie.quorum.mending import Holding, Mending, Standing
from bookie.quorum.placement_check import Misplaced, PlacementCheck
from bookie.quorum.whereabouts import Whereabouts

_A = TypeVar("_A")
_T = TypeVar("_T")
_ASKED_AT_ONCE = 16  # reads of entries, or of nodes: as many as one look at a ledger has elsewhere (holdings.py)
_PATHS_OF = (paths.incarnation, paths.cookie, paths.process, paths.position)


@dataclass(slots=True)
class Explanation:
    """`needs`: what is missing, a sentence each. `helps`: what would happen, or what a person can do. `standings`,
    `holdings`: of every bookie that the ledger names, as judged. `whereabouts`: of those that are not registered.
    `leases`: of bookies under maintenance. `lock`: that of the ledger, if any, whosever it is."""

    ledger_id: LedgerId
    metadata: LedgerMetadata
    mark: FoundMark | None
    lock: FoundLock | None
    found: Mending
    standings: dict[BookieId, Standing]
    holdings: dict[BookieId, Holding]
    leases: dict[BookieId, StoredLease]
    misplaced: tuple[Misplaced, ...] = ()
    whereabouts: dict[BookieId, Whereabouts] = field(default_factory=dict)
    needs: list[str] = field(default_factory=list)
    helps: list[str] = field(default_factory=list)


async def explain(shared: Shared, ledger_id: LedgerId) -> Explanation:
    """Look at one ledger. Raises LedgerMissing, BadInput (unreadable record), MetadataError."""
    ledgers = shared.ledgers
    recovery = AutoRecovery(ledgers.store, ledgers.root)
    await ledgers.store.sync(ledgers.path(ledger_id))
    metadata, _ = await ledgers.get(ledger_id)
    named = mending.named(metadata)
    gone = await shared.watcher.look(named)
    standings = mending.standings_of(named, shared.watcher.records, gone)
    present = [each for each in named if standings[each] is Standing.PRESENT]
    holdings = await Holdings(shared).ask(ledger_id, metadata, present, reads=True, probes=True)
    found = mending.judge(metadata, standings, holdings)
    mark = await Marks(ledgers.store, ledgers.root).find(ledger_id)
    lock = (await recovery.locks()).get(ledger_id)
    leases = await Maintenance(ledgers.store, ledgers.root).leases()
    wall_ms = shared.world.clock.wall_ms()
    valid = {each: lease for each, lease in leases.items() if wall_ms < lease.until_ms}
    told = Explanation(ledger_id, metadata, mark, lock, found, standings, holdings, valid)
    made = await find(ledgers.store, ledgers.path(ledger_id)) if found.lost else None
    told.whereabouts = await _whereabouts(shared, made, found.lost)
    told.misplaced = PlacementCheck(shared.watcher.candidates(), shared.watcher.placed()).misplaced(metadata)
    if told.misplaced:
        whole = "no copy is missing; one" if outcome(told) is errors.Answer.POSITIVE else "a copy"
        told.helps.append(
            f"{whole} that lies too close is moved by `bookie cluster recover-bookie BOOKIE --ledger {ledger_id}`,"
            " bookie by bookie: nothing of ours moves it by itself"
        )
    await _tell_of_fills(shared, told)
    _tell_of_lost(shared, told)
    _tell_of_waits(told)
    _tell_of_lock(told, wall_ms)
    if not found.is_whole and not await recovery.is_enabled():
        told.helps.append("auto-recovery is switched off: `bookie autorecovery enable`")
    elif found.missing and mark is None:
        told.helps.append("it is not marked yet: the next look of an auditor marks it, or `bookie autorecovery audit`")
    return told


async def _whereabouts(shared: Shared, made: Stored | None, lost: Sequence[BookieId]) -> dict[BookieId, Whereabouts]:
    """Return what became of bookies that are not registered. `made`: the ledger's record. Raises MetadataError."""
    store, root = shared.ledgers.store, shared.ledgers.root
    nodes = [path(root, each) for each in lost for path in _PATHS_OF]
    stored = dict(zip(nodes, await _each_of(nodes, lambda path: find(store, path)), strict=True))
    found = {}
    for bookie_id in lost:
        life, identity, sign, position = (stored[path(root, bookie_id)] for path in _PATHS_OF)
        found[bookie_id] = whereabouts.judge(
            identity, life, made, has_sign=sign is not None, has_position=position is not None
        )
    return found


async def _each_of(asked: Sequence[_A], ask: Callable[[_A], Awaitable[_T]]) -> list[_T]:
    """Return the answers in the order of `asked`; so many questions are under way at once, and no more."""
    found: list[_T] = []
    for start in range(0, len(asked), _ASKED_AT_ONCE):
        found += await asyncio.gather(*map(ask, asked[start : start + _ASKED_AT_ONCE]))
    return found


async def _tell_of_fills(shared: Shared, told: Explanation) -> None:
    write_sets = {each.first: told.metadata.write_set(each.first) for each in told.found.fills}
    asked = [(bookie_id, first) for first, write_set in write_sets.items() for bookie_id in write_set]
    problems = await _each_of(asked, lambda one: _problem_of(shared, told, *one))
    found = dict(zip(asked, problems, strict=True))
    for each in told.found.fills:
        answers = {bookie_id: found[bookie_id, each.first] for bookie_id in write_sets[each.first]}
        held = [bookie_id for bookie_id, problem in answers.items() if not problem]
        said = [f"{bookie_id}: {problem}" for bookie_id, problem in answers.items() if problem]
        ack = told.metadata.ack_quorum
        damaged = f" ({each.damaged} of them are there and damaged, and more may be)" if each.damaged else ""
        told.needs.append(
            f"bookie {each.bookie_id} lacks {each.count} entries{damaged}, the first is {each.first}; of its write set"
            f" {', '.join(write_sets[each.first])} (an ack quorum is {ack}) {_list(held)} it"
        )
        if held:
            told.helps.append(f"a worker copies them to {each.bookie_id}, where it is; no metadata changes")
        else:
            told.helps.append(
                f"nobody gives entry {each.first} ({'; '.join(said)}): bring back a bookie that had it; if its"
                " disks are gone for good, the entry is lost: `bookie ledger accept-loss` says so in the record, once"
                " the ledger is closed, and the ledger is whole without it"
            )


async def _problem_of(shared: Shared, told: Explanation, bookie_id: BookieId, entry_id: EntryId) -> str:
    """Return why the bookie gives no good copy of the entry; "" when it does."""
    try:
        body = await BookieClient(shared.pool).read(bookie_id, told.ledger_id, entry_id)
        digest_of(told.metadata).open(body, told.ledger_id, entry_id)
    except BookieError as error:
        return str(error) or type(error).__name__
    return ""


def _list(held: list[BookieId]) -> str:
    return f"{', '.join(held)} {'has' if len(held) == 1 else 'have'}" if held else "nobody has"


def _tell_of_lost(shared: Shared, told: Explanation) -> None:
    if not told.found.lost:
        return
    lost = ", ".join(told.found.lost)
    if leased := [each for each in told.found.lost if each in told.leases]:
        told.helps.append(
            "under maintenance, so nothing is done for them until that ends (`bookie autorecovery maintenance`): "
            + ", ".join(
                f"{each} (by {told.leases[each].lease.by}: {told.leases[each].lease.reason})" for each in leased
            )
        )
    told.needs.append(f"not registered: {lost}; after the cluster's delay such a bookie counts as lost")
    told.helps += [f"bookie {each}: {whereabouts.sentence(told.whereabouts[each])}" for each in told.found.lost]
    if told.found.must_end:
        told.helps.append(
            "it has no end yet: it is recovered first"
            + (", once its writer shows no sign of life" if told.metadata.state is LedgerState.OPEN else "")
        )
    named = mending.named(told.metadata)
    free = [each.bookie_id for each in shared.watcher.candidates() if each.bookie_id not in named]
    if free:
        told.helps.append(f"a worker copies what they held to others ({len(free)} could take it), and names those")
    else:
        told.helps.append(
            f"there is no other writable bookie to take their place: start one more, or bring {lost} back, even with"
            " empty disks: holes are filled in place"
        )


def _tell_of_waits(told: Explanation) -> None:
    for bookie_id, held in told.holdings.items():
        if held.reason:
            told.needs.append(f"bookie {bookie_id} does not say what it holds: {held.reason}")
            told.helps.append(f"`bookie integrity status --admin ...` of {bookie_id} says whether it repairs itself")
    named = " ".join(f"--bookie {bookie_id}" for bookie_id, held in told.holdings.items() if held.in_limbo)
    if named and told.metadata.is_closed:
        told.helps.append(
            f"where a repair has stopped at this ledger although every bookie serves, nobody has what it lacks: `bookie"
            f" ledger accept-loss {told.ledger_id} {named} --reason TEXT --dry-run` says which entries those are; with"
            " --yes it declares them lost"
        )
    if told.metadata.state is LedgerState.IN_RECOVERY:
        told.needs.append("it is IN_RECOVERY: nobody has decided yet where it ends")
        told.helps.append(
            f"`bookie ledger recover {told.ledger_id}` tries, and says which bookies cannot answer; if these are"
            " emptied for good, `bookie ledger accept-loss`"
        )


def _tell_of_lock(told: Explanation, wall_ms: int) -> None:
    lock = told.lock
    if lock is None:
        return
    whose = f"its lock {lock.path} (holder {lock.holder or 'not named'}, made {_ago(lock.made_ms, wall_ms)})"
    if not lock.session:
        told.helps.append(
            f"{whose} belongs to no session, so no repairer has it: the next worker of ours removes it; Java's pass"
            " this ledger over as long as it is there"
        )
    elif lock.session == NOT_KNOWN:
        told.helps.append(
            f"its lock {lock.path} may not be read, so nobody here knows whose it is: `bookie metadata acl`"
        )
    else:
        told.helps.append(
            f"{whose} is held by session {lock.session:#x}: nobody else repairs it until that session ends, or its"
            " process gives the lock back"
        )


def _ago(made_ms: int, wall_ms: int) -> str:
    return f"{max(0, wall_ms - made_ms) // 1000} s ago"


def outcome(told: Explanation) -> errors.Answer:
    """Return POSITIVE for whole, NEGATIVE when bookies that answer lack entries, UNKNOWN when nobody can tell: a bookie
    that is not registered may have all it should."""
    if told.found.fills:
        return errors.Answer.NEGATIVE
    return errors.Answer.POSITIVE if told.found.is_whole and not told.needs else errors.Answer.UNKNOWN
