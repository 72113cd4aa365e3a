"""Copy one topic into another, exactly once, and be killed as often as you like.

    tidelog up --detach --set transaction.two.phase.commit.enable=true
    python examples/spark_copy.py --source orders --target orders-copy

The query stops when it has copied what is there; start it again, and it goes on where it stood.
"""

from __future__ import annotations

import argparse

from tidelog.spark.session import spark_session


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--bootstrap", default="127.0.0.1:9092")
    arguments.add_argument("--source", default="orders")
    arguments.add_argument("--target", default="orders-copy")
    arguments.add_argument("--checkpoint", default="spark-copy-checkpoint")
    arguments.add_argument("--batch", default="10000", help="records per micro-batch")
    arguments.add_argument("--master", default="local[*]")
    given = arguments.parse_args()

    spark = spark_session("copy", given.master)
    records = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", given.bootstrap)
        .option("subscribe", given.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", given.batch)
        .load()
    )
    query = (
        records.select("key", "value")
        .writeStream.format("tidelog")
        .option("kafka.bootstrap.servers", given.bootstrap)
        .option("topic", given.target)
        .option("checkpointLocation", given.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    copied = sum(progress.numInputRows for progress in query.recentProgress)
    print(f"copied {copied} records from {given.source} to {given.target}")
    spark.stop()


if __name__ == "__main__":
    main()
