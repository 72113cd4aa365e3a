from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.controller.records import decode_record
from tidelog.model.config import NodeConfig
from tidelog.model.errors import ConfigError
from tidelog.model.ids import uuid_text
from tidelog.model.settings.endpoints import parse_initial_controllers
from tidelog.quorum.formatting import read_bootstrap
from tidelog.quorum.snapshots import BOOTSTRAP_ID, read_snapshot
from tidelog.shell.directory_lock import DirectoryInUse, DirectoryLock
from tidelog.shell.format import format_node
from tidelog.shell.os_filesystem import OsFileSystem
from tidelog.storage.identity import read_identity

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
ANOTHER = "AAAAAAAAAAAAAAAAAAAACg"


def config(directory: Path, **changes: str) -> NodeConfig:
    return NodeConfig.from_properties(
        {
            "node.id": "7",
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "log.dirs": f"{directory}/one,{directory}/two",
        }
        | {key.replace("_", "."): value for key, value in changes.items()}
    )


def test_every_directory_gets_an_identity_and_the_first_records(tmp_path: Path) -> None:
    assert format_node(config(tmp_path), CLUSTER) == CLUSTER

    files = OsFileSystem()
    identities = [read_identity(files, f"{tmp_path}/{name}") for name in ("one", "two")]
    assert all(one is not None and one[:2] == (CLUSTER, 7) for one in identities)
    assert len({one.directory_id for one in identities if one is not None}) == 2
    for name in ("one", "two"):
        values = read_bootstrap(files, f"{tmp_path}/{name}")
        assert values
        assert "metadata.version" in str([decode_record(value) for value in values])
    assert files.open_descriptors == 0


def test_the_first_controller_is_the_first_voter_in_its_metadata_directory(tmp_path: Path) -> None:
    format_node(config(tmp_path, metadata_log_dir=f"{tmp_path}/meta"), CLUSTER)

    files = OsFileSystem()
    name = f"__cluster_metadata-0/{BOOTSTRAP_ID.file_name}"
    content = read_snapshot(files, f"{tmp_path}/meta/{name}")
    [voter] = content.voters
    identity = read_identity(files, f"{tmp_path}/meta")
    assert identity is not None
    assert (voter.voter_id, voter.voter_directory_id) == (7, identity.directory_id)
    assert [(one.name, one.port) for one in voter.endpoints] == [("CONTROLLER", 9093)]
    assert not files.exists(f"{tmp_path}/one/{name}")


def voters_of(directory: Path) -> dict[int, tuple[str, int]]:
    path = directory / "one" / "__cluster_metadata-0" / BOOTSTRAP_ID.file_name
    content = read_snapshot(OsFileSystem(), str(path))
    return {
        voter.voter_id: (uuid_text(voter.voter_directory_id), voter.endpoints[0].port)
        for voter in content.voters
    }


TRIO = {"controller_quorum_bootstrap_servers": "127.0.0.1:9093,127.0.0.1:9094"}
FIRST = "AAAAAAAAAAEAAAAAAAAAZA"
SECOND = "AAAAAAAAAAEAAAAAAAAAZQ"
INITIAL = parse_initial_controllers(f"8@127.0.0.1:9094:{SECOND},7@127.0.0.1:9093:{FIRST}")


def test_the_first_voters_are_the_same_for_each_of_them(tmp_path: Path) -> None:
    format_node(config(tmp_path, **TRIO), CLUSTER, INITIAL)

    assert voters_of(tmp_path) == {7: (FIRST, 9093), 8: (SECOND, 9094)}
    identity = read_identity(OsFileSystem(), f"{tmp_path}/one")
    assert identity is not None
    assert uuid_text(identity.directory_id) == FIRST


def test_a_controller_that_joins_later_knows_no_voters(tmp_path: Path) -> None:
    format_node(config(tmp_path, **TRIO), CLUSTER, ())

    assert not OsFileSystem().exists(f"{tmp_path}/one/__cluster_metadata-0")


def test_several_controllers_do_not_become_several_quorums_by_accident(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--initial-controllers"):
        format_node(config(tmp_path, **TRIO), CLUSTER)
    format_node(config(tmp_path, **TRIO), CLUSTER, standalone=True)
    assert list(voters_of(tmp_path)) == [7]


def test_a_controller_that_is_not_among_the_first_voters_is_refused(tmp_path: Path) -> None:
    others = tuple(each for each in INITIAL if each.node_id != 7)
    with pytest.raises(ConfigError, match="not among"):
        format_node(config(tmp_path, **TRIO), CLUSTER, others)


@pytest.mark.parametrize("text", ["7@host:9093", "7@host:9093:short", "host:9093:" + FIRST, ""])
def test_first_voters_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--initial-controllers"):
        parse_initial_controllers(text)


def test_a_first_voter_is_named_once() -> None:
    twice = f"7@127.0.0.1:9093:{FIRST},7@127.0.0.1:9094:{SECOND}"
    with pytest.raises(ConfigError, match="twice"):
        parse_initial_controllers(twice)


def test_a_fixed_quorum_has_no_voters_in_its_log(tmp_path: Path) -> None:
    fixed = {"controller_quorum_voters": "7@127.0.0.1:9093"}
    format_node(config(tmp_path, **fixed), CLUSTER)
    assert not OsFileSystem().exists(f"{tmp_path}/one/__cluster_metadata-0")


def test_a_mere_broker_has_no_voters_in_its_log(tmp_path: Path) -> None:
    mere = {"process_roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:9092"}
    assert format_node(config(tmp_path, **mere), CLUSTER) == CLUSTER
    assert not OsFileSystem().exists(f"{tmp_path}/one/__cluster_metadata-0")


def test_a_new_cluster_gets_an_id_of_its_own(tmp_path: Path) -> None:
    first = format_node(config(tmp_path / "a"))
    second = format_node(config(tmp_path / "b"))
    assert first != second
    assert len(first) == 22


def test_a_formatted_directory_is_left_alone_and_nothing_else_is_written(tmp_path: Path) -> None:
    format_node(config(tmp_path, log_dirs=f"{tmp_path}/two"), CLUSTER)
    with pytest.raises(ConfigError, match="two is formatted already, for node 7"):
        format_node(config(tmp_path), ANOTHER)
    assert read_identity(OsFileSystem(), f"{tmp_path}/one") is None


def test_a_directory_in_use_is_not_formatted(tmp_path: Path) -> None:
    lock = DirectoryLock(f"{tmp_path}/two")
    with pytest.raises(DirectoryInUse):
        format_node(config(tmp_path), CLUSTER)
    lock.release()


@pytest.mark.parametrize(
    "wrong",
    ["my cluster", "4L6g3nShT-eMCtK--X86s", "4L6g3nShT-eMCtK--X86sw==", "4L6g3nShT/eMCtK++X86sw"],
)
def test_a_cluster_id_has_the_form_of_those_that_are_drawn(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ConfigError, match="tidelog random-uuid") as refused:
        format_node(config(tmp_path), wrong)
    assert repr(wrong) in str(refused.value)
    assert not (tmp_path / "two").exists()


def test_who_insists_may_use_a_cluster_id_of_any_form_as_in_kafka(tmp_path: Path) -> None:
    assert format_node(config(tmp_path), "my cluster", any_cluster_id=True) == "my cluster"


def test_a_cluster_id_is_more_than_spaces(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be a cluster id"):
        format_node(config(tmp_path), " ")
