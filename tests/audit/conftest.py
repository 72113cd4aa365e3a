"""Spark and Apache Kafka as in the tests of Spark."""

from __future__ import annotations

from tests.spark.conftest import apache, connector, spark

__all__ = ["apache", "connector", "spark"]
