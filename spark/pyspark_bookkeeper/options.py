"""SourceOptions: the `.option(...)` values of a query, all checked before the first connection.

Spark hands over any option of any name, in lower case, and forgets none: so a misspelt one is refused here, with the
nearest name. Options stand in plans and event logs, which is why a password is never one: a file or an environment
variable is named instead. docs/PIPELINE.md has the table.
"""

import dataclasses
import enum
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from bookie.base import errors
from bookie.base.units import MIB
from pyspark_bookkeeper import client_settings, offsets, option_values, ranges
from pyspark_bookkeeper.offsets import Offsets
from pyspark_bookkeeper.ranges import Range

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


class OnUnreadableLedger(enum.Enum):
    """What to do with a ledger whose record in the metadata nobody can read, and which the query does not name."""

    SKIP = "skip"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """What identifies a client in a process: the cluster and the settings of the client library."""

    uri: str
    client: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The parsed options of one query. None: not given. Sizes in bytes, times in ms since the epoch."""

    metadata_uri: str
    view: View = View.ENTRIES
    ledgers: tuple[Range, ...] | None = None
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
    on_unreadable_ledger: OnUnreadableLedger = OnUnreadableLedger.SKIP
    fail_on_data_loss: bool = True
    password_file: str | None = None
    password_env: str | None = None
    columns: tuple[str, ...] | None = None
    client: tuple[tuple[str, Any], ...] = ()

    @property
    def connection(self) -> ClusterConnection:
        return ClusterConnection(self.metadata_uri, self.client)


def parse(given: Mapping[str, str]) -> SourceOptions:
    """Return the options of one query; names in any case. Raises BadInput with every problem in one sentence."""
    texts = {name.lower(): text for name, text in given.items()}
    values: dict[str, Any] = {}
    problems: list[str] = []
    client: tuple[tuple[str, Any], ...] = ()
    of_client = {name: text for name, text in texts.items() if name.startswith(client_settings.PREFIX)}
    for name, text in sorted(texts.items()):
        option = _BY_NAME.get(name)
        if option is not None:
            try:
                values[option.field] = option.convert(text)
            except ValueError as error:
                problems.append(f"{option.name}: {error}")
        elif name not in of_client:
            problems.append(_unknown(name))
    try:
        client = client_settings.parse(
            {name.removeprefix(client_settings.PREFIX): text for name, text in of_client.items()}
        )
    except ValueError as error:
        problems.append(str(error))
    problems += _contradictions(texts, values.get("view", View.ENTRIES))
    problems += _strangers(values)
    if "metadataserviceuri" not in texts:
        problems.append("metadataServiceUri is missing (e.g. zk+hierarchical://127.0.0.1:2181/ledgers)")
    elif not problems:
        try:
            client_settings.check(values["metadata_uri"], client)
        except errors.BadInput as error:
            problems.append(str(error))
    if problems:
        raise errors.BadInput("bookkeeper source: " + "; ".join(problems))
    return SourceOptions(**values, client=client)


# ---- one option ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Option:
    """How to read one option. `convert` raises ValueError. `is_for_views`: also of use to the metadata views."""

    name: str
    field: str
    convert: Callable[[str], Any]
    is_for_views: bool = False


_OPTIONS = (
    _Option("metadataServiceUri", "metadata_uri", option_values.text, is_for_views=True),
    _Option("view", "view", option_values.one_of(View), is_for_views=True),
    _Option("ledgers", "ledgers", option_values.ledgers, is_for_views=True),
    _Option("ledgerFilter", "ledger_filter", option_values.pairs, is_for_views=True),
    _Option("ledgerIdsFrom", "ledger_ids_from", option_values.text, is_for_views=True),
    _Option("startingOffsets", "starting_offsets", offsets.parse_starting),
    _Option("endingOffsets", "ending_offsets", offsets.parse_ending),
    _Option("startingTimestamp", "starting_timestamp_ms", option_values.time_ms, is_for_views=True),
    _Option("minPartitions", "partitions_min", option_values.positive, is_for_views=True),
    _Option("maxEntriesPerPartition", "partition_entries_max", option_values.positive),
    _Option("maxBytesPerPartition", "partition_bytes_max", option_values.positive),
    _Option("maxBytesPerBatch", "batch_bytes_max", option_values.positive),
    _Option("onCorrupt", "on_corrupt", option_values.one_of(OnCorrupt)),
    _Option("onUnreadableLedger", "on_unreadable_ledger", option_values.one_of(OnUnreadableLedger), is_for_views=True),
    _Option("failOnDataLoss", "fail_on_data_loss", option_values.flag, is_for_views=True),
    _Option("passwordFile", "password_file", option_values.text),
    _Option("passwordEnv", "password_env", option_values.text),
    _Option("columns", "columns", option_values.names, is_for_views=True),
)
_BY_NAME = {option.name.lower(): option for option in _OPTIONS}
assert {option.field for option in _OPTIONS} == {f.name for f in dataclasses.fields(SourceOptions)} - {"client"}

# Of each group at most one may be given.
_RIVALS = (
    ("ledgers", "ledgerFilter", "ledgerIdsFrom"),
    ("startingTimestamp", "startingOffsets"),
    ("passwordFile", "passwordEnv"),
)


# They choose among ledgers.
_OF_LEDGERS = ("ledgers", "ledgerFilter", "ledgerIdsFrom", "startingTimestamp", "onUnreadableLedger")


def _contradictions(given: Collection[str], view: View) -> list[str]:
    problems = []
    for rivals in _RIVALS:
        both = [name for name in rivals if name.lower() in given]
        if len(both) > 1:
            problems.append(f"{' and '.join(both)} contradict each other: give one of them")
    if view is View.BOOKIES:
        idle = [name for name in _OF_LEDGERS if name.lower() in given]
        if idle:
            problems.append(f"{', '.join(idle)} cannot be used with view=bookies, whose rows are no ledger's")
    if view is not View.ENTRIES:
        idle = [option.name for option in _OPTIONS if option.name.lower() in given and not option.is_for_views]
        if idle:
            problems.append(f"{', '.join(idle)} cannot be used with view={view.value}, which reads no entries")
    return problems


def _strangers(values: Mapping[str, Any]) -> list[str]:
    """Find offsets of ledgers that the query does not read: a mistake in one of the two options."""
    if values.get("ledgers") is None:
        return []
    read = ranges.union(values["ledgers"])
    return [
        f"{name} names ledger {ledger_id}, which ledgers leaves out"
        for name, field in (("startingOffsets", "starting_offsets"), ("endingOffsets", "ending_offsets"))
        if field in values
        for ledger_id, _ in values[field].named
        if not ranges.contains(read, ledger_id)
    ]


# ---- names that are none ---------------------------------------------------------------------------------------------


def _unknown(name: str) -> str:
    if name == "password":
        return (
            "password is not an option, since options stand in plans and event logs: "
            "name a file with passwordFile or an environment variable with passwordEnv"
        )
    if name == "path":
        return "load() takes no path: name the cluster with the option metadataServiceUri"
    return f"there is no option {name}{option_values.nearest(name, [option.name for option in _OPTIONS])}"
