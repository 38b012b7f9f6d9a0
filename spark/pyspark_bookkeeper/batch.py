"""The batch reader of entries, as Spark calls it: options and schema in, partitions out, record batches per task."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_bookkeeper import fleet, planning, reading, schema
from pyspark_bookkeeper.options import SourceOptions
from pyspark_bookkeeper.partitions import Piece


class EntryPartition(InputPartition):
    """The entries that one task reads."""

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        super().__init__(None)
        self.pieces = pieces


class EntryReader(DataSourceReader):
    """Reads entries for a query. It is made on the driver, which asks it for partitions; it travels to the tasks as
    bytes.

    It takes no filters: Spark keeps a plan with the DataFrame and hands it to the next query on it (decision 18).
    """

    def __init__(self, options: SourceOptions, wanted: StructType) -> None:
        schema.check(options, wanted)
        self._options = options
        self._schema = schema.arrow_schema(wanted)
        self._is_fetching = schema.needs_entries(wanted)

    def partitions(self) -> list[InputPartition]:
        """Return the partitions. Raises a BookieError that says in one sentence what is wrong with the query or the
        fleet."""
        planned = planning.plan_entries(self._options, is_fetching=self._is_fetching)
        return [EntryPartition(pieces) for pieces in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition. Without any, Spark makes a partition of its own, which gives no rows."""
        if not isinstance(partition, EntryPartition):
            return iter(())
        if not self._is_fetching:
            return reading.read_ids(partition.pieces, self._schema, self._options)
        client = fleet.client(self._options.connection)
        return reading.read_entries(client, partition.pieces, self._schema, self._options)
