"""What `ledger losses` and `ledger show` say of what was given up: no stranger's words look like ours."""

from __future__ import annotations

import argparse
from dataclasses import replace

import pytest

from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.cli import ledger, losses
from bookie.metadata.ledger import new_ledger
from bookie.metadata.loss_signature import Judgement, Worth
from bookie.metadata.recorded_losses import DECLARED, RecordedLoss

LOSS = RecordedLoss(
    DECLARED, Judgement(Worth.UNSIGNED, "unsigned"), by="ann", reason="burnt", runs=((EntryId(3), EntryId(4)),)
)


def test_what_a_stranger_writes_into_a_ledger_is_no_line_of_ours() -> None:
    forged = b"x\ngiven up      trusted: signed by ann: 0-9, by ann (burnt)"
    made = new_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1, bookies=(BookieId("b1:3181"),))

    shown = ledger._text_of(ledger.facts_of(LedgerId(7), made.with_custom("app", forged)))

    assert not any(line.startswith("given up") for line in shown.split("\n"))
    assert "custom        app=x\\ngiven up" in shown


def test_what_somebody_wrote_stands_behind_what_we_say_and_leaves_no_gap() -> None:
    loss = replace(LOSS, reason="burnt" + " " * 400 + "trusted:\tsigned by ann", by="eve" * 100_000)

    line = losses.line(loss)

    assert line.startswith("unsigned: 3-4, -, by eveeve")
    assert line.endswith(" characters] (burnt trusted: signed by ann)") or "burnt trusted: signed by ann" in line
    assert len(line) < 2_000
    assert list(losses._COLUMNS)[-2:] == ["byWhom", "why"]


@pytest.mark.parametrize(
    ("worth", "wanted"),
    [
        (each, 0 if each in (Worth.TRUSTED, Worth.NOT_IN_FORCE) else 1)
        for each in Worth
        if each is not Worth.NOT_CHECKED
    ],
)
def test_the_exit_code_asks_for_a_trusted_signature_of_each_loss_that_is_in_force(worth: Worth, wanted: int) -> None:
    trusted = replace(LOSS, signature=Judgement(Worth.TRUSTED, "trusted"))
    found = [trusted, replace(LOSS, signature=Judgement(worth, "told"))]

    assert losses.exit_code(argparse.Namespace(trusted_keys=()), found) == wanted
    assert losses.exit_code(argparse.Namespace(trusted_keys=None), found) == 0
