"""The command tree, exit codes and how an error is told.

Exit codes: 0 done, 1 failed, 2 usage or bad input, 3 not found, 4 refused as unsafe (STYLE.md, 13). An error names the
thing, the reason and the next thing to try; a traceback is shown only for an error of ours.
"""

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

import bookie
from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.runtime import log

# Imported only when asked for: `bookie serve` should not pay for the tools.
COMMANDS = (
    "serve",
    "local",
    "settings",
    "cluster",
    "ledger",
    "node",
    "cookie",
    "integrity",
    "autorecovery",
    "metadata",
    "inspect",
    "test",
    "workload",
)

DONE, FAILED, USAGE, NOT_FOUND, UNSAFE = 0, 1, 2, 3, 4
_NOT_FOUND = (
    errors.LedgerMissing,
    errors.NoSuchLedger,
    errors.NoSuchEntry,
    errors.NodeMissing,
    errors.FileMissing,
    errors.NobodyAudits,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    if not __debug__:
        print("bookie: asserts guard the data and are never switched off: run without -O", file=sys.stderr)
        return USAGE
    words = list(sys.argv[1:] if arguments is None else arguments)
    parsed = _parser(words).parse_args(words)
    log.quiet()
    try:
        code = parsed.run(parsed)
    except BookieError as error:
        print(f"bookie: {error}{_hint(error)}", file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt:
        return FAILED
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        sys.stderr.close()
        return FAILED
    assert isinstance(code, int)
    return code


def exit_code(error: BookieError) -> int:
    """What a script is told about `error`."""
    if isinstance(error, errors.GrantRefused):
        return UNSAFE
    if isinstance(error, _NOT_FOUND):
        return NOT_FOUND
    return USAGE if isinstance(error, errors.BadInput) else FAILED


def _hint(error: BookieError) -> str:
    """What to try, where the error itself cannot know."""
    if isinstance(error, errors.Unauthorized):
        return (
            ": another --password? Or does the bookie ask for TLS or a user: then say --config FILE, with the settings"
            " of a bookie of this fleet"
        )
    return ""


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bookie", description=bookie.__doc__)
    parser.add_argument("--version", action="version", version=f"bookie {bookie.__version__}")
    nouns = parser.add_subparsers(metavar="COMMAND", required=True)
    wanted = [word for word in words[:1] if word in COMMANDS] or [name for name in COMMANDS if _exists(name)]
    for name in wanted:
        _module(name).add_parser(nouns)
    return parser


def _exists(name: str) -> bool:
    return importlib.util.find_spec(_full_name(name)) is not None


def _module(name: str) -> ModuleType:
    return importlib.import_module(_full_name(name))


def _full_name(name: str) -> str:
    return f"bookie.cli.{'settings_show' if name == 'settings' else name}"


if __name__ == "__main__":
    sys.exit(main())
