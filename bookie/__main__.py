"""`bookie`, and `python -m bookie`: the command line.

Imports nothing at first, so that Ctrl-C while the command line's modules are imported is no traceback either.
"""

import sys

INTERRUPTED = 130  # as `bookie.runtime.streams` has it; that module is not imported yet


def main() -> int:
    """Run one command; return the exit code."""
    try:
        from bookie.cli.main import main as run
    except KeyboardInterrupt:
        return INTERRUPTED
    return run()


if __name__ == "__main__":
    sys.exit(main())
