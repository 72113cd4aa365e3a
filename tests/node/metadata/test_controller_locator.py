"""Whom a node asks for the active controller."""

from __future__ import annotations

from tests.node.node_bench import SETTINGS, NodeBench

from tidelog.model.config import NodeConfig
from tidelog.node.metadata.controller_locator import ControllerLocator


def test_a_node_is_none_of_the_others_wherever_it_is_advertised() -> None:
    config = NodeConfig.from_properties(
        {
            **SETTINGS,
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:7001",
            "controller.quorum.bootstrap.servers": "localhost:7001,localhost:7002,localhost:9093",
        }
    )

    quorum = NodeBench({}).start().node.quorum

    assert ControllerLocator(config, quorum).others == (("localhost", 7002),)
