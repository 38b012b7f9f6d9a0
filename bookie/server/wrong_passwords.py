"""Limits how fast passwords may be tried from one address. Pure.

The first few mistakes are free (a client with an old password tries again and again). After them each attempt of that
address, from any client, waits its turn: twice as long after each further mistake. Other addresses notice nothing. A
password that is right counts for nothing here, so that nobody's success makes room for somebody else's guesses.
"""

from dataclasses import dataclass

from bookie.base.units import NS_PER_MS, NS_PER_S

FREE = 5
_PAUSE_NS = 100 * NS_PER_MS
_PAUSE_NS_MAX = 5 * NS_PER_S
# So many make the longest pause. More are not counted: a client that was wrong for a night would keep its address out
# for days after it was put right. Nobody guesses faster for it: a mistake is forgiven more slowly than one is made.
_MISTAKES_MAX = FREE + 6
assert _PAUSE_NS << (_MISTAKES_MAX - FREE - 1) < _PAUSE_NS_MAX <= _PAUSE_NS << (_MISTAKES_MAX - FREE)
# One mistake is forgiven after so long.
_FORGIVEN_NS = 60 * NS_PER_S
# Addresses that are remembered; beyond it the one that erred longest ago is forgotten.
HOSTS_MAX = 4096


@dataclass(slots=True)
class _Record:
    """The wrong attempts of one address."""

    erred_ns: int
    next_ns: int
    mistakes: int = 0


class WrongPasswords:
    """Wrong attempts by address."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}  # the one that erred last is last

    def attempt(self, host: str, now_ns: int) -> int:
        """Register an attempt from `host`; return the instant (ns) at which to check it, `now_ns` or later."""
        record = self._records.get(host)
        if record is None:
            return now_ns
        mistakes = self._forgive(record, now_ns)
        if mistakes < FREE:
            return now_ns
        at_ns = max(now_ns, record.next_ns)
        record.next_ns = at_ns + min(_PAUSE_NS << min(mistakes - FREE, 16), _PAUSE_NS_MAX)
        return at_ns

    def failed(self, host: str, now_ns: int) -> None:
        """Count a wrong attempt."""
        record = self._records.pop(host, None)
        if record is None:
            record = _Record(now_ns, now_ns)
            if len(self._records) >= HOSTS_MAX:
                del self._records[next(iter(self._records))]
        self._forgive(record, now_ns)
        record.mistakes = min(record.mistakes + 1, _MISTAKES_MAX)
        record.erred_ns = now_ns
        self._records[host] = record

    def _forgive(self, record: _Record, now_ns: int) -> int:
        forgiven = (now_ns - record.erred_ns) // _FORGIVEN_NS
        if forgiven > 0:
            record.mistakes = max(0, record.mistakes - forgiven)
            record.erred_ns += forgiven * _FORGIVEN_NS
        return record.mistakes
