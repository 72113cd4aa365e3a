"""How the rooms of a node are put together: the only place that knows all of them.

Rooms that must hear of each other without knowing each other do so by signals; who hears what is
said here, in order.

Invariant  Everything is built before anything begins, and nothing is replaced afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

from tidelog.controller.image import BROKER_CONFIG
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.records import MetadataRecord
from tidelog.controller.scram_credentials import find_credential
from tidelog.coordinator.groups.records import GroupRecord
from tidelog.coordinator.groups.shard import GroupShard
from tidelog.coordinator.internal_topics import offsets_topic, transactions_topic
from tidelog.coordinator.transactions.ending import EndedTransaction
from tidelog.coordinator.transactions.records import TransactionRecord
from tidelog.coordinator.transactions.shard import TransactionShard
from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy
from tidelog.model.errors import Refusal
from tidelog.model.principal import principals
from tidelog.model.quota_words import IP
from tidelog.model.time import Now
from tidelog.node.api import Contexts, controller_routes, routes
from tidelog.node.api.contexts import (
    AdminContext,
    ClusterContext,
    ControllerContext,
    GroupsContext,
    RecordsContext,
    TransactionsContext,
)
from tidelog.node.api.fetch import retry
from tidelog.node.control.active_controller import ActiveController
from tidelog.node.control.alter_partitions import AlterPartitions
from tidelog.node.control.control_plane import ControlPlane
from tidelog.node.control.controller_channel import ControllerChannel
from tidelog.node.control.controller_joining import ControllersJoining
from tidelog.node.control.directory_assignments import DirectoryAssignments
from tidelog.node.control.forwarding import Forwarding
from tidelog.node.control.producer_ids import ProducerIds
from tidelog.node.control.remote_controller import RemoteController
from tidelog.node.coordination.coordinators import Coordinators
from tidelog.node.coordination.marker_writing import MarkerWriting
from tidelog.node.coordination.shards import group_shard, transaction_shard
from tidelog.node.coordination.transaction_joining import TransactionJoining
from tidelog.node.coordination.transaction_markers import TransactionMarkers
from tidelog.node.coordination.transactional_produce import TransactionGate
from tidelog.node.core.authorization import Authorization
from tidelog.node.core.delayed_requests import DelayedRequests
from tidelog.node.core.listeners import Listeners
from tidelog.node.core.requests import Requests
from tidelog.node.core.runtime import Runtime
from tidelog.node.core.sasl_rules import SaslListeners
from tidelog.node.core.signal import Signal
from tidelog.node.fetching.awaited_followers import AwaitedFollowers
from tidelog.node.fetching.fetch_reading import ReadingContext
from tidelog.node.fetching.fetch_sessions import FetchSessions, ParkedFetch, ParkedFetches
from tidelog.node.inspection.inspection import Inspection, InspectionContext
from tidelog.node.lifecycle import Lifecycle
from tidelog.node.metadata.access_rules import AccessRules
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.controller_locator import ControllerLocator
from tidelog.node.metadata.controller_watch import ControllerWatch
from tidelog.node.metadata.departures import Departures
from tidelog.node.metadata.encoded_topics import EncodedTopics
from tidelog.node.metadata.metadata_feed import MetadataFeed
from tidelog.node.metadata.metadata_follower import MetadataFollower
from tidelog.node.metadata.quorum_member import QuorumMember
from tidelog.node.metadata.sole_voter import SoleVoter
from tidelog.node.metadata.voter_recognition import VoterRecognition
from tidelog.node.metadata.voter_updates import VoterUpdates
from tidelog.node.quotas.client_throttles import ClientThrottles
from tidelog.node.quotas.connection_quotas import connection_limits
from tidelog.node.quotas.mutation_throttles import MutationThrottles
from tidelog.node.quotas.replication_throttle import ReplicationThrottles
from tidelog.node.replicas.flushes import Flushes
from tidelog.node.replicas.hosting import Hosting, HostingContext
from tidelog.node.replicas.housekeeping import Housekeeping
from tidelog.node.replicas.opening import (
    bootstrap_records,
    open_directories,
    open_quorum,
    quorum_listener,
)
from tidelog.node.replicas.replica_fetchers import FetcherContext, ReplicaFetchers
from tidelog.node.replicas.replicas import Replicas
from tidelog.quorum.quorum import Quorum
from tidelog.replication.partition import Partition
from tidelog.security.authorizer import Authorizer
from tidelog.security.scram import ScramCredential, ScramMechanism
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.log_directory import LogDirectory


class Base(NamedTuple):
    """What all rooms stand on."""

    runtime: Runtime
    listeners: Listeners
    sasl: SaslListeners
    cluster: ClusterView
    directories: Sequence[LogDirectory]
    incarnation: UUID
    """Of this process."""
    departures: Departures
    delayed_requests: DelayedRequests
    sessions: FetchSessions
    authorization: Authorization
    throttles: ClientThrottles
    mutations: MutationThrottles
    replication_throttles: ReplicationThrottles


class MetadataRoom(NamedTuple):
    """This node's copy of the metadata log, and its part in the quorum."""

    quorum: Quorum[MetadataRecord]
    locator: ControllerLocator
    watch: ControllerWatch
    member: QuorumMember
    feed: MetadataFeed
    image_changed: Signal[[ImageDelta, Now]]
    recognition: VoterRecognition


