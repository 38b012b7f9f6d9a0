"""`bookie ledger`: create, write, read, show, list, recover and delete ledgers from the command line."""

import argparse
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from bookie.base import errors, ids
from bookie.base.ids import BookieId, LedgerId
from bookie.cli import accepted_loss, bookie_list, losses, output, replicas, stdin_lines, where
from bookie.cli.replicas import NotGiven
from bookie.client import Client, DigestType, Entry, LedgerReader
from bookie.client import arguments as checks
from bookie.client.repair import accepting_loss, naming, reading_losses
from bookie.metadata.ledger import LedgerMetadata
from bookie.quorum.schedule import Schedule

DIGESTS = ("CRC32C", "HMAC", "CRC32", "DUMMY")

Verb = Callable[[Client, argparse.Namespace], Awaitable[int | None]]


def add_verbs(noun: argparse.ArgumentParser) -> None:
    verbs = noun.add_subparsers(metavar="VERB", required=True)
    create = _verb(verbs, "create", "create a ledger and leave it open: another client may recover it", _create)
    add_shape(create)
    create.add_argument("--password", type=password_bytes, default="", help="the ledger's password (default: empty)")
    write = _verb(verbs, "write", "create a ledger, append each line of stdin as an entry, close the ledger", _write)
    add_shape(write)
    write.add_argument("--password", type=password_bytes, default="", help="the ledger's password (default: empty)")
    read = _verb(verbs, "read", "print the payloads of a ledger's entries, one a line", _read, ledger=True)
    _add_password(read)
    for flag, default, text in (
        ("--first", 0, "begin at this entry (default: 0)"),
        ("--last", None, "end at this entry (default: the last confirmed one)"),
    ):
        number = output.within(flag, 0, ids.LEDGER_ID_MAX)
        read.add_argument(flag, type=number, default=default, metavar="ENTRY", help=text)
    read.add_argument(
        "--recover", action="store_true", help="close the ledger first if it is open; its writer can append no more"
    )
    read.add_argument("--follow", action="store_true", help="wait for new entries until the ledger is closed")
    output.add_bookie(read, "--bookie", "read only the copies of this bookie; recover nothing")
    read.set_defaults(judge=_judge_read)
    show = _verb(verbs, "show", "show a ledger's metadata", _show, ledger=True)
    losses.add_trusted(show)
    listing = _verb(verbs, "list", "list the ids of all ledgers", _list)
    output.add_bookie(listing, "--naming", "list only ledgers that have this bookie in an ensemble")
    recover = _verb(
        verbs,
        "recover",
        "close a ledger after its last acknowledged entry; its writer can append no more",
        _recover,
        ledger=True,
    )
    _add_password(recover)
    delete = _verb(verbs, "delete", "delete a ledger for good", _delete, ledger=True)
    output.add_consent(delete)
    accepted_loss.add_parser(verbs)
    losses.add_parser(verbs)
    check = _verb(
        verbs, "check", "look whether each bookie has its copies of a closed ledger's entries", _check, ledger=True
    )
    depth = check.add_mutually_exclusive_group()
    depth.add_argument("--read", action="store_true", help="read every copy and verify its digest")
    depth.add_argument("--listed", action="store_true", help="exit with 0 when the bookies list every copy, unread")


def _verb(verbs: Any, name: str, text: str, work: Verb, *, ledger: bool = False) -> argparse.ArgumentParser:
    verb = output.add_verb(verbs, name, text, where.add_cluster, output.add_json, run=run, work=work)
    if ledger:
        output.add_ledger(verb)
    return verb


def _add_password(verb: argparse.ArgumentParser) -> None:
    # Who can read the metadata can read the password: no secret is kept by asking for it (as in Java's shell).
    verb.add_argument(
        "--password", type=password_bytes, help="the ledger's password (default: the one in its metadata)"
    )


