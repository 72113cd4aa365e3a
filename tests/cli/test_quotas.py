"""`tidelog quotas` on a real broker, and what it says to mistakes."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from tidelog.cli.main import app
from tidelog.testing.cluster import Cluster


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["quotas", *arguments])


@pytest.mark.long
def test_quotas_are_set_listed_and_taken_away(tidelog_cluster: Cluster) -> None:
    there = ("--bootstrap", tidelog_cluster.bootstrap)
    ended = run("set", "producer_byte_rate=1048576", "--user", "ann", "--client-defaults", *there)
    assert ended.exit_code == 0, ended.output
    assert "of user ann, any client-id is now" in ended.output
    assert run("set", "connection_creation_rate=5", "--ip", "10.0.0.1", *there).exit_code == 0
    listed = run("list", "--json", *there)
    assert [json.loads(line) for line in listed.stdout.splitlines()] == [
        {
            "entity": {"client-id": None, "user": "ann"},
            "quotas": {"producer_byte_rate": 1048576.0},
        },
        {"entity": {"ip": "10.0.0.1"}, "quotas": {"connection_creation_rate": 5.0}},
    ]
    table = run("list", "--user", "ann", *there).stdout
    assert "producer_byte_rate" in table
    assert "10.0.0.1" not in table
    gone = run("remove", "--user", "ann", "--client-defaults", *there)
    assert gone.exit_code == 0, gone.output
    assert run("list", "--user", "ann", "--json", *there).stdout == ""
    again = run("remove", "--user", "ann", *there)
    assert again.exit_code == 1
    assert "has no such quota" in again.output
    refused = run("set", "producer_byte_rate=1.5", "--user", "ann", *there)
    assert refused.exit_code == 1
    assert "cannot be a fractional value" in refused.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("set", "producer_byte_rate=1"), "name whom the quota is for"),
        (("set", "producer_byte_rate=0", "--user", "a"), "is not a number above 0"),
        (("set", "no_such=1", "--user", "a"), "there is no quota no_such"),
        (("set", "producer_byte_rate=1", "--ip", "::1"), "there is connection_creation_rate"),
        (("set", "producer_byte_rate", "--user", "a"), "is not key=value"),
        (("remove", "--ip", "::1", "--user", "a"), "give no user or client id"),
        (("remove", "--user", "a", "--user-defaults"), "not both"),
    ],
)
def test_what_cannot_be_meant_is_a_mistake_of_usage(arguments: tuple[str, ...], says: str) -> None:
    ended = run(*arguments)
    assert ended.exit_code == 2
    assert says in " ".join(ended.output.replace("│", " ").split())
