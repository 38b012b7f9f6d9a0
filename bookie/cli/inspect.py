"""`bookie inspect`: what is in the directories of a stopped bookie. Only reads; each verb reports the damage that it
meets.

Each verb takes one configured directory (its files are in `current/` below). Exit code 1 says that damage was found.
"""

import argparse
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from bookie.base import errors, ids
from bookie.base.ids import EntryId, LedgerId
from bookie.cli import output
from bookie.integrity import sentinel, volumes
from bookie.ports import World
from bookie.runtime.world import open_world
from bookie.storage import dirs, inspect
from bookie.storage.entrylog import logs
from bookie.storage.inspect import Damage, IndexView

Verb = Callable[[World, argparse.Namespace], Awaitable[int]]
BODY_SHOWN_BYTES = 32
_AS_CONFIGURED = "name one of the bookie's settings (journalDirectories, ledgerDirectories, indexDirectories)"
_NAME_AN_INDEX = "name one of indexDirectories, or of ledgerDirectories where that is not set"
_LOG_COLUMNS = {"log": "LOG", "sizeBytes": "BYTES", "ledgers": "LEDGERS", "writtenBytes": "WRITTEN", "path": "FILE"}
_LEDGER_COLUMNS = {
    "ledger": "LEDGER",
    "isFenced": "FENCED",
    "isLimbo": "LIMBO",
    "hasKey": "KEY",
    "lastEntry": "LAST",
    "entries": "ENTRIES",
}


def add_verbs(noun: argparse.ArgumentParser) -> None:
    verbs = noun.add_subparsers(metavar="VERB", required=True)
    _verb(
        verbs, "directory", "show which bookie a directory belongs to and whether its last stop was clean", _directory
    )
    journal = _verb(verbs, "journal", "list the records of a journal directory, oldest first", _journal)
    journal.add_argument("--file", type=output.whole, metavar="ID", help="list only records of this file")
    _ledger_filter(journal)
    journal.add_argument("--summary", action="store_true", help="print one line for each file instead")
    logs = _verb(verbs, "entry-logs", "list the entry logs of a ledger directory", _entry_logs)
    logs.add_argument("--index", metavar="DIR", help="the index directory (default: the same directory)")
    log = _verb(verbs, "entry-log", "list the records of one entry log, in the order written", _entry_log)
    log.add_argument("log", type=output.whole, metavar="LOG", help="the log's id (decimal)")
    _ledger_filter(log)
    index = _verb(verbs, "index", "list where each entry is, by an index directory", _index)
    _ledger_filter(index)
    ledgers = _verb(verbs, "ledgers", "list what an index directory knows about each ledger", _ledgers)
    _ledger_filter(ledgers)
    ledgers.add_argument("--count", action="store_true", help="also count entries, which reads the whole index")
    entry = _verb(verbs, "entry", "print the bytes of one entry in hexadecimal", _entry)
    output.add_ledger(entry)
    entry.add_argument("entry", type=output.whole, metavar="ENTRY", help="the entry's id")
    entry.add_argument("--index", metavar="DIR", help="the index directory (default: the same directory)")


def _verb(verbs: Any, name: str, text: str, work: Verb) -> argparse.ArgumentParser:
    verb = output.add_verb(verbs, name, text, output.add_json, run=run, work=work)
    verb.add_argument("directory", metavar="DIR", help="the directory as configured, without `current`")
    return verb


