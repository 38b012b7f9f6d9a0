"""Closes a ledger whose end nobody can decide any more, after a person gave up what named bookies held of it.

The one way out for ledgers of which too many bookies lost everything (spec/metadata.md#M49). It is an ordinary recovery
in which the "unknown" of the named bookies counts as "no"; who, what and why stand in the ledger's own record from the
very write that closes it. Never: while a named bookie might still answer, and never without an explicit list of names.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import LAST_ENTRY, BookieId, IdRange, LedgerId
from bookie.base.text import one_line
from bookie.client.net.bookies import BookieClient
from bookie.client.repair import reading_losses, recovery, remains
from bookie.client.shared import Shared
from bookie.metadata import loss_signature, paths, recorded_losses
from bookie.metadata.ledger import LedgerMetadata
from bookie.metadata.loss_signature import Seal, SigningKey
from bookie.ports.metadata_store import Stored, find
from bookie.quorum import given_up as rules
from bookie.quorum.given_up import GivenUp, Hearing

_RUNS_SHOWN = 8
CLOSED = "closed"  # why nothing is given up: there is no end to decide


@dataclass(frozen=True, slots=True)
class LossPlan:
    """What would be given up. `version`: of the record that was looked at."""

    ledger_id: LedgerId
    metadata: LedgerMetadata
    version: int
    given_up: GivenUp


async def plan(
    shared: Shared,
    ledger_id: LedgerId,
    bookies: Collection[BookieId],
    *,
    by: str,
    reason: str,
    after_crash: bool = False,
    tail: bool = False,
    key: SigningKey | None = None,
) -> LossPlan:
    """Ask about every named bookie; return what would be given up. Changes nothing. `key`: signs the record.

    Raises GrantRefused with every reason why not, LedgerMissing, MetadataError, BadInput without names or reason.
    """
    if not bookies or not reason.strip():
        raise errors.BadInput("giving up what bookies held needs their names, and the reason, for the record")
    ledgers = shared.ledgers
    await ledgers.store.sync(ledgers.path(ledger_id))
    metadata, version = await ledgers.get(ledger_id)
    if metadata.is_closed:
        raise errors.GrantRefused(
            CLOSED, f"ledger {ledger_id} is closed at entry {metadata.last_entry}: there is no end to decide"
        )
    made = await find(ledgers.store, ledgers.path(ledger_id))
    gone = frozenset(await shared.watcher.look(sorted(bookies)))
    seen = [await _hear(shared, ledger_id, metadata, made, each, is_gone=each in gone) for each in sorted(bookies)]
    reasons = [why for why in (rules.why_not(each, after_crash=after_crash) for each in seen) if why]
    if reasons:
        raise errors.GrantRefused("may_answer", f"ledger {ledger_id}: nothing is given up: {'; '.join(reasons)}")
    in_doubt = frozenset(bookies) - gone
    sessions = tuple((each, shared.watcher.session(each)) for each in sorted(in_doubt))
    claims = tuple(word for word, said in (("afterCrash", after_crash), ("tail", tail)) if said)
    seal = await seal_of(shared, ledger_id, key)
    given_up = GivenUp(in_doubt, gone, sessions, by=by, reason=reason, tail=tail, claims=claims, seal=seal)
    return LossPlan(ledger_id, metadata, version, given_up)


async def accept(shared: Shared, wanted: LossPlan) -> LedgerMetadata:
    """Close the ledger; return its record. May be repeated after any error: the next `plan` looks anew.

    Raises QuorumNotReached while bookies that are not named do not answer, GrantRefused when entries behind the end
    would be given up too, BookieUnavailable when a named one restarted since `plan`, and the errors of a recovery.
    """
    await shared.ledgers.get_again(wanted.ledger_id, wanted.metadata)
    metadata, _ = await recovery.recover(shared, wanted.ledger_id, given_up=wanted.given_up)
    return metadata


async def seal_of(shared: Shared, ledger_id: LedgerId, key: SigningKey | None) -> Seal | None:
    """Return what signs a note in this ledger's record; None where nobody signs. Raises BadInput in a cluster without
    an id: what is signed would be as good in any other one."""
    if key is None:
        return None
    return Seal(key, await reading_losses.place_of(shared.ledgers, ledger_id))


def record_of(metadata: LedgerMetadata) -> dict[str, object] | None:
    """Return what was given up when this ledger was closed; None when nothing was, or when the ledger's maker wrote
    something else there."""
    try:
        found = json.loads(dict(metadata.custom).get(recorded_losses.ENDED, b"null"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def told(ledger_id: LedgerId, metadata: LedgerMetadata) -> str:
    """Return what became of a ledger, in a sentence: its end, and all that was ever given up of it."""
    record, acts = record_of(metadata), metadata.losses()
    if record is not None:
        record.pop(loss_signature.FIELD, None)  # who checks it asks for it (`ledger show`)
    said = [f"given up: {json.dumps(record, sort_keys=True)}"] if record else []
    said += [
        f"{each.count} entries declared lost by {one_line(each.by)} ({one_line(each.reason)}): {ranges(each.runs)}"
        for each in acts[:_RUNS_SHOWN]
    ]
    said += [f"and {len(acts) - _RUNS_SHOWN} more acts"] if len(acts) > _RUNS_SHOWN else []
    return f"ledger {ledger_id} is closed at entry {metadata.last_entry}; {'; '.join(said) or 'nothing was given up'}"


def ranges(runs: Sequence[IdRange]) -> str:
    """Return the first of these runs, for a person."""
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs[:_RUNS_SHOWN])
    return f"{shown}, ..." if len(runs) > _RUNS_SHOWN else shown


async def _hear(
    shared: Shared,
    ledger_id: LedgerId,
    metadata: LedgerMetadata,
    made: Stored | None,
    bookie_id: BookieId,
    *,
    is_gone: bool,
) -> Hearing:
    """Hear one bookie about the ledger's end. `made`: the ledger's record, which tells when it was made."""
    answer: BookieError | None = None
    if not is_gone:
        try:
            await BookieClient(shared.pool).read(bookie_id, ledger_id, LAST_ENTRY)
        except BookieError as error:
            answer = error
        # Some entries are there, and others may be lost: it says "unknown" for those alone.
        if answer is None:
            try:
                await BookieClient(shared.pool).list_groups(bookie_id, ledger_id)
            except BookieError as error:
                answer = error
    is_named = metadata.last_segment_names(bookie_id)
    return await hearing(shared, made, bookie_id, answer, is_named=is_named, is_gone=is_gone)


async def hearing(
    shared: Shared,
    made: Stored | None,
    bookie_id: BookieId,
    answer: BookieError | None,
    *,
    is_named: bool,
    is_gone: bool,
) -> Hearing:
    """Return what is known of a bookie that gave this `answer`. `made`: the ledger's record, which tells when it was
    made. Raises MetadataError."""
    store, root = shared.ledgers.store, shared.ledgers.root
    life = await find(store, paths.incarnation(root, bookie_id))
    identity = await find(store, paths.cookie(root, bookie_id))
    return Hearing(
        bookie_id,
        is_named=is_named,
        is_registered=not is_gone,
        remains=await remains.of(store, root, bookie_id),
        has_begun_anew=rules.has_begun_anew(life, identity, made),
        answer=answer,
    )
