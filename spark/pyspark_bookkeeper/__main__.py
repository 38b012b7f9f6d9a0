"""`python -m pyspark_bookkeeper COMMAND`: run a job of this package, and report its errors.

Exit codes are those of `bookie`; a job that looks for something says 5 when it found it.
"""

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from bookie.base import errors, extras, help_first
from bookie.base.errors import BookieError
from bookie.runtime import streams

with extras.told("pyspark_bookkeeper", "spark"):
    from pyspark_bookkeeper import failures
    from pyspark_bookkeeper.audit import command as audit

FAILED, USAGE, NOT_FOUND = 1, 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one job; return the exit code. Raises SystemExit for usage."""
    with streams.guarded(audit.PROGRAM):
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    words = "Jobs over a fleet of bookies, on Spark."
    parser: argparse.ArgumentParser = help_first.Parser(prog="pyspark_bookkeeper", description=words)
    audit.add_parser(parser.add_subparsers(metavar="COMMAND", required=True))
    parsed = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _terminate)  # the first process of a container dies of no signal by itself
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(message)s")
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # each attempt to connect; the outcome is told by us
    with extras.told(audit.PROGRAM, "spark"), failures.told(audit.PROGRAM):  # what is Spark's
        try:
            code: int = parsed.run(parsed)
        except BookieError as error:
            print(f"{audit.PROGRAM}: {error}", file=sys.stderr)
            return _exit_code(error)
    return code


def _terminate(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _exit_code(error: BookieError) -> int:
    if isinstance(error, errors.LedgerMissing):
        return NOT_FOUND
    return USAGE if isinstance(error, errors.BadInput) else FAILED


if __name__ == "__main__":
    sys.exit(main())
