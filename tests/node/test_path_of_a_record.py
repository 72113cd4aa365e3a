"""One record on its way through the files that docs/path-of-a-record.md names, in their order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.model.ids import TopicPartition
from tidelog.node.core.connections import Slot
from tidelog.node.core.inputs import FrameArrived
from tidelog.node.fetching.fetch_sessions import ParkedFetch
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.entity_messages import request_header
from tidelog.protocol.frame import frame_bounds, read_request_header
from tidelog.protocol.parts import FileRegion, joined
from tidelog.protocol.produce import decode_produce, decode_produce_response, encode_produce
from tidelog.records.batch import read_header
from tidelog.records.validation import AcceptedBatch, validate_produced
from tidelog.replication.leader import LeaderReplica
from tidelog.storage.log_values import LogSlice

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch, RecordsIn
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "path-of-a-record.md"
STEPS = {
    1: ["shell/connection.py", "protocol/frame.py"],
    2: ["node/core/requests.py", "protocol/produce_request.py"],
    3: ["node/api/produce.py", "node/replicas/replicas.py"],
    4: ["replication/partition.py", "replication/leader.py", "records/validation.py"],
    5: ["storage/partition_log.py", "storage/producer_state.py", "storage/segment.py"],
    6: [
        "node/replicas/replica_fetchers.py",
        "replication/follower.py",
        "replication/follower_progress.py",
    ],
    7: ["replication/high_watermark.py"],
    8: ["protocol/produce_response.py", "node/core/connections.py"],
    9: [
        "node/fetching/fetch_sessions.py",
        "node/fetching/fetch_sessions.py",
        "node/api/fetch.py",
        "node/fetching/fetch_reading.py",
    ],
    10: ["shell/transfer.py"],
}


def test_the_page_names_the_files_of_this_walk_and_they_exist() -> None:
    _, *steps = re.split(r"^\d+\. ", PAGE.read_text(), flags=re.MULTILINE)
    named = {
        number: re.findall(r"`src/tidelog/([\w/.]+)`", text) for number, text in enumerate(steps, 1)
    }
    assert named == STEPS
    for files in STEPS.values():
        for file in files:
            assert (ROOT / "src" / "tidelog" / file).is_file(), file


def test_a_record_goes_that_way(
    bench: NodeBench, peer: Peer, batch: NewBatch, records_in: RecordsIn
) -> None:
    bench.create_topic("orders")
    node = bench.node
    consumer = bench.connect()
    consumer.send_fetch({("orders", 0): 0}, session_epoch=0, max_wait_ms=0)
    session = consumer.fetched().session_id
    consumer.send_fetch(session_id=session, session_epoch=1, max_wait_ms=60_000)

    # 1. Bytes arrive: the frame is found in place in whatever was received.
    body = encode_produce(9, None, -1, 1000, [("orders", None, [(0, batch(b"a record"))])])
    request = request_header(ApiKey.PRODUCE, 9, 77, "walker", True) + body
    received = bytearray(len(request).to_bytes(4, "big") + request + b"the next")
    bounds = frame_bounds(received, 0, len(received))
    assert bounds == (4, 4 + len(request))
    frame = memoryview(received)[slice(*bounds)]

    # 2. A request: header and body are read, the batch stays a view of the receive buffer.
    header = read_request_header(frame)
    assert (header.api_key, header.correlation_id) == (ApiKey.PRODUCE, 77)
    decoded = decode_produce(frame[header.body_offset :], 9)
    [(index, records)] = decoded.topics[0].partitions
    assert records is not None
    assert records.obj is received

    # 3. The handler, and the replica it will find.
    partition = node.replicas.locate(node.cluster.image, TopicPartition("orders", index), None)
    assert partition is bench.partition("orders")

    # 4. The partition leads, and its rules accept the batch as it is.
    assert isinstance(partition.leader(), LeaderReplica)
    accepted = validate_produced(records, partition.rules, bench.now.wall_ms, 9)
    assert isinstance(accepted, AcceptedBatch)
    assert accepted.data is records

    # 5. to 7. The node does all that: the batch is in the log, patched in place; this replica is
    # the only one, so it is committed at once.
    before = partition.log.end_offset
    connection = node._connections[peer.connection]
    held = connection.reserve()
    node.rooms.requests.frame_arrived(bench.now, connection, frame)
    stamped = read_header(records)
    assert (stamped.base_offset, stamped.leader_epoch) == (before, partition.leader_epoch)
    assert partition.log.end_offset == before + 1
    assert partition.log.segments.active.size == len(records)
    assert partition.high_watermark.offset == before + 1

    # 8. The answer takes its place behind what is still due, and leaves when its turn comes.
    assert isinstance(held, Slot)
    bench.step(FrameArrived(bench.now, 4711, frame))  # from nobody: only lets effects out
    assert peer.frames == []
    connection.fill(held, [b"the earlier one"])
    bench.end_tick()
    assert peer.answer() == b"the earlier one"
    answer = decode_produce_response(peer.answer(), 9)
    assert (answer.correlation_id, answer.topics[0].partitions[0].base_offset) == (77, before)

    # 9. The reader, parked in its session, was told of news and is answered from the file.
    [fetched] = consumer.fetched().topics[0].partitions
    assert [record.value for record in records_in(fetched)] == [b"a record"]
    found = partition.log.read(before, 1 << 20, before + 1)
    assert isinstance(found, LogSlice)

    # 10. Bytes leave: a file, a position and a length are all the shell gets.
    region = FileRegion(found.file, found.position, found.length)
    assert joined([region]) == bytes(records)


def test_the_reader_waits_where_the_page_says(bench: NodeBench, peer: Peer) -> None:
    bench.create_topic("orders")
    peer.send_fetch({("orders", 0): 0}, max_wait_ms=60_000)
    [waiting] = bench.node._connections[peer.connection].waiting
    assert isinstance(waiting, ParkedFetch)
