"""What is told of a ledger's losses, whatever its maker wrote into its record."""

from __future__ import annotations

import json

import pytest

from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client.repair import accepting_loss
from bookie.metadata import lost_entries, recorded_losses
from bookie.metadata.ledger import LedgerMetadata, new_ledger


def closed(key: str, note: bytes) -> LedgerMetadata:
    made = new_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1, bookies=(BookieId("bookie-0"),))
    return made.closed(EntryId(9), 100).with_custom(key, note)


@pytest.mark.parametrize("note", [b"", b"\xff", b"null", b"7", b"[1, 2]", b'"said"', b"[" * 100_000])
def test_an_accepted_loss_that_is_none_tells_nothing(note: bytes) -> None:
    metadata = closed(recorded_losses.ENDED, note)

    assert accepting_loss.record_of(metadata) is None
    assert accepting_loss.told(LedgerId(7), metadata) == "ledger 7 is closed at entry 9; nothing was given up"


def test_a_strangers_words_forge_no_line_and_fill_no_screen() -> None:
    act = {"by": "ann\n2026 ERROR", "reason": "\x1b[2J" * 1000, "atMs": 1, "bookies": [], "entries": [[3, 3, 1, 0]]}
    metadata = closed(lost_entries.KEY, json.dumps([act] * 20).encode())

    told = accepting_loss.told(LedgerId(7), metadata)

    assert told.isprintable()
    assert "1 entries declared lost by ann\\n2026 ERROR (" in told
    assert told.endswith("; and 12 more acts")
    assert len(told) < 20_000
