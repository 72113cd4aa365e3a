"""What voters ask each other, in Kafka's requests: Vote, BeginQuorumEpoch, EndQuorumEpoch.

Both ends are here, so that what one writes the other reads. Each request names one topic and one
partition, the metadata log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, TypeVar

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import METADATA_TOPIC, ZERO_UUID
from tidelog.model.time import Now
from tidelog.node.core.links import Link, LinkLost
from tidelog.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestLeaderEndpoint,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
    BeginQuorumEpochResponse,
    BeginQuorumEpochResponseNodeEndpoint,
    BeginQuorumEpochResponsePartitionData,
    BeginQuorumEpochResponseTopicData,
)
from tidelog.protocol.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochRequestLeaderEndpoint,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochRequestTopicData,
    EndQuorumEpochResponse,
    EndQuorumEpochResponseNodeEndpoint,
    EndQuorumEpochResponsePartitionData,
    EndQuorumEpochResponseTopicData,
    ReplicaInfo,
)
from tidelog.protocol.messages.vote import (
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
    VoteResponse,
    VoteResponseNodeEndpoint,
    VoteResponsePartitionData,
    VoteResponseTopicData,
)
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

QuorumRequestMessage: TypeAlias = VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest
QuorumResponseMessage: TypeAlias = VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse
EndpointT_co = TypeVar("EndpointT_co", covariant=True)


class MakeLeaderEndpoint(Protocol[EndpointT_co]):
    """The class of where a leader is found, which each request has for itself."""

    def __call__(self, *, name: str, host: str, port: int) -> EndpointT_co: ...


class MakeNodeEndpoint(Protocol[EndpointT_co]):
    """The same in each response."""

    def __call__(self, *, node_id: int, host: str, port: int) -> EndpointT_co: ...


def ask_voter(
    link: Link,
    outbound: OutboundRequest,
    cluster_id: str,
    listener: str,
    then: Callable[[QuorumResponse | LinkLost, Now], None],
    now: Now,
    timeout_ms: int,
) -> None:
    """Ask a voter a question of the quorum; `listener` is where its leader is found."""

    def answered(response: QuorumResponseMessage | LinkLost, later: Now) -> None:
        then(response if isinstance(response, LinkLost) else answer_in(response), later)

    question, voter_id = outbound.request, outbound.to.voter_id
    match question:
        case Vote():
            vote = vote_request(question, voter_id, cluster_id)
            link.ask(now, vote, VOTE_VERSION, answered, timeout_ms=timeout_ms)
        case BeginQuorumEpoch():
            begin = begin_epoch_request(question, voter_id, cluster_id, listener)
            link.ask(now, begin, EPOCH_VERSION, answered, timeout_ms=timeout_ms)
        case EndQuorumEpoch():
            end = end_epoch_request(question, cluster_id, listener)
            link.ask(now, end, EPOCH_VERSION, answered, timeout_ms=timeout_ms)


# Vote


def vote_request(asked: Vote, voter_id: int, cluster_id: str) -> VoteRequest:
    """A candidate's question."""
    partition = VoteRequestPartitionData(
        replica_epoch=asked.epoch,
        replica_id=asked.candidate.id,
        replica_directory_id=asked.candidate.directory_id,
        voter_directory_id=asked.voter.directory_id,
        last_offset_epoch=asked.last_epoch,
        last_offset=asked.end_offset,
        pre_vote=asked.pre_vote,
    )
    topic = VoteRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return VoteRequest(cluster_id=cluster_id, voter_id=voter_id, topics=[topic])


def vote_asked(request: VoteRequest, cluster_id: str) -> Vote | ErrorCode:
    """The question behind a request."""
    error = _error_in(request, cluster_id)
    if error is not None:
        return error
    vote = request.topics[0].partitions[0]
    return Vote(
        epoch=vote.replica_epoch,
        candidate=ReplicaKey(vote.replica_id, vote.replica_directory_id or ZERO_UUID),
        voter=ReplicaKey(request.voter_id, vote.voter_directory_id or ZERO_UUID),
        last_epoch=vote.last_offset_epoch,
        end_offset=vote.last_offset,
        pre_vote=vote.pre_vote,
    )


def vote_response(answer: QuorumResponse) -> VoteResponse:
    """The answer to Vote."""
    partition = VoteResponsePartitionData(
        error_code=ErrorCode(answer.error),
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
        vote_granted=answer.granted,
    )
    endpoints = _node_endpoints(VoteResponseNodeEndpoint, answer)
    topic = VoteResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return VoteResponse(topics=[topic], node_endpoints=endpoints)


# BeginQuorumEpoch


def begin_epoch_request(
    begun: BeginQuorumEpoch, voter_id: int, cluster_id: str, listener: str
) -> BeginQuorumEpochRequest:
    """The news that a leader has for a voter."""
    partition = BeginQuorumEpochRequestPartitionData(
        voter_directory_id=begun.voter.directory_id,
        leader_id=begun.leader_id,
        leader_epoch=begun.epoch,
    )
    topic = BeginQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    endpoints = _leader_endpoints(BeginQuorumEpochRequestLeaderEndpoint, listener, begun.address)
    return BeginQuorumEpochRequest(
        cluster_id=cluster_id, voter_id=voter_id, topics=[topic], leader_endpoints=endpoints
    )


