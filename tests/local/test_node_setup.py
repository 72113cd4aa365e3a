"""What a local node is told before its first start."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from tidelog.local.node_process import NodeTrouble
from tidelog.local.node_setup import (
    Neighbourhood,
    NodeDescription,
    change_settings,
    local_nodes,
    node_directory,
    node_properties,
    refuse_taken_ports,
    set_up_nodes,
    with_http,
)
from tidelog.local.ports import free_ports, port_is_free
from tidelog.model.config import NodeConfig
from tidelog.model.errors import ConfigError
from tidelog.model.settings.properties import parse_properties, write_properties

ALONE = Neighbourhood(("127.0.0.1:10092",), 1)


def alone(port: int) -> NodeDescription:
    (node,) = local_nodes([port])
    return node


def test_the_controller_listens_beside_the_broker_within_the_range_of_ports() -> None:
    assert alone(9092).controller_listener == "127.0.0.1:10092"
    assert all(0 < port < 65536 for port in alone(65535).ports)


def test_three_of_several_brokers_are_controllers_so_that_one_may_fail() -> None:
    nodes = local_nodes(range(9092, 9096))

    assert [node.node_id for node in nodes] == [100, 101, 102, 103]
    assert [node.ports for node in nodes] == [(9092, 10092), (9093, 10093), (9094, 10094), (9095,)]
    assert [node.roles for node in nodes[2:]] == [("broker", "controller"), ("broker",)]


def test_one_of_two_brokers_is_the_controller_since_two_voters_are_no_safer_than_one() -> None:
    assert [node.is_controller for node in local_nodes([9092, 9093])] == [True, False]


def test_separate_controllers_have_numbers_and_ports_of_their_own() -> None:
    broker, *controllers = local_nodes([9092], controllers=3)

    assert (broker.roles, broker.ports) == (("broker",), (9092,))
    assert [node.node_id for node in controllers] == [200, 201, 202]
    assert [node.ports for node in controllers] == [(10092,), (10093,), (10094,)]
    assert not any(node.is_broker for node in controllers)


def test_nodes_answer_over_http_beside_their_other_ports_if_they_are_to() -> None:
    nodes = local_nodes([9092, 9093], controllers=1)
    assert [node.http_listener for node in with_http(nodes, ())] == [None, None, None]
    everywhere = with_http(nodes, None)
    assert [node.http_listener for node in everywhere] == [
        "127.0.0.1:11092",
        "127.0.0.1:11093",
        "127.0.0.1:11094",
    ]
    assert [node.ports for node in everywhere] == [node.ports for node in nodes]
    [high] = with_http([alone(64_000)], None)
    assert high.http_listener == "127.0.0.1:62000"


def test_the_http_listener_of_a_local_node_is_where_its_description_says(tmp_path: Path) -> None:
    broker, controller, http, other = free_ports(4)
    [node] = with_http(local_nodes([broker], [controller]), [http])
    set_up_nodes(tmp_path, [node], development=False, settings={})
    config = parse_properties(
        (node_directory(tmp_path, 100) / "node.properties").read_text(encoding="utf-8")
    )
    assert config["http.listener"] == f"127.0.0.1:{http}"
    moved = {"http.listener": f"127.0.0.1:{other}"}
    with pytest.raises(ConfigError, match=r"http\.listener is 127.0.0.1:\d+ in a local cluster"):
        change_settings(tmp_path, node, moved, development=False)
    with socket.socket() as rival:
        rival.bind(("127.0.0.1", http))
        rival.listen()
        with pytest.raises(NodeTrouble, match=f"port {http} is taken .* its HTTP listener"):
            refuse_taken_ports(node, "free it first")


def test_three_brokers_keep_three_copies_of_which_two_must_be_in_sync(tmp_path: Path) -> None:
    around = Neighbourhood(("h:9",), 3)
    properties = node_properties(tmp_path, local_nodes([1, 2, 3, 4])[3], around)
    config = NodeConfig.from_properties(properties)

    assert (config.default_replication_factor, config.min_insync_replicas) == (3, 2)
    assert (config.is_broker, config.is_controller) == (True, False)


def test_a_local_nodes_configuration_is_valid(tmp_path: Path) -> None:
    config = NodeConfig.from_properties(node_properties(tmp_path, alone(9092), ALONE))

    assert config.node_id == 100
    assert config.log_directories == (str(tmp_path),)
    assert (config.is_broker, config.is_controller) == (True, True)
    assert config.group_initial_rebalance_delay_ms == 0
    assert config.group_consumer_assignment_interval_ms == 0


def test_settings_can_be_added_and_wrong_ones_change_nothing(tmp_path: Path) -> None:
    node = alone(9092)
    path = node_directory(tmp_path, 100) / "node.properties"
    path.parent.mkdir()
    path.write_text(write_properties(node_properties(path.parent / "data", node, ALONE)))

    change_settings(tmp_path, node, {"num.partitions": "4"}, development=True)
    assert "num.partitions=4" in path.read_text()
    assert "log.segment.delete.delay.ms=1000" in path.read_text()

    before = path.read_text()
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        change_settings(tmp_path, node, {"num.partition": "4"}, development=False)
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("node.id", "101"),
        ("process.roles", "broker"),
        ("log.dirs", "/elsewhere"),
        ("listeners", "PLAINTEXT://127.0.0.1:9999,CONTROLLER://127.0.0.1:10092"),
    ],
)
def test_a_setting_that_contradicts_the_description_is_refused(
    tmp_path: Path, key: str, value: str
) -> None:
    with pytest.raises(ConfigError, match=key):
        set_up_nodes(tmp_path, [alone(9092)], development=False, settings={key: value})
    assert list(tmp_path.iterdir()) == []


def test_a_local_node_may_listen_on_more_addresses(tmp_path: Path) -> None:
    port, controller_port = free_ports(2)
    everywhere = f"PLAINTEXT://:{port},CONTROLLER://127.0.0.1:{controller_port}"
    nodes = local_nodes([port], [controller_port])

    set_up_nodes(tmp_path, nodes, development=False, settings={"listeners": everywhere})

    written = (node_directory(tmp_path, 100) / "node.properties").read_text()
    assert parse_properties(written)["listeners"] == everywhere


def test_free_ports_differ_and_are_free() -> None:
    ports = free_ports(4)

    assert len(set(ports)) == 4
    assert all(map(port_is_free, ports))


def test_a_taken_port_is_told_with_its_use_and_with_ports_that_are_free(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (free,) = free_ports(1)
        for nodes, role in (
            (local_nodes([port], [free]), "broker"),
            (local_nodes([free], [port]), "controller"),
            (local_nodes([free], [port], controllers=1), "controller"),
        ):
            with pytest.raises(NodeTrouble) as refused:
                set_up_nodes(tmp_path / "cluster", nodes, development=False, settings={})
            owner = next(each.node_id for each in nodes if port in each.ports)
            assert str(refused.value).startswith(
                f"port {port} is taken by another program, and node {owner} needs it for its {role}"
            )
            offered = re.search(r"--port (\d+)", str(refused.value))
            if offered is not None:  # else the ports end there
                assert int(offered[1]) % 100 == nodes[0].port % 100
                assert port_is_free(int(offered[1]))
    assert not (tmp_path / "cluster").exists()
