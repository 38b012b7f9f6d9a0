"""SourceOptions: what a query says with `.option(...)`, checked whole before anything is connected.

Spark hands over any option of any name, in lower case, and forgets none: so a misspelt one is refused here, with the
nearest name. Options stand in plans and event logs, which is why a password is never one: a file or an environment
variable is named instead. docs/PIPELINE.md has the table.
"""

import dataclasses
import datetime as dt
import difflib
import enum
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from bookie.base import errors
from bookie.base.ids import LEDGER_ID_MAX, LedgerId, parse_ledger_id
from bookie.base.units import MIB
from bookie.client import ClientOptions
from pyspark_bookkeeper import offsets
from pyspark_bookkeeper.offsets import Offsets

CLIENT_PREFIX = "bookkeeper.client."
# Two to five seconds of work for one core: a task costs 20 to 90 ms before it reads a byte.
PARTITION_BYTES = 128 * MIB
# A record batch is one allocation in Python and one in the JVM.
BATCH_BYTES = 4 * MIB


class View(enum.Enum):
    """What a row is."""

    ENTRIES = "entries"
    LEDGERS = "ledgers"
    BOOKIES = "bookies"
    REPLICAS = "replicas"


class OnCorrupt(enum.Enum):
    """What to do with an entry whose digest matches on no replica."""

    FAIL = "fail"
    SKIP = "skip"
    EMIT = "emit"


@dataclass(frozen=True, slots=True)
class LedgerRange:
    """Ledger ids from `start` up to, not including, `end`."""

    start: LedgerId
    end: LedgerId

    @property
    def is_one(self) -> bool:
        """It names one ledger, which therefore must exist."""
        return self.end - self.start == 1


@dataclass(frozen=True, slots=True)
class Connection:
    """What tells one client from another in a process: the cluster and the settings of the client library."""

    uri: str
    client: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Parsed. None: not given. Sizes in bytes, times in ms since the epoch."""

    metadata_uri: str
    view: View = View.ENTRIES
    ledgers: tuple[LedgerRange, ...] | None = None
    ledger_filter: tuple[tuple[str, bytes], ...] = ()
    ledger_ids_from: str | None = None
    starting_offsets: Offsets = Offsets(offsets.EARLIEST)
    ending_offsets: Offsets = Offsets(offsets.LATEST)
    starting_timestamp_ms: int | None = None
    partitions_min: int = 1
    partition_entries_max: int | None = None
    partition_bytes_max: int = PARTITION_BYTES
    batch_bytes_max: int = BATCH_BYTES
    on_corrupt: OnCorrupt = OnCorrupt.FAIL
    fail_on_data_loss: bool = True
    password_file: str | None = None
    password_env: str | None = None
    columns: tuple[str, ...] | None = None
    client: tuple[tuple[str, Any], ...] = ()

    @property
    def connection(self) -> Connection:
        return Connection(self.metadata_uri, self.client)


def parse(given: Mapping[str, str]) -> SourceOptions:
    """The options of one query; names in any case. Raises BadInput with every problem in one sentence."""
    texts = {name.lower(): text for name, text in given.items()}
    values: dict[str, Any] = {}
    problems: list[str] = []
    client: list[tuple[str, Any]] = []
    for name, text in sorted(texts.items()):
        try:
            if name.startswith(CLIENT_PREFIX):
                client.append(_client_option(name.removeprefix(CLIENT_PREFIX), text))
            else:
                option = _BY_NAME[name]
                values[option.field] = option.convert(text)
        except KeyError:
            problems.append(_unknown(name))
        except ValueError as error:
            problems.append(f"{_BY_NAME[name].name if name in _BY_NAME else name}: {error}")
    problems += _contradictions(texts, values.get("view", View.ENTRIES))
    if "metadataserviceuri" not in texts:
        problems.append("metadataServiceUri is missing (e.g. zk+hierarchical://127.0.0.1:2181/ledgers)")
    elif not problems:
        try:
            ClientOptions(values["metadata_uri"], **dict(client))
        except errors.BadInput as error:
            problems.append(str(error))
    if problems:
        raise errors.BadInput("bookkeeper source: " + "; ".join(problems))
    return SourceOptions(**values, client=tuple(client))


# ---- one option ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Option:
    """`convert` raises ValueError. `is_selection`: also of use to the metadata views."""

    name: str
    field: str
    convert: Callable[[str], Any]
    is_for_views: bool = False


def _ledgers(text: str) -> tuple[LedgerRange, ...]:
    """`1,5-9`, both ends included, or a JSON list of ids."""
    if text.lstrip().startswith("["):
        found = json.loads(text)
        if not all(isinstance(one, int) and not isinstance(one, bool) for one in found):
            raise ValueError(f"{text!r} is not a list of ledger ids")
        words = [str(one) for one in found]
    else:
        words = [word.strip() for word in text.split(",")]
    return tuple(map(_ledger_range, words))


def _ledger_range(word: str) -> LedgerRange:
    first, dash, last = word.partition("-")
    try:
        start = parse_ledger_id(first.strip())
        end = parse_ledger_id(last.strip()) if dash else start
    except errors.BadInput as error:
        raise ValueError(f'{error} (e.g. "1,5-9")') from None
    if end < start:
        raise ValueError(f"the range {word} is empty: it ends before it starts")
    assert end <= LEDGER_ID_MAX
    return LedgerRange(start, LedgerId(end + 1))


def _pairs(text: str) -> tuple[tuple[str, bytes], ...]:
    """`app=orders,env=prod`: all must hold, compared with the ledger's custom metadata."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(key.strip() and sign for key, sign, _ in pairs):
        raise ValueError(f"{text!r} is not of the form key=value,key=value")
    return tuple((key.strip(), value.strip().encode()) for key, _, value in pairs)


