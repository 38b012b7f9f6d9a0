"""`bookie node`: shows what one running bookie does, and gives it orders, over its admin port."""

import argparse
import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bookie.base import errors
from bookie.base.units import format_bytes
from bookie.cli import output, reports, watches, where
from bookie.ports.admin import (
    Compaction,
    DrainAction,
    DrainStatus,
    FillAction,
    FillStatus,
    GarbageReport,
    OpenLedgers,
    State,
)
from bookie.rpc import calls, encoding

if TYPE_CHECKING:
    from bookie.rpc.client import AdminClient

_BLOCKED_COLUMNS = {"ledgerId": "LEDGER", "reason": "NOT MOVED YET BECAUSE"}
_BAD_COLUMNS = {"ledgerId": "LEDGER", "entryId": "ENTRY", "logId": "LOG", "offset": "OFFSET", "reason": "REASON"}

_BYTES_PER_SECOND_MAX = 2**63 - 1  # of the message that carries it (rpc/admin.proto)
_LOOK_INTERVAL_S = 1.0
_FIRST_LOOKS_MAX = 40  # ten seconds

Verb = Callable[["AdminClient", argparse.Namespace], int]


def add_verbs(noun: argparse.ArgumentParser) -> None:
    verbs = noun.add_subparsers(metavar="VERB", required=True)
    _verb(verbs, "show", "show a running bookie's state, verdict, identity and volumes", _show)
    read_only = _verb(
        verbs, "read-only", "make a bookie take no more entries, until it is restarted or made writable", _set_mode
    )
    read_only.set_defaults(read_only=True)
    _verb(verbs, "writable", "make a bookie take entries again", _set_mode).set_defaults(read_only=False)
    _verb(
        verbs,
        "prepare-shutdown",
        "make a bookie take no more entries and flush, so that it starts again without replay",
        _prepare,
    )
    _verb(verbs, "checkpoint", "make a bookie write everything acknowledged to entry logs and index now", _checkpoint)
    collect = _verb(verbs, "collect-garbage", "make a bookie drop what it holds of deleted ledgers, now", _collect)
    collect.add_argument(
        "--compact",
        choices=("none", "minor", "major"),
        default="none",
        help="also rewrite entry logs that are mostly garbage (minor), or partly (major)",
    )
    release = _verb(
        verbs,
        "release-garbage",
        "let a bookie delete the ledgers that its brake on mass deletion holds, after you have looked at them",
        _release,
    )
    output.add_consent(release)
    drain = _verb(
        verbs,
        "drain",
        "let a bookie leave alive: it takes no more entries, and moves what it holds to others while it serves",
        _drain,
    )
    what = drain.add_mutually_exclusive_group()
    what.add_argument("--status", action="store_true", help="only show how far it is")
    what.add_argument("--cancel", action="store_true", help="stay after all: what is moved stays moved")
    drain.add_argument(
        "--open-ledgers",
        choices=[each.value for each in OpenLedgers],
        help="wait until writers close their ledgers or replace the bookie (default), or close the ledgers, which"
        " fences off their writers",
    )
    output.add_bookie(drain, "--dead", "empty this other bookie instead, which is dead for good")
    drain.add_argument(
        "--bytes-per-second",
        type=output.within("--bytes-per-second", 0, _BYTES_PER_SECOND_MAX),
        metavar="N",
        help="copy at most so many (default, and 0: as repairs do)",
    )
    drain.set_defaults(judge=refuse_orders)
    scrub = _verb(
        verbs, "scrub", "show how far a bookie has checked every entry's bytes, and which entries are bad", _scrub
    )
    scrub.add_argument("--start", action="store_true", help="begin a pass over all entries now")
    fill = _verb(
        verbs,
        "fill-holes",
        "show whether a bookie lacks entries that were written while it was away, and make it fetch them",
        _fill_holes,
    )
    fill.add_argument("--start", action="store_true", help="begin to look and to fetch now, unless it does so already")
    fill.add_argument("--watch", action="store_true", help="print every step until it ends")


