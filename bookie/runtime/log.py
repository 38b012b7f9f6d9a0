"""Sends log lines to stderr, one line each: `time LEVEL module event key=value`. No other module configures logging."""

import json
import logging
import sys
import time

from bookie.base.line_limit import LineLimit

_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s"
# kazoo warns at every attempt to connect; our adapter says the same once.
_QUIET = ("kazoo", "grpc")


# Libraries that log each odd message of a stranger, with its traceback.
_FOREIGN = ("grpc", "asyncio", "kazoo")


class _Limit(logging.Filter):
    """Limits libraries' lines, by logger and place: lets a few pass, then one in a while with the number of suppressed
    lines."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = LineLimit()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.partition(".")[0] not in _FOREIGN:
            return True
        kept_back = self._lines.take(f"{record.name}:{record.lineno}", time.monotonic_ns())
        if kept_back:
            record.msg, record.args = f"{record.getMessage()} more_before={kept_back}", ()
        return kept_back is not None


class _JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        facts = {"time": f"{when}.{int(record.msecs):03d}Z", "level": record.levelname, "module": record.name}
        facts["event"] = record.getMessage()
        if record.exc_info:
            facts["error"] = self.formatException(record.exc_info)
        return json.dumps(facts)


def set_up(level: str = "INFO", *, as_json: bool = False) -> None:
    """Send records of `level` and above to stderr. Call once per process."""
    formatter = _JsonFormatter() if as_json else logging.Formatter(_FORMAT, datefmt="%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(_Limit())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    quiet()


def set_level(level: str) -> None:
    """Send records of `level` and above from now on."""
    logging.getLogger().setLevel(level.upper())


def quiet() -> None:
    """Silence libraries whose errors our own code reports."""
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.ERROR)
