"""Where log lines go: stderr, one line each, `time LEVEL module event key=value`. The only place that says so."""

import logging
import sys
import time

_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s"
# kazoo warns at every attempt to connect; our adapter says the same once.
_QUIET = ("kazoo", "grpc")


def set_up(level: str = "INFO") -> None:
    """Send records of `level` and above to stderr. Call once per process."""
    formatter = logging.Formatter(_FORMAT, datefmt="%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    quiet()


def quiet() -> None:
    """For commands, which say themselves what went wrong."""
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.ERROR)
