"""Descriptions of pipelines, written and read back; clusters and Spark as in tests of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import bootstrap, cluster, connector, make_topic, spark, topic, write

from tidelog.pipelines.description.mistakes import SpecError
from tidelog.pipelines.description.parsing import load_pipeline
from tidelog.pipelines.description.spec import Pipeline
from tidelog.pipelines.project.project import CONFIGURATION

__all__ = ["bootstrap", "cluster", "connector", "make_topic", "spark", "topic", "write"]

Describe = Callable[[str], Pipeline]
Mistakes = Callable[[str], list[str]]


@pytest.fixture
def describe(tmp_path: Path) -> Describe:
    """The pipeline that a text describes."""

    def read(text: str) -> Pipeline:
        path = tmp_path / "pipeline.yaml"
        path.write_text(dedent(text).lstrip("\n"))
        return load_pipeline(path)

    return read


@pytest.fixture
def mistakes(describe: Describe) -> Mistakes:
    """The mistakes in a text, as `line: what`."""

    def find(text: str) -> list[str]:
        with pytest.raises(SpecError) as refused:
            describe(text)
        return [f"{each.line}: {each.text}" for each in refused.value.mistakes]

    return find


@pytest.fixture(scope="session")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark as pipelines set it up."""
    own = spark.newSession()
    for name, text in CONFIGURATION.items():
        own.conf.set(name, text)
    yield own
