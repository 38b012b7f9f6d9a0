"""`bookie cluster references`: which ledgers still name a bookie, and how; it only looks (spec/metadata.md#M42)."""

import argparse
from typing import Any

from bookie.cli import bookie_list, output, where
from bookie.client import cluster
from bookie.client.repair.forgetting import Survey
from bookie.ports.admin import References
from bookie.rpc import encoding

_COLUMNS = {"ledgerId": "LEDGER", "reason": "STATE, AND HOW IT NAMES THE BOOKIE"}


def add_parser(verbs: Any) -> None:
    """Add the verb to those of `bookie cluster`."""
    parser = output.add_verb(
        verbs,
        "references",
        "count the ledgers that name a bookie in any ensemble, and show the first; what cannot be read counts",
        where.add_cluster,
        output.add_json,
        run=run,
    )
    output.add_bookie(parser)


async def run(arguments: argparse.Namespace) -> int:
    """Exit code 0: nothing names it. 1: something does, or may. 3: the cluster does not know such a bookie."""
    async with where.cluster(arguments) as (store, uri, world):
        found = await Survey(arguments.bookie, world.clock).finish(await cluster.open_ledgers(store, uri))
        if not found.count:
            await bookie_list.check_known(store, uri.root, arguments.bookie)
    return tell(arguments, found)


def tell(arguments: argparse.Namespace, found: References) -> int:
    """Print what was found; return the exit code."""
    shown = encoding.to_json(found)
    if arguments.json:
        output.say(arguments, shown, "")
    else:
        unreadable = f", {found.unreadable} of them because their records cannot be read" if found.unreadable else ""
        print(f"{found.count} ledgers name {found.bookie_id}{unreadable}")
        if found.count:
            output.rows(arguments, shown["first"], _COLUMNS)
    return 1 if found.count else 0
