"""The settings that a running bookie takes without a restart: how slowly background work goes, and how much it logs.

They are kept in memory alone: a process begins with what its settings file says, and whoever changed them says so again
(spec/operator.md#Q17). Nothing here touches what a bookie answers, or when it is durable.
"""

import logging
from collections.abc import Callable, Mapping

from bookie.base import errors
from bookie.settings.table import BY_NAME, LIVE
from bookie.settings.values import Value

log = logging.getLogger(__name__)


class LiveSettings:
    """What this process runs with, by the text that was said; "" = the default. A part that acts on a setting says how
    it takes another value (`take_with`)."""

    def __init__(self, said: Mapping[str, str]) -> None:
        self._said = {key: text for key, text in said.items() if key in LIVE}
        self._changed: set[str] = set()  # since this process began
        self._takers: dict[str, Callable[[object], None]] = {}

    def take_with(self, key: str, take: Callable[[object], None]) -> None:
        """Have `take` hear of another value of `key`, parsed; at once of one that came before this part was there."""
        assert BY_NAME[key].is_live, key
        self._takers[key] = take
        if key in self._changed:
            take(_parsed(key, self._said[key]))

    def told(self) -> tuple[str, ...]:
        """Return `NAME=TEXT` for each setting that can be changed now, by name."""
        return tuple(f"{key}={self._said.get(key, '')}" for key in sorted(self._takers))

    def change(self, wanted: Mapping[str, str]) -> None:
        """Take other values, all or none; "" = the default. Raises BadInput for a setting that needs a restart, and for
        a text that is none of its values."""
        foreign = sorted(wanted.keys() - self._takers.keys())
        if foreign:
            raise errors.BadInput(
                f"{', '.join(foreign)}: no setting that a running bookie takes: change its settings file and restart it"
                f" (it takes {', '.join(sorted(self._takers))})"
            )
        parsed = {key: _parsed(key, text) for key, text in wanted.items()}
        for key, value in parsed.items():
            self._takers[key](value)
            self._said[key] = wanted[key]
            self._changed.add(key)
            log.info("setting changed %s=%s", key, wanted[key] or BY_NAME[key].default)


def rate(value: object) -> int | None:
    """Return a parsed rate as one; None = no limit."""
    assert value is None or isinstance(value, int)
    return value


def _parsed(key: str, text: str) -> object:
    setting = BY_NAME[key]
    return Value(setting, text or setting.default, "live").parsed()
