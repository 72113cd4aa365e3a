"""Makes Spark find the format `tidelog` by itself.

Spark imports every installed module named `pyspark_*` at the first look-up in a session and
registers its `DefaultSource`.
"""

from __future__ import annotations

from tidelog.spark.data_source import TidelogSource as DefaultSource

__all__ = ["DefaultSource"]