def add_shape(verb: argparse.ArgumentParser) -> None:
    verb.set_defaults(judge=judge_shape)
    for flag, default, text in (
        ("--ensemble-size", 3, "bookies of the ledger (3)"),
        ("--write-quorum", 3, "copies of each entry (3)"),
        ("--ack-quorum", 2, "copies before an acknowledgement (2)"),
    ):
        verb.add_argument(flag, type=_size(flag), default=default, metavar="N", help=text)
    verb.add_argument("--digest", choices=DIGESTS, default="CRC32C", help="how entries are verified (CRC32C)")
    verb.add_argument(
        "--custom",
        action=_Custom,
        default={},
        metavar="KEY=VALUE",
        help="keep this pair in the ledger's metadata (may be repeated)",
    )


async def run(arguments: argparse.Namespace) -> int:
    work: Verb = arguments.work
    async with where.client(arguments) as client:
        return await work(client, arguments) or 0


# ---- verbs -----------------------------------------------------------------------------------------------------------


async def _create(client: Client, arguments: argparse.Namespace) -> None:
    writer = await client.create(**shape_of(arguments))
    output.say(arguments, {"ledger": writer.id, "ensemble": list(writer.metadata.last_segment.bookies)}, f"{writer.id}")


async def _write(client: Client, arguments: argparse.Namespace) -> None:
    stdin_lines.check_open()  # before there is a ledger that nobody would close
    async with await client.create(**shape_of(arguments)) as writer:
        if not arguments.json:
            print(f"ledger {writer.id}", file=sys.stderr)
        is_whole = False
        try:
            async for lines in stdin_lines.batches():
                await writer.append_many(lines)
            is_whole = True
        finally:  # at Ctrl-C too: what was acknowledged stays, and whoever looks for it needs the id
            if not is_whole:
                last = writer.last_confirmed
                acknowledged = f"its last acknowledged entry is {last}" if last >= 0 else "no entry is acknowledged"
                output.tell(
                    f"ledger {writer.id} is left open, {acknowledged}: `bookie ledger recover {writer.id}` closes it"
                )
    facts = {"ledger": writer.id, "lastEntry": writer.last_confirmed, "length": writer.length}
    output.say(arguments, facts, f"{writer.id}")


def _judge_read(arguments: argparse.Namespace) -> None:
    if arguments.last is not None and arguments.last < arguments.first:
        raise errors.BadInput(f"--last {arguments.last} is before --first {arguments.first}")
    if arguments.bookie and (arguments.follow or arguments.recover):
        raise errors.BadInput("--bookie reads what one bookie has now: leave out --follow and --recover")


async def _read(client: Client, arguments: argparse.Namespace) -> int | None:
    if arguments.bookie:
        return await _read_one(client, arguments, arguments.ledger)
    await _read_all(client, arguments, arguments.ledger)
    return None


async def _read_all(client: Client, arguments: argparse.Namespace, ledger_id: LedgerId) -> None:
    async with await _open(client, arguments, ends_it=arguments.recover and not arguments.follow) as reader:
        if not (reader.metadata.is_closed or arguments.follow):
            output.tell(
                f"ledger {ledger_id} is {reader.metadata.state.name}, so only confirmed entries are shown,"
                f" {_confirmed(reader)}; --recover closes the ledger and shows all, --follow waits for more"
            )
        last = reader.last_confirmed if arguments.last is None else arguments.last
        if arguments.follow:
            entries: AsyncIterator[Entry] = reader.tail(arguments.first)
        elif arguments.last is None and arguments.first > last:
            if arguments.first > 0 and reader.metadata.is_closed:
                output.tell(f"nothing to read from entry {arguments.first} on: {_end_of(reader)}")
            return
        elif last > reader.last_confirmed:
            raise errors.BadInput(f"--last {last} is beyond what can be read: {_end_of(reader)}")
        else:
            entries = reader.read_stream(arguments.first, last)
        async with contextlib.aclosing(entries) as stream:  # type: ignore[type-var]
            async for entry in stream:
                _print_entry(arguments, entry)
                if arguments.last is not None and entry.entry_id >= arguments.last:
                    return
        if arguments.follow and max(arguments.first, arguments.last or 0) > reader.last_confirmed:
            output.tell(f"nothing more comes: {_end_of(reader)}")


