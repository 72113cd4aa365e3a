"""A real broker process, shared by the tests of a worker, and Apache Kafka's own tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.bystander import Bystander
from tests.integration.raw import Peer
from tests.integration.resident import Resident

from tidelog.testing.cluster import Cluster

ROOT = Path(__file__).parents[2]
JAVA = ROOT / ".cache" / "java"
SETTINGS = {
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    "log.retention.ms": "-1",
}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One running broker for all tests of a worker that leave it as it is, but for topics and
    groups of their own; it looks for expired segments often."""
    with Cluster(tmp_path_factory.mktemp("cluster"), settings=SETTINGS) as running:
        yield running


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A broker for one test alone, to be killed and stopped."""
    with Cluster(tmp_path / "cluster") as running:
        yield running


@pytest.fixture(scope="module")
def bootstrap(cluster: Cluster) -> str:
    return cluster.bootstrap


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of the test's own: tests of other files share the broker."""
    name = f"{request.node.path.stem}.{request.node.name}"
    return name.replace("[", ".").replace("]", "").replace("test_", "")[:200]


@pytest.fixture
def peer(bootstrap: str) -> Iterator[Peer]:
    """A connection to say anything on."""
    with Peer(bootstrap) as connected:
        yield connected


@pytest.fixture(scope="module")
def bystander(bootstrap: str, request: pytest.FixtureRequest) -> Iterator[Bystander]:
    """A client that behaves, all the time, with a topic of its own for each file."""
    with Bystander(bootstrap, f"{request.node.path.stem}.bystander") as client:
        yield client


@pytest.fixture
def others_are_served(bystander: Bystander) -> Iterator[None]:
    """Whatever a test sends, a client on other connections notices nothing."""
    before = len(bystander.round_trips_s)
    yield
    assert bystander.is_served(before)


Java = Callable[..., str]


@pytest.fixture(scope="session")
def resident() -> Iterator[Resident]:
    """The JVM of this worker."""
    jvm = Resident()
    yield jvm
    jvm.close()


@pytest.fixture(scope="session")
def java(resident: Resident) -> Java:
    """Run a Java class or source file against a set of jars; its output, or the failure."""

    def run(main: str, *arguments: str, jars: str = "tools", timeout_s: float = 120) -> str:
        ran = resident.run(JAVA / jars, main, *arguments, timeout_s=timeout_s)
        assert ran.code == 0, f"{main} failed\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    return run
