"""The topic of a ledger: compacted, and with its replicas whatever is down when it is created.

Invariant  How many replicas it has depends on the cluster as it is set up, never on how many
           brokers happen to be up: a topic keeps for good what it was created with.
"""

from __future__ import annotations

from typing import Final

from tidelog.client.admin import USE_CLUSTER_DEFAULT, Admin, ResourceType
from tidelog.client.errors import RequestRefused
from tidelog.model.errors import ErrorCode
from tidelog.spark.errors import OptionError, SinkError

_PARTITIONS: Final = 8
_REPLICAS: Final = 3
_SAFETY: Final = {"min.insync.replicas": "2"}
_POLICY: Final = "cleanup.policy"
_COMPACTED: Final = "compact"
_CONFIGS: Final = {
    _POLICY: _COMPACTED,
    "segment.bytes": str(4 << 20),
    "segment.ms": str(3_600_000),
    "min.compaction.lag.ms": str(600_000),
}


def create_ledger_topic(admin: Admin, topic: str) -> None:
    """Create it with three replicas, or in a smaller cluster with as many as its topics have."""
    try:
        try:
            _create(admin, topic, _REPLICAS, _CONFIGS | _SAFETY)
        except RequestRefused as error:
            if error.code is not ErrorCode.invalid_replication_factor:
                raise
            _create(admin, topic, USE_CLUSTER_DEFAULT, _CONFIGS)
    except RequestRefused as error:
        if error.code is ErrorCode.invalid_replication_factor:
            raise SinkError(
                f"the ledger {topic} cannot be created with the replicas that topics of this "
                "cluster have: start the brokers that are missing (`tidelog status`). The brokers "
                f"say: {error}"
            ) from error
        if error.code is not ErrorCode.topic_already_exists:
            raise


def require_compacted(admin: Admin, topic: str) -> None:
    """Refuse a topic that forgets decisions with time."""
    entries = admin.describe_configs(ResourceType.TOPIC, topic, [_POLICY])
    policy = next((each.value for each in entries if each.name == _POLICY), None)
    if policy != _COMPACTED:
        raise OptionError(
            f"the ledger {topic} has {_POLICY}={policy}, and would forget what is decided: run "
            f"`tidelog configs set --topic {topic} {_POLICY}={_COMPACTED}`, or set ledgerTopic to "
            "another topic, which is created when it is missing"
        )


def _create(admin: Admin, topic: str, replicas: int, configs: dict[str, str]) -> None:
    admin.create_topic(topic, partitions=_PARTITIONS, replication_factor=replicas, configs=configs)
