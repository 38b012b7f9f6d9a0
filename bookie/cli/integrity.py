"""`bookie integrity`: what a bookie sees of its own volumes, how its repair goes, and a person's grant.

A grant lets empty volumes take over an identity that had data. The command shows what the bookie reports and what will
happen, wants `--yes`, and sends the evidence that it showed, so that the bookie refuses when anything changed since.
"""

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bookie.base import errors
from bookie.cli import output, reports, watches, where, who
from bookie.ports.admin import RepairStatus, StorageReport
from bookie.rpc import calls, encoding

if TYPE_CHECKING:
    from bookie.rpc.client import AdminClient


def add_verbs(noun: argparse.ArgumentParser) -> None:
    verbs = noun.add_subparsers(metavar="VERB", required=True)
    flags = (where.add_admin, output.add_json)
    status = output.add_verb(
        verbs, "status", "show how a bookie's repair goes; exit code 6 while it is not done", *flags, run=run_status
    )
    status.add_argument("--watch", action="store_true", help="print every step until the repair is done")
    output.add_verb(
        verbs,
        "report",
        "make a bookie look at its volumes now, and show its identity, volumes and verdict",
        *flags,
        run=run_report,
    )
    grant = output.add_verb(
        verbs, "grant", "allow a bookie that lost its volumes to rebuild them from its peers", *flags, run=run_grant
    )
    output.add_consent(grant)
    grant.add_argument(
        "--give-up-stale",
        action="store_true",
        help="also for volumes that went back in time: keep what they have, give up what they lack",
    )
    grant.add_argument("--wait", action="store_true", help="print every step until the repair is done")


def run_status(arguments: argparse.Namespace) -> int:
    with where.admin(arguments) as bookie:
        return follow(bookie, as_json=arguments.json, to_the_end=arguments.watch)


def run_report(arguments: argparse.Namespace) -> int:
    with where.admin(arguments) as bookie:
        report = bookie.ask(calls.storage_report(fresh=True))
    print(json.dumps(encoding.to_json(report)) if arguments.json else "\n".join(reports.describe(report)))
    return 0


def run_grant(arguments: argparse.Namespace) -> int:
    with where.admin(arguments) as bookie:
        report = bookie.ask(calls.storage_report(fresh=True))
        problem = reports.why_not(report, gives_up_stale=arguments.give_up_stale)
        if problem is not None:
            raise errors.GrantRefused("not_waiting", f"no grant was given: {problem}")
        if not output.consents(arguments, reports.plan(report)):
            return 0
        grant_id = _grant(bookie, report, accepts_stale=arguments.give_up_stale)
        output.say(arguments, {"grantId": grant_id}, f"granted {grant_id}")
        if arguments.wait:
            return follow(bookie, as_json=arguments.json, to_the_end=True)
    return 0


def _grant(bookie: "AdminClient", report: StorageReport, *, accepts_stale: bool) -> str:
    """Send a grant; return its id."""
    grant = reports.grant_for(report, f"bookie integrity grant by {who.caller()}", accepts_stale=accepts_stale)
    answer = bookie.ask(calls.grant(grant))
    if not answer.is_accepted:
        raise errors.GrantRefused(answer.refused_reason, f"the bookie refused: {answer.refused_reason}: {answer.text}")
    return grant.grant_id


def follow(bookie: "AdminClient", *, as_json: bool, to_the_end: bool) -> int:
    """Print how the repair goes, now or until it is done. Return 0 when it is done, 6 when the bookie does not tell."""

    def show(status: RepairStatus) -> None:
        print(json.dumps(encoding.to_json(status)) if as_json else reports.progress_line(status), flush=True)

    last, cut_off = watches.follow(_steps(bookie, to_the_end=to_the_end), show)
    if any(status.done for status in last):
        return 0
    output.tell(_not_done(None if to_the_end or not last else last[0], cut_off))
    return output.EXIT_OF[output.NOT_KNOWN]


def _steps(bookie: "AdminClient", *, to_the_end: bool) -> Iterator[RepairStatus]:
    for status in bookie.follow(calls.repair_status()):
        yield status
        if status.done or not to_the_end:
            return


def _not_done(status: RepairStatus | None, cut_off: str) -> str:
    """Return why nothing is known of the repair's end. `status`: the one look that was wanted; None: its end was."""
    if cut_off or status is None:
        why = "the bookie stopped answering before its repair was done, so nobody knows how the repair ended; ask again"
        return f"{cut_off}: {why}" if cut_off else why
    return reports.left_of_repair(status)