async def _read_one(client: Client, arguments: argparse.Namespace, ledger_id: LedgerId) -> int:
    """Print one bookie's copies, and say which it should have and did not give, and why. Return the exit code: what was
    not seen is not called read."""
    bookie_id: BookieId = arguments.bookie
    metadata = await client.metadata(ledger_id)
    if not metadata.names(bookie_id):  # a copy may be left on a bookie that was replaced, but not on a mistyped one
        ledgers = client.shared.ledgers
        named_by = f"ledger {ledger_id} does not name it"
        await bookie_list.check_known(ledgers.store, ledgers.root, bookie_id, named_by)
    first, last = arguments.first, arguments.last
    owed = replicas.owed(metadata, bookie_id, first, last) if metadata.is_closed else []
    tally = replicas.Tally(owed)
    async for found in replicas.read(client, metadata, ledger_id, bookie_id, first, last, owed):
        tally.add(found)
        if isinstance(found, NotGiven) and found.entry_id == ids.LAST_ENTRY and not owed and last is None:
            return _tell_of_doubt(metadata, arguments, found)
        if isinstance(found, Entry):
            _print_entry(arguments, found)
        else:
            _print_not_given(arguments, bookie_id, found, counts=tally.counts(found.entry_id))
        if tally.is_cut_short:
            output.tell(f"given up after so many entries; `--first {found.entry_id + 1}` goes on behind them")
            break
    if tally.lacking:
        output.tell(
            f"bookie {bookie_id} did not give {tally.lacking} entries of ledger {ledger_id} that it should hold:"
            f" `bookie ledger check {ledger_id} --read` looks at all copies"
        )
    elif not tally.given and tally.outcome == output.WHOLE:
        output.tell(f"bookie {bookie_id} gave no entry of ledger {ledger_id} from entry {first} on")
    return output.EXIT_OF[tally.outcome]


def _tell_of_doubt(metadata: LedgerMetadata, arguments: argparse.Namespace, highest: NotGiven) -> int:
    """Say of a closed ledger that the bookie should hold none of it, and does not say whether it does; return the exit
    code."""
    last = metadata.last_entry
    if last < 0:
        why = "it is closed and has no entry"
    elif arguments.first > last:
        why = f"it is closed and ends at entry {last}"
    else:
        why = "those are other bookies', or declared lost"
    output.tell(
        f"{output.NOT_KNOWN}: bookie {arguments.bookie} should hold no entry of ledger {arguments.ledger} from entry"
        f" {arguments.first} on: {why}. Whether it has one all the same it does not say ({highest.error}); `--last`"
        " asks for each entry up to there"
    )
    return output.EXIT_OF[output.NOT_KNOWN]


def _end_of(reader: LedgerReader) -> str:
    """Return where reading ends, and what a person can do about it."""
    last = reader.last_confirmed
    if reader.metadata.is_closed:
        return f"ledger {reader.id} is closed and " + (f"ends at entry {last}" if last >= 0 else "has no entry")
    return (
        f"ledger {reader.id} is {reader.metadata.state.name}, {_confirmed(reader)}; --recover closes it and shows all,"
        " --follow waits for more"
    )


def password_bytes(text: str) -> bytes:
    """Return a ledger's password as it was typed, whatever its bytes."""
    return text.encode("utf-8", "surrogateescape")


def _confirmed(reader: LedgerReader) -> str:
    last = reader.last_confirmed
    return f"up to entry {last}" if last >= 0 else "and none is confirmed yet"


async def _open(client: Client, arguments: argparse.Namespace, *, ends_it: bool) -> LedgerReader:
    opened = client.open if ends_it else client.open_no_recovery
    password = arguments.password
    with output.told_if_slow(f"the bookies of ledger {arguments.ledger}"):
        return await opened(arguments.ledger, password or b"", administrative=password is None)