def _time_ms(text: str) -> int:
    """Milliseconds since the epoch, or ISO 8601 (UTC unless it says otherwise)."""
    if text.strip().isdigit():
        return int(text)
    try:
        when = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is neither milliseconds since 1970 nor like 2026-01-31T12:00:00Z") from None
    return round((when if when.tzinfo else when.replace(tzinfo=dt.UTC)).timestamp() * 1000)


def _positive(text: str) -> int:
    if not text.strip().isdigit() or int(text) < 1:
        raise ValueError(f"{text!r} is not a positive number")
    return int(text)


def _flag(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.strip().lower() == "true"


def _one_of(kind: type[enum.Enum]) -> Callable[[str], enum.Enum]:
    def convert(text: str) -> enum.Enum:
        words = [member.value for member in kind]
        if text.strip().lower() not in words:
            raise ValueError(f"{text!r} is none of {', '.join(words)}{_nearest(text, words)}")
        return kind(text.strip().lower())

    return convert


def _names(text: str) -> tuple[str, ...]:
    """Column names; the view's schema judges them."""
    return tuple(word.strip() for word in text.split(","))


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


_OPTIONS = (
    _Option("metadataServiceUri", "metadata_uri", _text, is_for_views=True),
    _Option("view", "view", _one_of(View), is_for_views=True),
    _Option("ledgers", "ledgers", _ledgers, is_for_views=True),
    _Option("ledgerFilter", "ledger_filter", _pairs, is_for_views=True),
    _Option("ledgerIdsFrom", "ledger_ids_from", _text, is_for_views=True),
    _Option("startingOffsets", "starting_offsets", offsets.parse_starting),
    _Option("endingOffsets", "ending_offsets", offsets.parse_ending),
    _Option("startingTimestamp", "starting_timestamp_ms", _time_ms, is_for_views=True),
    _Option("minPartitions", "partitions_min", _positive, is_for_views=True),
    _Option("maxEntriesPerPartition", "partition_entries_max", _positive),
    _Option("maxBytesPerPartition", "partition_bytes_max", _positive),
    _Option("maxBytesPerBatch", "batch_bytes_max", _positive),
    _Option("onCorrupt", "on_corrupt", _one_of(OnCorrupt)),
    _Option("failOnDataLoss", "fail_on_data_loss", _flag),
    _Option("passwordFile", "password_file", _text),
    _Option("passwordEnv", "password_env", _text),
    _Option("columns", "columns", _names, is_for_views=True),
)
_BY_NAME = {option.name.lower(): option for option in _OPTIONS}
assert {option.field for option in _OPTIONS} == {f.name for f in dataclasses.fields(SourceOptions)} - {"client"}

# Of each group at most one may be given.
_RIVALS = (
    ("ledgers", "ledgerFilter", "ledgerIdsFrom"),
    ("startingTimestamp", "startingOffsets"),
    ("passwordFile", "passwordEnv"),
)


def _contradictions(given: Collection[str], view: View) -> list[str]:
    problems = []
    for rivals in _RIVALS:
        both = [name for name in rivals if name.lower() in given]
        if len(both) > 1:
            problems.append(f"{' and '.join(both)} contradict each other: give one of them")
    if view is not View.ENTRIES:
        idle = [option.name for option in _OPTIONS if option.name.lower() in given and not option.is_for_views]
        if idle:
            problems.append(f"{', '.join(idle)} cannot be used with view={view.value}, which reads no entries")
    return problems


# ---- names that are none ---------------------------------------------------------------------------------------------


def _unknown(name: str) -> str:
    if name == "password":
        return (
            "password is not an option, since options stand in plans and event logs: "
            "name a file with passwordFile or an environment variable with passwordEnv"
        )
    if name == "path":
        return "load() takes no path: name the cluster with the option metadataServiceUri"
    return f"there is no option {name}{_nearest(name, [option.name for option in _OPTIONS])}"


def _client_option(name: str, text: str) -> tuple[str, int]:
    """A field of ClientOptions, spelled requestTimeoutMs or request_timeout_ms."""
    fields = {
        field.name.replace("_", ""): field.name
        for field in dataclasses.fields(ClientOptions)
        if isinstance(field.default, int)
    }
    field = fields.get(name.replace("_", ""))
    if field is None:
        known = [_camel(one) for one in fields.values()]
        raise ValueError(f"the client has no such setting{_nearest(name, known)}")
    if not text.strip().isdigit():
        raise ValueError(f"{text!r} is not a number")
    return field, int(text)


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(map(str.capitalize, tail))


def _nearest(name: str, known: Collection[str]) -> str:
    lower = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    return f" (did you mean {lower[found[0]]}?)" if found else f" (there are {', '.join(sorted(known))})"
