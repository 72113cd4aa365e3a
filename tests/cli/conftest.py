"""The fixture that comes with the package, as a user's test suite gets it, and room for more."""

from __future__ import annotations

import pytest
from tests.client.conftest import scripted

from tidelog.local.node_setup import local_nodes, with_http
from tidelog.local.ports import free_ports, port_is_free
from tidelog.testing.plugin import tidelog_cluster

__all__ = ["scripted", "tidelog_cluster"]


@pytest.fixture
def port() -> int:
    """A free port for `tidelog up`, which takes more for other brokers and the controller."""
    while True:
        (found,) = free_ports(1)
        if found < 65000 and all(
            port_is_free(port)
            for node in with_http(local_nodes(range(found, found + 3)), None)
            for port in node.ports_by_role
        ):
            return found
