"""Figures of many ledgers: counters with names of several words, which add up whatever order they come in. Pure.

ledgers/<state>            how each ledger was dealt with, one of STATES
ledgers/<kind>             ledgers with findings of that kind
entries                    of the audited ledgers
lost                       entries of them that a person declared lost, which nobody owes
copies/<expected | kind>   entries times replicas
copies/read                copies whose bytes were read
bookies/<id>/<same>        the same for one bookie
bookies/<id>/unanswered    ledgers of which it owes no copy, and of which it did not say whether it has any
replicas/<whole>/<seen>    ledgers by the replicas seen of their weakest entry, of so many promised
zones/<zone>/<left>        ledgers by what the loss of that zone would leave of it: 0, 1 or 2 (and more)
reasons/<sentence>         bookies' answers that prove nothing, ledgers that were not audited
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from pyspark_bookkeeper.audit.compare import CORRUPT, KINDS, UNREACHABLE, Comparison

Figures = Counter[tuple[str, ...]]

CLOSED, OPEN, GONE = "closed", "open", "gone"
UNSURE, YOUNG, MOVED, UNREADABLE = "unsure", "young", "moved", "unreadable"
UNKNOWN = (UNSURE, YOUNG, MOVED, UNREADABLE)
STATES = (CLOSED, OPEN, GONE, *UNKNOWN)
"""`closed` and `open` were audited, `gone` deleted meanwhile. The others are not known. `unsure`: too few bookies say
which entry is its last confirmed one, so the audit looked only at what is before its last ensemble; `young`: its record
changed within the grace time; `moved`: its record changed at every look; `unreadable`: nobody can read its record."""

UNANSWERED = "unanswered"
REASONS_MAX = 50


def of(comparison: Comparison, state: str, *, write_quorum: int) -> Figures:
    """Return the figures of one audited ledger."""
    figures: Figures = Counter({("ledgers", state): 1, ("entries",): comparison.entries})
    if comparison.lost:
        figures["lost",] = comparison.lost
    kinds: set[str] = set()
    for bookie, replica in comparison.replicas.items():
        counts = {
            "expected": replica.expected,
            "read": replica.read,
            **{kind: getattr(replica, kind).count for kind in KINDS},
        }
        for name, count in counts.items():
            if count:
                figures["copies", name] += count
                figures["bookies", bookie, name] += count
                kinds.add(name)
        if comparison.is_unanswered(bookie):
            figures["bookies", bookie, UNANSWERED] += 1
            figures.update(reason(comparison.reasons[bookie, UNREACHABLE]))
        if replica.unreachable.count:
            figures.update(reason(comparison.reasons[bookie, UNREACHABLE]))
        if replica.corrupt.count:
            figures.update(reason(comparison.reasons[bookie, CORRUPT]))
    for kind in kinds.intersection(KINDS):
        figures["ledgers", kind] += 1
    if comparison.entries:
        figures["replicas", str(write_quorum), str(comparison.replicas_min)] += 1
        for zone, left in comparison.survivors.items():
            figures["zones", zone, str(min(left, 2))] += 1
    return figures


def skipped(state: str, why: str = "") -> Figures:
    """Return the figures of a ledger that was not audited."""
    return Counter({("ledgers", state): 1}) + (reason(why) if why else Counter())


def reason(sentence: str) -> Figures:
    """Return one count of `sentence`, with "..." for ids, so that equal reasons add up."""
    return Counter({("reasons", re.sub(r"(ledger|entry) \d+", r"\1 ...", sentence)): 1})


def total(parts: Iterable[Figures]) -> Figures:
    """Return the sum of the figures. Of reasons it keeps only the most frequent."""
    figures: Figures = Counter()
    for part in parts:
        figures.update(part)
    reasons = Counter({key: count for key, count in figures.items() if key[0] == "reasons"})
    for key, _ in reasons.most_common()[REASONS_MAX:]:
        del figures[key]
    return figures


def nested(figures: Figures) -> dict[str, Any]:
    """Return the figures as a tree of dictionaries, for JSON; names in order."""
    tree: dict[str, Any] = {}
    for key, count in sorted(figures.items()):
        branch = tree
        for word in key[:-1]:
            branch = branch.setdefault(word, {})
        branch[key[-1]] = count
    return tree


def flat(tree: dict[str, Any]) -> Figures:
    """Return the figures of a tree that `nested` made."""
    figures: Figures = Counter()

    def walk(branch: dict[str, Any], words: tuple[str, ...]) -> None:
        for word, below in branch.items():
            if isinstance(below, dict):
                walk(below, (*words, word))
            else:
                figures[(*words, word)] = below

    walk(tree, ())
    return figures
