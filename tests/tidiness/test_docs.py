"""The documentation says what the code does: pages are compared with the code they describe."""

from __future__ import annotations

import ast
import dataclasses
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import typer
import yaml

from tidelog.cli.exits import ExitCode
from tidelog.cli.main import app
from tidelog.model.config import NodeConfig
from tidelog.model.ids import TopicPartition
from tidelog.model.settings.topic import TopicSettings
from tidelog.model.settings.without_effect import REFUSED, WITHOUT_EFFECT
from tidelog.observe import events
from tidelog.protocol.apis import SUPPORTED
from tidelog.shell import process
from tidelog.storage import checkpoint, identity

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted(DOCS.rglob("*.md")),
]
SOURCES = sorted((ROOT / "src" / "tidelog").rglob("*.py"))
EVENTS: tuple[type[Any], ...] = get_args(events.Event)
NOT_YET = "Not announced yet"


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its own head."""
    _, found, below = (DOCS / page).read_text().partition(f"\n## {heading}\n")
    assert found, f"docs/{page} has no section {heading}"
    table = below[below.index("\n|") :].strip().split("\n\n")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [
        [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in lines[2:]
    ]


def names(page: str, heading: str) -> list[str]:
    """The first column of such a table, without its backquotes."""
    return [cells[0].strip("`") for cells in rows(page, heading)]


def test_the_generated_parts_are_what_the_code_says_now() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "generate-docs"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, f"run `make docs`:\n{checked.stdout}{checked.stderr}"


# -- settings ----------------------------------------------------------------------------------


def test_every_setting_is_documented() -> None:
    assert names("configuration.md", "Topic settings") == sorted(TopicSettings.known())
    assert names("configuration.md", "Broker and controller settings") == sorted(NodeConfig.known())
    idle = names("configuration.md", "Keys of Kafka without an effect")
    assert idle == sorted(WITHOUT_EFFECT)
    assert names("configuration.md", "Keys of Kafka that are refused") == sorted(REFUSED)


def test_a_broker_setting_that_nothing_reads_stands_among_those_without_an_effect() -> None:
    for cells in rows("configuration.md", "Broker and controller settings"):
        assert "Has no effect" not in cells[5], cells[0]


def test_every_setting_says_what_it_means() -> None:
    for heading in ("Topic settings", "Broker and controller settings"):
        for cells in rows("configuration.md", heading):
            assert len(cells) == 6 and cells[5].removesuffix("**Has no effect.**").strip(), cells


def test_a_setting_of_which_the_documentation_says_nothing_reads_it_is_not_read() -> None:
    unused = {
        cells[0].strip("`").replace(".", "_")
        for heading in ("Topic settings", "Broker and controller settings")
        for cells in rows("configuration.md", heading)
        if "Has no effect" in cells[5]
    }
    unused |= {name.replace(".", "_") for name in WITHOUT_EFFECT}
    assert len(unused) > 1
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in unused:
                holder = ast.unparse(node.value)
                assert not re.search(r"(config|settings|node)\Z", holder), f"{path}: {node.attr}"


def test_the_smallest_configuration_is_a_valid_one() -> None:
    found = re.search(r"```properties\n(.*?)```", (DOCS / "configuration.md").read_text(), re.S)
    assert found is not None
    NodeConfig.from_properties(
        {key: value for key, _, value in (line.partition("=") for line in found[1].splitlines())}
    )


# -- command line ------------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, Any]]:
    root: Any = typer.main.get_command(app)
    for name, command in root.commands.items():
        if hasattr(command, "commands"):
            for inner_name, inner in command.commands.items():
                yield f"tidelog {name} {inner_name}", inner
        else:
            yield f"tidelog {name}", command


def test_every_command_is_documented_with_its_options() -> None:
    text = (DOCS / "cli.md").read_text()
    for path, command in commands():
        _, found, below = text.partition(f"\n### {path}\n")
        assert found, f"docs/cli.md does not mention {path}"
        section = re.split(r"\n##+ ", below)[0]
        for parameter in command.params:
            shown = [each for each in parameter.opts if each.startswith("--")]
            assert all(f"{option}" in section for option in shown), f"{path} {shown}"


def test_every_exit_code_is_documented() -> None:
    text = (DOCS / "cli.md").read_text().partition("\n## Exit codes\n")[2]
    of_commands, of_a_node = re.findall(r"\| Code \| Meaning \|\n(.*?)\n\n", text, re.S)[:2]
    assert re.findall(r"^\| `(\d+)`", of_commands, re.M) == [f"{code:d}" for code in ExitCode]
    codes = {value for name, value in vars(process).items() if name.startswith("EXIT_")}
    assert {int(code) for code in re.findall(r"^\| `(\d+)`", of_a_node, re.M)} == codes


def shown_commands(page: Path) -> Iterator[str]:
    """Every command line with `tidelog` in the code blocks and the inline code of a page."""
    text = page.read_text()
    for block in re.findall(r"^```.*?\n(.*?)^```", text, re.S | re.M):
        for line in block.splitlines():
            for part in line.removeprefix("$ ").split(" | "):
                if re.match(r"(\.venv/bin/)?tidelog ", part):
                    yield part.removeprefix(".venv/bin/")
    prose = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    yield from re.findall(r"`(tidelog [^`\n]+)`", prose)


def test_commands_that_the_documentation_shows_exist() -> None:
    known = dict(commands())
    groups = {path.rpartition(" ")[0] for path in known} - {"tidelog"}
    for line in (line for page in PAGES for line in shown_commands(page)):
        words = shlex.split(line, comments=True)
        path = next((" ".join(words[:n]) for n in (3, 2) if " ".join(words[:n]) in known), None)
        if path is None:
            group = " ".join(word for word in words if not word.startswith("-"))
            assert group in {"tidelog", *groups}, f"{line}: there is no such command"
            continue
        options = {option for each in known[path].params for option in each.opts} | {"--help"}
        used = {word.partition("=")[0] for word in words if word.startswith("-")} - {"-"}
        assert used <= options, f"{line}: {path} has no option {used - options}"


# -- protocol ----------------------------------------------------------------------------------


def test_every_api_is_documented_as_served_or_not() -> None:
    served = [int(cells[0]) for cells in rows("protocol-support.md", "APIs that are served")]
    assert served == sorted(int(key) for key in SUPPORTED)
    missing = [
        int(key)
        for cells in rows("protocol-support.md", "APIs that are not served")
        for key in re.findall(r"\((\d+), ", cells[1])
    ]
    gone_for_good = {4, 5, 6, 7}
    assert sorted(served + missing) == sorted(set(range(93)) - gone_for_good)


SINCE_4_4 = {"ApiVersions": 5, "TxnOffsetCommit": 6}
"""Versions that Apache Kafka 4.4.0 has and 4.3.1, which the table shows, has not."""


def test_served_versions_do_not_go_beyond_apache_kafka() -> None:
    for _, api, ours, theirs, _ in rows("protocol-support.md", "APIs that are served"):
        (low, high), (their_low, their_high) = (
            (int(text.split("–")[0]), int(text.split("–")[-1])) for text in (ours, theirs)
        )
        assert their_low <= low <= high <= SINCE_4_4.get(api, their_high), api


# -- operations --------------------------------------------------------------------------------


def fields_of(event: type[Any]) -> Iterator[str]:
    """Names as they stand in the JSON form."""
    hints = {field.name: field.type for field in dataclasses.fields(event)}
    for name, kind in hints.items():
        yield from ("topic", "partition") if kind == TopicPartition.__name__ else (name,)


def test_every_event_is_documented_with_its_fields() -> None:
    documented = {cells[0].strip("`"): cells for cells in rows("operations.md", "Events")}
    assert list(documented) == [event.__name__ for event in EVENTS]
    for event in EVENTS:
        _, fields, meaning, _ = documented[event.__name__]
        assert re.findall(r"`(\w+)`", fields) == list(fields_of(event)), event.__name__
        assert meaning


def test_an_event_counts_as_announced_when_some_code_announces_it() -> None:
    announced = {
        node.func.id
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    for cells in rows("operations.md", "Events"):
        name = cells[0].strip("`")
        assert (name in announced) == (NOT_YET not in cells[2]), name


def test_files_on_disk_are_documented_under_the_names_they_have() -> None:
    text = (DOCS / "operations.md").read_text()
    written = [
        identity.META_PROPERTIES,
        identity.PARTITION_METADATA,
        identity.CLEAN_SHUTDOWN,
        checkpoint.RECOVERY_POINTS,
        checkpoint.HIGH_WATERMARKS,
        checkpoint.LOG_STARTS,
    ]
    assert [name for name in written if f"| `{name}` |" not in text] == []


# -- architecture ------------------------------------------------------------------------------


def test_every_package_and_every_room_of_a_node_has_its_sentence() -> None:
    code = ROOT / "src" / "tidelog"
    text = (DOCS / "architecture.md").read_text()
    for folder in (code, code / "node"):
        packages = {named(each) for each in folder.iterdir() if (each / "__init__.py").exists()}
        described = set(re.findall(rf"^\| `({named(folder)}/\w+)` \| \w.+ \|$", text, re.M))
        assert described == packages


def test_every_decision_stands_in_the_index_under_its_title() -> None:
    records = sorted((DOCS / "decisions").glob("0*.md"))
    titles = [re.match(r"# (\d+)\. (.+)\n", each.read_text()) for each in records]
    expected = [
        (found[1], found[2], record.name)
        for found, record in zip(titles, records, strict=True)
        if found
    ]
    index = (DOCS / "decisions" / "README.md").read_text()
    assert re.findall(r"^\| (\d+) \| \[(.+)\]\((\S+)\) \| .+ \|$", index, re.M) == expected
    assert [int(number) for number, _, _ in expected] == list(range(1, len(records) + 1))


# -- site -----------------------------------------------------------------------------------


def test_every_page_stands_in_the_navigation_of_the_site_once() -> None:
    def pages(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        for each in entry.values() if isinstance(entry, dict) else ():
            yield from pages(each)
        for each in entry if isinstance(entry, list) else ():
            yield from pages(each)

    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    written = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    assert sorted(pages(site["nav"])) == written


# -- links -------------------------------------------------------------------------------------

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosting sites make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def test_links_lead_somewhere() -> None:
    links = [(each, target) for each in PAGES for target in LINK.findall(each.read_text())]
    for page, target in links:
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{named(page)} links to {target}"
        assert linked.is_relative_to(ROOT), f"{named(page)} links out of the tree: {target}"
        if anchor:
            assert anchor in anchors(linked), f"{named(page)} links to {target}"


def test_a_link_that_shows_a_path_leads_to_that_path() -> None:
    link = re.compile(r"\[`([^`\]]+/[^`\]]+)`\]\(([^)#]+)\)")
    for page in PAGES:
        for shown, target in link.findall(page.read_text()):
            assert (page.parent / target).resolve() == (ROOT / shown).resolve(), f"{page}: {target}"
