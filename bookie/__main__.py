"""`bookie`, and `python -m bookie`: the command line.

Imports next to nothing at first, so that Ctrl-C while the command line's modules are imported is no traceback either,
and what runs until it is stopped hears a stop from its first moment on.
"""

import signal
import sys

INTERRUPTED = 130  # as `bookie.runtime.streams` has it; that module is not imported yet
# A stop is how these end, with code 0. Until each listens itself nothing has begun that must be ended in order; and the
# first process of a container would ignore a signal that nobody listens for (signal(7), kill(2)).
_UNTIL_STOPPED = (["serve"], ["local"], ["autorecovery", "run"], ["workload", "run"])


def main() -> int:
    """Run one command; return the exit code."""
    if any(sys.argv[1:][: len(words)] == words for words in _UNTIL_STOPPED):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _on_stop)
    try:
        from bookie.cli.main import main as run
    except KeyboardInterrupt:
        return INTERRUPTED
    return run()


def _on_stop(number: int, _: object) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main())
