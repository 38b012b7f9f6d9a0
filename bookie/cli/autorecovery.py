"""`bookie autorecovery`: Java's auto-recovery as the metadata store shows it, and its switches."""

import argparse
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from bookie.base import ids
from bookie.cli import output, where

if TYPE_CHECKING:
    from bookie.client.autorecovery import AutoRecovery

Verb = Callable[["AutoRecovery", argparse.Namespace], Awaitable[None]]
_COLUMNS = {"ledger": "LEDGER", "missing": "MISSING", "markedSecondsAgo": "MARKED S AGO", "holder": "WORKED ON BY"}


def add_parser(nouns: Any) -> None:
    noun = nouns.add_parser("autorecovery", help="Java's auto-recovery: what it has to do, its switches")
    verbs = noun.add_subparsers(metavar="VERB", required=True)
    _verb(verbs, "status", "is it on, who audits, how much is there to do", _status)
    listing = _verb(verbs, "list", "ledgers that lack replicas", _list)
    listing.add_argument("--missing", metavar="BOOKIE", help="only those that lack this bookie's replicas")
    listing.add_argument("--in-progress", action="store_true", help="only those being repaired now")
    _verb(verbs, "enable", "let it work", _enable)
    _verb(verbs, "disable", "make it pause: for planned work on bookies", _disable)
    delay = _verb(verbs, "delay", "seconds it waits after the loss of a bookie", _delay)
    delay.add_argument("--set", type=int, metavar="SECONDS", dest="seconds")
    _verb(verbs, "audit", "have the auditor look for lost bookies now", _audit)


def _verb(verbs: Any, name: str, text: str, work: Verb) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(name, help=text)
    where.add_cluster(verb)
    output.add_json(verb)
    verb.set_defaults(run=run, work=work)
    return verb


def run(arguments: argparse.Namespace) -> int:
    from bookie.runtime import loop

    loop.run(_run(arguments))
    return 0


async def _run(arguments: argparse.Namespace) -> None:
    from bookie.client import cluster
    from bookie.client.autorecovery import AutoRecovery

    work: Verb = arguments.work
    async with where.store(arguments) as (store, uri, _):
        await cluster.instance_id(store, uri.root)  # tells when there is no cluster at all
        await work(AutoRecovery(store, uri.root), arguments)


async def _status(recovery: "AutoRecovery", arguments: argparse.Namespace) -> None:
    facts = {
        "enabled": await recovery.is_enabled(),
        "auditor": await recovery.auditor(),
        "delaySeconds": await recovery.delay_s(),
        "underReplicated": len([marked async for marked in recovery.marked()]),
        "inProgress": len(await recovery.locks()),
    }
    output.say(arguments, facts, output.facts(facts))


async def _list(recovery: "AutoRecovery", arguments: argparse.Namespace) -> None:
    wanted = None if arguments.missing is None else ids.parse_bookie_id(arguments.missing)
    now_ms = time.time() * 1000
    rows = []
    async for marked in recovery.marked():
        missing, marked_ms = marked.record.missing, marked.record.marked_ms
        if (wanted is not None and wanted not in missing) or (arguments.in_progress and not marked.holder):
            continue
        age_s = None if marked_ms < 0 else max(0, int(now_ms - marked_ms) // 1000)
        row = {"ledger": marked.ledger_id, "missing": list(missing), "markedSecondsAgo": age_s}
        rows.append({**row, "holder": marked.holder or None})
    output.rows(arguments, rows, _COLUMNS)


async def _enable(recovery: "AutoRecovery", arguments: argparse.Namespace) -> None:
    await _switch(recovery, arguments, enabled=True)


async def _disable(recovery: "AutoRecovery", arguments: argparse.Namespace) -> None:
    await _switch(recovery, arguments, enabled=False)


async def _switch(recovery: "AutoRecovery", arguments: argparse.Namespace, *, enabled: bool) -> None:
    changed = await recovery.set_enabled(enabled=enabled)
    state = "on" if enabled else "off"
    output.say(arguments, {"enabled": enabled, "changed": changed}, f"{state}{'' if changed else ', as it was'}")


async def _delay(recovery: "AutoRecovery", arguments: argparse.Namespace) -> None:
    if arguments.seconds is not None:
        await recovery.set_delay_s(arguments.seconds)
    seconds = await recovery.delay_s()
    output.say(arguments, {"delaySeconds": seconds}, "not set yet" if seconds is None else f"{seconds} s")


async def _audit(recovery: "AutoRecovery", arguments: argparse.Namespace) -> None:
    auditor = await recovery.trigger_audit()
    output.say(arguments, {"auditor": auditor}, f"asked {auditor}")
