"""What a node tells about itself to those who look after it: state, readiness, metrics.

Invariant  It only reads, and never a file: a question changes nothing and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Final, NamedTuple

from tidelog.controller.records import MetadataRecord
from tidelog.model.ids import NO_LEADER
from tidelog.model.time import Now
from tidelog.node.core.request_meter import RequestMeter
from tidelog.node.core.runtime import Runtime
from tidelog.node.fetching.fetch_sessions import FetchSessions
from tidelog.node.inspection.state import (
    JsonObject,
    brokers_state,
    directories_state,
    node_state,
    quorum_state,
)
from tidelog.node.inspection.survey import Survey, survey, survey_assignments
from tidelog.node.inspection.watching import Watching
from tidelog.node.lifecycle import Lifecycle
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.controller_watch import ControllerWatch
from tidelog.node.metadata.metadata_feed import MetadataFeed
from tidelog.node.quotas.client_throttles import ClientThrottles
from tidelog.node.quotas.mutation_throttles import MutationThrottles
from tidelog.node.quotas.replication_throttle import ReplicationThrottles
from tidelog.node.replicas.replicas import Replicas
from tidelog.observe.counters import RequestTimes
from tidelog.protocol.apis import ApiKey
from tidelog.quorum.quorum import Quorum
from tidelog.storage.log_directory import LogDirectory

NAMED_AS_MISSING: Final = 3


class InspectionContext(NamedTuple):
    """What can be asked about."""

    runtime: Runtime
    cluster: ClusterView
    directories: Sequence[LogDirectory]
    quorum: Quorum[MetadataRecord]
    feed: MetadataFeed
    controller_watch: ControllerWatch
    replicas: Replicas
    lifecycle: Lifecycle
    sessions: FetchSessions
    meter: RequestMeter
    throttles: ClientThrottles
    mutations: MutationThrottles
    replication_throttles: ReplicationThrottles


class Inspection:
    """One for each node."""

    def __init__(self, context: InspectionContext) -> None:
        self.context = context
        self.watching = Watching(context.runtime.watch, context.cluster, context.replicas)

    @property
    def request_times(self) -> Mapping[ApiKey, RequestTimes]:
        return self.context.meter.times

    def survey(self) -> Generator[None, None, Survey]:
        """Look at all partitions, in slices."""
        return survey(self.context.cluster, self.context.replicas)

    def survey_assignments(self) -> Generator[None, None, Survey]:
        """The same for what `missing` needs, which is cheap."""
        return survey_assignments(self.context.cluster, self.context.replicas)

    def node(self) -> JsonObject:
        """Who this node is."""
        return node_state(self.context.cluster)

    def surroundings(self, now: Now) -> JsonObject:
        """The quorum, the brokers, and its directories."""
        context = self.context
        return {
            "quorum": quorum_state(context.quorum, now),
            "brokers": brokers_state(context.cluster),
            "directories": directories_state(context.directories),
        }

    def state(self, now: Now) -> JsonObject:
        """Everything but partitions."""
        return {
            "at_ms": now.wall_ms,
            **self.node(),
            "broker_epoch": self.context.cluster.broker_epoch,
            **self.surroundings(now),
        }

    # -- readiness -----------------------------------------------------------------------------

    def missing(self, found: Survey) -> list[str]:
        """What must come before another node may be restarted; empty when this one is ready."""
        context, quorum = self.context, self.context.quorum
        missing = []
        committed = quorum.leader_high_watermark
        if context.controller_watch.missing is not None:
            missing.append(f"there is no active controller: {context.controller_watch.missing}")
        elif quorum.leader_id == NO_LEADER:
            missing.append("the leader of the quorum is not known")
        elif committed is None and quorum.is_leader:
            missing.append("this node leads the quorum, and no majority follows it yet")
        elif committed is None:
            missing.append(f"the leader of the quorum, {quorum.leader_id}, has not answered yet")
        if context.feed.applied < max(quorum.replica.high_watermark, committed or 0):
            missing.append("the metadata is not applied up to its high watermark")
        if context.cluster.config.is_broker:
            missing += self._missing_of_broker(found)
        return missing

    def _missing_of_broker(self, found: Survey) -> list[str]:
        context, node_id = self.context, self.context.cluster.node_id
        missing = []
        own = context.cluster.image.brokers.get(node_id)
        if own is None or own.broker_epoch != context.cluster.broker_epoch:
            missing.append("the broker is not registered")
        elif own.fenced:
            missing.append("the broker is fenced")
        if context.lifecycle.is_leaving:
            missing.append("the broker is leaving")
        if not context.lifecycle.is_loaded:
            missing.append("its logs are being loaded")
        for directory in context.directories:
            if directory.offline_reason is not None:
                missing.append(f"{directory.path} is offline: {directory.offline_reason}")
        if found.recovering:
            names = _named(found.recovering)
            missing.append(f"{len(found.recovering)} partitions led here are recovering: {names}")
        if found.out_of_sync:
            late, all_of_them = len(found.out_of_sync), found.assigned
            names = _named(found.out_of_sync)
            missing.append(f"{late} of {all_of_them} local replicas are not in sync: {names}")
        elif found.offline_replicas:
            missing.append(f"{found.offline_replicas} local replicas are offline")
        return missing


def _named(partitions: Sequence[object]) -> str:
    named = ", ".join(map(str, partitions[:NAMED_AS_MISSING]))
    more = len(partitions) - NAMED_AS_MISSING
    return f"{named} and {more} more" if more > 0 else named
