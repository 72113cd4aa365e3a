"""A broker tells the controller in which directories its replicas lie (KIP-858)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from tidelog.controller.controller import Controller
from tidelog.controller.directories import AssignedReplicas, ReplicaDirectory
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.model.time import Now
from tidelog.node.control.calls.controller_call import ControllerCall, refusal_in
from tidelog.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)


@dataclass(frozen=True, slots=True)
class AssignReplicasCall(ControllerCall[AssignReplicasToDirsResponse, AssignedReplicas | Refusal]):
    """A broker says in which directories its replicas lie; each has an outcome of its own."""

    VERSION = 0

    broker_id: int
    broker_epoch: int
    places: Sequence[ReplicaDirectory]

    def decide(
        self, controller: Controller, next_offset: int, now: Now
    ) -> ControllerResult[AssignedReplicas | Refusal]:
        return controller.assign_replicas_to_directories(
            self.broker_id, self.broker_epoch, self.places
        )

    def request(self) -> AssignReplicasToDirsRequest:
        return AssignReplicasToDirsRequest(
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch,
            directories=[
                AssignReplicasToDirsRequestDirectoryData(
                    id=place.directory_id,
                    topics=[
                        AssignReplicasToDirsRequestTopicData(
                            topic_id=place.topic_id,
                            partitions=[
                                AssignReplicasToDirsRequestPartitionData(
                                    partition_index=place.partition
                                )
                            ],
                        )
                    ],
                )
                for place in self.places
            ],
        )

    @staticmethod
    def asked_in(request: AssignReplicasToDirsRequest) -> AssignReplicasCall:
        """The call behind a request."""
        places = [
            ReplicaDirectory(
                directory.id or ZERO_UUID, topic.topic_id or ZERO_UUID, partition.partition_index
            )
            for directory in request.directories
            for topic in directory.topics
            for partition in topic.partitions
        ]
        return AssignReplicasCall(request.broker_id, request.broker_epoch, places)

    def answer(self, outcome: AssignedReplicas | Refusal) -> AssignReplicasToDirsResponse:
        if isinstance(outcome, Refusal):
            return AssignReplicasToDirsResponse(error_code=outcome.code)
        directories: dict[UUID, dict[UUID, list[AssignReplicasToDirsResponsePartitionData]]] = {}
        for place, refusal in outcome:
            topics = directories.setdefault(place.directory_id, {})
            topics.setdefault(place.topic_id, []).append(
                AssignReplicasToDirsResponsePartitionData(
                    partition_index=place.partition,
                    error_code=ErrorCode.none if refusal is None else refusal.code,
                )
            )
        return AssignReplicasToDirsResponse(
            directories=[
                AssignReplicasToDirsResponseDirectoryData(
                    id=directory_id,
                    topics=[
                        AssignReplicasToDirsResponseTopicData(
                            topic_id=topic_id, partitions=partitions
                        )
                        for topic_id, partitions in topics.items()
                    ],
                )
                for directory_id, topics in directories.items()
            ]
        )

    def outcome(self, answer: AssignReplicasToDirsResponse) -> AssignedReplicas | Refusal:
        refusal = refusal_in(answer.error_code, "the directories")
        if refusal is not None:
            return refusal
        return [
            (
                ReplicaDirectory(
                    directory.id or ZERO_UUID,
                    topic.topic_id or ZERO_UUID,
                    partition.partition_index,
                ),
                refusal_in(partition.error_code, "its directory"),
            )
            for directory in answer.directories
            for topic in directory.topics
            for partition in topic.partitions
        ]
