"""`bookie cluster recover-bookie` and `decommission`: copy what bookies hold to others; the second forgets the bookie.

Java's `recover` and `decommissionbookie`, done at once by this process instead of asked of auto-recovery, so that
neither an auditor nor a worker has to run. Rules: spec/metadata.md#M34.
"""

import argparse
from dataclasses import dataclass, field
from typing import Any

from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from bookie.cli import bookie_list, output, where
from bookie.client import Client
from bookie.client.repair import forgetting
from bookie.client.repair.evacuation import Evacuation
from bookie.client.repair.naming import AffectedLedger, MayHold
from bookie.ports.metadata_store import MetadataStore

_LEFT_COLUMNS = {"ledger": "LEDGER", "reason": "LEFT BECAUSE"}
# A second attempt draws other bookies and finds others done repairing; who fails twice needs a person.
_ATTEMPTS = 2
# A writer that chose the bookie just before it went may make a ledger while the others are moved.
_ROUNDS = 3
_RATE_MAX = 2**63 - 1


def add_parsers(verbs: Any) -> None:
    """Add the verbs of `bookie cluster` that this module implements."""
    flags = (where.add_cluster, output.add_json, _add_consent, _add_limits)
    recover = output.add_verb(
        verbs,
        "recover-bookie",
        "copy every entry of these bookies, dead or alive, to other bookies, which the ledgers name from then on",
        *flags,
        run=run_recover,
    )
    output.add_bookie(recover, "bookies", "the bookies' ids", nargs="+")
    output.add_ledger(recover, "--ledger", "move only this ledger (may be repeated)", action="append")
    retire = output.add_verb(
        verbs,
        "decommission",
        "copy every entry of a stopped bookie to others, then delete its cookie: it never returns",
        *flags,
        run=run_decommission,
        ledger=None,
    )
    output.add_bookie(retire, "bookies", nargs=1)


def _add_consent(verb: argparse.ArgumentParser) -> None:
    output.add_consent(
        verb,
        dry_run="show the plan, from the metadata alone: no bookie is asked whether it has the entries; change nothing",
    )


def _add_limits(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--skip-open",
        action="store_true",
        help="leave ledgers that are still open, instead of closing them and fencing off their writers",
    )
    verb.add_argument(
        "--bytes-per-second",
        type=output.within("--bytes-per-second", 1, _RATE_MAX),
        metavar="N",
        help="copy at most so many bytes a second (default: no limit)",
    )


@dataclass(slots=True)
class _Report:
    """The outcome of an evacuation. `left`: ledgers that still name one of the bookies, and why."""

    bookies: list[BookieId]
    ledgers: int = 0
    left: dict[LedgerId, str] = field(default_factory=dict)
    forgotten: bool = False

    def tell(self, arguments: argparse.Namespace, evacuation: Evacuation | None) -> int:
        """Print the report; return the exit code."""
        entries, size = (0, 0) if evacuation is None else (evacuation.copier.entries, evacuation.copier.bytes)
        left = [{"ledger": ledger_id, "reason": reason} for ledger_id, reason in sorted(self.left.items())]
        facts = {"bookies": self.bookies, "ledgers": self.ledgers, "moved": self.ledgers - len(left)}
        facts |= {"entriesCopied": entries, "bytesCopied": size, "left": left, "cookieForgotten": self.forgotten}
        if arguments.json:
            output.say(arguments, facts, "")
            return 1 if left else 0
        names = ", ".join(self.bookies)
        done = f"{facts['moved']} of {self.ledgers} ledgers no longer name {names}"
        done = done if self.ledgers else f"no ledger names {names}"
        print(f"{done}; {entries} entries, {size} bytes copied{'; its cookie is deleted' if self.forgotten else ''}")
        if self.forgotten:
            output.tell(
                "with its old directories it does not start any more; with empty ones it starts as a new bookie"
            )
        if left:
            print("\n".join(output.table(left, _LEFT_COLUMNS)))
            output.tell("mend what the table says, then run the command again: ledgers already moved are skipped")
        return 1 if left else 0


async def run_recover(arguments: argparse.Namespace) -> int:
    report = _Report(list(dict.fromkeys(arguments.bookies)))
    async with where.client(arguments) as client:
        evacuation = _evacuation(client, report, arguments)
        found = await _look(client, evacuation, arguments)
        await _refuse_unknown(client, report, found)
        plan = _plan(report, found, arguments)
        if arguments.ledger is None:  # of one ledger it is to be moved off, and may be chosen for others
            plan += [
                f"careful: {each.bookie_id} is writable, so new ledgers may choose it: run `bookie node read-only`"
                " first"
                for each in await client.admin.bookies()
                if each.bookie_id in report.bookies and not each.is_read_only
            ]
        if not output.consents(arguments, plan):
            return 0
        await _move(evacuation, found, report)
    return report.tell(arguments, evacuation)


