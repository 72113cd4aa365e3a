"""Pipelines from topics to tables, exactly once, on Spark Declarative Pipelines."""
