"""`bookie integrity`: what a bookie sees of its own volumes, how its repair goes, and a person's grant.

A grant lets empty volumes take over an identity that had data. The command shows what the bookie reports and what will
happen, wants `--yes`, and names the evidence it saw, so that the bookie refuses when anything changed since.
"""

import argparse
import json
import sys
from typing import Any

from bookie.base import errors, units

DEFAULT_ADMIN = "127.0.0.1:3182"
_DEADLINE_S = 20.0
_GRANT_TTL_MS = 300_000
_HELD = ("STALE", "FOREIGN", "MOUNT_MISSING", "UNKNOWN_CONTENT", "COOKIE_MISSING")


def add_parser(nouns: Any) -> None:
    noun = nouns.add_parser("integrity", help="what a bookie sees of its volumes; its repair; grants")
    verbs = noun.add_subparsers(metavar="VERB", required=True)
    status = verbs.add_parser("status", help="how the repair goes")
    status.add_argument("--watch", action="store_true", help="go on until the repair is done")
    report = verbs.add_parser("report", help="identity, volumes and verdict, inspected now")
    grant = verbs.add_parser("grant", help="allow a bookie that lost its volumes to regenerate them from its peers")
    grant.add_argument("--yes", action="store_true", help="do it; without this only the plan is shown")
    grant.add_argument("--dry-run", action="store_true", help="show the plan and end")
    grant.add_argument("--wait", action="store_true", help="follow the repair until it is done")
    for verb, run in ((status, run_status), (report, run_report), (grant, run_grant)):
        verb.add_argument(
            "--admin", default=DEFAULT_ADMIN, metavar="HOST:PORT", help=f"admin port of the bookie ({DEFAULT_ADMIN})"
        )
        verb.add_argument("--json", action="store_true", help="JSON on stdout")
        verb.set_defaults(run=run)


def run_status(arguments: argparse.Namespace) -> int:
    with _Bookie(arguments.admin) as bookie:
        _follow(bookie, as_json=arguments.json, to_the_end=arguments.watch)
    return 0


def run_report(arguments: argparse.Namespace) -> int:
    with _Bookie(arguments.admin) as bookie:
        report = bookie.report()
    print(json.dumps(report) if arguments.json else "\n".join(describe(report)))
    return 0


def run_grant(arguments: argparse.Namespace) -> int:
    with _Bookie(arguments.admin) as bookie:
        report = bookie.report()
        problem = why_not(report)
        if problem is not None:
            raise errors.GrantRefused("not_waiting", f"no grant: {problem}")
        for line in plan(report):
            print(line, file=sys.stderr)
        if arguments.dry_run:
            return 0
        if not arguments.yes:
            raise errors.GrantRefused("not_confirmed", "nothing was done; to do this, say it again with --yes")
        grant_id = bookie.grant(report)
        print(json.dumps({"grantId": grant_id}) if arguments.json else f"granted {grant_id}")
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


def _follow(bookie: "_Bookie", *, as_json: bool, to_the_end: bool) -> None:
    for status in bookie.statuses():
        print(json.dumps(status) if as_json else progress_line(status), flush=True)
        if not to_the_end:
            return


# ---- the admin port --------------------------------------------------------------------------------------------------


class _Bookie:
    """One bookie's admin port. Raises BookieUnavailable naming the address, GrantRefused."""

    def __init__(self, address: str) -> None:
        import grpc

        from bookie.rpc import admin_pb2_grpc

        self._address = address
        self._channel = grpc.insecure_channel(address)
        self._stub = admin_pb2_grpc.AdminStub(self._channel)

    def __enter__(self) -> "_Bookie":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._channel.close()

    def report(self) -> dict[str, Any]:
        from bookie.rpc import admin_pb2

        request = admin_pb2.GetStorageReportRequest(fresh=True)
        return _fields(self._call(lambda: self._stub.GetStorageReport(request, timeout=_DEADLINE_S)))

    def grant(self, report: dict[str, Any]) -> str:
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
        reply = self._call(lambda: self._stub.GrantRegeneration(grant, timeout=_DEADLINE_S))
        if not reply.accepted:
            raise errors.GrantRefused(reply.refused_reason, f"the bookie refused: {reply.refused_reason}: {reply.text}")
        return grant.grant_id

    def statuses(self) -> Any:
        """One at once, then one at each change, until done."""
        from bookie.rpc import admin_pb2

        stream = self._stub.GetRepairStatus(admin_pb2.GetRepairStatusRequest(interval_ms=1000))
        while True:
            status = self._call(lambda: next(stream, None))
            if status is None:
                return
            yield _fields(status)

    def _call(self, call: Any) -> Any:
        import grpc

        try:
            return call()
        except grpc.RpcError as error:
            details = error.details() if isinstance(error, grpc.Call) else str(error)
            raise errors.BookieUnavailable(
                f"the admin port at {self._address} did not answer ({details}); is the bookie running, and is this its "
                "adminPort?"
            ) from None


def _fields(message: Any) -> dict[str, Any]:
    """The message as JSON would show it, with every field, enums by name and numbers as numbers."""
    from google.protobuf import json_format

    return _numbers(json_format.MessageToDict(message, always_print_fields_with_no_presence=True), message.DESCRIPTOR)


def _numbers(fields: dict[str, Any], descriptor: Any) -> dict[str, Any]:
    """Protobuf's JSON shows 64-bit numbers as text; people and scripts want numbers."""
    by_name = {field.json_name: field for field in descriptor.fields}
    for name, value in fields.items():
        field = by_name[name]
        if field.message_type is not None:
            for item in value if isinstance(value, list) else [value]:
                _numbers(item, field.message_type)
        elif isinstance(value, str) and field.type not in (field.TYPE_STRING, field.TYPE_ENUM, field.TYPE_BYTES):
            fields[name] = int(value)
    return fields
