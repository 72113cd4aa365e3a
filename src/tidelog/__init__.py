"""Tidelog: a replicated log that speaks Kafka."""

__version__ = "0.1.0"
