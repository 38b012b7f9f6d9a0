"""`bookie ledger accept-loss`: closes a ledger of which named bookies lost for good what they held."""

import argparse
from typing import Any

from bookie.base import ids
from bookie.cli import output, where, who
from bookie.client.repair import accepting_loss


def add_parser(verbs: Any) -> None:
    """Add the verb to those of `bookie ledger`."""
    made = output.add_verb(
        verbs,
        "accept-loss",
        "give up what emptied bookies held of a ledger that nobody can end otherwise, and close it",
        where.add_cluster,
        output.add_json,
        output.add_consent,
        run=run,
    )
    made.add_argument("ledger", metavar="LEDGER", help="the ledger's id")
    made.add_argument(
        "--bookie", action="append", required=True, metavar="BOOKIE", help="give up what it held (may be repeated)"
    )
    made.add_argument("--reason", required=True, metavar="TEXT", help="why, for the ledger's record")
    made.add_argument("--by", metavar="NAME", help="who, for the ledger's record (USER@HOST)")
    made.add_argument(
        "--after-crash", action="store_true", help="the bookies lost it in an unclean stop, with their disks whole"
    )
    made.add_argument(
        "--give-up-tail", action="store_true", help="give up entries too that lie behind the first one given up"
    )


async def run(arguments: argparse.Namespace) -> int:
    ledger_id = ids.parse_ledger_id(arguments.ledger)
    async with where.client(arguments) as client:
        wanted = await accepting_loss.plan(
            client.shared,
            ledger_id,
            [ids.parse_bookie_id(name) for name in arguments.bookie],
            by=arguments.by or who.caller(),
            reason=arguments.reason,
            after_crash=arguments.after_crash,
            tail=arguments.give_up_tail,
        )
        named = ", ".join(sorted(wanted.given_up.in_doubt | wanted.given_up.gone))
        plan = [
            f"plan: close ledger {ledger_id} ({wanted.metadata.state.name}, bookies"
            f" {', '.join(wanted.metadata.last_segment.bookies)}) after the last entry that anybody still has",
            f"what only {named} held of it is given up for good; its writer, if there is one, is fenced off",
        ]
        if not output.consents(arguments, plan):
            return 0
        metadata = await accepting_loss.accept(client.shared, wanted)
    facts: dict[str, object] = {"ledger": ledger_id, "lastEntry": metadata.last_entry, "length": metadata.length}
    facts["acceptedLoss"] = accepting_loss.record_of(metadata)
    output.say(arguments, facts, f"ledger {ledger_id} is closed at entry {metadata.last_entry}")
    return 0
