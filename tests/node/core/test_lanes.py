"""A disk that takes its time: what waits for it, and what does not."""

from __future__ import annotations

from tests.node.node_bench import NodeBench

from tidelog.model.errors import ErrorCode
from tidelog.node.core.effects import Lane
from tidelog.node.core.inputs import JobFinished
from tidelog.protocol.apis import ApiKey
from tidelog.quorum.messages import QuorumResponse, ReplicaKey, Vote
from tidelog.records.builder import NewRecord, build_batch


def run_only(bench: NodeBench, lane: Lane) -> None:
    """Let one worker go on, while the others hang in a sync."""
    while chosen := [job for job in bench.jobs if job.lane is lane]:
        bench.jobs.remove(chosen[0])
        chosen[0].work()
        bench.step(JobFinished(bench.now, chosen[0].job_id, None))
    bench.end_tick()


def create(bench: NodeBench, name: str) -> None:
    topic = {"name": name, "num_partitions": 1, "replication_factor": -1, "assignments": []}
    peer = bench.connect()
    peer.send(ApiKey.CREATE_TOPICS, 7, topics=[{**topic, "configs": []}], timeout=1000)
    run_only(bench, Lane.QUORUM)
    assert peer.frames, "the topic is not created"


def batch() -> bytearray:
    return build_batch([NewRecord(None, b"value", 0)])


def test_metadata_is_committed_and_records_are_acknowledged_by_the_quorums_lane_alone(
    bench: NodeBench,
) -> None:
    bench.create_topic("flushed", flush_messages="1")
    bench.holds_jobs = True
    waiting = bench.connect()
    waiting.send_produce({("flushed", 0): batch()}, acks=1)
    create(bench, "orders")
    writer = bench.connect()

    writer.send_produce({("orders", 0): batch()}, acks=-1)
    bench.end_tick()

    ((_, _, (result,)),) = writer.produced(9).topics
    assert (result.error, result.base_offset) == (ErrorCode.none, 0)
    assert waiting.frames == []
    assert {job.lane for job in bench.jobs} == {Lane.FLUSHES, Lane.LONG}
    bench.run_jobs()
    assert waiting.frames


def test_a_topic_created_again_waits_until_the_disk_has_forgotten_the_old_one(
    bench: NodeBench,
) -> None:
    bench.create_topic("orders")
    bench.connect().produce("orders", batch())
    bench.wait(70_000)
    bench.connect().ask(ApiKey.DELETE_TOPICS, 5, topic_names=["orders"], timeout=1000)
    bench.holds_jobs = True
    create(bench, "orders")
    writer = bench.connect()

    writer.send_produce({("orders", 0): batch()}, acks=1)
    bench.end_tick()
    ((_, _, (early,)),) = writer.produced(9).topics
    run_only(bench, Lane.CHECKPOINTS)
    writer.send_produce({("orders", 0): batch()}, acks=1)
    bench.end_tick()
    ((_, _, (result,)),) = writer.produced(9).topics

    assert early.error == ErrorCode.not_leader_or_follower
    assert (result.error, result.base_offset) == (ErrorCode.none, 0)


def test_nobody_is_served_while_logs_are_loaded_however_long_that_takes(bench: NodeBench) -> None:
    bench.create_topic("orders")
    bench.connect().produce("orders", batch())
    again = bench.again(holds_jobs=True)
    run_only(again, Lane.QUORUM)
    loading = [job for job in again.jobs if job.lane is Lane.LONG]

    again.wait(20_000)
    run_only(again, Lane.QUORUM)

    assert loading
    assert again.listeners == ("CONTROLLER",)
    assert again.stopped is None
    again.holds_jobs = False
    again.run_jobs()
    again.wait(2_000)
    assert "PLAINTEXT" in again.listeners
    assert again.partition("orders").log.end_offset == 1


def test_a_node_that_is_asked_to_stop_while_it_loads_does_not_wait_for_all_logs(
    bench: NodeBench,
) -> None:
    for name in ("a", "b", "c"):
        bench.create_topic(name)
    again = bench.again(holds_jobs=True)
    run_only(again, Lane.QUORUM)
    reads = again.files.operation_count

    again.stop()
    again.wait(500)
    again.run_jobs()
    again.run_jobs()

    assert again.stopped is not None
    assert again.files.operation_count - reads < 30


def test_a_lone_controller_that_hears_of_a_later_epoch_leads_again_when_its_promise_is_kept(
    bench: NodeBench,
) -> None:
    quorum = bench.node.quorum
    answers: list[QuorumResponse] = []
    bench.holds_jobs = True
    asked = Vote(quorum.epoch + 4, ReplicaKey(7), quorum.identity, 1, 1, False)
    bench.node.rooms.metadata.member.asked(asked, bench.now).then(answers.append)

    bench.wait(100)
    assert not quorum.is_leader
    bench.holds_jobs = False
    bench.run_jobs()
    bench.wait(5000)

    assert quorum.is_active
    assert quorum.epoch > asked.epoch
    bench.create_topic("orders")