class ControlRoom(NamedTuple):
    """The way to the active controller, and the controller of this node."""

    channel: ControllerChannel
    plane: ControlPlane | None
    joining: ControllersJoining | None
    follower: MetadataFollower
    heartbeats_lost: Signal[[Now]]
    became_active: Signal[[Now]]
    alter_partitions: AlterPartitions
    assignments: DirectoryAssignments
    producer_ids: ProducerIds


class ReplicasRoom(NamedTuple):
    """The logs of this node, and those who fill and read them."""

    replicas: Replicas
    flushes: Flushes
    awaited: AwaitedFollowers
    fetchers: ReplicaFetchers
    hosting: Hosting
    housekeeping: Housekeeping
    lifecycle: Lifecycle


class CoordinationRoom(NamedTuple):
    """The coordinators of groups and transactions on this node."""

    groups: Coordinators[GroupShard, GroupRecord]
    transactions: Coordinators[TransactionShard, TransactionRecord]
    joining: TransactionJoining
    markers: MarkerWriting
    transaction_markers: TransactionMarkers


class Rooms(NamedTuple):
    """A whole node."""

    base: Base
    metadata: MetadataRoom
    control: ControlRoom
    replicas: ReplicasRoom
    coordination: CoordinationRoom
    parked: ParkedFetches
    requests: Requests
    inspection: Inspection


def build_rooms(config: NodeConfig, files: FileSystem, entropy: Entropy, now: Now) -> Rooms:
    """Open what a formatted node has on disk, and build everything around it."""
    base = _build_base(config, files, entropy)
    metadata = _build_metadata(base, now)
    control = _build_control(base, metadata)
    replicas = _build_replicas(base, metadata, control)
    coordination = _build_coordination(base, control, replicas)
    _connect(base, metadata, control, replicas, coordination)
    parked, requests = _build_api(base, metadata, control, replicas, coordination)
    inspection = Inspection(
        InspectionContext(
            runtime=base.runtime,
            cluster=base.cluster,
            directories=base.directories,
            quorum=metadata.quorum,
            feed=metadata.feed,
            controller_watch=metadata.watch,
            replicas=replicas.replicas,
            lifecycle=replicas.lifecycle,
            sessions=base.sessions,
            meter=requests.meter,
            throttles=base.throttles,
            mutations=base.mutations,
            replication_throttles=base.replication_throttles,
        )
    )
    metadata.image_changed.hear(inspection.watching.metadata_changed)
    metadata.image_changed.hear(partial(_change_quotas, base, requests))
    return Rooms(base, metadata, control, replicas, coordination, parked, requests, inspection)


