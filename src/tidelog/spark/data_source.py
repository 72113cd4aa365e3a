"""The data source `tidelog`: topics as tables and streams, without a jar.

    spark.read.format("tidelog")
        .option("kafka.bootstrap.servers", "127.0.0.1:9092")
        .option("subscribe", "orders")
        .load()

Options and columns are those of Spark's own connector, so a job changes one word.

Spark calls each method in a process of its own, several for every micro-batch, so each imports what
it needs and no more: the other half of the package would take as long as the work itself.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from tidelog.spark.errors import OptionError
from tidelog.spark.options import batch_options, read_options, stream_options, write_options
from tidelog.spark.shipping import Shipped


class TidelogSource(Shipped, DataSource):
    """Readers and writers for topics; whatever is wrong with the options is said here."""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> StructType:
        from tidelog.spark.source.schema import read_schema

        return read_schema(read_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        from tidelog.spark.source.batch_reader import BatchReader
        from tidelog.spark.source.schema import require_known_columns

        require_known_columns(schema)
        return BatchReader(batch_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from tidelog.spark.source.schema import require_known_columns
        from tidelog.spark.source.stream_reader import StreamReader

        require_known_columns(schema)
        return StreamReader(stream_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from tidelog.spark.sink.batch_writer import BatchWriter
        from tidelog.spark.sink.rows import check_columns

        if overwrite:
            raise OptionError('a topic cannot be overwritten: use mode("append")')
        options = write_options(self.options, streaming=False)
        check_columns(schema, options.topic)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from tidelog.spark.sink.rows import check_columns
        from tidelog.spark.sink.stream_writer import AtLeastOnceWriter, ExactlyOnceWriter

        options = write_options(self.options, streaming=True)
        check_columns(schema, options.topic)
        return ExactlyOnceWriter(options) if options.exactly_once else AtLeastOnceWriter(options)