def _ledger_filter(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--ledger", type=ids.parse_ledger_id, metavar="ID", help="list only what belongs to this ledger")


async def run(arguments: argparse.Namespace) -> int:
    work: Verb = arguments.work
    for directory in (arguments.directory, getattr(arguments, "index", None)):
        if directory is not None:
            _check_directory(directory)
    async with open_world() as world:
        return await work(world, arguments)


def _check_directory(directory: str) -> None:
    """Raise FileMissing where nothing is, BadInput where something else is: what a verb does not find there would look
    like what a bookie has lost."""
    if not output.is_there(directory) and not os.path.lexists(directory):
        raise errors.FileMissing(f"there is no directory {directory or repr(directory)}: {_AS_CONFIGURED}")
    if not os.path.isdir(directory):
        raise errors.BadInput(f"{directory} is no directory: {_AS_CONFIGURED}")
    if not os.access(directory, os.R_OK | os.X_OK):
        raise errors.BadInput(f"{directory} cannot be read: run this as the bookie's user")


# ---- verbs -----------------------------------------------------------------------------------------------------------


async def _directory(world: World, arguments: argparse.Namespace) -> int:
    directory = arguments.directory.rstrip("/")
    here = set(await world.disk.list(directory))
    current = set(await world.disk.list(dirs.current(directory))) if dirs.CURRENT in here else set()
    facts: dict[str, Any] = {"directory": directory, "isEmpty": not here - {"lost+found"}}
    if sentinel.NAME in here:
        mark = sentinel.load(await world.disk.read(sentinel.path(directory)))
        facts |= {"bookie": mark.bookie_id, "role": mark.role, "instanceId": mark.instance_id}
        facts |= {"incarnation": mark.incarnation, "bootEpoch": mark.boot_epoch, "grantId": mark.grant_id or None}
    facts["hasCookie"] = "VERSION" in current
    if current:
        facts["endedWell"] = _ended_well(current, facts.get("role"))
    if dirs.INDEX in current:
        async with inspect.open_index(world.ordered_stores, directory) as index:
            facts["replayFrom"] = [f"journal {mark.file_id} offset {mark.offset}" for mark in index.marks()]
    elsewhere = {"endedWell": "told by the bookie's ledger directories"} if facts.get("endedWell", 0) is None else {}
    output.say(arguments, facts, output.facts(facts | elsewhere))
    return 0


def _ended_well(current: set[str], role: str | None) -> bool | None:
    """Return whether the bookie that used this directory ended in order. None: not known, since a bookie marks only
    ledger directories while it runs, and nothing shows that this is one. (The role of a directory that is several
    things is the first of them.)"""
    is_marked = role == volumes.LEDGERS or any(name.endswith(logs.SUFFIX) for name in current)
    return False if dirs.DIRTY in current else True if is_marked else None


async def _journal(world: World, arguments: argparse.Namespace) -> int:
    found = await inspect.journal_ids(world.disk, arguments.directory)
    wanted = [number for number in found if arguments.file in (None, number)]
    _need(found, f"{arguments.directory} has no journal file: is it one of journalDirectories?")
    _need(wanted, f"{arguments.directory} has no journal file {arguments.file}; there are: {_list(found)}")
    damages = 0
    for number in wanted:
        counts: dict[str, int] = {}
        records = inspect.journal_records(world.disk, arguments.directory, number, is_last=number == found[-1])
        async for record in records:
            if isinstance(record, inspect.Damage):
                damages += _tell_damage(record)
            elif arguments.ledger in (None, record.ledger_id):
                counts[record.kind] = counts.get(record.kind, 0) + 1
                if not arguments.summary:
                    row = {"file": number, "offset": record.offset, "kind": record.kind, "ledger": record.ledger_id}
                    row |= {"entry": record.entry_id if record.entry_id >= 0 else None, "sizeBytes": len(record.body)}
                    _show(arguments, row, record.body)
        if arguments.summary:
            words = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "nothing"
            output.stream(arguments, {"file": number, **counts}, f"journal {number}: {words}")
    return 1 if damages else 0


async def _entry_logs(world: World, arguments: argparse.Namespace) -> int:
    ledgers: dict[int, int] = {}
    written: dict[int, int] = {}
    async with _index_of(world, arguments) as index:
        for log_id, _, use in index.log_use():
            ledgers[log_id] = ledgers.get(log_id, 0) + 1
            written[log_id] = written.get(log_id, 0) + use.size
    rows = []
    for log_id in await inspect.log_ids(world.disk, arguments.directory):
        path = logs.path_of(f"{arguments.directory.rstrip('/')}/current", log_id)
        uses = {"ledgers": ledgers.get(log_id, 0), "writtenBytes": written.get(log_id, 0)}
        rows.append({"log": log_id, "sizeBytes": _size_of(path), **uses, "path": path})
    output.rows(arguments, rows, _LOG_COLUMNS)
    if not rows:  # as of a new bookie, so no error
        output.tell(
            f"{arguments.directory} has no entry log: either nothing was flushed there yet (then it is in the journal),"
            " or it is not one of ledgerDirectories"
        )
    return 0


async def _entry_log(world: World, arguments: argparse.Namespace) -> int:
    found = await inspect.log_ids(world.disk, arguments.directory)
    _need(arguments.log in found, f"{arguments.directory} has no entry log {arguments.log}; there are: {_list(found)}")
    damages = 0
    async for record in inspect.log_entries(world.disk, arguments.directory, arguments.log):
        if isinstance(record, inspect.Damage):
            damages += _tell_damage(record)
        elif arguments.ledger in (None, record.ledger_id):
            row = {"log": record.location.log_id, "offset": record.location.offset, "ledger": record.ledger_id}
            _show(arguments, {**row, "entry": record.entry_id, "sizeBytes": len(record.body)}, record.body)
    return 1 if damages else 0


async def _index(world: World, arguments: argparse.Namespace) -> int:
    async with _open_index(world, arguments.directory, _NAME_AN_INDEX) as index:
        count = 0
        for ledger_id, entry_id, location in index.entries(arguments.ledger):
            count += 1
            row = {"ledger": ledger_id, "entry": entry_id, "log": location.log_id, "offset": location.offset}
            output.stream(arguments, row, " ".join(f"{name} {value}" for name, value in row.items()))
        code = _tell_quarantined(arguments, index)
    if arguments.ledger is not None and not count and not code:
        raise _unknown(arguments.directory, "entry", arguments.ledger)
    return code


async def _ledgers(world: World, arguments: argparse.Namespace) -> int:
    rows = []
    async with _open_index(world, arguments.directory, _NAME_AN_INDEX) as index:
        async for ledger_id, facts in _facts(index, arguments.ledger):
            row = {
                "ledger": ledger_id,
                "isFenced": facts.is_fenced,
                "isLimbo": facts.is_limbo,
                "hasKey": facts.master_key is not None,
            }
            if arguments.count:
                entries = [entry_id for _, entry_id, _ in index.entries(ledger_id)]
                row |= {"entries": len(entries), "lastEntry": entries[-1] if entries else None}
            rows.append(row)
        code = _tell_quarantined(arguments, index)
    columns = _LEDGER_COLUMNS if arguments.count else dict(list(_LEDGER_COLUMNS.items())[:4])
    output.rows(arguments, rows, columns)
    return code


async def _facts(index: IndexView, ledger_id: LedgerId | None) -> AsyncIterator[tuple[LedgerId, Any]]:
    if ledger_id is None:
        for each in index.ledgers():
            yield each
        return
    try:
        facts = index.facts(ledger_id)
    except errors.CorruptFile:
        return  # it is told as one that is quarantined
    if facts is None:
        raise errors.NoSuchLedger(f"this index knows no ledger {ledger_id}{_not_flushed(ledger_id)}")
    yield ledger_id, facts


async def _entry(world: World, arguments: argparse.Namespace) -> int:
    ledger_id, entry_id = arguments.ledger, EntryId(arguments.entry)
    async with _index_of(world, arguments) as index:
        places = [place for _, found, place in index.entries(ledger_id) if found == entry_id]
    if not places:
        raise _unknown(arguments.index or arguments.directory, f"entry {entry_id}", ledger_id)
    body = await inspect.read_entry(world.disk, arguments.directory, places[0], ledger_id, entry_id)
    row = {"ledger": ledger_id, "entry": entry_id, "log": places[0].log_id, "offset": places[0].offset}
    output.say(arguments, {**row, "hex": body.hex()}, body.hex(" ", -4))
    return 0


def _unknown(directory: str, what: str, ledger_id: int) -> errors.NoSuchEntry:
    return errors.NoSuchEntry(
        f"the index in {directory} knows no {what} of ledger {ledger_id}{_not_flushed(ledger_id)}"
    )


def _not_flushed(ledger_id: int) -> str:
    """Return what else may have what an index does not know: who finds nothing there thinks that it is lost."""
    return f": what was not flushed is in the journal (`bookie inspect journal DIR --ledger {ledger_id}`)"


def _index_of(world: World, arguments: argparse.Namespace) -> contextlib.AbstractAsyncContextManager[IndexView]:
    """Open the index of a ledger directory."""
    if arguments.index:
        return _open_index(world, arguments.index, _NAME_AN_INDEX)
    return _open_index(world, arguments.directory, "add --index DIR, the bookie's index directory (indexDirectories)")


@contextlib.asynccontextmanager
async def _open_index(world: World, directory: str, remedy: str) -> AsyncIterator[IndexView]:
    """Open an index. Raises FileMissing with what to try where there is none."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            index = await stack.enter_async_context(inspect.open_index(world.ordered_stores, directory))
        except errors.FileMissing as error:
            raise errors.FileMissing(f"{error}: {remedy}") from error
        yield index


# ---- in and out ------------------------------------------------------------------------------------------------------


def _show(arguments: argparse.Namespace, row: dict[str, Any], body: bytes) -> None:
    text = " ".join(f"{name} {value}" for name, value in row.items() if value is not None)
    if row.get("kind") in ("key", "fence"):
        # The body is the ledger's master key: whoever has that can write the ledger.
        output.stream(arguments, row, text)
        return
    shown = body[:BODY_SHOWN_BYTES].hex() + ("..." if len(body) > BODY_SHOWN_BYTES else "")
    output.stream(arguments, {**row, "hex": body.hex()}, f"{text}  {shown}")


def _size_of(path: str) -> int:
    return os.path.getsize(path)


def _tell_quarantined(arguments: argparse.Namespace, index: IndexView) -> int:
    """Print which ledgers are quarantined; return 1 when there is one."""
    found = {ledger: why for ledger, why in index.quarantined().items() if arguments.ledger in (None, ledger)}
    for ledger_id, reason in found.items():
        output.tell(f"ledger {ledger_id} is quarantined: {reason}")
    return 1 if found else 0


def _tell_damage(damage: Damage) -> int:
    """Print the damage; return 1 when it is more than the torn tail that any crash leaves."""
    output.tell(f"{damage.path}: at offset {damage.offset}: {damage.reason}")
    return 0 if damage.is_tail else 1


def _need(found: object, text: str) -> None:
    if not found:
        raise errors.FileMissing(text)


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
