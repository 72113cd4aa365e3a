"""What an operator does to a real cluster: moves, elections, and who belongs to it."""

from __future__ import annotations

import json
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tidelog.cli.main import app
from tidelog.testing.cluster import Cluster
from tidelog.view.questions import KafkaQuestions

pytestmark = pytest.mark.long

WITHIN_S = 30.0


@pytest.fixture(scope="module")
def four() -> Iterator[Cluster]:
    settings = {"auto.leader.rebalance.enable": "false", "log.segment.delete.delay.ms": "1000"}
    with Cluster(brokers=4, settings=settings) as running:
        yield running


@pytest.fixture
def cluster(four: Cluster) -> Cluster:
    """Brokers 100 to 103, of which the first three vote; all of them run."""
    four.start_all()
    until(lambda: "fenced" not in run(four, "cluster", "describe").stdout)
    return four


def run(cluster: Cluster, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--data", str(cluster.directory)])


def fine(cluster: Cluster, *arguments: str) -> Result:
    ended = run(cluster, *arguments)
    assert ended.exit_code == 0, ended.output
    return ended


def objects(ended: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ended.stdout.splitlines()]


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def placed(cluster: Cluster, topic: str, assignment: list[list[int]], directory: Path) -> None:
    """A topic with its replicas where the test wants them."""
    factor, count = str(len(assignment[0])), str(len(assignment))
    where = ("--partitions", count, "--replication-factor", factor)
    fine(cluster, "topics", "create", topic, *where)
    plan = directory / f"{topic}.json"
    partitions = [
        {"topic": topic, "partition": index, "replicas": replicas}
        for index, replicas in enumerate(assignment)
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    fine(cluster, "partitions", "reassign", "--plan", str(plan), "--yes")
    fine(cluster, "partitions", "elect", topic)


def described(cluster: Cluster, topic: str) -> list[dict[str, Any]]:
    (found,) = objects(fine(cluster, "topics", "describe", topic, "--json"))
    partitions: list[dict[str, Any]] = found["partitions"]
    return partitions


def test_a_topic_moves_to_other_brokers_after_a_look_and_back_by_a_saved_plan(
    cluster: Cluster, tmp_path: Path
) -> None:
    placed(cluster, "moving", [[100, 101], [101, 100]], tmp_path)
    fine(cluster, "produce", "moving", "--file", __file__, "--partition", "0")
    wanted = ("partitions", "reassign", "--topic", "moving", "--brokers", "101,103")

    looked = fine(cluster, *wanted, "--json")
    assert "nothing was changed" in looked.stderr
    first, second = objects(looked)
    assert (first["before"], first["adding"], first["removing"]) == ([100, 101], [103], [100])
    assert first["bytes_to_copy"] >= Path(__file__).stat().st_size
    assert second["bytes_to_copy"] == 0
    assert described(cluster, "moving")[0]["replicas"] == [100, 101]

    back = tmp_path / "back.json"
    moved = fine(cluster, *wanted, "--execute", "--save-current", str(back))
    assert "2 partitions to change: 2 replicas to copy" in moved.stderr
    assert "moved 2 partitions" in moved.stderr
    assert {tuple(sorted(each["isr"])) for each in described(cluster, "moving")} == {(101, 103)}
    assert "all of it is in place already" in fine(cluster, *wanted).stderr

    fine(cluster, "partitions", "reassign", "--plan", str(back), "--execute")
    assert [each["replicas"] for each in described(cluster, "moving")] == [[100, 101], [101, 100]]
    on_the_plan = fine(cluster, "partitions", "reassign", "--plan", str(back), "--status")
    assert "2 of 2 are where the plan says" in on_the_plan.stderr


def test_a_move_that_cannot_end_is_shown_with_what_is_left_and_cancelled(
    cluster: Cluster, tmp_path: Path
) -> None:
    placed(cluster, "stuck", [[100, 101]], tmp_path)
    fine(cluster, "produce", "stuck", "--file", __file__)
    cluster.stop(103)
    wanted = ("partitions", "reassign", "--topic", "stuck", "--brokers", "100,103")

    begun = fine(cluster, *wanted, "--yes", "--no-wait")
    assert "broker 103 does not live" in begun.stderr
    (moving,) = objects(fine(cluster, "partitions", "reassign", "--status", "--json"))
    assert (moving["topic"], moving["adding"], moving["removing"]) == ("stuck", [103], [101])
    assert moving["bytes_left"] >= Path(__file__).stat().st_size
    assert "stuck-0" in fine(cluster, "partitions", "reassign", "--status").stdout
    assert "takes the place of that" in fine(cluster, *wanted).stderr
    other = ("partitions", "reassign", "--topic", "stuck", "--brokers", "100,102")
    (planned,) = objects(fine(cluster, *other, "--json"))
    assert (planned["before"], planned["after"]) == ([100, 101], [100, 102])
    assert (planned["adding"], planned["removing"]) == ([102], [101, 103])
    (seen,) = KafkaQuestions(cluster.bootstrap).preview("stuck", [100, 102])["moves"]
    shown = ("before", "after", "adding", "removing")
    assert {each: list(seen[each]) for each in shown} == {each: planned[each] for each in shown}
    assert seen["bytes"] == planned["bytes_to_copy"] == moving["bytes_left"]

    cancelled = fine(cluster, "partitions", "reassign", "--cancel", "--topic", "stuck")
    assert "stuck-0 stays where it was" in cancelled.stderr
    assert (
        "no partition is on the way" in fine(cluster, "partitions", "reassign", "--status").stderr
    )
    assert described(cluster, "stuck")[0]["replicas"] == [100, 101]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["reassign", "--topic", "pelicams", "--brokers", "100"], "did you mean 'pelicans'?"),
        (["reassign", "--topic", "pelicans:9", "--brokers", "100"], "no partition pelicans-9"),
        (["reassign", "--topic", "pelicans", "--brokers", "100,109"], "there is no broker 109"),
        (["reassign", "--status", "--topic", "pelicams"], "did you mean 'pelicans'?"),
        (["elect", "pelicams"], "did you mean 'pelicans'?"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_what_is_not_there_is_refused_with_what_is(
    cluster: Cluster, arguments: list[str], why: str
) -> None:
    where = ("--replication-factor", "2", "--partitions", "1")
    fine(cluster, "topics", "create", "pelicans", "--if-not-exists", *where)

    refused = run(cluster, "partitions", *arguments)

    assert refused.exit_code == 1
    assert why in refused.stderr
    assert refused.stdout == ""


def test_the_preferred_leader_leads_again_when_it_is_asked_for(
    cluster: Cluster, tmp_path: Path
) -> None:
    placed(cluster, "preferred", [[103, 101, 100]], tmp_path)
    cluster.stop(103)
    until(lambda: described(cluster, "preferred")[0]["leader"] == 101)
    nobody = run(cluster, "partitions", "elect", "preferred")
    assert nobody.exit_code == 1
    assert "The preferred replica 103 is not in sync or not live" in nobody.stdout
    cluster.start(103)
    until(lambda: len(described(cluster, "preferred")[0]["isr"]) == 3)

    (elected,) = objects(fine(cluster, "partitions", "elect", "preferred:0", "--json"))

    assert elected == {"partition": "preferred-0", "before": 101, "after": 103, "note": ""}
    again = fine(cluster, "partitions", "elect", "preferred")
    assert "the preferred leader leads already" in again.stderr


def test_an_unclean_election_says_loudly_what_it_loses_and_wants_to_be_meant(
    cluster: Cluster, tmp_path: Path
) -> None:
    placed(cluster, "unclean", [[103, 100]], tmp_path)
    fine(cluster, "configs", "set", "min.insync.replicas=1", "--topic", "unclean")
    kept = fine(cluster, "partitions", "elect", "unclean", "--unclean", "--yes")
    assert "has a leader, and keeps it" in kept.stderr
    cluster.stop(100)
    until(lambda: described(cluster, "unclean")[0]["isr"] == [103])
    fine(cluster, "produce", "unclean", "--file", __file__)
    cluster.kill(103)
    cluster.start(100)
    until(lambda: described(cluster, "unclean")[0]["leader"] == -1)

    doubted = run(cluster, "partitions", "elect", "unclean", "--unclean")
    assert doubted.exit_code == 1
    assert "LOSES ACKNOWLEDGED RECORDS" in doubted.stderr
    assert "unclean-0: what only 103 has will be gone; alive: 100 (0 B)" in doubted.stderr
    assert described(cluster, "unclean")[0]["leader"] == -1

    (elected,) = objects(
        fine(cluster, "partitions", "elect", "unclean", "--unclean", "--yes", "--json")
    )
    assert (elected["before"], elected["after"]) == (None, 100)
    assert described(cluster, "unclean")[0]["end_offset"] == 0


def test_a_broker_is_forgotten_once_it_is_gone_and_has_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    placed(cluster, "held", [[102, 103]], tmp_path)
    unknown = run(cluster, "cluster", "unregister", "109")
    assert "there is no broker 109; this cluster has 100, 101, 102, 103" in unknown.stderr
    alive = run(cluster, "cluster", "unregister", "103")
    assert alive.exit_code == 1
    assert "broker 103: it lives: stop it first" in alive.stderr
    assert "held-0" in alive.stderr

    cluster.stop(103)
    until(lambda: "fenced" in run(cluster, "cluster", "describe").stdout)
    assert run(cluster, "cluster", "unregister", "103").exit_code == 1
    forgotten = fine(cluster, "cluster", "unregister", "103", "--force")
    assert "broker 103 is forgotten" in forgotten.stderr
    shown = json.loads(fine(cluster, "cluster", "describe", "--json").stdout)
    assert [each["id"] for each in shown["brokers"]] == [100, 101, 102]


def test_a_controller_loses_its_vote_and_gets_it_back(cluster: Cluster) -> None:
    deciding = json.loads(fine(cluster, "cluster", "describe", "--json").stdout)["controller"]
    node = min({100, 101, 102} - {deciding})
    config = cluster.directory / f"node-{node}" / "node.properties"
    listener = cluster.local.descriptions[node].controller_listener
    add = ("cluster", "add-controller")
    assert "votes already" in run(cluster, *add, "--config", str(config)).stderr
    assert (
        "does not vote; 100, 101, 102 do"
        in run(cluster, "cluster", "remove-controller", "103").stderr
    )
    not_following = run(cluster, *add, "209", "--listener", "127.0.0.1:1")
    assert "does not follow the metadata log yet" in not_following.stderr

    removed = json.loads(fine(cluster, "cluster", "remove-controller", str(node), "--json").stdout)
    assert (removed["before"], node in removed["after"]) == ([100, 101, 102], False)
    until(lambda: run(cluster, *add, str(node), "--listener", str(listener)).exit_code == 0)
    voters = json.loads(fine(cluster, "cluster", "describe", "--json").stdout)["voters"]
    assert voters == [100, 101, 102]


def test_a_vote_is_kept_where_no_majority_would_be_left(cluster: Cluster) -> None:
    cluster.kill(102)
    deciding = json.loads(fine(cluster, "cluster", "describe", "--json").stdout)["controller"]
    other = ({100, 101} - {deciding}).pop()

    refused = run(cluster, "cluster", "remove-controller", str(other))

    assert refused.exit_code == 1
    assert f"only {deciding} lives, and that is no majority" in refused.stderr


def test_a_support_bundle_has_what_a_helper_needs_and_no_secret(
    cluster: Cluster, tmp_path: Path
) -> None:
    config = cluster.directory / "node-103" / "node.properties"
    before = config.read_text()
    config.write_text(before + "ssl.keystore.password=hunter2\n")
    archive = tmp_path / "bundle.tar.gz"

    said = fine(cluster, "support-bundle", "--output", str(archive))
    config.write_text(before)

    with tarfile.open(archive) as bundle:
        texts: dict[str, bytes] = {}
        for name in bundle.getnames():
            file = bundle.extractfile(name)
            assert file is not None
            texts[name.removeprefix("bundle/")] = file.read()
    assert archive.stat().st_mode & 0o077 == 0
    assert b"hunter2" not in b"".join(texts.values())
    assert b"ssl.keystore.password=(hidden)" in texts["node-103/node.properties"]
    assert set(json.loads(texts["cluster/brokers.json"])) == {"cluster_id", "brokers"}
    assert json.loads(texts["status.json"])["cluster_id"] == cluster.cluster_id
    assert b"listens on" in texts["node-100/node.log"]
    assert b"meta.properties" in texts["node-100/files.txt"]
    for name in texts:
        assert name == "README.txt" or name.encode() in texts["README.txt"]
        assert name in said.stdout
    assert run(cluster, "support-bundle", "--output", str(archive)).exit_code == 1


def names_in(archive: Path) -> set[str]:
    with tarfile.open(archive) as bundle:
        return {name.partition("/")[2].partition("/")[0] for name in bundle.getnames()}


def test_a_support_bundle_is_of_one_cluster_and_names_what_is_of_another(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "tidelog").symlink_to(cluster.directory)
    at_home = {"XDG_DATA_HOME": str(tmp_path)}
    nodes = {f"node-{each}" for each in cluster.node_ids}

    def bundled(name: str, *options: str) -> tuple[set[str], dict[str, Any]]:
        archive = tmp_path / f"{name}.tar.gz"
        command = ["support-bundle", "--json", "--output", str(archive), *options]
        ended = CliRunner().invoke(app, command, env=at_home)
        assert ended.exit_code == 0, ended.output
        return names_in(archive), json.loads(ended.stdout)

    with Cluster(brokers=1) as other:
        names, told = bundled("named", "--bootstrap", other.bootstrap)
        assert not names & nodes and "cluster" in names
        (why,) = told["left_out"].values()
        assert cluster.cluster_id in why and other.cluster_id in why

        both = ("--bootstrap", other.bootstrap, "--data", str(cluster.directory))
        names, told = bundled("both", *both)
        assert names >= nodes and "cluster" not in names
        (why,) = told["left_out"].values()
        assert cluster.cluster_id in why and other.cluster_id in why
    names, told = bundled("silent", "--bootstrap", other.bootstrap)
    assert not names & {*nodes, "cluster"}
    assert "says which" in next(iter(told["left_out"].values()))

    identity = cluster.data(103) / "meta.properties"
    own = identity.read_text()
    identity.write_text(own.replace(cluster.cluster_id, "AAAAAAAAAAAAAAAAAAAACg"))
    names, told = bundled("home", "--bootstrap", cluster.bootstrap)
    identity.write_text(own)
    assert names & nodes == nodes - {"node-103"} and "cluster" in names
    assert "is of cluster AAAAAAAAAAAAAAAAAAAACg" in told["left_out"]["node 103"]
    assert not told["warnings"]
