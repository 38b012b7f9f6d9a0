"""How commands print: data on stdout (JSON, or a table), everything else on stderr. A list is one JSON array; output
that may be endless (a dump, a reading) is one JSON object a line.
"""

import argparse
import contextlib
import errno
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bookie.base import errors, ids
from bookie.rpc import overtime
from bookie.runtime import given_file

AddFlags = Callable[[argparse.ArgumentParser], None]
Row = Mapping[str, object]

# A job of an hour leaves a hundred lines in a log.
PROGRESS_LINE_S = 30.0
# Who waits longer before a silent screen begins to doubt; an answer takes far less.
PATIENCE_S = 2.0
# Of a number that somebody types; far more than any that fits, so that its flag says which ones do.
_DIGITS_MAX = 100


def add_verb(
    verbs: Any, name: str, text: str, *add_flags: AddFlags, aliases: Sequence[str] = (), **defaults: object
) -> argparse.ArgumentParser:
    """Add a parser below `verbs`: `text` stands in the list of verbs, and begins the verb's own help.

    Each of `add_flags` adds flags to the parser. `defaults` are added to its arguments; their `run` is the function
    that does the work, and their `judge`, if there is one, comes before it: what is wrong whatever a cluster says is
    told before anything is connected.
    """
    made: argparse.ArgumentParser = verbs.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}.", aliases=aliases
    )
    for add in add_flags:
        add(made)
    made.set_defaults(**defaults)
    return made


def whole(text: str) -> int:
    """Parse the number behind a flag: `int` takes 1_0, " 1" and digits of every script too."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _DIGITS_MAX:
        raise argparse.ArgumentTypeError(f"{text[:_DIGITS_MAX]!r} is no whole number")
    return int(text)


def within(flag: str, least: int, most: int) -> Callable[[str], int]:
    """Return a parser of the number behind `flag`. It raises BadInput for one that is out of range."""

    def parse(text: str) -> int:
        number = whole(text)
        if not least <= number <= most:
            raise errors.BadInput(f"{flag} is {number}: it must be {least} to {most}")
        return number

    return parse


def add_ledger(
    parser: argparse.ArgumentParser, name: str = "ledger", text: str = "the ledger's id", **more: Any
) -> None:
    """Add an argument that is a ledger's id; `more` is argparse's."""
    parser.add_argument(name, type=ids.parse_ledger_id, metavar="LEDGER", help=text, **more)


def add_bookie(
    parser: argparse.ArgumentParser, name: str = "bookie", text: str = "the bookie's id", **more: Any
) -> None:
    """Add an argument that is a bookie's id; `more` is argparse's."""
    parser.add_argument(name, type=ids.parse_bookie_id, metavar="BOOKIE", help=text, **more)


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def say(arguments: argparse.Namespace, facts: object, text: str) -> None:
    """Print one answer: as JSON, or as `text`."""
    if arguments.json:
        print(json.dumps(facts))
    elif text:
        print(shown(text))


def rows(arguments: argparse.Namespace, found: Sequence[Row], columns: Mapping[str, str]) -> None:
    """Print a list of like things: as one JSON array, or as a table with the given columns (key -> heading)."""
    if arguments.json:
        print(json.dumps(found))
    else:
        print("\n".join(table(found, columns)))


def stream(arguments: argparse.Namespace, row: Row, text: str) -> None:
    """Print one item of many: as a JSON object, or as a line."""
    print(json.dumps(row) if arguments.json else text)


def table(found: Sequence[Row], columns: Mapping[str, str]) -> list[str]:
    """Return the lines of a table: a heading, then a line for each row; numbers to the right, nothing cut off."""
    cells = [[_cell(row.get(key)) for key in columns] for row in found]
    heads = list(columns.values())
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    to_right = [any(isinstance(row.get(key), int) for row in found) for key in columns]
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, to_right, strict=True)
        ).rstrip()
        for line in (heads, *cells)
    ]


def facts(found: Row) -> str:
    """Return one thing as lines `name  value`."""
    width = max(map(len, found))
    return "\n".join(f"{name:<{width}}  {_cell(value)}" for name, value in found.items())


def time_of(since_1970_ms: int) -> str:
    """Return an instant as people read it, in UTC; "-" for one that was not recorded."""
    if since_1970_ms <= 0:
        return "-"
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(since_1970_ms // 1000))


def _cell(value: object) -> str:
    """Return what a table or a list of facts says of `value`: on one line, and nothing that moves the cursor or cannot
    be written, whoever wrote it into the metadata store."""
    return printable(_plain(value))


def shown(text: str) -> str:
    """Return `text` with its lines, and nothing else in it that moves the cursor or cannot be written."""
    return "\n".join(map(printable, text.split("\n")))


def printable(text: str) -> str:
    """Return `text` on one line, with nothing in it that moves the cursor or cannot be written."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _plain(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "-"
    if isinstance(value, dict):
        return ", ".join(f"{name} {each}" for name, each in value.items()) or "-"
    return str(value)


def read(path: Path) -> bytes:
    """Return the content of a file that the command was given. Raises BadInput where none can be read, or nothing is in
    it."""
    try:
        found = given_file.read(path)
    except OSError as error:
        raise errors.BadInput(f"{path} cannot be read: {error.strerror}: name another file") from error
    if not found:
        raise errors.BadInput(f"{path} is empty: name another file")
    return found