async def run_decommission(arguments: argparse.Namespace) -> int:
    (bookie_id,) = arguments.bookies
    report = _Report([bookie_id])
    async with where.client(arguments) as client, where.store(arguments) as (store, uri, _):
        await _refuse_alive(store, uri.root, bookie_id)
        # What it held nobody can ask, and a recovery names the bookies that it brought in only when it closes the
        # ledger: so each ledger IN_RECOVERY is closed before the cookie goes (spec/metadata.md#M42).
        evacuation = _evacuation(client, report, arguments, may_hold=lambda _: True)
        found = await _look(client, evacuation, arguments)
        await _refuse_unknown(client, report, [named for named in found if not named.is_recovered])
        if not output.consents(arguments, [*_plan(report, found, arguments), "then delete its cookie for good"]):
            return 0
        for _ in range(_ROUNDS):
            await _move(evacuation, found, report)
            found = await _look(client, evacuation, arguments)
            if not found or report.left:
                break
        for named in found:
            report.left.setdefault(named.ledger_id, named.problem or f"again: {named.role}")
        await _refuse_alive(store, uri.root, bookie_id)
        if not report.left:
            try:
                report.forgotten = await forgetting.forget(store, uri.root, bookie_id)
            except (errors.VersionConflict, errors.NodeExists, errors.NodeMissing):
                raise errors.GrantRefused(
                    "alive",
                    f"no ledger names bookie {bookie_id} any more, but its records changed meanwhile, so a process of"
                    " it runs: stop that process, then run the command again",
                ) from None
            if not report.forgotten:
                output.tell(f"bookie {bookie_id} had no cookie")
    return report.tell(arguments, evacuation)


async def _refuse_alive(store: MetadataStore, root: str, bookie_id: BookieId) -> None:
    if await forgetting.living(store, root, bookie_id):
        raise errors.GrantRefused(
            "alive",
            f"bookie {bookie_id} is registered: stop it first, or make it read-only and use `bookie cluster"
            " recover-bookie` while it serves",
        )


async def _refuse_unknown(client: Client, report: _Report, found: list[AffectedLedger]) -> None:
    """Refuse an id that the cluster does not know (`bookie_list.check_known`)."""
    if found:
        return
    ledgers = client.shared.ledgers
    for bookie_id in report.bookies:
        await bookie_list.check_known(ledgers.store, ledgers.root, bookie_id)


def _evacuation(
    client: Client, report: _Report, arguments: argparse.Namespace, *, may_hold: MayHold | None = None
) -> Evacuation:
    return Evacuation(
        client.shared,
        report.bookies,
        bytes_per_s=arguments.bytes_per_second,
        may_end=not arguments.skip_open,
        may_hold=may_hold,
    )


async def _look(client: Client, evacuation: Evacuation, arguments: argparse.Namespace) -> list[AffectedLedger]:
    """Return the ledgers that the arguments select and the evacuation would change."""
    if arguments.ledger is not None:
        for ledger_id in arguments.ledger:
            await client.metadata(ledger_id)  # tells which one does not exist
        return [named for ledger_id in arguments.ledger if (named := await evacuation.look_at(ledger_id)) is not None]
    found = []
    with output.progress("looking at ledgers") as done:
        async for named in evacuation.look():
            done(1)
            if named is not None:
                found.append(named)
    return found


def _plan(report: _Report, found: list[AffectedLedger], arguments: argparse.Namespace) -> list[str]:
    open_ones = sum(named.must_end for named in found)
    plan = [f"plan: copy what {', '.join(report.bookies)} should hold of {len(found)} ledgers to other bookies"]
    selected = {named.ledger_id for named in found}
    plan += [
        f"ledger {ledger_id} does not name {', '.join(report.bookies)}: nothing of it is moved"
        for ledger_id in arguments.ledger or ()
        if ledger_id not in selected
    ]
    if open_ones and arguments.skip_open:
        plan.append(f"{open_ones} of them are open and are left as they are (--skip-open)")
    elif open_ones:
        plan.append(f"{open_ones} of them are open: they are closed first, which fences off their writers")
    if arguments.dry_run:
        plan.append(
            "this plan comes from the metadata alone: no bookie was asked whether it has the entries; if nobody has an"
            " entry, --yes leaves its ledger as it is and names it"
        )
    return plan


async def _move(evacuation: Evacuation, found: list[AffectedLedger], report: _Report) -> None:
    report.ledgers += len(found)
    report.left |= {named.ledger_id: named.problem for named in found if named.problem}
    waiting = [named.ledger_id for named in found if not named.problem]
    with output.progress("moving ledgers", len(waiting)) as done:
        for attempt in range(_ATTEMPTS):
            left = await evacuation.move_many(waiting, lambda _: done(1))
            for ledger_id in waiting:
                report.left.pop(ledger_id, None)
            report.left |= left
            waiting = list(left)
            if waiting and attempt + 1 < _ATTEMPTS:
                output.tell(f"{len(waiting)} ledgers could not be moved: trying these a second time")
