"""Pipelines are shown from what they keep beside their tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.pipelines.description.example import write_example
from tidelog.view.pipeline_states import pipeline_states

pytestmark = pytest.mark.long
NOBODY = "127.0.0.1:1"


def test_tables_are_listed_with_their_sources_and_counts(tmp_path: Path) -> None:
    write_example(tmp_path / "shop", NOBODY)

    (state,) = pipeline_states([tmp_path / "shop" / "pipeline.yaml"], NOBODY)

    assert (state["trouble"], state["views"]) == ("", ["daily_revenue"])
    bronze, silver = state["tables"]
    assert (bronze["table"], bronze["source"], bronze["rows"]) == ("bronze", "orders", 0)
    assert (silver["source"], silver["quarantined"], silver["lag"]) == ("table bronze", 0, None)
    assert NOBODY in silver["trouble"]


def test_a_pipeline_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("tables: 7\n")

    (state,) = pipeline_states([broken], NOBODY)

    assert (state["name"], state["tables"]) == ("broken", [])
    assert state["trouble"]