def is_there(path: str | Path) -> bool:
    """Return True when something is at `path`. Raises BadInput where we may not see it: that is not "no"."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _unseen(path, error) from error
    return True


def is_folder(path: Path) -> bool:
    """Return True when a folder is at `path`. Raises BadInput where we may not see it."""
    return is_there(path) and path.is_dir()


def read_if_there(path: Path) -> bytes | None:
    """Return the content of a bookie's file; None where there is none. Raises BadInput where we may not see it."""
    try:
        return given_file.read(path) if is_there(path) else None
    except OSError as error:
        raise _unseen(path, error) from error


def _unseen(path: str | Path, error: OSError) -> errors.BadInput:
    return errors.BadInput(f"{path} cannot be looked at: {error.strerror}: run this as the user whose it is")


@contextlib.contextmanager
def blamed(path: Path) -> Iterator[None]:
    """Name the file that the command was given in what is wrong with its bytes."""
    try:
        yield
    except errors.BadInput as error:
        raise errors.BadInput(f"{path}: {error}: name another file") from error


def write(path: Path, data: bytes, *, opener: Callable[[str, int], int] | None = None) -> None:
    """Write a file that the command was given. Raises BadInput where none can be, StorageFailed where it is
    not whole. `opener`: as for `open`."""
    try:
        with open(path, "wb", opener=opener or _open_to_write) as file:
            file.write(data)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise errors.BadInput(f"{path} cannot be written: {error.strerror}: name another file") from error
    except OSError as error:
        if error.errno in (errno.EROFS, errno.ENXIO):  # nothing was begun
            reason = "nobody reads this pipe" if error.errno == errno.ENXIO else error.strerror
            raise errors.BadInput(f"{path} cannot be written: {reason}: name another file") from error
        raise errors.StorageFailed(
            f"{path} cannot be written: {error.strerror}: what it holds now is not whole"
        ) from error


def check_target(path: Path | None) -> None:
    """Raise BadInput where `write` would find that nothing can be a file there. What a disk says, only `write` sees."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        reason = os.strerror(errno.EISDIR if path.is_dir() else errno.ENOENT)
        raise errors.BadInput(f"{path} cannot be written: {reason}: name another file")


def _open_to_write(path: str, flags: int) -> int:
    """Open a file to write; a pipe without a reader is refused, where Python waits for one for ever."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, 0o666)
    os.set_blocking(descriptor, True)
    return descriptor


def make_folder(path: Path) -> None:
    """Make the folder that the command was given, and those above it, unless it is there. Raises BadInput."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.BadInput(f"{path} can be no folder: {error.strerror}: name another one") from error


def tell(text: str) -> None:
    """Print a remark for the person in front of the screen."""
    print(shown(text), file=sys.stderr, flush=True)


def told_if_slow(what: str) -> contextlib.AbstractContextManager[None]:
    """Say on stderr for what the command waits, when the block takes longer than `PATIENCE_S`."""
    return overtime.after(PATIENCE_S, lambda: tell(f"waiting for {what}"))


@contextlib.contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr if that is a terminal, else a line now and then. Give a function that counts work done."""
    if not sys.stderr.isatty():
        yield ProgressLines(what, total).add
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)


class ProgressLines:
    """Progress for a log: no line for short work, a line every `PROGRESS_LINE_S` for long work."""

    def __init__(self, what: str, total: int | None, now_s: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._of = "" if total is None else f" of {total}"
        self._now_s = now_s
        self._told_s = now_s()
        self._done = 0

    def add(self, more: int) -> None:
        self._done += more
        if self._now_s() - self._told_s >= PROGRESS_LINE_S:
            self._told_s = self._now_s()
            tell(f"{self._what}: {self._done}{self._of}")


# ---- three outcomes --------------------------------------------------------------------------------------------------

# Of commands that look whether something is whole. What was not seen is never called fine (docs/CLI.md, exit codes).
# LISTED: the lists have it, and no byte was read; said only by commands that were asked for no more.
WHOLE, LISTED, DAMAGE, NOT_KNOWN = "whole", "listed", "damage", "not known"
EXIT_OF = {WHOLE: 0, LISTED: 0, DAMAGE: 1, NOT_KNOWN: 6}


# ---- what destroys ---------------------------------------------------------------------------------------------------


def add_consent(parser: argparse.ArgumentParser, *, dry_run: str = "show the plan, change nothing") -> None:
    """Add --yes and --dry-run; `dry_run` is the help of the latter."""
    parser.add_argument(
        "--yes", action="store_true", help="do it; without this, the command shows its plan and refuses"
    )
    parser.add_argument("--dry-run", action="store_true", help=dry_run)


def say_nothing_to_do(arguments: argparse.Namespace, found: object, text: str) -> None:
    """Print the answer of a command whose plan would have no line; with --dry-run that plan."""
    say(arguments, {"dryRun": True, "plan": []} if arguments.dry_run else found, text)


def consents(arguments: argparse.Namespace, plan: Sequence[str], *, is_all: bool = True) -> bool:
    """Show the plan; return True when it is to be done. Raises GrantRefused (exit code 4) without --yes. `is_all`:
    with --dry-run the plan is all that the command finds, so with --json it is the document that it prints."""
    for line in plan:
        tell(line)
    if arguments.dry_run:
        if arguments.json and is_all:
            print(json.dumps({"dryRun": True, "plan": list(plan)}))
        return False
    if not arguments.yes:
        raise errors.GrantRefused("not_confirmed", "nothing was done; run the command again with --yes to do this")
    return True