def _verb(verbs: Any, name: str, text: str, work: Verb) -> argparse.ArgumentParser:
    return output.add_verb(verbs, name, text, where.add_admin, output.add_json, run=run, work=work)


def run(arguments: argparse.Namespace) -> int:
    work: Verb = arguments.work
    with where.admin(arguments) as bookie:
        return work(bookie, arguments)


def _show(bookie: "AdminClient", arguments: argparse.Namespace) -> int:
    report = bookie.ask(calls.storage_report(fresh=True))
    output.say(arguments, encoding.to_json(report), "\n".join(reports.describe(report)))
    return 0


def _set_mode(bookie: "AdminClient", arguments: argparse.Namespace) -> int:
    state = bookie.ask(calls.set_read_only(arguments.read_only)).value
    output.say(arguments, {"state": state}, state)
    if arguments.read_only:
        return 0
    if bookie.ask(calls.storage_report(fresh=False)).is_draining:
        output.tell("it stays read-only because it drains: `bookie node drain --cancel` ends that")
        return 1
    if state == State.READ_ONLY.value:
        output.tell("it stays read-only by itself: a volume is full, or failed; its log says which (`read-only until`)")
        return 1
    return 0


def _prepare(bookie: "AdminClient", arguments: argparse.Namespace) -> int:
    flushed, text = bookie.ask(calls.prepare_shutdown())
    output.say(arguments, {"flushed": flushed, "text": text}, text)
    return 0 if flushed else 1


def _checkpoint(bookie: "AdminClient", arguments: argparse.Namespace) -> int:
    bookie.ask(calls.checkpoint())
    output.say(arguments, {"durable": True}, "everything acknowledged is now in entry logs and index")
    return 0


def _collect(bookie: "AdminClient", arguments: argparse.Namespace) -> int:
    report = bookie.ask(calls.collect_garbage(Compaction(arguments.compact)))
    shown = encoding.to_json(report)
    output.say(arguments, shown, output.facts(shown))
    return 1 if report.refused or report.held_reason else 0


def _release(bookie: "AdminClient", arguments: argparse.Namespace) -> int:
    """Let exactly as many ledgers go as the plan shows; if there are more by then, the bookie holds them again."""
    held = bookie.ask(calls.collect_garbage(Compaction.NONE, looks_only=True))
    if not held.held_reason:
        output.say_nothing_to_do(arguments, encoding.to_json(held), "nothing is held")
        return 0
    if not output.consents(arguments, release_plan(held)):
        return 0
    report = bookie.ask(calls.collect_garbage(Compaction.NONE, released=held.ledgers_held))
    shown = encoding.to_json(report)
    output.say(arguments, shown, output.facts(shown))
    return 1 if report.held_reason else 0


def release_plan(held: GarbageReport) -> list[str]:
    """Return the text that says what a release will delete, before it does."""
    first = ", ".join(map(str, held.held_first))
    more = ", ..." if held.ledgers_held > len(held.held_first) else ""
    return [
        held.held_reason,
        "plan:",
        f"  delete {held.ledgers_held} of {held.ledgers_seen} ledgers of this bookie "
        f"({format_bytes(held.bytes_held)}): {first}{more}",
        "  Look first: `bookie metadata show LEDGER` of some of them, and `bookie cluster show`. If this is not the",
        "  cluster you expect, or those ledgers should exist, restore the metadata store: this cannot be undone.",
    ]


