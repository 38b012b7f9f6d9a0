"""Decides when the auditor looks, and at what. Pure.

Two kinds of looks at all ledgers. One reads records alone: it finds ledgers that name a lost bookie. The other also
compares the lists of bookies with the records: it finds holes, which no record shows. A bookie that came back gets a
comparison of its own, after a while: it has missed what was written meanwhile, and fills that itself first. Now and
then a comparison with all of them also reads, since a list comes from an index, not from what it points to. Rules:
spec/metadata.md#M45, M47.
"""

from collections.abc import Collection
from dataclasses import dataclass

from bookie.base.ids import BookieId


@dataclass(frozen=True, slots=True)
class Audit:
    """One look at all ledgers. `compares_all`: with the lists of every bookie; else with those of `compared`. `probes`:
    it also reads the ends of what they should have."""

    reason: str
    compares_all: bool = False
    compared: frozenset[BookieId] = frozenset()
    probes: bool = False

    @property
    def asks_bookies(self) -> bool:
        """Return True when bookies are asked for lists, False when the records alone are looked at."""
        return self.compares_all or bool(self.compared)

    def compares(self, bookie_id: BookieId) -> bool:
        return self.compares_all or bookie_id in self.compared


class AuditTimes:
    """When which look is due. What `done` was not told of is due still: a look that broke off counts for nothing."""

    def __init__(self, *, audit_ns: int, check_ns: int, probe_ns: int, grace_ns: int) -> None:
        """The intervals of looks, comparisons and those that read (the last two 0: never; those that read are none more
        often than comparisons), and the time that a bookie which came back has for itself."""
        self._audit_ns = audit_ns
        self._check_ns = check_ns
        self._probe_ns = probe_ns
        self._grace_ns = grace_ns
        self._audited_ns: int | None = None
        self._checked_ns: int | None = None
        self._probed_ns: int | None = None
        self._lost: frozenset[BookieId] = frozenset()  # that an audit has been made for
        self._returned_ns: dict[BookieId, int] = {}
        self._is_asked = False

    def ask(self) -> None:
        """Somebody wants an audit now."""
        self._is_asked = True

    def returned(self, bookies: Collection[BookieId], now_ns: int) -> None:
        """Note bookies that came back."""
        self._returned_ns.update(dict.fromkeys(bookies, now_ns))

    def probed(self, since_ns: int | None) -> None:
        """Note when the last look that read began, whoever made it; None: nobody knows of one."""
        self._probed_ns = since_ns

    def due(self, lost: frozenset[BookieId], now_ns: int) -> Audit | None:
        """Return the look that is due now."""
        self._lost &= lost  # one that came back and is lost again is new
        compared = frozenset(each for each, since in self._returned_ns.items() if now_ns - since >= self._grace_ns)
        is_check = bool(self._check_ns) and self._is_over(self._checked_ns, self._check_ns, now_ns)
        if lost - self._lost:
            reason = f"lost: {', '.join(sorted(lost - self._lost))}"
        elif self._is_asked:
            reason = "asked for"
        elif self._is_over(self._audited_ns, self._audit_ns, now_ns):
            reason = "interval"
        elif is_check:
            reason = "interval of the comparison"
        elif compared:
            reason = f"came back: {', '.join(sorted(compared))}"
        else:
            return None
        # A loss is urgent and a comparison slow: so the first does not wait for the second.
        if lost - self._lost:
            return Audit(reason)
        is_probe = is_check and bool(self._probe_ns) and self._is_over(self._probed_ns, self._probe_ns, now_ns)
        return Audit(reason, compares_all=is_check, compared=compared, probes=is_probe)

    def until_due_ns(self, now_ns: int) -> int | None:
        """Return how long it is until a look is due by its interval or because of a bookie that came back; None when
        that time is over (and something else stands against it), or will not come."""
        ends = [since + self._grace_ns for since in self._returned_ns.values()]
        ends += [] if self._audited_ns is None else [self._audited_ns + self._audit_ns]
        ends += [] if self._checked_ns is None or not self._check_ns else [self._checked_ns + self._check_ns]
        return min((end - now_ns for end in ends if end > now_ns), default=None)

    @staticmethod
    def _is_over(since_ns: int | None, interval_ns: int, now_ns: int) -> bool:
        return since_ns is None or now_ns - since_ns >= interval_ns

    def done(self, audit: Audit, lost: frozenset[BookieId], began_ns: int) -> None:
        """Note that `audit` reached its end; `lost`, `began_ns`: what was known, and when, as it began."""
        self._lost |= lost
        self._audited_ns = began_ns
        self._is_asked = False
        if audit.compares_all:
            self._checked_ns = began_ns
            self._returned_ns = {each: since for each, since in self._returned_ns.items() if since > began_ns}
        if audit.probes:
            self._probed_ns = began_ns
        for each in audit.compared:
            self._returned_ns.pop(each, None)
