"""docs/rules.md has every rule of the simulator: sentence, origin, judge, and a missing guard
that shows it.

`scripts/generate-docs --check` compares judges and guards with the code. Here is what it cannot
see.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

from tests.quorum import mutants as of_quorums
from tests.simulator import mutants as of_clusters

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "rules.md"
SOURCES = sorted((ROOT / "src" / "tidelog").rglob("*.py"))
OTHER_PAGES = sorted(set((ROOT / "docs").rglob("*.md")) - {PAGE})
FAMILIES = "DSCHLGTXKA"
NAME = re.compile(rf"(?<![\w#/.$-])([{FAMILIES}]\d{{1,2}})(?![\w.-])")


class Rule(NamedTuple):
    """One line of the page."""

    name: str
    sentence: str
    stated_by: str
    judged_in: str
    shown_by: str


def rules() -> dict[str, Rule]:
    lines = re.findall(r"^\| (?:[A-Z]\d*|[a-z]+) \| \*\*.*\|$", PAGE.read_text(), re.M)
    found = [Rule(*(cell.strip() for cell in line.split("|")[1:-1])) for line in lines]
    assert len(found) == len({rule.name for rule in found}), "a rule has two lines"
    return {rule.name: rule for rule in found}


def test_every_violation_has_its_line() -> None:
    raised = {
        name.value
        for path in SOURCES
        if "Violation(" in (text := path.read_text())
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] == "Violation"
        for name in ast.walk(call.args[0])
        if isinstance(name, ast.Constant) and isinstance(name.value, str)
    }
    assert len(raised) > 60
    assert raised <= set(rules())


def test_every_line_says_what_holds_and_where_that_comes_from() -> None:
    for rule in rules().values():
        assert re.fullmatch(r"\*\*.+\.\*\* .+\.", rule.sentence), rule.name
        assert rule.stated_by, rule.name


def test_every_line_has_a_judge_or_names_the_rules_that_judge_in_its_place() -> None:
    known = rules()
    for rule in known.values():
        if rule.judged_in.startswith("through "):
            others = [known[name] for name in NAME.findall(rule.judged_in)]
            assert others, rule.name
            assert not any(each.judged_in.startswith("through ") for each in others), rule.name
        else:
            files = re.findall(r"`([\w/.]+)`", rule.judged_in)
            assert files, rule.name
            for file in files:
                assert (ROOT / "src" / "tidelog" / "simulator" / file).is_file(), rule.name


def test_every_line_names_a_guard_that_was_taken_out_or_says_why_there_is_none() -> None:
    for rule in rules().values():
        assert rule.shown_by, rule.name
        assert not re.fullmatch(r"none\W*", rule.shown_by), rule.name


def test_every_guard_that_is_taken_out_stands_under_the_rule_that_must_notice() -> None:
    known = rules()
    expected = [(each.rule, each.name) for each in of_clusters.MUTANTS if each.rule]
    expected += [(each.fires, each.name) for each in of_quorums.MUTANTS if each.fires in known]
    assert [name for rule, name in expected if name not in known[rule].shown_by] == []


def test_a_rule_that_a_docstring_or_a_page_names_can_be_looked_up() -> None:
    known = set(rules())
    unknown = []
    for path in SOURCES:
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if NAME.search(text) else ():
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                named = NAME.findall(ast.get_docstring(node) or "")
                unknown += [f"{path.name}: {name}" for name in named if name not in known]
    for page in OTHER_PAGES:
        named = NAME.findall(re.sub(r"`[^`]*`", "", page.read_text()))
        unknown += [f"{page.name}: {name}" for name in named if name not in known]
    assert unknown == []
