"""`bookie integrity`: what a bookie sees of its own volumes, how its repair goes, and a person's grant.

A grant lets empty volumes take over an identity that had data. The command shows what the bookie reports and what will
happen, wants `--yes`, and names the evidence it saw, so that the bookie refuses when anything changed since.
"""

import argparse
import json
from typing import Any

from bookie.base import errors, units
from bookie.cli import output, where
from bookie.cli.admin_client import AdminClient

_GRANT_TTL_MS = 300_000
_HELD = ("STALE", "FOREIGN", "MOUNT_MISSING", "UNKNOWN_CONTENT", "COOKIE_MISSING")


def add_parser(nouns: Any) -> None:
    noun = nouns.add_parser("integrity", help="what a bookie sees of its volumes; its repair; grants")
    verbs = noun.add_subparsers(metavar="VERB", required=True)
    status = verbs.add_parser("status", help="how the repair goes")
    status.add_argument("--watch", action="store_true", help="go on until the repair is done")
    report = verbs.add_parser("report", help="identity, volumes and verdict, inspected now")
    grant = verbs.add_parser("grant", help="allow a bookie that lost its volumes to regenerate them from its peers")
    output.add_consent(grant)
    grant.add_argument("--wait", action="store_true", help="follow the repair until it is done")
    for verb, run in ((status, run_status), (report, run_report), (grant, run_grant)):
        where.add_admin(verb)
        output.add_json(verb)
        verb.set_defaults(run=run)


def run_status(arguments: argparse.Namespace) -> int:
    with AdminClient(where.admin_of(arguments)) as bookie:
        _follow(bookie, as_json=arguments.json, to_the_end=arguments.watch)
    return 0


def run_report(arguments: argparse.Namespace) -> int:
    with AdminClient(where.admin_of(arguments)) as bookie:
        report = bookie.report()
    print(json.dumps(report) if arguments.json else "\n".join(describe(report)))
    return 0


def run_grant(arguments: argparse.Namespace) -> int:
    with AdminClient(where.admin_of(arguments)) as bookie:
        report = bookie.report()
        problem = why_not(report)
        if problem is not None:
            raise errors.GrantRefused("not_waiting", f"no grant: {problem}")
        if not output.consents(arguments, plan(report)):
            return 0
        grant_id = _grant(bookie, report)
        output.say(arguments, {"grantId": grant_id}, f"granted {grant_id}")
        if arguments.wait:
            _follow(bookie, as_json=arguments.json, to_the_end=True)
    return 0


# ---- what people read ------------------------------------------------------------------------------------------------


def describe(report: dict[str, Any]) -> list[str]:
    """The report as lines."""
    lines = [
        f"bookie {report['bookieId']}: {report['state']}, verdict {report['verdict']}",
        f"  {report['reason'] or 'no remarks'}",
        f"  incarnation {report['incarnation']}, boot {report['bootEpoch']}, "
        f"cookie {'version ' + str(report['cookieVersion']) if report['cookiePresent'] else 'absent'}, "
        f"cluster {report['instanceId'] or '?'}",
    ]
    for volume in report["volumes"]:
        mount = volume["mount"]
        lines.append(
            f"  {volume['role']:8} {volume['name']:16} {volume['contents']:16} mount {mount['proof']}"
            f"{': ' + (volume['reason'] or mount['reason']) if volume['reason'] or mount['reason'] else ''}"
        )
    lines.append(f"  evidence {report['evidenceHash'] or '-'}")
    return lines


def why_not(report: dict[str, Any]) -> str | None:
    """Why this bookie must not be given a grant, as one sentence; None when it may."""
    if report["verdict"] in _HELD:
        return f"bookie {report['bookieId']} is held ({report['verdict']}): {report['reason']}"
    if report["state"] != "WAITING_GRANT" or report["verdict"] != "LOST":
        return f"bookie {report['bookieId']} waits for none; it is {report['state']} ({report['reason']})"
    return None


def plan(report: dict[str, Any]) -> list[str]:
    """What a grant will do, before it is done."""
    lost = ", ".join(volume["name"] for volume in report["volumes"] if volume["contents"] != "VALID")
    return [
        *describe(report),
        "plan:",
        f"  1. fence and put in limbo every ledger that bookie {report['bookieId']} may have lost something of",
        f"  2. replace its cookie (version {report['cookieVersion']}); incarnation {report['incarnation']} -> "
        f"{report['incarnation'] + 1}",
        f"  3. serve, and copy back from its peers what {lost} held",
        "  If an old copy of these volumes still exists, attach it instead: a grant makes it worthless.",
    ]


def progress_line(status: dict[str, Any]) -> str:
    """One line about a repair."""
    line = (
        f"{status['state']:14} phase {status['phase'] or '-':6} ledgers {status['ledgersDone']} done, "
        f"{status['ledgersPending']} pending, {status['ledgersLimbo']} in limbo; "
        f"{status['entriesCopied']} entries, {units.format_bytes(status['bytesCopied'])} copied"
    )
    if status["bytesPerSecond"]:
        line += f", {units.format_bytes(status['bytesPerSecond'])}/s"
    if status["blocked"]:
        first = status["blocked"][0]
        line += f"; ledger {first['ledgerId']}: {first['reason']}"
        line += f" (and {len(status['blocked']) - 1} more)" if len(status["blocked"]) > 1 else ""
    return line


def _grant(bookie: AdminClient, report: dict[str, Any]) -> str:
    """Send a grant for exactly what `report` shows; return its id."""
    import uuid

    from bookie.rpc import admin_pb2

    grant = admin_pb2.Grant(
        grant_id=f"cli-{uuid.uuid4()}",
        bookie_id=report["bookieId"],
        pod_uid=report["podUid"],
        evidence_hash=report["evidenceHash"],
        cookie_version=report["cookieVersion"],
        new_incarnation=report["incarnation"] + 1,
        operator_epoch=report["operatorEpochSeen"],
        ttl_ms=_GRANT_TTL_MS,
        issued_by="bookie integrity grant",
    )
    reply = bookie.grant(grant)
    if not reply.accepted:
        raise errors.GrantRefused(reply.refused_reason, f"the bookie refused: {reply.refused_reason}: {reply.text}")
    return grant.grant_id


def _follow(bookie: AdminClient, *, as_json: bool, to_the_end: bool) -> None:
    for status in bookie.statuses():
        print(json.dumps(status) if as_json else progress_line(status), flush=True)
        if not to_the_end:
            return
