"""`bookie ledger accept-loss`: a person gives up what named bookies held of a ledger and lost for good.

A ledger without an end is closed; of one that is closed, the entries that no bookie has are declared lost.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bookie.base import errors, ids
from bookie.base.ids import BookieId, EntryId, IdRange, LedgerId
from bookie.cli import bookie_list, output, security_settings, settings, where, who
from bookie.client import Client
from bookie.client.repair import accepting_loss, declaring_lost
from bookie.metadata.ledger import LedgerMetadata
from bookie.quorum.given_up import GivenUp
from bookie.runtime import loss_keys

KEY_SETTING = "lossSigningKeyFile"
_GIVEN = "somebody gives a good copy of each of these entries, or they were declared lost before"
_LISTED = "the bookies list every entry; of entries whose listed copies are bad say which (`--entries`)"


def add_parser(verbs: Any) -> None:
    """Add the verb to those of `bookie ledger`."""
    made = output.add_verb(
        verbs,
        "accept-loss",
        "give up what emptied bookies held of a ledger: close it, or declare lost what a closed one lacks",
        where.add_cluster,
        output.add_json,
        output.add_consent,
        run=run,
        judge=_judge,
        key=None,
    )
    output.add_ledger(made)
    output.add_bookie(made, "--bookie", "give up what it held (may be repeated)", action="append", required=True)
    made.add_argument("--reason", required=True, metavar="TEXT", help="why, for the ledger's record")
    made.add_argument("--by", metavar="NAME", help="who, for the ledger's record (USER@HOST)")
    made.add_argument(
        "--after-crash",
        action="store_true",
        help="the bookies lost it for certain, where nothing proves that they began anew: in an unclean stop, say",
    )
    made.add_argument(
        "--give-up-tail", action="store_true", help="give up entries too that lie behind the first one given up"
    )
    made.add_argument(
        "--corrupt",
        action="store_true",
        help="of a closed ledger: what the bookies list and cannot read is bad on their disks, as their scrub says",
    )
    made.add_argument(
        "--sign-with",
        type=Path,
        metavar="FILE",
        help="sign the note in the ledger's record with this private key (Ed25519, PEM, not encrypted; default: that of"
        f" {KEY_SETTING}, if there is one)",
    )
    made.add_argument(
        "--entries",
        type=parse_range,
        action="append",
        default=[],
        metavar="FIRST-LAST",
        help="of a closed ledger: declare these lost, of which bookies list bad copies (default: those that nobody"
        " lists; may be repeated)",
    )


def _judge(arguments: argparse.Namespace) -> None:
    """Put the key, which a pipe gives only once, beside the arguments. Raises BadInput."""
    if not arguments.reason.strip():
        raise errors.BadInput("--reason says nothing: it stays in the ledger's record, for others")
    if arguments.sign_with is not None:
        arguments.key = loss_keys.signing_key(arguments.sign_with, "--sign-with")
    else:
        arguments.key = security_settings.loss_key(settings.load(arguments))


async def run(arguments: argparse.Namespace) -> int:
    async with where.client(arguments) as client:
        return await settle(arguments, client)


async def settle(arguments: argparse.Namespace, client: Client) -> int:
    """Do what the command says with this client."""
    ledger_id, bookies, entries = arguments.ledger, arguments.bookie, arguments.entries
    metadata = await client.metadata(ledger_id)
    await _check_names(client, ledger_id, metadata, bookies)
    if not metadata.is_closed and entries:
        raise errors.BadInput(f"ledger {ledger_id} is {metadata.state.name}: --entries is for a closed one")
    act = _declare if metadata.is_closed else _end
    made = await act(arguments, client, ledger_id, bookies, entries)
    if made is None:
        return 0
    facts: dict[str, object] = {"ledger": ledger_id, "lastEntry": made.last_entry, "length": made.length}
    facts["acceptedLoss"] = accepting_loss.record_of(made)
    facts["lostEntries"] = [{"first": first, "last": last} for first, last in made.lost_runs()]
    output.say(arguments, facts, accepting_loss.told(ledger_id, made))
    return 0


async def _check_names(
    client: Client, ledger_id: LedgerId, metadata: LedgerMetadata, bookies: Sequence[BookieId]
) -> None:
    """Raise BookieUnknown where no id that was typed can be meant; tell of one beside others: one loss has ledgers of
    several ensembles, whose bookies are forgotten already."""
    ledgers = client.shared.ledgers
    others = [each for each in bookies if not metadata.names(each)]
    for each in others:
        try:
            await bookie_list.check_known(ledgers.store, ledgers.root, each, f"ledger {ledger_id} does not name it")
        except errors.BookieUnknown as error:
            if len(others) == len(bookies):
                raise
            output.tell(f"careful: {error}")


async def _end(
    arguments: argparse.Namespace, client: Client, ledger_id: LedgerId, bookies: Sequence[BookieId], _: object
) -> LedgerMetadata | None:
    """Close the ledger; None when the person only looked."""
    with output.told_if_slow(f"the bookies of ledger {ledger_id}"):
        wanted = await accepting_loss.plan(
            client.shared,
            ledger_id,
            bookies,
            by=arguments.by or who.caller(),
            reason=arguments.reason,
            after_crash=arguments.after_crash,
            tail=arguments.give_up_tail,
            key=arguments.key,
        )
    named = ", ".join(sorted(wanted.given_up.in_doubt | wanted.given_up.gone))
    plan = [
        f"plan: close ledger {ledger_id} ({wanted.metadata.state.name}, bookies"
        f" {', '.join(wanted.metadata.last_segment.bookies)}) after the last entry that anybody still has",
        f"what only {named} held of it is given up for good; its writer, if there is one, is fenced off",
        *_signing(wanted.given_up),
    ]
    if not output.consents(arguments, plan):
        return None
    return await accepting_loss.accept(client.shared, wanted)


async def _declare(
    arguments: argparse.Namespace,
    client: Client,
    ledger_id: LedgerId,
    bookies: Sequence[BookieId],
    entries: Sequence[IdRange],
) -> LedgerMetadata | None:
    """Declare lost what no bookie has of a closed ledger; None when the person only looked."""
    with output.told_if_slow(f"the bookies of ledger {ledger_id}"):
        wanted = await declaring_lost.plan(
            client.shared,
            ledger_id,
            bookies,
            by=arguments.by or who.caller(),
            reason=arguments.reason,
            after_crash=arguments.after_crash,
            corrupt=arguments.corrupt,
            entries=entries,
            key=arguments.key,
        )
    if not wanted.runs and not wanted.found:
        output.tell("nothing to declare: " + (_GIVEN if entries else _LISTED))
        if arguments.dry_run:
            output.say_nothing_to_do(arguments, {}, "")
            return None
        return wanted.metadata
    plan: list[str] = []
    if wanted.found:
        holders = ", ".join(sorted(dict.fromkeys(wanted.found.values())))
        plan.append(f"plan: copy {len(wanted.found)} entries from {holders} to the bookies that should have them")
    if wanted.runs:
        plan += [
            f"plan: declare {wanted.count} entries of ledger {ledger_id} lost, which ends at entry"
            f" {wanted.metadata.last_entry}: {accepting_loss.ranges(wanted.runs)}",
            f"no bookie has them ({wanted.said}); its bookies then stop looking for them, and readers get"
            f' "no such entry"; all other entries stay',
            *_signing(wanted.given_up),
        ]
    return await declaring_lost.declare(client.shared, wanted) if output.consents(arguments, plan) else None


def _signing(given_up: GivenUp) -> list[str]:
    """Return the line of the plan that says who signs; none where nobody does."""
    return [] if given_up.seal is None else [f"the note of it is signed with key {given_up.seal.key.fingerprint}"]


def parse_range(text: str) -> IdRange:
    """Parse `7` or `7-12`. Raises BadInput."""
    begin, dash, end = text.partition("-")
    first, last = ids.decimal(begin), ids.decimal(end if dash else begin)
    if first is None or last is None:
        raise errors.BadInput(f"--entries {text}: give one entry, or the first and the last, as 7 or 7-12")
    if last < first:
        raise errors.BadInput(f"--entries {text}: the last is before the first; give them as {last}-{first}")
    return EntryId(first), EntryId(last)