def epoch_begun(
    request: BeginQuorumEpochRequest, cluster_id: str, listener: str
) -> BeginQuorumEpoch | ErrorCode:
    """The news behind a request."""
    error = _error_in(request, cluster_id)
    if error is not None:
        return error
    begun = request.topics[0].partitions[0]
    return BeginQuorumEpoch(
        epoch=begun.leader_epoch,
        leader_id=begun.leader_id,
        voter=ReplicaKey(request.voter_id, begun.voter_directory_id or ZERO_UUID),
        address=_leader_address(request, listener),
    )


def begin_epoch_response(answer: QuorumResponse) -> BeginQuorumEpochResponse:
    """The answer to BeginQuorumEpoch."""
    partition = BeginQuorumEpochResponsePartitionData(
        error_code=ErrorCode(answer.error), leader_id=answer.leader_id, leader_epoch=answer.epoch
    )
    endpoints = _node_endpoints(BeginQuorumEpochResponseNodeEndpoint, answer)
    topic = BeginQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return BeginQuorumEpochResponse(topics=[topic], node_endpoints=endpoints)


# EndQuorumEpoch


def end_epoch_request(
    ended: EndQuorumEpoch, cluster_id: str, listener: str
) -> EndQuorumEpochRequest:
    """The news of a leader that resigns."""
    partition = EndQuorumEpochRequestPartitionData(
        leader_id=ended.leader_id,
        leader_epoch=ended.epoch,
        preferred_candidates=[
            ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
            for key in ended.successors
        ],
    )
    topic = EndQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    endpoints = _leader_endpoints(EndQuorumEpochRequestLeaderEndpoint, listener, ended.address)
    return EndQuorumEpochRequest(cluster_id=cluster_id, topics=[topic], leader_endpoints=endpoints)


def epoch_ended(
    request: EndQuorumEpochRequest, cluster_id: str, listener: str
) -> EndQuorumEpoch | ErrorCode:
    """The news behind a request; its version names the successors with directories or without."""
    error = _error_in(request, cluster_id)
    if error is not None:
        return error
    ended = request.topics[0].partitions[0]
    candidates = [
        ReplicaKey(each.candidate_id, each.candidate_directory_id or ZERO_UUID)
        for each in ended.preferred_candidates
    ]
    return EndQuorumEpoch(
        epoch=ended.leader_epoch,
        leader_id=ended.leader_id,
        successors=tuple(candidates or map(ReplicaKey, ended.preferred_successors)),
        address=_leader_address(request, listener),
    )


def end_epoch_response(answer: QuorumResponse) -> EndQuorumEpochResponse:
    """The answer to EndQuorumEpoch."""
    partition = EndQuorumEpochResponsePartitionData(
        error_code=ErrorCode(answer.error), leader_id=answer.leader_id, leader_epoch=answer.epoch
    )
    endpoints = _node_endpoints(EndQuorumEpochResponseNodeEndpoint, answer)
    topic = EndQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return EndQuorumEpochResponse(topics=[topic], node_endpoints=endpoints)


# What all three share


def answer_in(response: QuorumResponseMessage) -> QuorumResponse:
    """What the asked one said; one that did not speak of the metadata log knows no epoch."""
    if response.error_code or len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
        return QuorumResponse(response.error_code or ErrorCode.unknown_server_error, _NO_EPOCH)
    topic, partition = response.topics[0], response.topics[0].partitions[0]
    if topic.topic_name != METADATA_TOPIC or partition.partition_index != 0:
        return QuorumResponse(ErrorCode.unknown_server_error, _NO_EPOCH)
    address: Address | None = None
    for point in response.node_endpoints:
        if point.node_id == partition.leader_id:
            address = (point.host, point.port)
    return QuorumResponse(
        error=partition.error_code,
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        address=address,
        granted=isinstance(partition, VoteResponsePartitionData) and partition.vote_granted,
    )


def _error_in(request: QuorumRequestMessage, cluster_id: str) -> ErrorCode | None:
    """Why a request is none about the metadata log of this cluster."""
    if request.cluster_id is not None and request.cluster_id != cluster_id:
        return ErrorCode.inconsistent_cluster_id
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return ErrorCode.invalid_request
    topic = request.topics[0]
    if topic.topic_name != METADATA_TOPIC or topic.partitions[0].partition_index != 0:
        return ErrorCode.invalid_request
    return None


def _leader_address(
    request: BeginQuorumEpochRequest | EndQuorumEpochRequest, listener: str
) -> Address | None:
    for point in request.leader_endpoints:
        if point.name == listener:
            return point.host, point.port
    return None


def _leader_endpoints(
    make: MakeLeaderEndpoint[EndpointT_co], listener: str, address: Address | None
) -> list[EndpointT_co]:
    if address is None:
        return []
    host, port = address
    return [make(name=listener, host=host, port=port)]


def _node_endpoints(
    make: MakeNodeEndpoint[EndpointT_co], answer: QuorumResponse
) -> list[EndpointT_co]:
    if answer.address is None:
        return []
    host, port = answer.address
    return [make(node_id=answer.leader_id, host=host, port=port)]
