"""Asks a live fleet two questions: which ledgers name each bookie, and does a bookie refuse adds to its old ledgers?

`survey` reads metadata only. `probe_fences` asks one bookie, ledger by ledger, to take an entry as a writer would. A
bookie refuses it for a fenced ledger, and for one in limbo (docs/INTEGRITY.md). Where the protection is missing the add
succeeds, and that is the finding. So the entry is one that the bookie should have, with the bytes that the ledger has:
taken, it changes nothing. Only where no bookie gives one it is an entry far beyond the end, which stays.
"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import Client
from bookie.metadata.ledger import LedgerMetadata, LedgerState
from bookie.wire.digest import Digest, DigestType

# Far beyond what anybody wrote, for a ledger of which nobody gives an entry: it never meets one that is there.
PROBE_ENTRY = EntryId(2**40)


@dataclass(slots=True)
class LedgersNaming:
    """The ledgers that name one bookie; `open`: those not closed whose last segment names it."""

    ledgers: int = 0
    open: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Fences:
    """How a bookie answers a writer, counted over ledgers. A ledger is in `unfenced` if the bookie took the entry."""

    fenced: int = 0
    refused: int = 0  # limbo, or its state was lost: it will not judge an add, which a writer hears as EIO
    moved: int = 0  # the last segment no longer has the bookie: a live writer replaced it
    unfenced: list[int] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)  # no answer that proves anything


async def survey(client: Client) -> dict[str, LedgersNaming]:
    """Return the ledgers that name each bookie."""
    named: dict[str, LedgersNaming] = {}
    async for ledger_id, metadata in client.admin.ledgers():
        for bookie_id in {bookie for segment in metadata.segments for bookie in segment.bookies}:
            one = named.setdefault(bookie_id, LedgersNaming())
            one.ledgers += 1
            if metadata.state is not LedgerState.CLOSED and metadata.last_segment_names(bookie_id):
                one.open.append(ledger_id)
    return named


async def probe_fences(client: Client, bookie_id: BookieId, ledgers: Iterable[LedgerId]) -> Fences:
    """Ask `bookie_id` to take an entry of each of `ledgers`; count its refusals."""
    found = Fences()
    for ledger_id in ledgers:
        metadata = await client.metadata(ledger_id)
        if not metadata.last_segment_names(bookie_id):
            found.moved += 1
            continue
        digest = Digest(DigestType(metadata.digest_type), metadata.password)
        entry_id, body = await _entry_to_ask_with(client, bookie_id, ledger_id, metadata, digest)
        try:
            await client.bookies.add(bookie_id, ledger_id, entry_id, body, digest.master_key)
        except errors.LedgerFenced:
            found.fenced += 1
        except (errors.StorageFailed, errors.UnknownLedgerState):
            found.refused += 1
        except errors.BookieError as error:
            found.unknown.append(f"ledger {ledger_id}: {type(error).__name__}: {error}")
        else:
            found.unfenced.append(ledger_id)
    return found


async def _entry_to_ask_with(
    client: Client, bookie_id: BookieId, ledger_id: LedgerId, metadata: LedgerMetadata, digest: Digest
) -> tuple[EntryId, bytes]:
    """Return the first entry that `bookie_id` should have of the last segment, from any bookie; else one that no ledger
    has."""
    first = metadata.last_segment.first_entry
    entry_id = next(
        each
        for each in map(EntryId, range(first, first + metadata.ensemble_size))
        if bookie_id in metadata.write_set(each)
    )
    for each in metadata.write_set(entry_id):
        with contextlib.suppress(errors.BookieError):
            body = await client.bookies.read(each, ledger_id, entry_id)
            digest.open(body, ledger_id, entry_id)
            return entry_id, body
    return PROBE_ENTRY, b"".join(digest.seal(ledger_id, PROBE_ENTRY, EntryId(-1), 5, b"probe"))
