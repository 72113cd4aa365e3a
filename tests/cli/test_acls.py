"""`tidelog acls` against a cluster with access control."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tidelog.cli.main import app
from tidelog.model.settings.access import STANDARD_AUTHORIZER
from tidelog.testing.cluster import Cluster

pytestmark = pytest.mark.long

FOR_SOMEBODY = ("add", "--topic", "t", "--allow-principal", "User:a")
SETTINGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), settings=SETTINGS) as running:
        yield running


def run(cluster: Cluster, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["acls", *arguments, "--bootstrap", cluster.bootstrap])


def fine(cluster: Cluster, *arguments: str) -> Result:
    ran = run(cluster, *arguments)
    assert ran.exit_code == 0, ran.stderr
    return ran


def rules(cluster: Cluster, *arguments: str) -> list[dict[str, Any]]:
    shown = fine(cluster, "list", "--json", *arguments).stdout
    return [json.loads(line) for line in shown.splitlines()]


def test_rules_are_added_listed_and_removed(cluster: Cluster) -> None:
    added = fine(
        cluster,
        *("add", "--allow-principal", "User:alice", "--allow-host", "10.0.0.1"),
        *("--operation", "read", "--operation", "DescribeConfigs", "--topic", "orders"),
    )
    assert "added 2 rules" in added.stderr
    assert added.stdout.splitlines()[0].split()[:3] == ["RESOURCE", "NAME", "PATTERN"]
    expected = {
        "resource": "topic",
        "name": "orders",
        "pattern": "literal",
        "principal": "User:alice",
        "host": "10.0.0.1",
        "operation": "Read",
        "permission": "allow",
    }
    assert rules(cluster, "--topic", "orders") == [
        expected,
        {**expected, "operation": "DescribeConfigs"},
    ]
    one = ("--topic", "orders", "--allow-principal", "User:alice", "--operation", "Read")
    assert "removed 1 rule" in fine(cluster, "remove", *one).stderr
    assert len(rules(cluster, "--topic", "orders")) == 1
    assert "removed 1 rule" in fine(cluster, "remove", "--topic", "orders", "--yes").stderr
    assert rules(cluster, "--topic", "orders") == []
    nothing = run(cluster, "remove", "--topic", "orders")
    assert nothing.exit_code == 1
    assert "there is no such rule" in nothing.stderr


def test_what_producers_and_consumers_need_is_one_option(cluster: Cluster) -> None:
    to_prefix = ("--resource-pattern-type", "prefixed", "--allow-principal", "User:app")
    fine(cluster, "add", "--producer", "--topic", "app.", "--transactional-id", "app.", *to_prefix)
    fine(cluster, "add", "--consumer", "--topic", "app.", "--group", "app.", *to_prefix)
    found = {
        (rule["resource"], rule["operation"]) for rule in rules(cluster, "--principal", "User:app")
    }
    assert found == {
        ("topic", "Write"),
        ("topic", "Describe"),
        ("topic", "Create"),
        ("topic", "Read"),
        ("group", "Read"),
        ("transactional id", "Write"),
        ("transactional id", "Describe"),
    }
    spoken_of = rules(cluster, "--topic", "app.orders", "--resource-pattern-type", "match")
    assert len(spoken_of) == 4
    assert rules(cluster, "--topic", "app.orders") == []


def test_who_is_denied_is_denied_whoever_allows(cluster: Cluster) -> None:
    fine(cluster, "add", "--cluster", "--deny-principal", "User:mallory", "--operation", "Alter")
    [rule] = rules(cluster, "--cluster")
    assert (rule["permission"], rule["host"], rule["name"]) == ("deny", "*", "kafka-cluster")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["add", "--allow-principal", "User:a"], "say of what"),
        (["add", "--topic", "t"], "say for whom"),
        (["add", "--topic", "t", "--allow-principal", "alice"], "write it as User:name"),
        (["add", "--topic", "t", "--allow-host", "::1"], "a host needs a principal"),
        (
            [*FOR_SOMEBODY, "--operation", "Fly"],
            "'Fly' is none of All, Read",
        ),
        (
            [*FOR_SOMEBODY, "--producer", "--operation", "Read"],
            "say the operations themselves",
        ),
        (
            ["add", "--group", "g", "--allow-principal", "User:a", "--producer"],
            "--producer needs a topic",
        ),
        (
            [*FOR_SOMEBODY, "--resource-pattern-type", "match"],
            "'match' is none of literal, prefixed",
        ),
        (["remove"], "say of what"),
    ],
    ids=lambda each: "" if isinstance(each, str) else " ".join(each),
)
def test_wrong_usage_says_what_is_right(cluster: Cluster, arguments: list[str], why: str) -> None:
    ran = run(cluster, *arguments)
    assert ran.exit_code == 2
    assert why in " ".join(ran.stderr.replace("│", " ").split())


def test_without_an_authorizer_the_refusal_says_so(tidelog_cluster: Cluster) -> None:
    refused = run(tidelog_cluster, "list")
    assert refused.exit_code == 1
    assert "No Authorizer is configured" in refused.stderr
