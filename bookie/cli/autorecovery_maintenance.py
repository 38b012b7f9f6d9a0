"""`bookie autorecovery maintenance`: planned work on one bookie, which our auto-recovery leaves alone for so long."""

import argparse
import time
from typing import Any

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.cli import bookie_list, output, where, who
from bookie.client.repair.maintenance import Maintenance
from bookie.metadata.maintenance import LEASE_S_MAX, MaintenanceLease

_COLUMNS = {"bookie": "BOOKIE", "secondsLeft": "SECONDS LEFT", "by": "BY", "reason": "REASON"}


def add_parser(verbs: Any) -> None:
    """Add the verb `maintenance`."""
    made = output.add_verb(
        verbs,
        "maintenance",
        "list bookies under maintenance, or say that one is: our auto-recovery takes its absence for no loss",
        where.add_cluster,
        output.add_json,
        run=run,
        judge=_judge,
    )
    output.add_bookie(made, text="the bookie's id; without one, list", nargs="?")
    seconds = output.within("--seconds", 1, LEASE_S_MAX)
    made.add_argument("--seconds", type=seconds, metavar="N", help="from now, at most a day; the last word counts")
    made.add_argument("--reason", default="", metavar="TEXT", help="why, for others")
    made.add_argument("--by", metavar="NAME", help="who (USER@HOST)")
    made.add_argument("--end", action="store_true", help="it is over")


def _judge(arguments: argparse.Namespace) -> None:
    if arguments.end == (arguments.seconds is not None) and arguments.bookie:
        raise errors.BadInput("say how long the bookie is under maintenance (--seconds), or that it is over (--end)")
    if not arguments.bookie and (arguments.end or arguments.seconds is not None):
        raise errors.BadInput("which bookie? `bookie cluster list-bookies` shows them")
    if arguments.seconds is not None:
        MaintenanceLease(arguments.seconds, arguments.by or who.caller(), arguments.reason)


async def run(arguments: argparse.Namespace) -> int:
    async with where.cluster(arguments) as (store, uri, _):
        leases = Maintenance(store, uri.root)
        if not arguments.bookie:
            output.rows(arguments, await rows(leases), _COLUMNS)
            return 0
        bookie_id: BookieId = arguments.bookie
        facts: dict[str, Any] = {"bookie": bookie_id}
        if arguments.end:
            facts["ended"] = await leases.end(bookie_id)
            if not facts["ended"]:  # of a mistyped id the right one still is
                await bookie_list.check_known(store, uri.root, bookie_id)
            said = "is not under maintenance any more" if facts["ended"] else "was not under maintenance"
            output.say(arguments, facts, f"bookie {bookie_id} {said}")
            return 0
        await bookie_list.check_known(store, uri.root, bookie_id)
        by = arguments.by or who.caller()
        await leases.take(bookie_id, MaintenanceLease(arguments.seconds, by, arguments.reason))
        facts |= {"seconds": arguments.seconds, "by": by, "reason": arguments.reason}
        output.say(arguments, facts, f"bookie {bookie_id} is under maintenance for {arguments.seconds} s")
        output.tell(
            "our auto-recovery leaves it alone for so long; an auditor or worker of Java's knows no such lease, only"
            " the switch, `bookie autorecovery disable`"
        )
    return 0


async def rows(leases: Maintenance) -> list[dict[str, Any]]:
    """Return the leases that have not ended, for a table. Raises MetadataError."""
    now_ms = int(time.time() * 1000)
    return [
        {
            "bookie": bookie_id,
            "secondsLeft": (stored.until_ms - now_ms) // 1000,
            "by": stored.lease.by,
            "reason": stored.lease.reason,
        }
        for bookie_id, stored in (await leases.leases()).items()
        if stored.until_ms > now_ms
    ]
