"""How a broker moves between fenced, unfenced and shutting down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.controller.brokers import BrokerHeartbeatReply
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import NO_LEADER
from tidelog.protocol.stored.metadata import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster, NewCluster


def test_a_broker_is_unfenced_only_after_it_replayed_its_registration(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster()
    epoch = cluster.register(cluster.registration(100))
    assert isinstance(epoch, int)

    behind = cluster.beat(100, metadata_offset=epoch - 1)
    assert behind == BrokerHeartbeatReply(
        is_caught_up=False, is_fenced=True, should_shut_down=False
    )
    there = cluster.beat(100, metadata_offset=epoch)
    assert there == BrokerHeartbeatReply(is_caught_up=True, is_fenced=False, should_shut_down=False)
    assert cluster.image.brokers[100].active


def test_a_starting_broker_may_stay_fenced_though_caught_up(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.register(cluster.registration(100))

    reply = cluster.beat(100, want_fence=True)
    assert (reply.is_caught_up, reply.is_fenced) == (True, True)


def test_a_quiet_heartbeat_writes_nothing(cluster: Cluster) -> None:
    offset = cluster.next_offset

    assert not cluster.beat(100).is_fenced
    assert cluster.next_offset == offset


@pytest.mark.parametrize("said", [{"broker_epoch": 0}, {"broker_id": 7}])
def test_a_stale_or_unknown_broker_is_told_so(cluster: Cluster, said: dict[str, int]) -> None:
    reply = cluster.heartbeat(100, **said)

    assert isinstance(reply, Refusal)
    assert reply.code is ErrorCode.stale_broker_epoch


def test_a_broker_may_ask_to_be_fenced(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101))

    reply = cluster.beat(100, want_fence=True)

    assert (reply.is_fenced, reply.should_shut_down) == (True, False)
    assert cluster.image.brokers[100].fenced
    assert cluster.lead_isr_elr() == (101, (101,), ())


def test_unfencing_is_written_before_the_elections_it_makes_possible(cluster: Cluster) -> None:
    cluster.create("orders", (100,))
    cluster.fence(100)
    offset = cluster.next_offset

    cluster.beat(100)

    assert cluster.next_offset == offset + 2
    assert cluster.partition("orders").leader == 100


def test_a_fenced_broker_that_wants_to_stop_may_stop_now(cluster: Cluster) -> None:
    cluster.fence(100)
    offset = cluster.next_offset

    reply = cluster.beat(100, want_shut_down=True)

    assert (reply.is_fenced, reply.should_shut_down) == (True, True)
    assert cluster.next_offset == offset


def test_a_broker_that_leads_nothing_may_stop_now(cluster: Cluster) -> None:
    cluster.create("orders", (101, 100))

    reply = cluster.beat(100, want_shut_down=True)

    assert reply.should_shut_down
    assert cluster.image.brokers[100].fenced
    assert cluster.lead_isr_elr() == (101, (101,), ())


def test_a_broker_that_wants_fence_and_stop_may_stop_now_whatever_it_leads(
    cluster: Cluster,
) -> None:
    cluster.create("orders", (100, 101))

    assert cluster.beat(100, want_fence=True, want_shut_down=True).should_shut_down
    assert cluster.partition("orders").leader == 101


def test_controlled_shutdown_moves_leaders_and_waits_until_everyone_knows(
    cluster: Cluster,
) -> None:
    cluster.create("orders", (100, 101, 102))

    first = cluster.beat(100, want_shut_down=True)
    shutdown_offset = cluster.next_offset - 1
    assert (first.is_fenced, first.should_shut_down) == (False, False)
    assert cluster.image.brokers[100].in_controlled_shutdown
    assert cluster.lead_isr_elr() == (101, (101, 102), ())

    cluster.beat(101, metadata_offset=shutdown_offset)
    cluster.beat(102, metadata_offset=shutdown_offset - 1)
    assert not cluster.beat(100, want_shut_down=True).should_shut_down

    cluster.beat(102, metadata_offset=shutdown_offset)
    assert cluster.beat(100, want_shut_down=True).should_shut_down
    assert cluster.image.brokers[100].fenced


def test_controlled_shutdown_waits_while_a_leadership_cannot_move(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.start(100, 101)
    cluster.create("orders", (100,))

    cluster.beat(100, want_shut_down=True)

    assert cluster.lead_isr_elr() == (NO_LEADER, (), (100,))
    cluster.beat(101)
    assert cluster.beat(100, want_shut_down=True).should_shut_down


def test_the_last_broker_of_a_cluster_may_stop(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.start(100)
    cluster.create("orders", (100,))

    assert not cluster.beat(100, want_shut_down=True).should_shut_down
    assert cluster.beat(100, want_shut_down=True).should_shut_down


def test_a_new_controller_takes_a_controlled_shutdown_over(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101))
    cluster.beat(100, want_shut_down=True)
    cluster.do(cluster.controller.activate(cluster.now))
    offset = cluster.next_offset

    assert cluster.beat(100, want_shut_down=True).should_shut_down
    assert cluster.next_offset == offset + 1
    assert cluster.image.brokers[100].fenced


def test_a_silent_broker_is_fenced_when_its_session_has_passed(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101))
    cluster.wait(5000)
    cluster.beat(101)
    cluster.beat(102)
    assert cluster.controller.next_deadline_ms == cluster.now.monotonic_ms + 4000
    cluster.wait(3999)
    assert cluster.do(cluster.controller.fence_one_overdue(cluster.now)) is None
    cluster.wait(1)

    assert cluster.do(cluster.controller.fence_one_overdue(cluster.now)) == 100
    assert cluster.lead_isr_elr() == (101, (101,), ())
    assert cluster.do(cluster.controller.fence_one_overdue(cluster.now)) is None


def test_brokers_are_fenced_one_at_a_time(cluster: Cluster) -> None:
    cluster.wait(9000)

    fenced = [cluster.do(cluster.controller.fence_one_overdue(cluster.now)) for _ in range(4)]

    assert fenced == [100, 101, 102, None]


def test_a_closed_heartbeat_connection_leads_to_fencing_within_the_grace_time(
    cluster: Cluster,
) -> None:
    cluster.controller.broker_disconnected(101, cluster.now)
    cluster.wait(200)

    assert cluster.do(cluster.controller.fence_one_overdue(cluster.now)) == 101


def test_fencing_is_the_last_record_of_its_decision(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101))
    cluster.wait(9000)
    decision = cluster.controller.fence_one_overdue(cluster.now)

    assert [type(record) for record in decision.records] == [
        PartitionChangeRecord,
        BrokerRegistrationChangeRecord,
    ]


def test_replicas_in_a_directory_that_went_offline_leave_the_isr(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.start(100, 101, directories=2)
    cluster.create("orders", (100, 101))
    first, second = cluster.image.brokers[100].log_dirs
    partition = cluster.partition("orders")
    topic_id = cluster.image.topics_by_name["orders"].topic_id
    cluster.replay(
        PartitionChangeRecord(
            topic_id=topic_id, partition_id=0, directories=(first, partition.directories[1])
        )
    )

    cluster.beat(100, offline_log_dirs=(second,))
    assert cluster.lead_isr_elr() == (100, (100, 101), ())
    cluster.start(102)
    cluster.beat(100, offline_log_dirs=(first, second))

    assert cluster.lead_isr_elr() == (101, (101,), ())
    assert not cluster.image.brokers[100].fenced


def test_an_offline_directory_is_reported_once(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.start(100, directories=2)
    first, second = cluster.image.brokers[100].log_dirs

    cluster.beat(100, offline_log_dirs=(first,))
    offset = cluster.next_offset
    cluster.beat(100, offline_log_dirs=(first,))

    assert cluster.image.brokers[100].log_dirs == (second,)
    assert cluster.next_offset == offset


def test_cordoned_directories_are_noted_when_they_change(cluster: Cluster) -> None:
    directories = cluster.image.brokers[100].log_dirs

    cluster.beat(100, cordoned_log_dirs=directories)
    offset = cluster.next_offset
    cluster.beat(100, cordoned_log_dirs=directories)

    assert cluster.image.brokers[100].cordoned_log_dirs == directories
    assert cluster.next_offset == offset
    cluster.beat(100, cordoned_log_dirs=())
    assert cluster.image.brokers[100].cordoned_log_dirs == ()
