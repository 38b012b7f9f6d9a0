"""`bookie node`: one running bookie, over its admin port: what it does now, and what it is asked to do."""

import argparse
from collections.abc import Callable
from typing import Any

from bookie.cli import integrity, output, where
from bookie.cli.admin_client import AdminClient

_BAD_COLUMNS = {"ledgerId": "LEDGER", "entryId": "ENTRY", "logId": "LOG", "offset": "OFFSET", "reason": "REASON"}

Verb = Callable[[AdminClient, argparse.Namespace], int]


def add_parser(nouns: Any) -> None:
    noun = nouns.add_parser("node", help="a running bookie: its state, read-only or not, upkeep at once")
    verbs = noun.add_subparsers(metavar="VERB", required=True)
    _verb(verbs, "show", "state, version, volumes", _show)
    _verb(verbs, "read-only", "take no more entries until it is started again or made writable", _read_only)
    _verb(verbs, "writable", "take entries again", _writable)
    _verb(verbs, "prepare-shutdown", "take no more entries and flush: it may then be ended without replay", _prepare)
    _verb(verbs, "checkpoint", "bring everything acknowledged into logs and index now", _checkpoint)
    collect = _verb(verbs, "collect-garbage", "forget deleted ledgers now, and rewrite logs if asked", _collect)
    collect.add_argument("--compact", choices=("none", "minor", "major"), default="none", help="which logs to rewrite")
    scrub = _verb(verbs, "scrub", "how the check of every entry's bytes goes, and what is bad", _scrub)
    scrub.add_argument("--start", action="store_true", help="begin a pass now")


def _verb(verbs: Any, name: str, text: str, work: Verb) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(name, help=text)
    where.add_admin(verb)
    output.add_json(verb)
    verb.set_defaults(run=run, work=work)
    return verb


def run(arguments: argparse.Namespace) -> int:
    work: Verb = arguments.work
    with AdminClient(where.admin_of(arguments)) as bookie:
        return work(bookie, arguments)


def _show(bookie: AdminClient, arguments: argparse.Namespace) -> int:
    report = bookie.report()
    output.say(arguments, report, "\n".join(integrity.describe(report)))
    return 0


def _read_only(bookie: AdminClient, arguments: argparse.Namespace) -> int:
    return _set_mode(bookie, arguments, read_only=True)


def _writable(bookie: AdminClient, arguments: argparse.Namespace) -> int:
    return _set_mode(bookie, arguments, read_only=False)


def _set_mode(bookie: AdminClient, arguments: argparse.Namespace, *, read_only: bool) -> int:
    state = bookie.set_read_only(read_only=read_only)
    output.say(arguments, {"state": state}, state)
    return 0


def _prepare(bookie: AdminClient, arguments: argparse.Namespace) -> int:
    flushed, text = bookie.prepare_shutdown()
    output.say(arguments, {"flushed": flushed, "text": text}, text)
    return 0 if flushed else 1


def _checkpoint(bookie: AdminClient, arguments: argparse.Namespace) -> int:
    bookie.checkpoint()
    output.say(arguments, {"durable": True}, "everything acknowledged is in logs and index")
    return 0


def _collect(bookie: AdminClient, arguments: argparse.Namespace) -> int:
    report = bookie.collect_garbage(arguments.compact)
    output.say(arguments, report, output.facts(report))
    return 1 if report["refused"] else 0


def _scrub(bookie: AdminClient, arguments: argparse.Namespace) -> int:
    report = bookie.scrub(start=arguments.start)
    bad = report["bad"]
    if arguments.json:
        output.say(arguments, report, "")
    else:
        output.say(arguments, report, output.facts({name: value for name, value in report.items() if name != "bad"}))
        if bad:
            output.rows(arguments, bad, _BAD_COLUMNS)
    return 1 if report["badCount"] else 0
