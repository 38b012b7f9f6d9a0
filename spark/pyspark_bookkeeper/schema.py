"""The columns of each view, as Spark and as Arrow types; which of them a query wants. Pure but for those types.

Spark tells a Python source neither which columns a query uses nor that it merely counts. So the query says it: by its
schema (`.schema("ledger_id long, entry_id long")`) or the option `columns`. What is not named is not built, and a
payload that is not named is not fetched.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from bookie.base import errors
from pyspark_bookkeeper import option_values
from pyspark_bookkeeper.options import OnCorrupt, SourceOptions, View


@dataclass(frozen=True, slots=True)
class Column:
    """`is_default`: there unless the query names its columns. Units and meanings: docs/PIPELINE.md, "Columns"."""

    name: str
    type: DataType
    nullable: bool = True
    is_default: bool = True


_SEGMENT = StructType([StructField("first_entry", LongType()), StructField("bookies", ArrayType(StringType()))])

_COLUMNS: dict[View, tuple[Column, ...]] = {
    View.ENTRIES: (
        Column("ledger_id", LongType(), nullable=False),
        Column("entry_id", LongType(), nullable=False),
        Column("value", BinaryType()),
        Column("last_add_confirmed", LongType(), is_default=False),
        Column("length", LongType(), is_default=False),
        Column("ledger_ctime", TimestampType(), is_default=False),
        Column("error", StringType(), is_default=False),
    ),
    View.LEDGERS: (
        Column("ledger_id", LongType(), nullable=False),
        Column("state", StringType()),
        Column("ensemble_size", IntegerType()),
        Column("write_quorum", IntegerType()),
        Column("ack_quorum", IntegerType()),
        Column("digest", StringType()),
        Column("ctime", TimestampType()),
        Column("last_entry", LongType()),
        Column("length", LongType()),
        Column("segments", ArrayType(_SEGMENT)),
        Column("custom", MapType(StringType(), BinaryType())),
        Column("version", IntegerType()),
        Column("error", StringType(), is_default=False),
    ),
    View.BOOKIES: (
        Column("bookie_id", StringType(), nullable=False),
        Column("state", StringType()),
        Column("address", StringType()),
        Column("zone", StringType()),
        Column("total_bytes", LongType()),
        Column("free_bytes", LongType()),
    ),
    View.REPLICAS: (
        Column("ledger_id", LongType(), nullable=False),
        Column("bookie_id", StringType(), nullable=False),
        Column("position", IntegerType()),
        Column("first_entry", LongType()),
        Column("last_entry", LongType()),
        Column("entries", LongType()),
    ),
}


def names_of(view: View) -> list[str]:
    """Return every column that the view has."""
    return [one.name for one in _COLUMNS[view]]


# Columns of entries that only the entry itself can tell.
_FETCHED = frozenset({"value", "length", "error"})


def of(options: SourceOptions) -> StructType:
    """Return the schema of a query that brought none. Raises BadInput for a column that does not exist."""
    columns = _COLUMNS[options.view]
    if options.columns is None:
        is_emitting = options.view is View.ENTRIES and options.on_corrupt is OnCorrupt.EMIT
        wanted = [one for one in columns if one.is_default or (one.name == "error" and is_emitting)]
    else:
        wanted = [_named(columns, name) for name in options.columns]
    schema = StructType([StructField(one.name, one.type, one.nullable) for one in wanted])
    check(options, schema)
    return schema


def check(options: SourceOptions, schema: StructType) -> None:
    """Raise BadInput unless the source can answer this query in `schema`."""
    columns = _COLUMNS[options.view]
    names = schema.fieldNames()
    for field in schema:
        column = _named(columns, field.name)
        if field.dataType.simpleString() != column.type.simpleString():
            raise errors.BadInput(
                f"bookkeeper source: column {field.name} is {column.type.simpleString()}, "
                f"the schema says {field.dataType.simpleString()}"
            )
        if column.nullable and not field.nullable:
            raise errors.BadInput(f"bookkeeper source: column {field.name} may be null, the schema says it is not")
    if not names or len(set(names)) != len(names):
        raise errors.BadInput(f"bookkeeper source: the columns {', '.join(names) or '(none)'} must be some, each once")
    if options.columns is not None and list(options.columns) != names:
        raise errors.BadInput("bookkeeper source: the option columns and the schema contradict each other: give one")
    if options.view is View.ENTRIES and options.on_corrupt is OnCorrupt.EMIT and "error" not in names:
        raise errors.BadInput(
            "bookkeeper source: onCorrupt=emit tells of corrupt entries in the column error, which the query leaves out"
        )


def needs_entries(schema: StructType) -> bool:
    """Return True when rows need more than metadata."""
    return not _FETCHED.isdisjoint(schema.fieldNames())


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema that Spark expects of record batches. Spark compares exactly: order, nullability, time zone and
    unit."""
    return pa.schema([pa.field(field.name, _arrow(field.dataType), field.nullable) for field in schema])


_ARROW = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "binary": pa.binary(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def _arrow(kind: DataType) -> pa.DataType:
    match kind:
        case ArrayType():
            return pa.list_(pa.field("element", _arrow(kind.elementType), kind.containsNull))
        case MapType():
            key = pa.field("key", _arrow(kind.keyType), nullable=False)
            return pa.map_(key, pa.field("value", _arrow(kind.valueType), kind.valueContainsNull))
        case StructType():
            return pa.struct([pa.field(one.name, _arrow(one.dataType), one.nullable) for one in kind])
        case _:
            return _ARROW[kind.simpleString()]


def _named(columns: Sequence[Column], name: str) -> Column:
    for column in columns:
        if column.name == name:
            return column
    hint = option_values.nearest(name, [column.name for column in columns])
    raise errors.BadInput(f"bookkeeper source: there is no column {name}{hint}")
