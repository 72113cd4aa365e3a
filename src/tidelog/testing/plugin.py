"""pytest fixtures that come with the package.

def test_my_service(tidelog_cluster: Cluster) -> None:
    run_my_service(tidelog_cluster.bootstrap)

pytest loads this for every test run; the cluster is imported when a test asks for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.testing.cluster import Cluster


@pytest.fixture
def tidelog_cluster() -> Iterator[Cluster]:
    """A fresh, ready cluster of real processes for one test."""
    from tidelog.testing.cluster import Cluster

    with Cluster() as cluster:
        yield cluster
