"""Makes Spark find the format `tidelog-table` by itself."""

from __future__ import annotations

from tidelog.pipelines.tables.table_source import TableSource as DefaultSource

__all__ = ["DefaultSource"]