def _build_base(config: NodeConfig, files: FileSystem, entropy: Entropy) -> Base:
    runtime = Runtime(config, files, entropy)
    sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, entropy)
    incarnation = entropy.uuid()
    listeners = Listeners(config)
    directories = open_directories(config, files, entropy)
    cluster = ClusterView(config, directories[0].identity.cluster_id)

    def find(user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        return find_credential(cluster.image, user, mechanism)

    return Base(
        runtime,
        listeners,
        SaslListeners(config, entropy, find),
        cluster,
        directories,
        incarnation,
        Departures(runtime.deadlines, config.broker_disconnect_grace_ms),
        DelayedRequests(runtime.deadlines),
        sessions,
        Authorization(runtime, _authorizer(config)),
        ClientThrottles(runtime, config, listeners.controller_names),
        MutationThrottles(runtime, config, listeners.controller_names),
        ReplicationThrottles(runtime, config),
    )


def _authorizer(config: NodeConfig) -> Authorizer | None:
    """Who decides what requests may do; nobody, unless the file names one."""
    if not config.authorizer_class_name:
        return None
    return Authorizer(
        principals(config.super_users), allow_if_no_acl=config.allow_everyone_if_no_acl_found
    )


def _build_metadata(base: Base, now: Now) -> MetadataRoom:
    runtime, cluster = base.runtime, base.cluster
    config = cluster.config
    quorum = open_quorum(runtime, config, base.directories, now)
    locator = ControllerLocator(config, quorum)
    watch = ControllerWatch(runtime, cluster, quorum, locator)
    member = QuorumMember(runtime, cluster, watch, quorum, quorum_listener(config))
    image_changed: Signal[[ImageDelta, Now]] = Signal()
    authorizer = base.authorization.authorizer
    if authorizer is not None:
        rules = AccessRules(cluster, base.authorization, authorizer)
        image_changed.hear(rules.metadata_changed)
    feed = MetadataFeed(runtime, cluster, quorum.replica, image_changed)
    sole_voter = SoleVoter(runtime, cluster, quorum, locator, member.recognition)
    member.changed.hear(sole_voter.look)
    return MetadataRoom(quorum, locator, watch, member, feed, image_changed, member.recognition)


def _build_control(base: Base, metadata: MetadataRoom) -> ControlRoom:
    runtime, cluster, directories = base.runtime, base.cluster, base.directories
    quorum, locator, watch, member, feed, _, _ = metadata
    heartbeats_lost: Signal[[Now]] = Signal()
    became_active: Signal[[Now]] = Signal()
    forwarding = Forwarding(runtime, cluster, watch, locator)
    remote = RemoteController(runtime, cluster, locator, forwarding, heartbeats_lost)
    follower = MetadataFollower(runtime, cluster, watch, quorum, member, feed, locator)
    member.leader_changed.hear(remote.leader_changed)
    channel = ControllerChannel(cluster, feed, remote)
    plane, joining = None, None
    if cluster.config.is_controller:
        bootstrap = bootstrap_records(runtime, cluster.config, directories)
        plane = ControlPlane(
            runtime,
            cluster,
            quorum,
            member,
            feed,
            bootstrap,
            became_active.tell,
            base.authorization,
        )
        active = ActiveController(plane, remote, base.listeners.controller_names)
        channel = ControllerChannel(cluster, feed, active)
        joining = ControllersJoining(
            runtime, cluster, plane, locator, channel, quorum.endpoints, base.incarnation
        )
        member.changed.hear(plane.quorum_changed)
        member.changed.hear(follower.look)
        member.changed.hear(VoterUpdates(runtime, cluster, quorum).look)
    else:
        member.changed.hear(feed.catch_up)
        member.changed.hear(follower.look)
    return ControlRoom(
        channel,
        plane,
        joining,
        follower,
        heartbeats_lost,
        became_active,
        AlterPartitions(runtime, channel),
        DirectoryAssignments(runtime, cluster, directories, channel),
        ProducerIds(channel.allocate_producer_ids),
    )


def _build_replicas(base: Base, metadata: MetadataRoom, control: ControlRoom) -> ReplicasRoom:
    runtime, cluster, directories = base.runtime, base.cluster, base.directories
    replicas = Replicas()
    flushes = Flushes(runtime.jobs)
    awaited = AwaitedFollowers(cluster.node_id, runtime.deadlines)
    fetchers = ReplicaFetchers(
        FetcherContext(
            runtime,
            cluster,
            flushes,
            base.departures,
            base.delayed_requests,
            base.replication_throttles.follower,
        )
    )
    hosting = Hosting(
        HostingContext(
            runtime=runtime,
            cluster=cluster,
            directories=directories,
            replicas=replicas,
            flushes=flushes,
            fetchers=fetchers,
            departures=base.departures,
            delayed_requests=base.delayed_requests,
            assignments=control.assignments,
            alter_partitions=control.alter_partitions,
        )
    )
    housekeeping = Housekeeping(
        runtime, cluster, directories, replicas, flushes, fetchers, metadata.feed
    )
    lifecycle = Lifecycle(
        runtime, cluster, directories, control.channel, hosting, housekeeping, base.incarnation
    )
    return ReplicasRoom(replicas, flushes, awaited, fetchers, hosting, housekeeping, lifecycle)


def _build_coordination(
    base: Base, control: ControlRoom, replicas: ReplicasRoom
) -> CoordinationRoom:
    runtime, cluster = base.runtime, base.cluster
    config, channel, flushes = cluster.config, control.channel, replicas.flushes
    groups = Coordinators(
        runtime,
        cluster,
        channel,
        flushes,
        offsets_topic(config),
        partial(group_shard, cluster, runtime.entropy),
    )
    markers = MarkerWriting(runtime, cluster, replicas.replicas, flushes, groups)

    def complete(
        ended: EndedTransaction, now: Now, stored: Callable[[Refusal | None], None]
    ) -> None:
        transactions.ask(
            now, ended.transactional_id, lambda shard: shard.complete(ended, now), stored
        )

    transaction_markers = TransactionMarkers(runtime, cluster, markers, complete)
    transactions = Coordinators(
        runtime,
        cluster,
        channel,
        flushes,
        transactions_topic(config),
        partial(transaction_shard, cluster, transaction_markers, control.producer_ids),
    )
    joining = TransactionJoining(runtime, cluster, transactions)
    return CoordinationRoom(groups, transactions, joining, markers, transaction_markers)


def _connect(
    base: Base,
    metadata: MetadataRoom,
    control: ControlRoom,
    replicas: ReplicasRoom,
    coordination: CoordinationRoom,
) -> None:
    """Who hears of what, where rooms do not know each other."""
    hosting, lifecycle = replicas.hosting, replicas.lifecycle
    is_broker = base.cluster.config.is_broker

    def found_controller(now: Now) -> None:
        """Somebody can decide who could not before: let it hear from this node."""
        if metadata.locator.address is None:
            return
        if metadata.quorum.is_active:
            metadata.watch.heard(now)
        if control.joining is not None:
            control.joining.join(now)
        if is_broker:
            lifecycle.controller_changed(now)

    def topics_deleted(delta: ImageDelta, now: Now) -> None:
        if delta.topics_deleted:
            deleted = frozenset(topic.name for topic in delta.topics_deleted.values())
            coordination.groups.tell_all(now, lambda shard: shard.topics_deleted(deleted, now))

    metadata.member.leader_changed.hear(found_controller)
    control.became_active.hear(found_controller)
    control.heartbeats_lost.hear(lifecycle.hung_up)
    metadata.image_changed.hear(partial(_reconfigure, base.runtime, base.cluster))
    if is_broker:
        metadata.image_changed.hear(partial(_throttle_replication, base))
        metadata.image_changed.hear(hosting.apply)
        metadata.image_changed.hear(topics_deleted)
        metadata.image_changed.hear(lifecycle.metadata_changed)
    hosting.role_changed.hear(partial(_await_followers, base.cluster, replicas.awaited))
    for coordinators in (coordination.groups, coordination.transactions):
        hosting.role_changed.hear(coordinators.role_changed)
        hosting.removed.hear(coordinators.forget)


def _await_followers(
    cluster: ClusterView, awaited: AwaitedFollowers, partition: Partition, now: Now
) -> None:
    """Whoever should follow a new leader is expected to fetch from it soon."""
    if partition.is_leader:
        live = [each for each in partition.leadership.replicas if cluster.is_live(each)]
        awaited.leads(partition.name, partition.leader_epoch, live, now)


def _reconfigure(runtime: Runtime, cluster: ClusterView, delta: ImageDelta, now: Now) -> None:
    """Settings of brokers may have changed: go by them, and limit connections anew."""
    if not any(kind == BROKER_CONFIG for kind, _ in delta.configs):
        return
    before = cluster.config
    cluster.reconfigure()
    config = cluster.config
    quotas = cluster.image.access.quotas
    limits = connection_limits(config, quotas)
    if limits != connection_limits(before, quotas):
        runtime.effects.append(limits)


def _throttle_replication(base: Base, delta: ImageDelta, now: Now) -> None:
    """Settings of brokers or topics may have changed: hold up replicas by them."""
    base.replication_throttles.metadata_changed(base.cluster.image, base.cluster.config, delta)


def _change_quotas(base: Base, requests: Requests, delta: ImageDelta, now: Now) -> None:
    """Quotas of clients may have changed: go by them, and measure requests if need be."""
    if not delta.quotas:
        return
    throttles, config = base.throttles, base.cluster.config
    quotas = base.cluster.image.access.quotas
    base.mutations.change(quotas)
    if config.is_broker:
        throttles.change(quotas)
        requests.meter.time_quota = throttles if throttles.bounds_time else None
    if any(part.entity_type == IP for owner in delta.quotas for part in owner):
        base.runtime.effects.append(connection_limits(config, quotas))


def _build_api(
    base: Base,
    metadata: MetadataRoom,
    control: ControlRoom,
    replicas: ReplicasRoom,
    coordination: CoordinationRoom,
) -> tuple[ParkedFetches, Requests]:
    runtime, cluster, plane = base.runtime, base.cluster, control.plane
    authorization = base.authorization

    def read_again(fetch: ParkedFetch, now: Now, time_is_up: bool) -> bool:
        return retry(records, fetch, now, time_is_up)

    parked = ParkedFetches(runtime.deadlines, read_again)
    records = RecordsContext(
        authorization=authorization,
        runtime=runtime,
        cluster=cluster,
        directories=base.directories,
        replicas=replicas.replicas,
        flushes=replicas.flushes,
        transaction_gate=TransactionGate(cluster, replicas.replicas, coordination.joining),
        reading=_reading(base, replicas),
        sessions=base.sessions,
        parked=parked,
        awaited=replicas.awaited,
        delayed_requests=base.delayed_requests,
        throttles=base.throttles,
    )
    contexts = Contexts(
        records=records,
        groups=GroupsContext(authorization, runtime, cluster, coordination.groups),
        transactions=TransactionsContext(
            authorization=authorization,
            cluster=cluster,
            replicas=replicas.replicas,
            producer_ids=control.producer_ids,
            groups=coordination.groups,
            transactions=coordination.transactions,
            joining=coordination.joining,
            markers=coordination.markers,
        ),
        cluster=ClusterContext(
            authorization=authorization,
            cluster=cluster,
            listeners=base.listeners,
            quorum=metadata.quorum,
            control=control.channel,
            departures=base.departures,
            delayed_requests=base.delayed_requests,
            encoded_topics=EncodedTopics(cluster, base.departures),
            groups=coordination.groups,
            transactions=coordination.transactions,
        ),
        admin=AdminContext(
            authorization,
            runtime,
            cluster,
            metadata.quorum,
            control.channel,
            base.mutations,
            plane,
        ),
        controller=None if plane is None else ControllerContext(authorization, cluster, plane),
    )
    of_brokers = routes(contexts)
    of_controllers = controller_routes(contexts, of_brokers)
    return parked, Requests(runtime, base.listeners, authorization, of_brokers, of_controllers)


def _reading(base: Base, replicas: ReplicasRoom) -> ReadingContext:
    config = base.cluster.config
    return ReadingContext(
        base.cluster,
        replicas.replicas,
        replicas.awaited,
        config.fetch_max_bytes,
        config.replica_selector_class is not None,
        base.runtime.watch,
        base.replication_throttles.leader,
    )
