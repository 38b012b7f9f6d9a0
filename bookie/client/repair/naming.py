"""Looks which ledgers name given bookies in any ensemble: the one listing behind evacuation, drain and references.

A record that nobody can read may name them, so it counts (spec/metadata.md#M12), and the others are looked at. So does,
for who asks with `MayHold`, a ledger that a recovery may close in their names. Never: "none" for what could not be
looked at; an error of the metadata store goes to the caller.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, LedgerId
from bookie.client.ledgers import LedgerStore, in_batches, told_as_defect
from bookie.metadata.ledger import LedgerMetadata, LedgerState
from bookie.ports.clock import Clock
from bookie.quorum import leaving as rules

log = logging.getLogger(__name__)

# Records asked for at once while looking for ledgers. A bookie that serves beside it takes few, so that no client waits
# behind the answers for more than some milliseconds.
_BATCH, _BATCH_GENTLE = 256, 64
NO_LEDGER = LedgerId(-1)

# Whether the bookies may hold anything of a ledger that does not name them. A recovery names the bookies that it
# brought in only when it closes the ledger (spec/wire.md#W55), so in a ledger IN_RECOVERY such entries may count.
MayHold = Callable[[LedgerId], bool]
_IN_RECOVERY = (
    "IN_RECOVERY, and the bookie that leaves may hold entries of it: the recovery under way may still name it; it ends"
    " when the ledger is closed (open it with recovery)"
)
_DEPENDS = "an ack quorum of its copies is on them alone, or it is IN_RECOVERY and nobody knows yet where they are"


@dataclass(frozen=True, slots=True)
class AffectedLedger:
    """A ledger that names any of the bookies, or may soon. `must_end`: it would have to be closed before they can be
    replaced. `problem`: why its record cannot be read, in which case it may name them. `role`: its state, and how it
    names them. `is_recovered`: it names none of them, and a recovery under way may."""

    ledger_id: LedgerId
    must_end: bool = False
    problem: str = ""
    role: str = ""
    is_recovered: bool = False


async def look(
    ledgers: LedgerStore,
    bookies: Collection[BookieId],
    *,
    beside_clients: Clock | None = None,
    may_hold: MayHold | None = None,
) -> AsyncIterator[AffectedLedger | None]:
    """Yield, for each ledger that existed before this call, what names `bookies` in it, or None. Ids ascend.

    `beside_clients`: see `look_behind`. `may_hold`: see `look_at`. Raises MetadataError: then nothing is known.
    """
    async for _, batch in look_behind(ledgers, bookies, NO_LEDGER, beside_clients=beside_clients, may_hold=may_hold):
        for found in batch:
            yield found


async def look_behind(
    ledgers: LedgerStore,
    bookies: Collection[BookieId],
    after: LedgerId,
    *,
    beside_clients: Clock | None = None,
    may_hold: MayHold | None = None,
    is_for_dependents: bool = False,
) -> AsyncIterator[tuple[LedgerId, list[AffectedLedger | None]]]:
    """Yield, batch by batch, the last id of the batch and what names `bookies` in each of its ledgers, or None. Ids
    ascend from behind `after`, so a look that broke off goes on where it was. `is_for_dependents`: see `look_at`.

    `beside_clients`: the clock of a bookie that serves meanwhile: small batches, and after each a rest as long as it
    took, so that half of the time is the clients'. Raises MetadataError.
    """
    clock = beside_clients
    rest = (ledger_id async for ledger_id in ledgers.iterate() if ledger_id > after)
    async for batch in in_batches(rest, _BATCH if clock is None else _BATCH_GENTLE):
        began_ns = 0 if clock is None else clock.monotonic_ns()
        yield (
            batch[-1],
            await asyncio.gather(
                *(look_at(ledgers, each, bookies, may_hold, is_for_dependents=is_for_dependents) for each in batch)
            ),
        )
        if clock is not None:
            now_ns = clock.monotonic_ns()
            await clock.sleep_until(now_ns + (now_ns - began_ns))


async def look_at(
    ledgers: LedgerStore,
    ledger_id: LedgerId,
    bookies: Collection[BookieId],
    may_hold: MayHold | None = None,
    *,
    is_for_dependents: bool = False,
) -> AffectedLedger | None:
    """Return what names `bookies` in one ledger, or None. With `may_hold`, asked after the record was read, also what
    a recovery under way may name them in. `is_for_dependents`: only a ledger that has acknowledged entries, perhaps, on
    no others (`quorum.leaving.depends_on`). Raises MetadataError for a store that gives no answer."""
    try:
        return await _look_at(ledgers, ledger_id, bookies, may_hold, is_for_dependents=is_for_dependents)
    except errors.LedgerMissing:
        return None  # deleted meanwhile
    except errors.UNREADABLE as error:
        return AffectedLedger(ledger_id, problem=f"its record cannot be read: {error}")
    except BookieError:
        raise
    except Exception as error:  # ours, at this ledger: the others are looked at
        log.exception("error of ours at one ledger ledger_id=%d", ledger_id)
        return AffectedLedger(ledger_id, problem=told_as_defect(error))


async def _look_at(
    ledgers: LedgerStore,
    ledger_id: LedgerId,
    bookies: Collection[BookieId],
    may_hold: MayHold | None,
    *,
    is_for_dependents: bool,
) -> AffectedLedger | None:
    metadata, _ = await ledgers.get(ledger_id)
    if is_for_dependents:
        return AffectedLedger(ledger_id, role=_DEPENDS) if rules.depends_on(metadata, bookies) else None
    if not rules.is_named(metadata, bookies):
        if may_hold is None or metadata.state is not LedgerState.IN_RECOVERY or not may_hold(ledger_id):
            return None
        return AffectedLedger(ledger_id, must_end=True, role=_IN_RECOVERY, is_recovered=True)
    return AffectedLedger(ledger_id, must_end=rules.must_end_first(metadata, bookies), role=_role(metadata, bookies))


def _role(metadata: LedgerMetadata, bookies: Collection[BookieId]) -> str:
    naming = [segment for segment in metadata.segments if any(one in bookies for one in segment.bookies)]
    last = ", the last one among them" if naming and naming[-1] is metadata.segments[-1] else ""
    return f"{metadata.state.name}; {len(naming)} of its {len(metadata.segments)} ensembles name it{last}"
