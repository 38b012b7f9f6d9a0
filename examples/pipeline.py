"""Write orders into ledgers, then ask questions about them in Spark.

bookie local --bookies 3 --data /tmp/fleet          # in another terminal; prints the URI
python examples/pipeline.py zk+hierarchical://127.0.0.1:2181/ledgers
"""

import json
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bookie import blocking
from pyspark_bookkeeper import failures, session

SHOPS = ("Ghent", "Turin", "Basel")
ORDERS = 2_000


def write_orders(uri: str) -> None:
    """One ledger a shop, told apart by its custom metadata."""
    with blocking.connect(uri) as client:
        for number, shop in enumerate(SHOPS):
            orders = ({"shop": shop, "order": n, "euros": (n * 7 + number) % 100} for n in range(ORDERS))
            with client.create(custom={"app": b"orders", "shop": shop.encode()}) as writer:
                writer.append_many([json.dumps(order).encode() for order in orders])


def ledgers(spark: SparkSession, uri: str, **options: str) -> DataFrame:
    source = spark.read.format("bookkeeper").option("metadataServiceUri", uri)
    return source.options(ledgerFilter="app=orders", **options).load()


def ask(spark: SparkSession, uri: str) -> None:
    order = f.from_json(f.col("value").cast("string"), "shop string, order int, euros int").alias("order")
    print("Turnover by shop:")
    orders = ledgers(spark, uri).select(order).select("order.*")
    orders.groupBy("shop").agg(f.count("*").alias("orders"), f.sum("euros").alias("euros")).orderBy("shop").show()

    print("The last entry of each ledger (ids come from the metadata; no payload is fetched):")
    ids = ledgers(spark, uri, columns="ledger_id,entry_id")
    ids.groupBy("ledger_id").agg(f.max("entry_id").alias("last_entry")).orderBy("ledger_id").show()

    print("Who should hold them:")
    replicas = ledgers(spark, uri, view="replicas")
    replicas.groupBy("bookie_id").agg(f.sum("entries").alias("entries")).orderBy("bookie_id").show(truncate=False)


def main(uri: str) -> None:
    # `told` turns three pages of stack trace into one sentence, and the exit code into 1.
    with failures.told("pipeline"), session.open_session("pipeline") as spark:
        write_orders(uri)
        ask(spark, uri)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