def _drain(bookie: "AdminClient", arguments: argparse.Namespace) -> int:
    """Exit code 0: the order is taken; of --status: the bookie is empty. 6: it is not, or nobody looked."""
    action = _action_of(arguments)
    order = calls.drain(
        action,
        bytes_per_second=arguments.bytes_per_second or 0,
        open_ledgers=OpenLedgers(arguments.open_ledgers or OpenLedgers.WAIT.value),
        bookie_id=arguments.dead or "",
    )
    if action is not DrainAction.START or not arguments.dead:
        return tell_drain(arguments, bookie.ask(order))
    refuse_itself(arguments.dead, bookie.ask(calls.storage_report(fresh=False)).bookie_id)
    is_new = not bookie.ask(calls.drain(DrainAction.LOOK, bookie_id=arguments.dead)).is_draining
    status = _first_look(bookie, arguments.dead, bookie.ask(order))
    if error := why_not_emptied(arguments.dead, status, is_new=is_new):
        if status.is_draining and is_new:
            bookie.ask(calls.drain(DrainAction.CANCEL, bookie_id=arguments.dead))
        raise error
    return tell_drain(arguments, status)


def why_not_emptied(dead: str, status: DrainStatus, *, is_new: bool) -> errors.BookieError | None:
    """Return why the dead bookie is not emptied, as its first look shows; None when it is. `is_new`: no such drain was
    under way before. Of two orders at once the second finds the first one's, which that one ends: both are told the
    same reason, with the same exit code."""
    if not status.is_draining:
        return errors.GrantRefused(
            "ended", f"somebody ended the drain of {dead} meanwhile: `bookie node drain --dead {dead}` begins it again"
        )
    if not status.error:
        return None
    goes_on = f"a drain of before goes on trying until `bookie node drain --cancel --dead {dead}` ends it"
    what = "nothing was begun" if is_new else goes_on
    kind = errors.BookieUnknown if status.is_unknown else functools.partial(errors.GrantRefused, "not_begun")
    return kind(f"{status.error}; {what}")


def _action_of(arguments: argparse.Namespace) -> DrainAction:
    return DrainAction.CANCEL if arguments.cancel else DrainAction.LOOK if arguments.status else DrainAction.START


def refuse_orders(arguments: argparse.Namespace) -> None:
    """Raise BadInput when the command only looks, or cancels, and is told how to drain: nothing would come of that."""
    told = {"--open-ledgers": arguments.open_ledgers, "--bytes-per-second": arguments.bytes_per_second}
    for option, value in told.items():
        if value is not None and _action_of(arguments) is not DrainAction.START:
            raise errors.BadInput(
                f"{option} is for a drain that begins or goes on: leave it out, or leave out"
                f" --{'cancel' if arguments.cancel else 'status'} (the same order again changes a drain under way)"
            )


def refuse_itself(dead: str, asked: str) -> None:
    """Raise BadInput when the bookie that is asked to empty a dead one is that one."""
    if dead == asked:
        raise errors.BadInput(
            f"bookie {dead} is the one that is asked, so it is not dead: leave out --dead if it is to empty itself, or"
            " ask another one (--admin)"
        )


def _first_look(bookie: "AdminClient", dead: str, status: DrainStatus) -> DrainStatus:
    """Return the status after the drain's first look at the ledgers, which shows a mistyped id; or the last one before
    the time is up, as a large cluster is looked at for long."""
    for _ in range(_FIRST_LOOKS_MAX):
        if status.error or status.ledgers_total or status.is_empty or not status.is_draining:
            break
        threading.Event().wait(_LOOK_INTERVAL_S / 4)
        status = bookie.ask(calls.drain(DrainAction.LOOK, bookie_id=dead))
    return status


def tell_drain(arguments: argparse.Namespace, status: DrainStatus) -> int:
    """Print the status of a drain; return the exit code."""
    shown = encoding.to_json(status)
    if arguments.json:
        output.say(arguments, shown, "")
    else:
        output.say(arguments, shown, output.facts({name: value for name, value in shown.items() if name != "blocked"}))
        if status.blocked:
            output.rows(arguments, shown["blocked"], _BLOCKED_COLUMNS)
    if arguments.cancel and status.is_draining:
        return 1
    if not arguments.status:
        if not arguments.cancel and not status.is_empty:
            look = "`bookie node drain --status" + (f" --dead {arguments.dead}`" if arguments.dead else "`")
            output.tell(f"the drain goes on by itself: {look} shows how far it is, and what stands against it")
        return 0
    if not status.is_draining:
        output.tell(_no_drain(arguments.dead))
    return output.EXIT_OF[output.WHOLE if status.is_empty else output.NOT_KNOWN]


