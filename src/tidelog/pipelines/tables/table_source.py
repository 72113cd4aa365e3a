"""What Spark registers as the format `tidelog-table`.

Spark imports this wherever the package is installed, and finds none of our formats if it cannot; so
whatever comes with the extra `pipelines` alone is imported when a table is read or written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamWriter
from pyspark.sql.types import StructType

from tidelog.pipelines.description.mistakes import PipelineTrouble


class TableSource(DataSource):
    """Flows write, queries read."""

    @classmethod
    def name(cls) -> str:
        return "tidelog-table"

    def schema(self) -> StructType:
        with _extra_needed():
            from pyspark.sql.pandas.types import from_arrow_schema

            from tidelog.pipelines.tables.table_reading import delta_schema
        return from_arrow_schema(delta_schema(self._path()))

    def reader(self, schema: StructType) -> DataSourceReader:
        with _extra_needed():
            from tidelog.pipelines.tables.table_reading import DeltaReader
        return DeltaReader(self._path())

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        with _extra_needed():
            from tidelog.pipelines.tables.table_writing import TableWriter, target_of
        return TableWriter(target_of(self.options), schema)

    def _path(self) -> str:
        if "path" not in self.options:
            raise PipelineTrouble("tidelog-table needs the option path")
        return str(self.options["path"])


@contextmanager
def _extra_needed() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise PipelineTrouble(
            f"tidelog-table needs {error.name}: run `pip install 'tidelog[pipelines]'`"
        ) from error
