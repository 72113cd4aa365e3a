"""Makes Spark find the format `tidelog-segments` by itself."""

from __future__ import annotations

from tidelog.audit.segments_source import SegmentsSource as DefaultSource

__all__ = ["DefaultSource"]
