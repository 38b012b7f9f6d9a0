"""Probes are lines that the product logs, answers that it gives, and shapes of its ledgers."""

import ast
import logging
from collections import Counter
from pathlib import Path

from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.metadata.ledger import LedgerMetadata, LedgerState, Segment
from bookie.sim import probes
from bookie.sim.probes import Probes

ROOT = Path(__file__).resolve().parents[3]


def logged() -> set[str]:
    """Every text that a module of the data plane hands to its logger."""
    found: set[str] = set()
    for path in sorted((ROOT / "bookie").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                is_ours = isinstance(node.func.value, ast.Name) and node.func.value.id == "log"
                if is_ours and isinstance(node.args[0], ast.Constant):
                    found.add(str(node.args[0].value))
    return found


def test_every_line_is_one_that_the_product_logs() -> None:
    texts = logged()
    assert texts

    assert [name for name, begin in probes.LINES.items() if not any(text.startswith(begin) for text in texts)] == []
    assert len(set(probes.NAMES)) == len(probes.NAMES)


def test_a_line_counts_by_the_text_before_its_facts_also_where_logging_is_off() -> None:
    seen = Probes()
    logging.disable(logging.CRITICAL)
    try:
        with seen.listening():
            for _ in range(2):
                logging.getLogger("bookie.client").info(
                    "ledger recovered ledger_id=%d last_entry=%d length=%d", 1, 2, 3
                )
            logging.getLogger("bookie.client").info("something else ledger_id=%d", 1)
        logging.getLogger("bookie.client").error("ledger recovered ledger_id=%d", 1)
        assert logging.root.manager.disable == logging.CRITICAL
    finally:
        logging.disable(logging.NOTSET)

    assert seen.reached == Counter({"a recovery ended a ledger": 2})


def test_answers_and_shapes_of_ledgers_count() -> None:
    seen = Probes()
    a, b, c = BookieId("a"), BookieId("b"), BookieId("c")
    found = LedgerMetadata(2, 2, 2, (Segment(EntryId(0), (a, b)),), LedgerState.IN_RECOVERY)
    elsewhere = LedgerMetadata(2, 2, 2, (Segment(EntryId(0), (a, c)),), LedgerState.IN_RECOVERY)

    seen.answered(Counter({"add EFENCED": 3, "read EIO": 1}))
    seen.metadata_changed(LedgerId(6), found)
    seen.metadata_changed(LedgerId(6), elsewhere.closed(EntryId(-1), 0))
    seen.metadata_changed(LedgerId(7), found)
    seen.metadata_changed(LedgerId(7), found.closed(EntryId(4), 50))
    seen.metadata_changed(LedgerId(7), found.closed(EntryId(4), 50))

    assert seen.reached == Counter(
        {"a writer's add was refused by a fence": 3, probes.ENDED_EMPTY: 1, probes.ENDED_ELSEWHERE: 1}
    )


def test_a_ledger_that_was_made_anew_is_a_shape() -> None:
    seen = Probes()
    found = LedgerMetadata(1, 1, 1, (Segment(EntryId(0), (BookieId("a"),)),), LedgerState.IN_RECOVERY)
    seen.metadata_changed(LedgerId(7), found)
    seen.metadata_changed(LedgerId(7), None)
    assert seen.reached == Counter()

    seen.metadata_changed(LedgerId(7), found)
    seen.metadata_changed(LedgerId(7), found.closed(EntryId(4), 50))

    assert seen.reached == Counter({probes.MADE_ANEW: 1, probes.ENDED_ANEW: 1})
