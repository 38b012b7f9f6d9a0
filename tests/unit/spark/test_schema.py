"""The columns of each view, and what is said to a query that wants others (docs/PIPELINE.md, "Columns")."""

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from bookie.base import errors
from pyspark_bookkeeper import options, schema
from pyspark_bookkeeper.options import SourceOptions, View

URI = "zk+hierarchical://127.0.0.1:2181/ledgers"
ALL = "ledger_id,entry_id,value,last_add_confirmed,length,ledger_ctime,error"


def given(**texts: str) -> SourceOptions:
    return options.parse({"metadataServiceUri": URI, **texts})


def columns(*fields: StructField) -> StructType:
    return StructType(list(fields))


def test_entries_have_three_columns_unless_asked_otherwise() -> None:
    assert schema.of(given()).simpleString() == "struct<ledger_id:bigint,entry_id:bigint,value:binary>"
    assert schema.of(given(columns="entry_id, ledger_ctime")).simpleString() == (
        "struct<entry_id:bigint,ledger_ctime:timestamp>"
    )


def test_showing_corrupt_entries_adds_the_column_that_says_why() -> None:
    assert schema.of(given(onCorrupt="emit")).fieldNames() == ["ledger_id", "entry_id", "value", "error"]
    with pytest.raises(errors.BadInput, match="column error, which the query leaves out"):
        schema.of(given(onCorrupt="emit", columns="value"))


@pytest.mark.parametrize("view", list(View))
def test_record_batches_have_the_very_schema_that_spark_compares_them_with(view: View) -> None:
    wanted = schema.of(given(view=view.value, **({"columns": ALL} if view is View.ENTRIES else {})))

    assert schema.arrow_schema(wanted).equals(to_arrow_schema(wanted, timezone="UTC"))


def test_a_schema_of_the_query_keeps_its_order_and_its_nullability() -> None:
    wanted = columns(StructField("value", schema.of(given())["value"].dataType), StructField("ledger_id", LongType()))

    schema.check(given(), wanted)

    assert schema.arrow_schema(wanted).equals(to_arrow_schema(wanted, timezone="UTC"))


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (columns(StructField("ledger", LongType())), r"no column ledger \(did you mean ledger_id\?\)"),
        (columns(StructField("entry_id", IntegerType())), "column entry_id is bigint, the schema says int"),
        (columns(StructField("error", StringType(), nullable=False)), "column error may be null"),
        (columns(StructField("entry_id", LongType()), StructField("entry_id", LongType())), "each once"),
        (columns(), "must be some"),
    ],
)
def test_a_schema_that_cannot_be_answered_is_refused_by_name(wanted: StructType, said: str) -> None:
    with pytest.raises(errors.BadInput, match=said):
        schema.check(given(), wanted)


def test_a_misspelt_column_is_refused_with_the_nearest() -> None:
    with pytest.raises(errors.BadInput, match=r"there is no column entryid \(did you mean entry_id\?\)"):
        schema.of(given(columns="entryid"))


def test_columns_and_a_schema_that_differ_contradict_each_other() -> None:
    with pytest.raises(errors.BadInput, match="contradict each other"):
        schema.check(given(columns="entry_id"), columns(StructField("ledger_id", LongType())))


@pytest.mark.parametrize(
    ("names", "needed"),
    [
        ("ledger_id,entry_id,last_add_confirmed,ledger_ctime", False),
        ("value", True),
        ("entry_id,length", True),
        ("error", True),
    ],
)
def test_entries_are_fetched_only_for_columns_that_they_alone_can_tell(names: str, needed: bool) -> None:
    assert schema.needs_entries(schema.of(given(columns=names))) is needed
