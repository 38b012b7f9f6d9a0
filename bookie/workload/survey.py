"""Asks a live fleet two questions: which ledgers name each bookie, and does a bookie refuse adds to its old ledgers?

`survey` reads metadata only. `probe_fences` asks one bookie, ledger by ledger, to take one more entry as a writer
would. A bookie refuses it for a fenced ledger, and for one in limbo (docs/INTEGRITY.md). Use it only for ledgers that
the bookie must protect: where the protection is missing, the add succeeds, and that is the finding.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import Client
from bookie.metadata.ledger import LedgerState
from bookie.wire.digest import Digest, DigestType

# Far beyond what anybody wrote: the probe never meets an entry that is there.
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
    """Ask `bookie_id` to take one more entry of each of `ledgers`; count its refusals."""
    found = Fences()
    for ledger_id in ledgers:
        metadata = await client.metadata(ledger_id)
        if not metadata.last_segment_names(bookie_id):
            found.moved += 1
            continue
        digest = Digest(DigestType(metadata.digest_type), metadata.password)
        body = b"".join(digest.seal(ledger_id, PROBE_ENTRY, EntryId(-1), 5, b"probe"))
        try:
            await client.bookies.add(bookie_id, ledger_id, PROBE_ENTRY, body, digest.master_key)
        except errors.LedgerFenced:
            found.fenced += 1
        except (errors.StorageFailed, errors.UnknownLedgerState):
            found.refused += 1
        except errors.BookieError as error:
            found.unknown.append(f"ledger {ledger_id}: {type(error).__name__}: {error}")
        else:
            found.unfenced.append(ledger_id)
    return found
