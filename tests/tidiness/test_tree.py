"""The style rules that a machine can check."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "tidelog").rglob("*.py"))
ALL_PYTHON = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
)
LINES_MAX = 800
FUNCTION_LINES_MAX = 70
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
VAGUE_NAMES = re.compile(r"(Manager|Helper|Util)s?$")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_tree_has_sources_to_check() -> None:
    assert len(SOURCES) > 50


def test_no_file_is_too_long_to_read() -> None:
    lengths = {named(path): len(path.read_text().splitlines()) for path in ALL_PYTHON}
    assert {path: length for path, length in lengths.items() if length > LINES_MAX} == {}


def test_every_module_says_what_it_is() -> None:
    assert [
        named(path)
        for path in SOURCES
        if path.read_text().strip() and not ast.get_docstring(ast.parse(path.read_text()))
    ] == []


def test_functions_are_short_and_names_are_nouns_of_the_protocol() -> None:
    wrong = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                # Without the signature: that of a command is the table of its options.
                length = (node.end_lineno or node.lineno) - node.body[0].lineno + 1
                if length > FUNCTION_LINES_MAX:
                    wrong.append(f"{named(path)}: {node.name} has {length} lines")
            if isinstance(node, ast.ClassDef) and VAGUE_NAMES.search(node.name):
                wrong.append(f"{named(path)}: {node.name} says nothing")
    assert wrong == []


def test_nothing_is_left_unfinished() -> None:
    assert [named(path) for path in SOURCES if UNFINISHED.search(path.read_text())] == []


CITED = re.compile(r"`((?:src|tests|docs|scripts|examples|benchmarks)/[\w./-]+)`")


def test_files_that_the_documentation_cites_exist() -> None:
    pages = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    assert [
        f"{named(page)} cites {cited}"
        for page in pages
        for cited in CITED.findall(page.read_text())
        if not (ROOT / cited).exists()
    ] == []
