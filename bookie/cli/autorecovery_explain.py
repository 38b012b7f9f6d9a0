"""`bookie autorecovery explain LEDGER`: what one ledger lacks, what would be done, and what stands against it."""

import argparse
import time
from typing import Any

from bookie.base.errors import Answer
from bookie.cli import output, where

_COLUMNS = {
    "bookie": "BOOKIE",
    "standing": "STANDING",
    "missing": "MISSING",
    "firstMissing": "FIRST",
    "problem": "PROBLEM",
}
# As `ledger check --listed` says it: bookies were asked for their lists, and no byte was read.
_OUTCOMES = {Answer.POSITIVE: output.LISTED, Answer.NEGATIVE: output.DAMAGE, Answer.UNKNOWN: output.NOT_KNOWN}


def add_parser(verbs: Any) -> None:
    """Add the verb `explain`."""
    made = output.add_verb(
        verbs,
        "explain",
        "tell what a ledger lacks, what auto-recovery would do about it, and what stands against it",
        where.add_cluster,
        output.add_json,
        run=run,
    )
    output.add_ledger(made)


async def run(arguments: argparse.Namespace) -> int:
    from bookie.client.repair import explaining

    async with where.client(arguments) as client:
        with output.told_if_slow(f"the bookies of ledger {arguments.ledger}"):
            told = await explaining.explain(client.shared, arguments.ledger)
    outcome = _OUTCOMES[explaining.outcome(told)]
    short = {each.bookie_id: each for each in told.found.fills}
    rows: list[dict[str, Any]] = []
    for bookie_id, standing in told.standings.items():
        held, lacks = told.holdings.get(bookie_id), short.get(bookie_id)
        is_known = held is not None and held.groups is not None
        # One that is not registered is judged as lost; what a person wants to know is what became of it.
        word = told.whereabouts[bookie_id].value if bookie_id in told.whereabouts else standing.value
        row: dict[str, Any] = {"bookie": bookie_id, "standing": word, "missing": None, "firstMissing": None}
        if is_known:
            row |= {"missing": 0} if lacks is None else {"missing": lacks.count, "firstMissing": lacks.first}
        rows.append(row | {"problem": "" if held is None or is_known else held.reason})
    lock = told.lock
    marked_ms = -1 if told.mark is None else told.mark.record.marked_ms
    facts = {
        "ledger": arguments.ledger,
        "state": told.metadata.state.name,
        "outcome": outcome,
        "marked": None if told.mark is None else list(told.mark.record.missing),
        "markedSecondsAgo": None if marked_ms < 0 else max(0, int(time.time() * 1000 - marked_ms) // 1000),
        "workedOnBy": (lock.worker if lock else "") or None,
        "bookies": rows,
        "misplaced": [
            {"firstEntry": each.first_entry, "bookies": list(each.bookies), "reason": each.reason}
            for each in told.misplaced
        ],
        "needs": told.needs,
        "helps": told.helps,
    }
    shown = {key: value for key, value in facts.items() if key not in ("bookies", "misplaced", "needs", "helps")}
    lines = [output.facts(shown), *output.table(rows, _COLUMNS)]
    lines += [f"placed  from entry {each.first_entry} on: {each.reason}" for each in told.misplaced]
    lines += [f"needs  {each}" for each in told.needs] + [f"helps  {each}" for each in told.helps]
    output.say(arguments, facts, "\n".join(lines))
    if not told.metadata.is_closed:
        output.tell(f"ledger {arguments.ledger} is {told.metadata.state.name}: of its last segment nothing was judged")
    if told.found.is_whole:
        output.tell(
            f"bookies' lists of entries were compared; `bookie ledger check {arguments.ledger} --read` reads the bytes"
        )
    return output.EXIT_OF[outcome]
