"""Whose cluster a BookieCluster is, when several operators run beside each other (spec/operator.md#I1 to I3). Pure.

An operator here is an installation: all processes that share one lease. Its name, `namespace/lease`, is stored in the
status of each cluster, and in the record, before it touches anything of that cluster. Another installation that finds
the name refuses, in words, and writes nothing to the cluster. Only a person hands a cluster over, by an annotation. No
time does: an operator that is silent may be in the middle of a grant.
"""

from dataclasses import dataclass

from bookie_operator.model import names


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why this operator leaves a cluster alone. `is_conflict`: nobody asked for that by name."""

    owner: str
    message: str
    is_conflict: bool


def refusal(mine: str, asked: str, stored: str) -> Refusal | None:
    """Return why the operator `mine` must leave a cluster alone; None when it is its own. `asked`: the operator that
    the annotation names; `stored`: the one that the status, or the record, names; "" = none."""
    if asked and asked != mine:
        return Refusal(asked, f"annotation {names.OPERATOR} says that operator {asked} keeps it", False)
    if asked or not stored or stored == mine:
        return None
    return Refusal(
        stored,
        f"operator {stored} keeps this cluster, and operator {mine} finds it too: narrow what one of them watches"
        f" (chart values watch.namespaces, watch.selector); or hand it over: `kubectl annotate bookiecluster"
        f" {names.OPERATOR}={mine}`",
        True,
    )
