"""Every test has its tier, and `make quick` stays quick."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tiers import FOLDERS, LONGEST, SMOKE, SPREAD, Tier

TESTS = Path(__file__).parents[1]
FILES = sorted(TESTS.rglob("test_*.py"))


def named(path: Path) -> str:
    return str(path.relative_to(TESTS.parent))


def folder(path: Path) -> str:
    return path.relative_to(TESTS).parts[0]


def marks(node: ast.AST) -> set[str]:
    """The marks that are mentioned in it."""
    return {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Attribute)
        and each.value.attr == "mark"
    }


def marked(path: Path) -> Iterator[set[str]]:
    """The marks of each test of a file, together with those of the whole file."""
    tree = ast.parse(path.read_text("utf-8"))
    of_all = {
        mark
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(each, ast.Name) and each.id == "pytestmark" for each in node.targets)
        for mark in marks(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield of_all | {mark for each in node.decorator_list for mark in marks(each)}


def test_every_file_of_tests_belongs_to_a_tier() -> None:
    assert {folder(path) for path in FILES} <= set(FOLDERS)
    assert all((TESTS / each).is_dir() for each in FOLDERS)


def test_no_test_is_long_and_quick_at_once() -> None:
    assert [
        named(path) for path in FILES for found in marked(path) if {"long", "smoke"} <= found
    ] == []


def test_what_is_quick_in_a_folder_that_is_not_is_named_so_that_it_is_found() -> None:
    smoking = [
        named(path)
        for path in FILES
        if FOLDERS[folder(path)] is not Tier.QUICK
        and any("smoke" in found for found in marked(path))
    ]
    assert tuple(smoking) == SMOKE


def test_what_starts_first_and_what_any_worker_may_take_is_there() -> None:
    assert [each for each in (*LONGEST, *SPREAD) if not (TESTS.parent / each).exists()] == []
