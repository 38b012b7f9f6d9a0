"""`bookie autorecovery`: auto-recovery, ours and Java's, as the metadata store shows it, its switches, and `run`."""

import argparse
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from bookie.base.ids import BookieId
from bookie.cli import autorecovery_explain, autorecovery_maintenance, autorecovery_run, bookie_list, output, where
from bookie.client.repair import queue_progress
from bookie.client.repair.autorecovery import DELAY_S_MAX, AutoRecovery
from bookie.client.repair.queue_progress import Progress

Verb = Callable[[AutoRecovery, argparse.Namespace], Awaitable[int | None]]  # an exit code; None: 0
_WORKERS = {
    "worker": "WORKER",
    "ledgersLeft": "LEDGERS LEFT",
    "ledgersBlocked": "BLOCKED",
    "entriesDone": "COPIED",
    "entriesLeft": "TO COPY",
    "bytesLeft": "BYTES",
    "entriesPerSecond": "A SECOND",
    "secondsLeft": "S LEFT",
}
_NO_DELAY = (
    "not set yet: ours waits 60 s unless it is told otherwise, Java's not at all; `--set SECONDS` sets it for all"
)
_COLUMNS = {"ledger": "LEDGER", "missing": "MISSING", "markedSecondsAgo": "MARKED S AGO", "holder": "WORKED ON BY"}


def add_verbs(noun: argparse.ArgumentParser) -> None:
    verbs = noun.add_subparsers(metavar="VERB", required=True)
    _verb(
        verbs,
        "status",
        "show whether auto-recovery is on, which bookie audits, how many ledgers wait, and how far our workers are",
        _status,
    )
    listing = _verb(verbs, "list", "list the ledgers that are marked because they lack replicas", _list)
    output.add_bookie(listing, "--missing", "list only ledgers that lack this bookie's replicas")
    listing.add_argument("--in-progress", action="store_true", help="list only ledgers that somebody repairs now")
    _verb(verbs, "enable", "switch auto-recovery on", _switch).set_defaults(enabled=True)
    disable = _verb(verbs, "disable", "switch auto-recovery off, ours and Java's", _switch)
    disable.set_defaults(enabled=False)
    delay = _verb(verbs, "delay", "show or set how many seconds auto-recovery waits after the loss of a bookie", _delay)
    seconds = output.within("--set", 0, DELAY_S_MAX)
    delay.add_argument("--set", type=seconds, metavar="SECONDS", dest="seconds", help="set the time to this")
    autorecovery_run.add_parser(verbs)
    autorecovery_explain.add_parser(verbs)
    autorecovery_maintenance.add_parser(verbs)
    _verb(verbs, "audit", "make the auditor look for lost bookies now", _audit)


def _verb(verbs: Any, name: str, text: str, work: Verb) -> argparse.ArgumentParser:
    return output.add_verb(verbs, name, text, where.add_cluster, output.add_json, run=run, work=work)


async def run(arguments: argparse.Namespace) -> int:
    work: Verb = arguments.work
    async with where.cluster(arguments) as (store, uri, _):
        return await work(AutoRecovery(store, uri.root), arguments) or 0


async def _status(recovery: AutoRecovery, arguments: argparse.Namespace) -> None:
    workers = await recovery.reports.read()
    locks = (await recovery.locks()).values()
    left_out: list[str] = []
    entries_left, bytes_left, seconds_left = queue_progress.together(list(workers.values()))
    facts = {
        "enabled": await recovery.is_enabled(),
        "auditor": await recovery.auditor(),
        "delaySeconds": await recovery.delay_s(),
        "underReplicated": len([marked async for marked in recovery.marked(left_out)]),
        "inProgress": sum(lock.session != 0 for lock in locks),
        "entriesLeft": entries_left,
        "bytesLeft": bytes_left,
        "secondsLeft": seconds_left,
    }
    rows = [{"worker": name} | _told(progress) for name, progress in workers.items()]
    lines = [output.facts(facts), *(output.table(rows, _WORKERS) if rows else ())]
    output.say(arguments, facts | {"workers": rows}, "\n".join(lines))
    if dead := [lock.path for lock in locks if not lock.session]:
        output.tell(
            f"{len(dead)} locks belong to no session, so no repairer has them, the first is {dead[0]}: the next worker"
            " of ours that comes to such a ledger removes its lock; Java's pass the ledger over as long as it is there"
        )
    for row in (row for row in rows if row["givenUp"]):
        output.tell(f"{row['worker']} could not look at all, and tries again: {row['givenUp']}")
    _tell_of_left_out(left_out)
    await tell_if_nobody_looks(recovery)


