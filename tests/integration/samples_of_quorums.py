"""Valid requests of controllers, in the name of another cluster or of nobody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from tests.integration.raw import Topic

from tidelog.protocol.apis import ApiKey

ANOTHER_CLUSTER: Final = {"cluster_id": "another cluster"}
NOBODY: Final = 424_242
DIRECTORY: Final = UUID(int=4711)
LISTENER: Final = {"name": "CONTROLLER", "host": "localhost", "port": 9}


def _metadata(**partition: Any) -> list[Mapping[str, Any]]:
    return [
        {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0, **partition}]}
    ]


FIELDS: Final[Mapping[ApiKey, Callable[[Topic], Mapping[str, Any]]]] = {
    ApiKey.VOTE: lambda topic: {
        **ANOTHER_CLUSTER,
        "voter_id": 100,
        "topics": _metadata(
            replica_epoch=1,
            replica_id=NOBODY,
            replica_directory_id=DIRECTORY,
            voter_directory_id=DIRECTORY,
            last_offset_epoch=0,
            last_offset=0,
            pre_vote=True,
        ),
    },
    ApiKey.BEGIN_QUORUM_EPOCH: lambda topic: {
        **ANOTHER_CLUSTER,
        "voter_id": 100,
        "topics": _metadata(voter_directory_id=DIRECTORY, leader_id=NOBODY, leader_epoch=0),
        "leader_endpoints": [LISTENER],
    },
    ApiKey.END_QUORUM_EPOCH: lambda topic: {
        **ANOTHER_CLUSTER,
        "topics": _metadata(
            leader_id=NOBODY,
            leader_epoch=0,
            preferred_successors=[100],
            preferred_candidates=[
                {"candidate_id": NOBODY, "candidate_directory_id": DIRECTORY},
            ],
        ),
        "leader_endpoints": [LISTENER],
    },
    ApiKey.CONTROLLER_REGISTRATION: lambda topic: {
        "controller_id": NOBODY,
        "incarnation_id": DIRECTORY,
        "listeners": [{**LISTENER, "security_protocol": 0}],
        "features": [
            {"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 30}
        ],
    },
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: lambda topic: {
        "broker_id": NOBODY,
        "broker_epoch": 1,
        "directories": [
            {
                "id_": DIRECTORY,
                "topics": [{"topic_id": topic.topic_id, "partitions": [{"partition_index": 0}]}],
            }
        ],
    },
    ApiKey.ADD_RAFT_VOTER: lambda topic: {
        **ANOTHER_CLUSTER,
        "timeout": 100,
        "voter_id": NOBODY,
        "voter_directory_id": DIRECTORY,
        "listeners": [LISTENER],
    },
    ApiKey.REMOVE_RAFT_VOTER: lambda topic: {
        **ANOTHER_CLUSTER,
        "voter_id": NOBODY,
        "voter_directory_id": DIRECTORY,
    },
    ApiKey.UPDATE_RAFT_VOTER: lambda topic: {
        **ANOTHER_CLUSTER,
        "current_leader_epoch": 1,
        "voter_id": NOBODY,
        "voter_directory_id": DIRECTORY,
        "listeners": [LISTENER],
        "k_raft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
    },
}
