"""Makes Spark find the format `tidelog-table` by itself."""

from __future__ import annotations

from tidelog.pipelines.table_source import TableSource as DefaultSource

__all__ = ["DefaultSource"]
