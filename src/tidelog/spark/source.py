"""The data source `tidelog`: topics as tables and streams, without a jar.

    spark.read.format("tidelog")
        .option("kafka.bootstrap.servers", "127.0.0.1:9092")
        .option("subscribe", "orders")
        .load()

Options and columns are those of Spark's own connector, so a job changes one word.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from tidelog.spark.batch_reader import BatchReader
from tidelog.spark.options import batch_options, read_options, stream_options
from tidelog.spark.schema import read_schema, require_known_columns
from tidelog.spark.stream_reader import StreamReader


class TidelogSource(DataSource):
    """Readers and writers for topics; whatever is wrong with the options is said here."""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> StructType:
        return read_schema(read_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        require_known_columns(schema)
        return BatchReader(batch_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        require_known_columns(schema)
        return StreamReader(stream_options(self.options), schema)
