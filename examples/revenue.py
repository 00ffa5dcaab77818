"""Revenue per customer, as a function from DataFrame to DataFrame.

    equipoise run examples.revenue:per_customer --bootstrap-servers HOST:PORT --set source.subscribe=orders \
        --set source.startingOffsets=earliest --set sink.outputMode=complete

It keeps sums, so it reads all partitions: it has no group. To see its lag, give it one that it only commits to:
--set group=revenue --set source.group.mode=commit.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def per_customer(orders: DataFrame) -> DataFrame:
    order = F.from_json(orders.value.cast("string"), "order bigint, cents bigint")
    return (
        orders.select(orders.key.cast("string").alias("customer"), order.cents.alias("cents"))
        .groupBy("customer")
        .agg(F.count("*").alias("orders"), (F.sum("cents") / 100).alias("revenue"))
        .orderBy(F.desc("revenue"))
    )
