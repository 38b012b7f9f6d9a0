"""The command tree, the exit codes, and how `bookie` reports an error.

Exit codes: 0 done, 1 failed, 2 usage or bad input, 3 not found, 4 refused as unsafe, 6 not known, 130 ended by
Ctrl-C (STYLE.md, 13). An error names the thing, the reason and the next thing to try; a traceback is shown only for an
error of ours.
"""

import argparse
import difflib
import importlib
import itertools
import re
import sys
from collections.abc import Coroutine, Sequence
from typing import Any, NoReturn

import bookie
from bookie.base import errors, extras, help_first
from bookie.base.errors import BookieError
from bookie.cli import output
from bookie.runtime import log, loop, streams

# What each command is for. Its module is imported only when it is asked for: neither `bookie serve` nor `bookie --help`
# should pay for the tools.
COMMANDS = {
    "serve": "run one bookie until SIGTERM",
    "local": "run a whole cluster on this machine until SIGTERM",
    "settings": "show every setting of a bookie and where its value came from",
    "cluster": "make a cluster, show it and its bookies, move ledgers off a bookie",
    "ledger": "create, write, read, show, list, check, recover and delete ledgers, accept a loss",
    "node": "show a running bookie, make it read-only or writable, start its upkeep",
    "cookie": "show, check, make and delete the identities (cookies) of bookies",
    "integrity": "show what a bookie knows about its volumes and its repair, and allow a repair",
    "autorecovery": "run auto-recovery, show what it has to do, switch it on or off",
    "metadata": "show, save and restore ledger records in the metadata store, and their owners",
    "inspect": "read the directories of a stopped bookie",
    "test": "write a ledger, read it back and delete it, to see whether the cluster works and how fast",
    "workload": "write until you stop it, then prove that no acknowledged entry is lost",
}

WHAT_FOR = (
    "Run bookies, the servers that keep replicated append-only ledgers for Apache BookKeeper's clients, and look after"
    " them. Begin with `bookie local`, a whole cluster on this machine, and `bookie test sanity`, which writes to it"
    " and reads back."
)

# "--" ends the flags: what stands behind it is judged as what it is.
_MAY_BE_EMPTY = ("--", "--password")

DONE, FAILED, USAGE, NOT_FOUND, UNSAFE = 0, 1, 2, 3, 4
_NOT_FOUND = (
    errors.LedgerMissing,
    errors.NoSuchLedger,
    errors.NoSuchEntry,
    errors.NodeMissing,
    errors.FileMissing,
    errors.NobodyAudits,
)

# The next thing to try, for errors that the library raises too, where no command would help.
_NEXT = {
    errors.LedgerMissing: "`bookie ledger list` shows those that there are",
    errors.RequestTimedOut: "`bookie cluster list-bookies` shows whether it is registered; if it is, look at its log",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    with streams.guarded("bookie"), extras.told("bookie"):
        return _run(words)


def _run(words: Sequence[str]) -> int:
    try:
        if help_first.position(words) is None:
            _refuse_empty(words)
        parsed = parser_for(words).parse_args(words)  # raises BadInput itself: `type=` of a flag is a parser of ours
        log.quiet()
        getattr(parsed, "judge", _nothing)(parsed)
        code = parsed.run(parsed)
        if isinstance(code, Coroutine):
            code = loop.run(code)
    except BookieError as error:
        print(output.shown(f"bookie: {error}{_hint(error)}"), file=sys.stderr)
        return exit_code(error)
    assert isinstance(code, int)
    return code


def _nothing(_: argparse.Namespace) -> None:
    """Judge a verb whose parser has judged all."""


def _refuse_empty(words: Sequence[str]) -> None:
    """Raise BadInput for a flag with nothing behind it, as a variable of a shell is that is not set: it would count as
    one that was not given, and `node drain --dead "$BOOKIE"` empty the bookie that is asked."""
    of_settings = words[:1] in (["serve"], ["settings"])  # of which an empty value is a value
    for flag, value in (*itertools.pairwise(words), *(word.split("=", 1) for word in words if "=" in word)):
        if value or not flag.startswith("--") or flag in _MAY_BE_EMPTY or (of_settings and flag != "--config"):
            continue
        raise errors.BadInput(
            f"an empty word stands behind {flag}: is a variable of the shell not set? Put there what you mean, or leave"
            f" {flag} out"
        )


def exit_code(error: BookieError) -> int:
    """Return the exit code for `error`."""
    if isinstance(error, errors.GrantRefused):
        return UNSAFE
    if isinstance(error, _NOT_FOUND):
        return NOT_FOUND
    return USAGE if isinstance(error, errors.BadInput) else FAILED


def _hint(error: BookieError) -> str:
    """Return what the person can try, for an error whose text does not say it."""
    if isinstance(error, errors.Unauthorized) and not isinstance(error, errors.WrongPassword):
        return (
            ": is the --password wrong? If the bookie asks for TLS or a user, add --config FILE, the settings file"
            " of a bookie of this fleet; if you did, its certificate or user may not be one that the bookie lets in"
            " (authorizedRoles, authorizedNames, saslJaasClientAllowedIds there)"
        )
    return next((f": {text}" for kind, text in _NEXT.items() if isinstance(error, kind)), "")


_VERSION = f"bookie {bookie.__version__} (hot modules: {extras.hot_modules()})"


class _Parser(help_first.Parser):
    """A parser, and of its verbs too, that itself refuses what it does not know, in one sentence: argparse leaves flags
    to the outermost one, and shows a usage that nobody asked about."""

    def error(self, message: str) -> NoReturn:
        said = message.removeprefix("argument ")
        raise errors.BadInput(f"`{self.prog}`: {said}: {self.prog} --help shows what there is")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a word that is none of those that may stand there."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(each) for each in action.choices]
        like = difflib.get_close_matches(str(value), choices, n=1)
        if action.option_strings:
            raise errors.BadInput(f"{action.option_strings[0]} {value}: it must be one of {', '.join(choices)}")
        also = f"did you mean {like[0]}? " if like else ""
        raise errors.BadInput(f"`{self.prog}` does not know {value}: {also}{self.prog} --help shows what there is")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            flags, word = re.findall(r"--[\w-]+", self.format_usage()), unknown[0].partition("=")[0]
            # Of a word without dashes only one that misses nothing else was meant for a flag: "json", and not "soon".
            like = difflib.get_close_matches(word, flags, n=1) if word.startswith("-") else []
            like = like or [flag for flag in flags if flag == f"--{word}"]
            also = f"did you mean {like[0]}? " if like else ""
            raise errors.BadInput(
                f"`{self.prog}` does not know {' '.join(unknown)}: {also}{self.prog} --help shows what there is"
            )
        return found, unknown


def parser_for(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = _Parser(prog="bookie", description=WHAT_FOR)
    parser.add_argument("--version", action="version", version=_VERSION)
    nouns = parser.add_subparsers(metavar="COMMAND", required=True)
    wanted = words[0] if words else ""
    for name, text in COMMANDS.items():
        noun = output.add_verb(nouns, name, text)
        if name == wanted:
            module = importlib.import_module(f"bookie.cli.{'settings_show' if name == 'settings' else name}")
            module.add_verbs(noun)
    return parser


if __name__ == "__main__":
    sys.exit(main())
