"""What a local node is told before its first start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.model.config import NodeConfig
from tidelog.model.errors import ConfigError
from tidelog.testing.node_setup import change_settings, local_node, node_properties
from tidelog.testing.ports import free_ports, port_is_free


def test_the_controller_listens_beside_the_broker_within_the_range_of_ports() -> None:
    assert local_node(100, 9092).controller_listener == "127.0.0.1:10092"
    assert 0 < local_node(100, 65535).controller_port < 65536


def test_a_local_nodes_configuration_is_valid(tmp_path: Path) -> None:
    config = NodeConfig.from_properties(node_properties(tmp_path, local_node(100, 9092)))

    assert config.node_id == 100
    assert config.log_directories == (str(tmp_path),)
    assert (config.is_broker, config.is_controller) == (True, True)
    assert config.group_initial_rebalance_delay_ms == 0


def test_settings_can_be_added_and_wrong_ones_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    lines = node_properties(tmp_path, local_node(100, 9092)).items()
    path.write_text("".join(f"{key}={value}\n" for key, value in lines))

    change_settings(path, {"num.partitions": "4"}, development=True)
    assert "num.partitions=4" in path.read_text()
    assert "log.segment.delete.delay.ms=1000" in path.read_text()

    before = path.read_text()
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        change_settings(path, {"num.partition": "4"}, development=False)
    assert path.read_text() == before


def test_free_ports_differ_and_are_free() -> None:
    ports = free_ports(4)

    assert len(set(ports)) == 4
    assert all(map(port_is_free, ports))
