"""Decides once what is audited, and writes it down: a killed audit goes on where it was, over the same ledgers.

Units are tasks of some hundred ledgers: enough work to be worth a task's cost, little enough to be repeated. A wave is
the units whose results are committed together. Pure.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from bookie.base import errors
from bookie.base.ids import BookieId, LedgerId
from pyspark_bookkeeper import option_values, ranges
from pyspark_bookkeeper.audit.inspector import Rules
from pyspark_bookkeeper.ranges import Ranges

FORMAT = 2
UNIT_LEDGERS = 500  # half a second of work; a task costs 20 to 90 ms before its first request
WAVE_UNITS_PER_SLOT = 4  # so that the slot that ends first waits for an eighth of a wave at most

Unit = tuple[int, str]
"""The number of a unit, and its ledgers as text: "1-400,402"."""


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """`zones`: the bookies registered at the start; `known`: those with a cookie, registered or not. `options`: the
    options of the command line: whoever continues the audit must give the same."""

    uri: str
    started_ms: int
    options: dict[str, str]
    rules: Rules
    zones: dict[BookieId, str]
    known: tuple[BookieId, ...]
    ledgers: int
    units: tuple[str, ...]
    wave_units: int

    def waves(self) -> list[list[Unit]]:
        numbered = list(enumerate(self.units))
        return [numbered[start : start + self.wave_units] for start in range(0, len(numbered), self.wave_units)]


def make(
    *,
    uri: str,
    started_ms: int,
    options: dict[str, str],
    rules: Rules,
    zones: dict[BookieId, str],
    known: Iterable[BookieId],
    ledger_ids: Sequence[LedgerId],
    unit_ledgers: int = UNIT_LEDGERS,
    wave_units: int,
) -> AuditPlan:
    """Return the plan over `ledger_ids`, which ascend."""
    units = [ledger_ids[start : start + unit_ledgers] for start in range(0, len(ledger_ids), unit_ledgers)]
    texts = tuple(map(format_ids, units))
    return AuditPlan(uri, started_ms, options, rules, zones, tuple(known), len(ledger_ids), texts, wave_units)


def difference(plan: AuditPlan, options: dict[str, str]) -> str:
    """Return how `options` differ from the plan's; "" when they are the same."""
    names = [name for name in plan.options if plan.options[name] != options.get(name)]
    return ", ".join(f"{name} {plan.options[name]} (now {options.get(name)})" for name in names)


def dump(plan: AuditPlan) -> str:
    return json.dumps({"format": FORMAT, **asdict(plan)}, indent=1)


def load(text: str) -> AuditPlan:
    """Return the plan that the text holds. Raises BadInput."""
    try:
        record = json.loads(text)
        if record.pop("format") != FORMAT:
            raise errors.BadInput("the plan was written by another version: start the audit in another folder")
        record["rules"] = Rules(**record["rules"])
        record["known"], record["units"] = tuple(record["known"]), tuple(record["units"])
        return AuditPlan(**record)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.BadInput(f"the plan cannot be read ({error}): start the audit in another folder") from None


def format_ids(ids: Iterable[LedgerId]) -> str:
    """Return ids as ranges, both ends included: "1-400,402"."""
    found = ranges.of_ids(ids)
    return ",".join(str(one.start) if one.is_one else f"{one.start}-{one.end - 1}" for one in found)


def parse_ranges(text: str) -> Ranges:
    """Return the ids of a text that `format_ids` wrote, as ranges. Raises BadInput."""
    try:
        return ranges.union(option_values.ledgers(text))
    except ValueError as error:
        raise errors.BadInput(str(error)) from None


def parse_ids(text: str) -> Iterator[LedgerId]:
    """Return each id in `text`, ascending. Only for a text of `format_ids`, since a person's may hold too many ids."""
    for one in parse_ranges(text):
        yield from map(LedgerId, one.ids)