def _no_drain(dead: str | None) -> str:
    """Return the sentence for a look at a drain that is not under way; `dead`: of this other bookie."""
    if dead:
        return (
            f"this bookie does not empty {dead} (a restart forgets a drain): `bookie node drain --dead {dead}` begins"
            " that"
        )
    return "this bookie does not drain (a restart forgets a drain): `bookie node drain` begins one"


def _scrub(bookie: "AdminClient", arguments: argparse.Namespace) -> int:
    report = encoding.to_json(bookie.ask(calls.scrub(start=arguments.start)))
    bad = report["bad"]
    # What a pass that never ended did not find proves nothing.
    is_whole = report["passesDone"] and not report["givenUp"]
    outcome = output.DAMAGE if report["badCount"] else output.WHOLE if is_whole else output.NOT_KNOWN
    report = {"outcome": outcome, **report}
    if arguments.json:
        output.say(arguments, report, "")
    else:
        output.say(arguments, report, output.facts({name: value for name, value in report.items() if name != "bad"}))
        if bad:
            output.rows(arguments, bad, _BAD_COLUMNS)
    if report["givenUp"]:
        output.tell(f"the last pass did not look at all entries: {report['givenUp']}")
    elif outcome == output.NOT_KNOWN and not arguments.start:
        output.tell("this bookie has not finished a pass over all its entries since it started: nothing is known yet")
    if arguments.start:
        output.tell("a pass over all entries was asked for: `bookie node scrub` shows how far it is, and what it found")
    # The command was asked to start a pass, and did; the next `node scrub` tells what the pass finds.
    return 0 if arguments.start and outcome == output.NOT_KNOWN else output.EXIT_OF[outcome]


def _fill_holes(bookie: "AdminClient", arguments: argparse.Namespace) -> int:
    (status,), cut_off = watches.follow(_fill_steps(bookie, arguments), lambda each: _say_fill(arguments, each))
    outcome = outcome_of(status)
    if cut_off:
        output.tell(f"{cut_off}: the bookie stopped answering before its look ended: ask again, with --watch")
    elif outcome == output.NOT_KNOWN and not arguments.start:
        output.tell(status.reason or "it looks still: ask again, or follow it with --watch")
    # The command was asked to start a run, and did; `--watch`, or the next look, tells what the run finds.
    is_started = arguments.start and not arguments.watch and outcome == output.NOT_KNOWN
    return 0 if is_started else output.EXIT_OF[outcome]


def _fill_steps(bookie: "AdminClient", arguments: argparse.Namespace) -> Iterator[FillStatus]:
    """Yield how the filling goes; with --watch each change until it ends."""
    status = bookie.ask(calls.fill_holes(FillAction.START if arguments.start else FillAction.LOOK))
    yield status
    while arguments.watch and (status.is_running or status.is_waiting):
        threading.Event().wait(_LOOK_INTERVAL_S)
        before, status = status, bookie.ask(calls.fill_holes(FillAction.LOOK))
        if _progress(status) != _progress(before):
            yield status


def outcome_of(status: FillStatus) -> str:
    """Return what a fill proves: nothing while one is under way or before one has ended."""
    if status.is_running or status.is_waiting or status.ended_ms_ago < 0:
        return output.NOT_KNOWN
    if status.is_whole:
        return output.WHOLE
    return output.DAMAGE if status.blocked_count else output.NOT_KNOWN


def _say_fill(arguments: argparse.Namespace, status: FillStatus) -> None:
    shown = {"outcome": outcome_of(status), **encoding.to_json(status)}
    output.say(arguments, shown, reports.fill_line(status))


def _progress(status: FillStatus) -> FillStatus:
    """Return `status` without what changes while nothing happens."""
    return replace(status, began_ms_ago=0, ended_ms_ago=min(0, status.ended_ms_ago))