async def _show(client: Client, arguments: argparse.Namespace) -> int:
    """Exit code 1: with --trusted, something of it was given up, and no trusted key signed that."""
    ledger_id: LedgerId = arguments.ledger
    metadata, found = await reading_losses.of_ledger(client.shared.ledgers, ledger_id, arguments.trusted_keys)
    facts = facts_of(ledger_id, metadata)
    text = "\n".join([_text_of(facts), *(f"{'given up':13} {losses.line(each)}" for each in found)])
    output.say(arguments, {**facts, "losses": [losses.row(ledger_id, each) for each in found]}, text)
    return losses.exit_code(arguments, found)


async def _list(client: Client, arguments: argparse.Namespace) -> int:
    """Exit code 6: a ledger that belongs into the list may lack."""
    ledgers = client.shared.ledgers
    found: list[LedgerId] = []
    left_out: list[str] = []
    if arguments.naming is None:
        found = [ledger_id async for ledger_id in ledgers.iterate(left_out)]
    else:
        bookie_id: BookieId = arguments.naming
        async for each in naming.look(ledgers, [bookie_id]):
            if each is not None and each.problem:
                left_out.append(f"ledger {each.ledger_id}: {each.problem}")
            elif each is not None:
                found.append(each.ledger_id)
        if not (found or left_out):  # nothing names a mistyped id either
            await bookie_list.check_known(ledgers.store, ledgers.root, bookie_id)
    output.say(arguments, found, "\n".join(map(str, found)))
    for why in left_out:
        output.tell(f"perhaps one more, {output.NOT_KNOWN}: {why}")
    return output.EXIT_OF[output.NOT_KNOWN if left_out else output.WHOLE]


async def _recover(client: Client, arguments: argparse.Namespace) -> None:
    async with await _open(client, arguments, ends_it=True) as reader:
        facts = facts_of(reader.id, reader.metadata)
    end = f"at entry {facts['lastEntry']}" if facts["lastEntry"] >= 0 else "and has no entry"
    output.say(arguments, facts, f"ledger {reader.id} is closed {end}")


async def _delete(client: Client, arguments: argparse.Namespace) -> None:
    ledger_id: LedgerId = arguments.ledger
    metadata = await client.metadata(ledger_id)
    what = f"ledger {ledger_id} ({metadata.state.name}, {len(metadata.segments)} segments)"
    if output.consents(arguments, [f"plan: delete {what} for good"]):
        await client.delete(ledger_id)
        output.say(arguments, {"ledger": ledger_id, "deleted": True}, f"deleted {what}")


async def _check(client: Client, arguments: argparse.Namespace) -> int:
    ledger_id: LedgerId = arguments.ledger
    listed = output.LISTED if arguments.listed else output.NOT_KNOWN
    metadata = await client.metadata(ledger_id)
    if not metadata.is_closed:
        output.rows(arguments, [], replicas.COLUMNS)
        output.tell(
            f"{output.NOT_KNOWN}: ledger {ledger_id} is {metadata.state.name}, so nobody knows yet which entries it"
            f" must have, and nothing was looked at: close it first (`bookie ledger recover {ledger_id}`)"
        )
        return output.EXIT_OF[output.NOT_KNOWN]
    with output.progress(f"ledger {ledger_id}: copies looked at") as count:
        found = await replicas.check(client, metadata, ledger_id, reads=arguments.read, listed=listed, on_read=count)
    output.rows(arguments, found, replicas.COLUMNS)
    outcome, said = replicas.sentence(ledger_id, found, reads=arguments.read)
    lost = metadata.lost_runs()
    left_out = f"; left out: entries declared lost, {accepting_loss.ranges(lost)}" if lost else ""
    output.tell(f"{outcome}: {said}{left_out}")
    return output.EXIT_OF[outcome]


# ---- in and out ------------------------------------------------------------------------------------------------------