def _tell_of_left_out(left_out: list[str]) -> None:
    if left_out:
        output.tell(
            f"more ledgers may be marked: {len(left_out)} branches of the queue may not be listed: {left_out[0]}"
        )


def _told(progress: Progress) -> dict[str, Any]:
    return {
        "ledgersLeft": progress.ledgers_left,
        "ledgersBlocked": progress.ledgers_blocked,
        "entriesDone": progress.entries_done,
        "bytesDone": progress.bytes_done,
        "entriesLeft": progress.entries_left,
        "bytesLeft": progress.bytes_left,
        "entriesPerSecond": progress.entries_per_s,
        "bytesPerSecond": progress.bytes_per_s,
        "secondsLeft": progress.seconds_left,
        "givenUp": progress.given_up,
    }


class Auditing(Protocol):
    """Which bookie audits, whether auto-recovery is on, and why the auditor's last look was broken off."""

    async def auditor(self) -> BookieId | None: ...

    async def is_enabled(self) -> bool: ...

    async def given_up(self) -> str: ...


async def tell_if_nobody_looks(recovery: Auditing) -> bool:
    """Warn the person when no auditor marks ledgers, or it could not: then an empty list does not prove that every
    replica is there. Return True when that is so."""
    if await recovery.auditor() is None:
        output.tell(
            "no bookie audits, so ledgers that lack replicas are not marked: start auto-recovery (`bookie autorecovery"
            " run`), or look with `bookie ledger check`"
        )
        return True
    if not await recovery.is_enabled():
        output.tell(
            "auto-recovery is switched off: ledgers that lost replicas since then are not marked; to mark them,"
            " `bookie autorecovery enable`"
        )
        return True
    if why := await recovery.given_up():
        output.tell(f"the auditor could not look at all ledgers, so what lacks replicas may not be marked: {why}")
        return True
    return False


async def _list(recovery: AutoRecovery, arguments: argparse.Namespace) -> int:
    """Exit code 0: what is marked, or what is repaired now; 6: nothing is marked, and nobody looks, or a part of the
    queue may not be listed."""
    wanted = arguments.missing
    now_ms = time.time() * 1000
    rows, is_named = [], False
    left_out: list[str] = []
    async for marked in recovery.marked(left_out):
        missing, marked_ms = marked.record.missing, marked.record.marked_ms
        is_named = is_named or wanted in missing
        if (wanted is not None and wanted not in missing) or (arguments.in_progress and not marked.holder):
            continue
        age_s = None if marked_ms < 0 else max(0, int(now_ms - marked_ms) // 1000)
        row = {"ledger": marked.ledger_id, "missing": list(missing), "markedSecondsAgo": age_s}
        rows.append({**row, "holder": marked.holder or None})
    if wanted is not None and not (is_named or left_out):  # nothing lacks a mistyped id either
        await bookie_list.check_known(recovery.store, recovery.root, wanted)
    output.rows(arguments, rows, _COLUMNS)
    is_blind = await tell_if_nobody_looks(recovery) and not rows and not arguments.in_progress
    _tell_of_left_out(left_out)
    return output.EXIT_OF[output.NOT_KNOWN if is_blind or left_out else output.WHOLE]


async def _switch(recovery: AutoRecovery, arguments: argparse.Namespace) -> None:
    changed = await recovery.set_enabled(enabled=arguments.enabled)
    state = "on" if arguments.enabled else "off"
    facts = {"enabled": arguments.enabled, "changed": changed}
    output.say(arguments, facts, f"auto-recovery {'is now' if changed else 'was already'} {state}")


async def _delay(recovery: AutoRecovery, arguments: argparse.Namespace) -> None:
    if arguments.seconds is not None:
        await recovery.set_delay_s(arguments.seconds)
    seconds = await recovery.delay_s()
    output.say(arguments, {"delaySeconds": seconds}, _NO_DELAY if seconds is None else f"{seconds} s")


async def _audit(recovery: AutoRecovery, arguments: argparse.Namespace) -> None:
    auditor = await recovery.trigger_audit()
    output.say(arguments, {"auditor": auditor}, f"asked {auditor}; `bookie autorecovery list` shows what it finds")
