"""Turns the text of one option into a value; raises a ValueError that says what the text should look like. Pure."""

import datetime as dt
import difflib
import enum
import json
from collections.abc import Callable, Collection

from bookie.base import errors
from bookie.base.ids import decimal, parse_ledger_id
from pyspark_bookkeeper.ranges import Range

_SHOWN_MAX = 80


def shown(text: str) -> str:
    """Return an option's text for an error message, quoted and cut."""
    return repr(text) if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]!r}... ({len(text)} characters)"


def ledgers(text: str) -> tuple[Range, ...]:
    """Parse `1,5-9`, both ends included, or a JSON list of ids."""
    if text.lstrip().startswith("["):
        wrong = f"{shown(text)} is not a list of ledger ids like [1, 5, 9]"
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError(wrong) from None
        if not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in found):
            raise ValueError(wrong)
        words = [str(one) for one in found]
    else:
        words = [word.strip() for word in text.split(",")]
    return tuple(map(_ledger_range, words))


def _ledger_range(word: str) -> Range:
    first, dash, last = word.partition("-")
    try:
        start = parse_ledger_id(first.strip())
        end = parse_ledger_id(last.strip()) if dash else start
    except errors.BadInput as error:
        raise ValueError(f'{error} (e.g. "1,5-9")') from None
    if end < start:
        raise ValueError(f"the range {word} is empty: it ends before it starts")
    return Range(start, end + 1)


def pairs(text: str) -> tuple[tuple[str, bytes], ...]:
    """Parse `app=orders,env=prod`: all must hold, compared with the ledger's custom metadata."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(key.strip() and sign for key, sign, _ in pairs):
        raise ValueError(f"{shown(text)} is not of the form key=value,key=value")
    return tuple((key.strip(), value.strip().encode()) for key, _, value in pairs)


def time_ms(text: str) -> int:
    """Parse milliseconds since the epoch, or ISO 8601 (UTC unless it says otherwise)."""
    if (since_1970 := decimal(text.strip())) is not None:
        if _UNLIKELY_MS <= since_1970 < _LIKELY_MS:  # a date as 20260131, or seconds: every ledger would be younger
            raise ValueError(f"{text.strip()} milliseconds are in the year 1970: say it like 2026-01-31T12:00:00Z")
        return since_1970
    try:
        when = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{shown(text)} is neither milliseconds since 1970 nor like 2026-01-31T12:00:00Z") from None
    return round((when if when.tzinfo else when.replace(tzinfo=dt.UTC)).timestamp() * 1000)


# Of 8 digits, a date; of 10, seconds until the year 2286.
_UNLIKELY_MS, _LIKELY_MS = 10_000_000, 10_000_000_000


def positive(text: str) -> int:
    if not (found := decimal(text.strip())):
        raise ValueError(f"{shown(text)} is not a positive number below 10^19")
    return found


def number(text: str) -> int:
    """Parse a whole number, zero or more."""
    if (found := decimal(text.strip())) is None:
        raise ValueError(f"{shown(text)} is not a number")
    return found


def flag(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.strip().lower() == "true"


def one_of(kind: type[enum.Enum]) -> Callable[[str], enum.Enum]:
    def convert(text: str) -> enum.Enum:
        words = [member.value for member in kind]
        if text.strip().lower() not in words:
            raise ValueError(f"{text!r} is none of {', '.join(words)}{nearest(text, words)}")
        return kind(text.strip().lower())

    return convert


def names(text: str) -> tuple[str, ...]:
    """Parse column names; the view's schema judges them."""
    return tuple(word.strip() for word in text.split(","))


def text(given: str) -> str:
    if not given.strip():
        raise ValueError("is empty")
    return given


def nearest(name: str, known: Collection[str]) -> str:
    """Return a hint after an unknown `name`: the most similar known name, or all of them."""
    lower = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    return f" (did you mean {lower[found[0]]}?)" if found else f" (there are {', '.join(sorted(known))})"
