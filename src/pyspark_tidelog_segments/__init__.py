"""Makes Spark find the format `tidelog-segments` by itself."""

from __future__ import annotations

from tidelog.spark.audit.segments_source import SegmentsSource as DefaultSource

__all__ = ["DefaultSource"]
