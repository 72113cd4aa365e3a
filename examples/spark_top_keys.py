"""Count the records of each key in a topic: a batch query, without a jar.

tidelog up --detach
python examples/spark_top_keys.py --topic orders
"""

from __future__ import annotations

import argparse

from pyspark.sql import functions as f

from tidelog.spark.session import spark_session


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--bootstrap", default="127.0.0.1:9092")
    arguments.add_argument("--topic", default="orders")
    arguments.add_argument("--master", default="local[*]")
    given = arguments.parse_args()

    spark = spark_session("top keys", given.master)
    records = (
        spark.read.format("tidelog")
        .option("kafka.bootstrap.servers", given.bootstrap)
        .option("subscribe", given.topic)
        .option("columns", "key")
        .load()
    )
    keys = records.groupBy(records.key.cast("string").alias("key"))
    keys.agg(f.count("*").alias("records")).orderBy(f.desc("records"), "key").show(20)
    spark.stop()


if __name__ == "__main__":
    main()
