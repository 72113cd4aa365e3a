"""What voters say to each other, in Kafka's requests: Vote, BeginQuorumEpoch, EndQuorumEpoch.

Both ends are here, so that what one writes the other reads. Each request names one topic and one
partition, the metadata log.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import METADATA_TOPIC, ZERO_UUID
from tidelog.node.core.request import Fields
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.entity_messages import field
from tidelog.quorum.messages import (
    Address,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    OutboundRequest,
    QuorumResponse,
    ReplicaKey,
    Vote,
)

VOTE_VERSION: Final = 2
EPOCH_VERSION: Final = 1
_NO_EPOCH: Final = -1

Asking: TypeAlias = tuple[ApiKey, int, Fields]


def request_of(letter: OutboundRequest, cluster_id: str, listener: str) -> Asking:
    """A letter as a request: its API, the version, and the fields."""
    question, to = letter.request, letter.to
    match question:
        case Vote():
            vote = {
                "partition_index": 0,
                "replica_epoch": question.epoch,
                "replica_id": question.candidate.id,
                "replica_directory_id": question.candidate.directory_id,
                "voter_directory_id": question.voter.directory_id,
                "last_offset_epoch": question.last_epoch,
                "last_offset": question.end_offset,
                "pre_vote": question.pre_vote,
            }
            return ApiKey.VOTE, VOTE_VERSION, _addressed(cluster_id, to.voter_id, vote)
        case BeginQuorumEpoch():
            begun = {
                "partition_index": 0,
                "voter_directory_id": question.voter.directory_id,
                "leader_id": question.leader_id,
                "leader_epoch": question.epoch,
            }
            fields = _addressed(cluster_id, to.voter_id, begun)
            endpoints = _leader_endpoints(listener, question.address)
            return ApiKey.BEGIN_QUORUM_EPOCH, EPOCH_VERSION, {**fields, **endpoints}
        case EndQuorumEpoch():
            ended = {
                "partition_index": 0,
                "leader_id": question.leader_id,
                "leader_epoch": question.epoch,
                "preferred_candidates": [
                    {"candidate_id": key.id, "candidate_directory_id": key.directory_id}
                    for key in question.successors
                ],
            }
            endpoints = _leader_endpoints(listener, question.address)
            topics = {"cluster_id": cluster_id, "topics": _topics(ended)}
            return ApiKey.END_QUORUM_EPOCH, EPOCH_VERSION, {**topics, **endpoints}


def vote_asked(body: Any, cluster_id: str) -> Vote | ErrorCode:
    """The question behind a Vote request."""
    vote = _only_partition(body, cluster_id)
    if isinstance(vote, ErrorCode):
        return vote
    return Vote(
        epoch=vote.replica_epoch,
        candidate=ReplicaKey(
            vote.replica_id, field(vote, "replica_directory_id", None) or ZERO_UUID
        ),
        voter=_asked_voter(body, vote),
        last_epoch=vote.last_offset_epoch,
        end_offset=vote.last_offset,
        pre_vote=field(vote, "pre_vote", False),
    )


def epoch_begun(body: Any, cluster_id: str, listener: str) -> BeginQuorumEpoch | ErrorCode:
    """The news behind a BeginQuorumEpoch request."""
    begun = _only_partition(body, cluster_id)
    if isinstance(begun, ErrorCode):
        return begun
    return BeginQuorumEpoch(
        epoch=begun.leader_epoch,
        leader_id=begun.leader_id,
        voter=_asked_voter(body, begun),
        address=_leader_address(body, listener),
    )


def epoch_ended(body: Any, cluster_id: str, listener: str) -> EndQuorumEpoch | ErrorCode:
    """The news behind an EndQuorumEpoch request."""
    ended = _only_partition(body, cluster_id)
    if isinstance(ended, ErrorCode):
        return ended
    named = field(ended, "preferred_candidates", ())
    candidates = [
        ReplicaKey(each.candidate_id, each.candidate_directory_id or ZERO_UUID) for each in named
    ]
    return EndQuorumEpoch(
        epoch=ended.leader_epoch,
        leader_id=ended.leader_id,
        successors=tuple(candidates or map(ReplicaKey, field(ended, "preferred_successors", ()))),
        address=_leader_address(body, listener),
    )


def vote_response(answer: QuorumResponse | ErrorCode) -> Fields:
    """The answer to Vote."""
    if isinstance(answer, ErrorCode):
        return epoch_response(answer)
    return _response(answer, {"vote_granted": answer.granted})


def epoch_response(answer: QuorumResponse | ErrorCode) -> Fields:
    """The answer to BeginQuorumEpoch and EndQuorumEpoch."""
    if isinstance(answer, ErrorCode):
        return {"error_code": answer, "topics": []}
    return _response(answer, {})


def _response(answer: QuorumResponse, more: Fields) -> Fields:
    partition = {
        "partition_index": 0,
        "error_code": answer.error,
        "leader_id": answer.leader_id,
        "leader_epoch": answer.epoch,
        **more,
    }
    endpoints = []
    if answer.address is not None:
        host, port = answer.address
        endpoints.append({"node_id": answer.leader_id, "host": host, "port": port})
    return {
        "error_code": ErrorCode.none,
        "topics": _topics(partition),
        "node_endpoints": endpoints,
    }


def answer_in(response: Any) -> QuorumResponse:
    """What the asked one said; one that did not speak of the metadata log knows no epoch."""
    if response.error_code or len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
        return QuorumResponse(response.error_code or ErrorCode.unknown_server_error, _NO_EPOCH)
    [partition] = response.topics[0].partitions
    address: Address | None = None
    for point in field(response, "node_endpoints", ()):
        if point.node_id == partition.leader_id:
            address = (point.host, point.port)
    return QuorumResponse(
        error=partition.error_code,
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        address=address,
        granted=field(partition, "vote_granted", False),
    )


def _topics(partition: Fields) -> list[Fields]:
    return [{"topic_name": METADATA_TOPIC, "partitions": [partition]}]


def _addressed(cluster_id: str, voter_id: int, partition: Fields) -> Fields:
    return {"cluster_id": cluster_id, "voter_id": voter_id, "topics": _topics(partition)}


def _leader_endpoints(listener: str, address: Address | None) -> Fields:
    if address is None:
        return {"leader_endpoints": []}
    host, port = address
    return {"leader_endpoints": [{"name": listener, "host": host, "port": port}]}


def _leader_address(body: Any, listener: str) -> Address | None:
    for point in field(body, "leader_endpoints", ()):
        if point.name == listener:
            return point.host, point.port
    return None


def _asked_voter(body: Any, partition: Any) -> ReplicaKey:
    """Whom the sender meant to ask; a request that does not say it means whoever gets it."""
    directory_id = field(partition, "voter_directory_id", None) or ZERO_UUID
    return ReplicaKey(field(body, "voter_id", -1), directory_id)


def _only_partition(body: Any, cluster_id: str) -> Any:
    if body.cluster_id is not None and body.cluster_id != cluster_id:
        return ErrorCode.inconsistent_cluster_id
    if len(body.topics) != 1 or len(body.topics[0].partitions) != 1:
        return ErrorCode.invalid_request
    [topic] = body.topics
    [partition] = topic.partitions
    if topic.topic_name != METADATA_TOPIC or partition.partition_index != 0:
        return ErrorCode.invalid_request
    return partition