def facts_of(ledger_id: LedgerId, metadata: LedgerMetadata) -> dict[str, Any]:
    """Return a ledger's metadata for JSON, without the password."""
    return {
        "ledger": ledger_id,
        "state": metadata.state.name,
        "ensembleSize": metadata.ensemble_size,
        "writeQuorum": metadata.write_quorum,
        "ackQuorum": metadata.ack_quorum,
        "digestType": _digest_name(metadata.digest_type),
        "lastEntry": metadata.last_entry if metadata.is_closed else None,
        "length": metadata.length if metadata.is_closed else None,
        "segments": [
            {"firstEntry": segment.first_entry, "bookies": list(segment.bookies)} for segment in metadata.segments
        ],
        "custom": {key: value.decode("utf-8", "backslashreplace") for key, value in metadata.custom},
        "createdMs": metadata.ctime_ms,
    }


def _digest_name(number: int) -> str:
    return DigestType(number).name if number in list(DigestType) else f"unknown ({number})"


def _text_of(facts: dict[str, Any]) -> str:
    lines = [
        f"{name:13} {'-' if value is None else value}"
        for name, value in facts.items()
        if name not in ("segments", "custom", "createdMs")
    ]
    lines += [f"{'created':13} {output.time_of(facts['createdMs'])}"]
    lines += [f"{'segment':13} {s['firstEntry']:>8}  {', '.join(s['bookies'])}" for s in facts["segments"]]
    # Whoever makes a ledger writes these: they must not look like another line.
    lines += [f"{'custom':13} {output.printable(f'{key}={value}')}" for key, value in facts["custom"].items()]
    return "\n".join(lines)


def judge_shape(arguments: argparse.Namespace) -> None:
    """Raise BadInput for quorums that do not nest, and for what no ledger's record can hold."""
    Schedule(arguments.ensemble_size, arguments.write_quorum, arguments.ack_quorum)
    checks.custom(arguments.custom)


def shape_of(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "ensemble_size": arguments.ensemble_size,
        "write_quorum": arguments.write_quorum,
        "ack_quorum": arguments.ack_quorum,
        "digest_type": DigestType[arguments.digest],
        "password": arguments.password,
        "custom": arguments.custom,
    }


def _size(flag: str) -> Callable[[str], int]:
    return lambda text: checks.size(output.whole(text), flag)


class _Custom(argparse.Action):
    """Gathers what a person says of a ledger, by key. Raises BadInput, also for a key said twice: which is meant?"""

    def __call__(self, _: object, arguments: argparse.Namespace, text: Any, __: object = None) -> None:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise errors.BadInput(f"--custom {text!r} is not of the form KEY=VALUE")
        if key in arguments.custom:
            raise errors.BadInput(f"--custom names {key!r} twice: leave one out")
        arguments.custom = {**arguments.custom, key: value.encode("utf-8", "surrogateescape")}


def _print_not_given(arguments: argparse.Namespace, bookie_id: BookieId, found: NotGiven, *, counts: bool) -> None:
    """Say what a bookie answered for an entry that it did not give; with --json in that entry's line. `counts`: it
    should have it: of others it may say "unknown" as it likes."""
    if found.entry_id == ids.LAST_ENTRY:
        output.tell(
            f"bookie {bookie_id} does not say which is its highest entry ({found.error}), so it is asked for those"
            " alone that it should hold, or that were named"
        )
    elif not counts and isinstance(found.error, errors.UnknownLedgerState):
        return
    elif arguments.json:
        print(json.dumps({"entry": found.entry_id, "problem": str(found.error)}), flush=True)
    else:
        output.tell(f"entry {found.entry_id}: {found.error}")


def _print_entry(arguments: argparse.Namespace, entry: Entry) -> None:
    if arguments.json:
        text = entry.payload.decode("utf-8", "backslashreplace")
        print(json.dumps({"entry": entry.entry_id, "length": entry.length, "payload": text}), flush=True)
    else:
        sys.stdout.buffer.write(entry.payload + b"\n")
        sys.stdout.buffer.flush()
