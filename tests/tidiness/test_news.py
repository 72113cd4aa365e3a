"""News fragments become a section of the changelog, and wrong ones are named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BEFORE = (
    "# Changelog\n\n## 0.2.0 (unreleased)\n\nThe second.\n\n## 0.1.0 (2026-12-01)\n\n- First.\n"
)


def collect(where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "collect-news"), *arguments]
    return subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)


def tree(where: Path, **fragments: str) -> Path:
    (where / "news").mkdir()
    (where / "CHANGELOG.md").write_text(BEFORE)
    for name, text in fragments.items():
        (where / "news" / f"{name.replace('__', '.')}.md").write_text(text)
    return where


def test_the_fragments_of_this_tree_are_in_order() -> None:
    checked = collect(ROOT, "--check")
    assert checked.returncode == 0, checked.stderr


def test_a_release_collects_its_fragments_by_kind_and_removes_them(tmp_path: Path) -> None:
    tree(tmp_path, b__fixed="It is\nmended.\n", a__added="It is there.\n")
    assert collect(tmp_path, "0.2.0", "2027-01-31").returncode == 0
    assert (tmp_path / "CHANGELOG.md").read_text() == (
        "# Changelog\n\n## 0.2.0 (2027-01-31)\n\nThe second.\n\n### Added\n\n- It is there.\n\n"
        "### Fixed\n\n- It is mended.\n\n## 0.1.0 (2026-12-01)\n\n- First.\n"
    )
    assert list((tmp_path / "news").iterdir()) == []


def test_a_release_that_nobody_began_gets_a_section_in_front(tmp_path: Path) -> None:
    tree(tmp_path, a__added="It is there.\n")
    assert collect(tmp_path, "0.3.0", "2027-02-28").returncode == 0
    changelog = (tmp_path / "CHANGELOG.md").read_text()
    assert changelog == BEFORE.replace(
        "## 0.2.0", "## 0.3.0 (2027-02-28)\n\n### Added\n\n- It is there.\n\n## 0.2.0"
    )


def test_a_wrong_fragment_is_named_and_nothing_is_collected(tmp_path: Path) -> None:
    tree(tmp_path, a__improved="Better.\n", b__fixed="- a list\n")
    refused = collect(tmp_path, "0.2.0", "2027-01-31")
    assert refused.returncode == 1
    assert "a.improved.md is not called" in refused.stderr
    assert "b.fixed.md is a list" in refused.stderr
    assert (tmp_path / "CHANGELOG.md").read_text() == BEFORE
