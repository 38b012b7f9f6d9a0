"""Durations, quantities and times as Kubernetes writes them. Pure: the present always comes in as a value."""

import re
from datetime import UTC, datetime
from decimal import Decimal

from bookie.base.errors import BadInput

DURATION_PATTERN = r"^([0-9]+(ms|s|m|h))+$"
TIME_PATTERN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2})$"
QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"

# RFC 3339 has four digits for a year. A time after the last one ("wait for ever") is told as that.
_TIME_END_S = 253_402_300_799
_DURATION_PART = re.compile(r"([0-9]+)(ms|s|m|h)")
_DURATION_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
_QUANTITY_FACTOR = {
    "m": Decimal("0.001"),
    "": Decimal(1),
    **{unit: Decimal(1000) ** (power + 1) for power, unit in enumerate("kMGTP")},
    **{f"{unit}i": Decimal(1024) ** (power + 1) for power, unit in enumerate("KMGTP")},
}


def parse_duration(text: str) -> int:
    """Return the milliseconds in `text` such as '90s' or '1h30m'. Raises BadInput."""
    if not re.fullmatch(DURATION_PATTERN, text):
        raise BadInput(f"duration {text!r} is not usable: write numbers with units ms, s, m, h, such as '90s'")
    return sum(int(number) * _DURATION_MS[unit] for number, unit in _DURATION_PART.findall(text))


def parse_quantity(text: str) -> Decimal:
    """Return the number in `text` such as '100m', '2Gi' or '3'. Raises BadInput."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise BadInput(f"quantity {text!r} is not usable: write a number with an optional unit, such as '2Gi'")
    return Decimal(found[1]) * _QUANTITY_FACTOR[found[2] or ""]


def format_quantity(size: Decimal) -> str:
    """Return `size` in the greatest binary unit that fits it as a whole number: 107374182400 -> '100Gi'."""
    whole = int(size)  # a Decimal cannot be divided beyond its 28 digits
    for unit in ("Pi", "Ti", "Gi", "Mi", "Ki"):
        factor = int(_QUANTITY_FACTOR[unit])
        if whole and whole == size and whole % factor == 0:
            return f"{whole // factor}{unit}"
    return f"{size.normalize():f}"


def is_same_quantity(first: str, second: str) -> bool:
    """Return True when both are quantities of equal value ('1000m' and '1')."""
    if not (_QUANTITY.fullmatch(first) and _QUANTITY.fullmatch(second)):
        return False
    return parse_quantity(first) == parse_quantity(second)


def format_time(wall_ms: int) -> str:
    """Return a time in RFC 3339, UTC, whole seconds, as metav1.Time has it: never before 1970, nor after 9999."""
    return datetime.fromtimestamp(min(max(wall_ms // 1000, 0), _TIME_END_S), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> int:
    """Return the milliseconds since the epoch of an RFC 3339 time. Raises BadInput."""
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise BadInput(f"time {text!r} is not RFC 3339") from None


def check_time(text: str) -> str:
    """Return `text`, a time that the operator can have stored. Raises BadInput."""
    if parse_time(text) < 0:
        raise BadInput(f"time {text!r} is before 1970")
    return text


def parse_time_or_0(text: object) -> int:
    """Return what `parse_time` returns; 0, the beginning of time, for an absent or unreadable text."""
    try:
        return parse_time(str(text))
    except BadInput:
        return 0
