"""The data pipeline over the same ledgers, in PySpark: they are DataFrames, and an audit proves their replicas.

    spark.read.format("bookkeeper").option("metadataServiceUri", "zk+hierarchical://127.0.0.1:2181/ledgers").load()

Spark finds `DefaultSource` in every importable package named `pyspark_*` by itself. It imports them all for that, and
one that fails takes the others down: so nothing of ours is imported here before it is used.
"""

from typing import TYPE_CHECKING, NoReturn

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader
    from pyspark.sql.types import StructType
except ModuleNotFoundError as error:
    from bookie.base import extras

    extras.refuse("pyspark_bookkeeper", error, "spark")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "bookkeeper"


class DefaultSource(DataSource):
    """The source of `format("bookkeeper")`. Spark makes it anew in a Python process for every step of a query."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        """Return the schema of a query that brings none. Raises BadInput for unusable options."""
        from pyspark_bookkeeper import options, schema

        return schema.of(options.parse(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a query. It builds the columns of `schema`, which is the query's or ours, and no
        others."""
        from pyspark_bookkeeper import batch, options, views

        parsed = options.parse(self.options)
        if parsed.view is options.View.ENTRIES:
            return batch.EntryReader(parsed, schema)
        return views.ViewReader(parsed, schema)

    def streamReader(self, schema: StructType) -> NoReturn:
        """Refuse streams with BadInput: there is no stream reader yet, and Spark's own error would be three pages
        long."""
        _refuse("ledgers are read in batches: use spark.read, not spark.readStream")

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Refuse writes with BadInput."""
        _refuse("ledgers are only read: write them with bookie.blocking")

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Refuse stream writes with BadInput."""
        self.writer(schema, overwrite)


def _refuse(why: str) -> NoReturn:
    from bookie.base import errors

    raise errors.BadInput(f"bookkeeper source: {why}")


def register(spark: "SparkSession") -> None:
    """Register the source in a session that cannot find it: the package came by --py-files, or in a notebook."""
    spark.dataSource.register(DefaultSource)
