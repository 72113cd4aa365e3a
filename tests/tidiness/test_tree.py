"""The style rules that a machine can check."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "tidelog").rglob("*.py"))
ALL_PYTHON = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
)
LINES_MAX = 600
FUNCTION_LINES_MAX = 80
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
VAGUE_NAMES = re.compile(r"(Manager|Helper|Util)s?$")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_tree_has_sources_to_check() -> None:
    assert len(SOURCES) > 50


@pytest.mark.parametrize("path", ALL_PYTHON, ids=named)
def test_no_file_is_too_long_to_read(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINES_MAX


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_every_module_says_what_it_is(path: Path) -> None:
    source = path.read_text()
    if source.strip():
        assert ast.get_docstring(ast.parse(source)), "the module has no docstring"


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_functions_are_short_and_names_are_nouns_of_the_protocol(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"
        if isinstance(node, ast.ClassDef):
            assert not VAGUE_NAMES.search(node.name), f"{node.name} says nothing"


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_nothing_is_left_unfinished(path: Path) -> None:
    assert UNFINISHED.findall(path.read_text()) == []


CITED = re.compile(r"`((?:src|tests|docs|scripts|examples|benchmarks)/[\w./-]+)`")


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))],
    ids=named,
)
def test_files_that_the_documentation_cites_exist(page: Path) -> None:
    missing = [cited for cited in CITED.findall(page.read_text()) if not (ROOT / cited).exists()]
    assert missing == []
