"""A broker that is stopped in an orderly way and started again: nothing is lost, nothing is
forgotten, nothing old is taken for new."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from tests.integration.raw import (
    HungUp,
    Peer,
    Topic,
    batch_of,
    create_topic,
    delete_topic,
    end_offset,
    fetch,
    fetch_answer,
    fetch_from,
    produce,
    start_offset,
    until,
)
from tests.integration.writer import Writer

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.testing.cluster import Cluster

MARKER = ".kafka_cleanshutdown"


def restart(cluster: Cluster) -> None:
    cluster.stop()
    assert cluster.node().ended_cleanly
    assert (cluster.data() / MARKER).exists()
    cluster.start()
    assert not (cluster.data() / MARKER).exists()


def metadata_of(peer: Peer, topic: Topic) -> Any:
    fields = {"topics": [{"name": topic.name}], "allow_auto_topic_creation": False}
    (told,) = peer.call(ApiKey.METADATA, 12, fields).topics
    return told


def leader_epoch(peer: Peer, topic: Topic) -> int:
    return int(metadata_of(peer, topic).partitions[0].leader_epoch)


def events(cluster: Cluster) -> list[dict[str, Any]]:
    lines = (cluster.data() / "events.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def new_producer_id(peer: Peer) -> int:
    fields = {"transactional_id": None, "transaction_timeout": 1000}
    answer = peer.call(ApiKey.INIT_PRODUCER_ID, 4, fields)
    assert answer.error_code == ErrorCode.none
    return int(answer.producer_id)


def test_a_clean_restart_goes_on_where_it_stopped(own_cluster: Cluster) -> None:
    cluster = own_cluster
    batch = batch_of(b"a", b"b", producer_id=9, producer_epoch=3, base_sequence=40)
    with Peer(cluster.bootstrap) as peer:
        kept = create_topic(peer, "kept", partitions=3, retention_ms="7654321")
        gone = create_topic(peer, "gone")
        delete_topic(peer, gone)
        assert [produce(peer, kept, batch_of(b"%d" % n)).base_offset for n in range(5)] == [
            *range(5)
        ]
        assert produce(peer, kept, batch).base_offset == 5
        asked = {"partition_index": 0, "offset": 2}
        fields = {"topics": [{"name": "kept", "partitions": [asked]}], "timeout": 1000}
        peer.call(ApiKey.DELETE_RECORDS, 2, fields)
        epoch = leader_epoch(peer, kept)
        producer_ids = {new_producer_id(peer) for _ in range(3)}
    restart(cluster)
    assert [each for each in events(cluster) if each["event"] == "LogRecovered"] == []
    with Peer(cluster.bootstrap) as peer:
        told = metadata_of(peer, kept)
        assert (told.topic_id, len(told.partitions)) == (kept.topic_id, 3)
        assert told.partitions[0].leader_epoch > epoch
        assert metadata_of(peer, gone).error_code == ErrorCode.unknown_topic_or_partition
        assert (start_offset(peer, kept), end_offset(peer, kept)) == (2, 7)
        assert fetch(peer, kept, 1).error == ErrorCode.offset_out_of_range
        assert produce(peer, kept, batch).base_offset == 5  # a retry, known from before
        assert produce(peer, kept, batch_of(b"next")).base_offset == 7
        assert producer_ids.isdisjoint({new_producer_id(peer) for _ in range(3)})
    resource = ConfigResource(ResourceType.TOPIC, "kept")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    described = admin.describe_configs([resource])[resource].result(20)
    assert described["retention.ms"].value == "7654321"


def test_the_leader_epoch_tells_readers_and_sessions_of_the_restart(own_cluster: Cluster) -> None:
    cluster = own_cluster
    with Peer(cluster.bootstrap) as peer:
        topic = create_topic(peer, "epochs")
        produce(peer, topic, batch_of(b"a", b"b", b"c"))
        opened = fetch_answer(peer, 12, fetch_from(12, topic, 3, session=(0, 0)))
        assert opened.session_id > 0
    restart(cluster)
    cluster.kill()
    cluster.start()
    with Peer(cluster.bootstrap) as peer:
        epoch = leader_epoch(peer, topic)
        assert epoch >= 2
        resumed = fetch_from(12, topic, 3, session=(opened.session_id, 1), named=False)
        assert fetch_answer(peer, 12, resumed).error == ErrorCode.fetch_session_id_not_found
        for old in range(epoch):
            assert fetch(peer, topic, 3, leader_epoch=old).error == ErrorCode.fenced_leader_epoch
            asked = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": old}
            fields = {"replica_id": -1, "topics": [{"name": topic.name, "partitions": [asked]}]}
            (told,) = peer.call(ApiKey.LIST_OFFSETS, 5, fields).topics[0].partitions
            assert told.error_code == ErrorCode.fenced_leader_epoch
        assert fetch(peer, topic, 3, leader_epoch=epoch).error == ErrorCode.none
        produce(peer, topic, batch_of(b"d"))
        ends = {}
        for asked_epoch in (0, epoch):
            ending = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": asked_epoch}
            question = {"replica_id": -1, "topics": [{"topic": topic.name, "partitions": [ending]}]}
            answer = peer.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, question).topics[0].partitions[0]
            ends[asked_epoch] = (answer.leader_epoch, answer.end_offset)
        assert ends == {0: (0, 3), epoch: (epoch, 4)}


def test_a_stop_under_load_is_quick_and_clean_and_loses_nothing(own_cluster: Cluster) -> None:
    cluster = own_cluster
    with Peer(cluster.bootstrap) as peer:
        create_topic(peer, "numbers")
        quiet = create_topic(peer, "quiet")
    with Writer(cluster.bootstrap, "numbers") as writer, ExitStack() as open_peers:
        parked = [open_peers.enter_context(Peer(cluster.bootstrap)) for _ in range(20)]
        for each in parked:
            each.send_frame(fetch_from(12, quiet, 0, max_wait_ms=60_000))
        for _ in range(2):
            writer.wait_for_more(1000)
            began = time.monotonic()
            cluster.stop()
            assert time.monotonic() - began < 3
            assert cluster.node().ended_cleanly
            assert "stopped cleanly: SIGTERM" in cluster.log_text()
            for each in parked:
                with pytest.raises(HungUp):
                    each.receive()
            cluster.start()
        writer.wait_for_more(1000)
    writer.assert_promises_kept()


def test_a_topic_deleted_right_before_a_kill_stays_deleted(own_cluster: Cluster) -> None:
    cluster = own_cluster
    with Peer(cluster.bootstrap) as peer:
        doomed = create_topic(peer, "doomed")
        produce(peer, doomed, batch_of(b"x"))
        delete_topic(peer, doomed)
    cluster.kill()
    cluster.start()
    with Peer(cluster.bootstrap) as peer:
        assert metadata_of(peer, doomed).error_code == ErrorCode.unknown_topic_or_partition
        assert fetch(peer, doomed, 0, version=13).error == ErrorCode.unknown_topic_id
        again = create_topic(peer, "doomed")
        assert again.topic_id != doomed.topic_id
        assert end_offset(peer, again) == 0
    until(lambda: list(cluster.data().glob("doomed-0.*-delete")) == [])


def test_a_created_topic_survives_a_kill_right_after_the_answer(own_cluster: Cluster) -> None:
    cluster = own_cluster
    made: list[Topic] = []
    for turn in range(2):
        with Peer(cluster.bootstrap) as peer:
            made += [create_topic(peer, f"topic-{turn}-{number}") for number in range(5)]
        cluster.kill()
        cluster.start()
        with Peer(cluster.bootstrap) as peer:
            for topic in made:
                assert metadata_of(peer, topic).topic_id == topic.topic_id
                assert produce(peer, topic, batch_of(b"x")).error == ErrorCode.none
            assert [end_offset(peer, topic) for topic in made] == [2] * 5 * turn + [1] * 5


def test_directories_that_vanish_or_appear_while_the_broker_is_down_do_no_harm(
    own_cluster: Cluster,
) -> None:
    cluster = own_cluster
    with Peer(cluster.bootstrap) as peer:
        lost, kept = create_topic(peer, "lost"), create_topic(peer, "kept")
        for topic in (lost, kept):
            produce(peer, topic, batch_of(b"x"))
    cluster.stop()
    data = cluster.data()
    (data / "lost-0").rename(data / "stranger-0")
    (data / "empty-0").mkdir()
    (data / "not a partition").mkdir()
    (data / "file-0").write_text("no directory")
    cluster.start()
    with Peer(cluster.bootstrap) as peer:
        assert end_offset(peer, lost) == 0
        assert produce(peer, lost, batch_of(b"anew")).base_offset == 0
        assert end_offset(peer, kept) == 1
        listed = {topic.name for topic in peer.call(ApiKey.METADATA, 9, {"topics": None}).topics}
        assert listed == {"lost", "kept"}
    (stray,) = data.glob("stranger-0.*-stray")
    assert (stray / "00000000000000000000.log").stat().st_size > 0
