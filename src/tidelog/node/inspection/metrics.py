"""The metrics of a node: each family once, and its values from what the node knows and counted.

Names are Kafka's as its JMX exporter writes them, where Kafka has the metric.

Invariant  Families whose values name partitions or topics name the `NAMED_MAX` worst and no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tidelog import __version__
from tidelog.model.time import Now
from tidelog.node.inspection.inspection import Inspection
from tidelog.node.inspection.survey import NAMED_MAX, Survey
from tidelog.observe.counters import BUCKETS_MS, RequestTimes
from tidelog.observe.metrics import (
    Histogram,
    Metric,
    MetricFamily,
    counter,
    gauge,
    histogram,
    one,
)
from tidelog.protocol.apis import ApiKey

_MANAGER: Final = "kafka_server_replicamanager"
_TOPICS: Final = "kafka_server_brokertopicmetrics"
_CONTROLLER: Final = "kafka_controller_kafkacontroller"
_RAFT: Final = "kafka_server_raftmetrics"

UNDER_REPLICATED: Final = gauge(
    f"{_MANAGER}_underreplicatedpartitions", "Partitions led here that lack in-sync replicas."
)
UNDER_MIN_ISR: Final = gauge(
    f"{_MANAGER}_underminisrpartitioncount",
    "Partitions led here with fewer in-sync replicas than the topic asks for: no acks=all.",
)
AT_MIN_ISR: Final = gauge(
    f"{_MANAGER}_atminisrpartitioncount",
    "Partitions led here with just min.insync.replicas in-sync replicas: none may be lost.",
)
OFFLINE_REPLICAS: Final = gauge(
    f"{_MANAGER}_offlinereplicacount",
    "Replicas placed here that cannot be served: their directory failed.",
)
LEADERS: Final = gauge(f"{_MANAGER}_leadercount", "Partitions led here.")
PARTITIONS: Final = gauge(f"{_MANAGER}_partitioncount", "Replicas hosted here.")
REASSIGNING: Final = gauge(
    f"{_MANAGER}_reassigningpartitions", "Partitions led here whose replicas are being moved."
)
OUT_OF_SYNC: Final = gauge(
    f"{_MANAGER}_outofsyncreplicas", "Replicas placed here that are not in sync."
)
ISR_SHRINKS: Final = counter(
    f"{_MANAGER}_isrshrinks_total", "In-sync sets of partitions led here that lost a member."
)
ISR_EXPANDS: Final = counter(
    f"{_MANAGER}_isrexpands_total", "In-sync sets of partitions led here that gained a member."
)
ISR_FAILED: Final = counter(
    f"{_MANAGER}_failedisrupdates_total", "Proposals of in-sync sets that the controller refused."
)
HIGH_WATERMARK_LAG_MAX: Final = gauge(
    f"{_MANAGER}_highwatermarklag_max", "The most records that a leader here holds uncommitted."
)
HIGH_WATERMARK_LAG: Final = gauge(
    f"{_MANAGER}_highwatermarklag",
    f"Records that a leader here holds uncommitted; the {NAMED_MAX} worst partitions.",
    "topic",
    "partition",
)
FOLLOWER_LAG_MAX: Final = gauge(
    f"{_MANAGER}_followerlag_max", "The most records by which a follower is behind a leader here."
)
FOLLOWER_LAG: Final = gauge(
    f"{_MANAGER}_followerlag",
    f"Records by which a follower is behind its leader here; the {NAMED_MAX} worst replicas.",
    "topic",
    "partition",
    "replica",
)
FETCHER_LAG_MAX: Final = gauge(
    "kafka_server_replicafetchermanager_maxlag",
    "The most committed records that a follower here has yet to fetch, by its leader's last word.",
)
FETCHER_LAG: Final = gauge(
    "kafka_server_fetcherlagmetrics_consumerlag",
    f"Committed records that a follower here has yet to fetch; the {NAMED_MAX} worst partitions.",
    "topic",
    "partition",
)
TRUNCATIONS: Final = counter(
    f"{_MANAGER}_truncations_total", "Times a follower here cut its log where its leader's differs."
)
TRUNCATED_RECORDS: Final = counter(
    f"{_MANAGER}_truncatedrecords_total", "Records that followers here gave up by that."
)
PARKED_PRODUCES: Final = gauge(
    "kafka_server_delayedoperationpurgatory_produce_size",
    "Partitions of produce requests that wait for their high watermark.",
)
FETCH_SESSIONS: Final = gauge(
    "kafka_server_fetchsessioncache_numincrementalfetchsessions", "Open fetch sessions."
)
RECORDS_IN: Final = counter(f"{_TOPICS}_messagesin_total", "Records appended by leaders here.")
BATCHES_IN: Final = counter(f"{_TOPICS}_batchesin_total", "Batches appended by leaders here.")
BYTES_IN: Final = counter(f"{_TOPICS}_bytesin_total", "Bytes of records appended by leaders here.")
BYTES_OUT: Final = counter(f"{_TOPICS}_bytesout_total", "Bytes of records read by consumers.")
REPLICATION_BYTES_IN: Final = counter(
    f"{_TOPICS}_replicationbytesin_total", "Bytes of records fetched from leaders elsewhere."
)
REPLICATION_BYTES_OUT: Final = counter(
    f"{_TOPICS}_replicationbytesout_total", "Bytes of records read by followers."
)
REJECTED: Final = counter(
    f"{_TOPICS}_rejectedbatches_total",
    "Produced batches that were refused, for too few in-sync replicas or for what they hold.",
)
DENIALS: Final = counter(
    "tidelog_authorization_denials_total",
    "Permissions that requests lacked; events of the kind AccessDenied say which.",
)
LOG_SIZE: Final = gauge(
    "kafka_log_log_size_bytes", f"Bytes of logs here; the {NAMED_MAX} largest topics.", "topic"
)
DIRECTORY_SIZE: Final = gauge(
    "kafka_log_logmanager_size_bytes", "Bytes of logs in a directory.", "directory"
)
OFFLINE_DIRECTORIES: Final = gauge(
    "kafka_log_logmanager_offlinelogdirectorycount", "Log directories that have failed."
)
BROKER_STATE: Final = gauge(
    "kafka_server_kafkaserver_brokerstate",
    "0 not registered, 1 registered and loading its logs, 3 running, 6 leaving, 10 fenced.",
)
ACTIVE_CONTROLLER: Final = gauge(
    f"{_CONTROLLER}_activecontrollercount", "1 on the active controller, else 0."
)
ACTIVE_BROKERS: Final = gauge(f"{_CONTROLLER}_activebrokercount", "Brokers that are not fenced.")
FENCED_BROKERS: Final = gauge(f"{_CONTROLLER}_fencedbrokercount", "Brokers that are fenced.")
TOPICS: Final = gauge(f"{_CONTROLLER}_globaltopiccount", "Topics of the cluster.")
CLUSTER_PARTITIONS: Final = gauge(
    f"{_CONTROLLER}_globalpartitioncount", "Partitions of the cluster."
)
OFFLINE_PARTITIONS: Final = gauge(
    f"{_CONTROLLER}_offlinepartitionscount", "Partitions of the cluster without a leader."
)
NOT_PREFERRED: Final = gauge(
    f"{_CONTROLLER}_preferredreplicaimbalancecount",
    "Partitions of the cluster that their first replica does not lead.",
)
ELECTIONS: Final = counter(
    "kafka_controller_controllerstats_leaderelections_total",
    "Leaders elected by this node's controller.",
)
UNCLEAN_ELECTIONS: Final = counter(
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "Leaders elected from outside the in-sync set by this node's controller: records may be lost.",
)
UNCLEAN_ELECTION: Final = gauge(
    "tidelog_unclean_election_timestamp_seconds",
    "The latest of those elections: when, and what each may have lost.",
    "topic",
    "partition",
    "leader_epoch",
    "may_lose",
)
QUORUM_LEADER: Final = gauge(f"{_RAFT}_currentleader", "Who leads the quorum; -1 when not known.")
QUORUM_EPOCH: Final = gauge(f"{_RAFT}_currentepoch", "The epoch of the quorum.")
QUORUM_ROLE: Final = gauge(f"{_RAFT}_currentstate", "This node's role in the quorum.", "state")
QUORUM_HIGH_WATERMARK: Final = gauge(
    f"{_RAFT}_highwatermark", "The high watermark of the metadata log here."
)
QUORUM_END: Final = gauge(f"{_RAFT}_logendoffset", "The end of the metadata log here.")
VOTERS: Final = gauge(f"{_RAFT}_numberofvoters", "Voters of the quorum.")
VOTER_LAG: Final = gauge(
    f"{_RAFT}_voterlag", "At the leader: records by which a voter is behind.", "voter"
)
APPLIED: Final = gauge(
    "kafka_server_brokermetadatametrics_lastappliedrecordoffset",
    "The last record of the metadata log that this node goes by.",
)
CONTROLLER_MISSING: Final = gauge(
    "tidelog_controller_missing", "1 while this node finds no active controller, else 0."
)
REQUEST_TIME: Final = histogram(
    "kafka_network_requestmetrics_totaltimems",
    "Milliseconds from the arrival of a request to its answer.",
    "request",
)
THROTTLED: Final = counter(
    "kafka_server_clientquotamanager_throttled_total",
    "Answers that told a client to wait, by the quota that was exceeded.",
    "type",
)
THROTTLE_TIME: Final = counter(
    "kafka_server_clientquotamanager_throttletimems_total",
    "Milliseconds that clients were told to wait, by the quota that was exceeded.",
    "type",
)
EXEMPT_TIME: Final = gauge(
    "kafka_server_request_exemptrequesttime",
    "Percents of this node's time spent on requests that no quota bounds; 0 while none is set.",
)
LEADER_THROTTLED_RATE: Final = gauge(
    "kafka_server_leaderreplication_byterate",
    "Bytes per second of throttled replicas that leaders here sent lately.",
)
FOLLOWER_THROTTLED_RATE: Final = gauge(
    "kafka_server_followerreplication_byterate",
    "Bytes per second of throttled replicas that followers here fetched lately.",
)
NODE_INFO: Final = gauge("tidelog_node_info", "Always 1.", "version", "cluster_id", "roles")

BROKER_STATES: Final = {"absent": 0, "loading": 1, "running": 3, "leaving": 6, "fenced": 10}


def node_metrics(inspection: Inspection, found: Survey, now: Now) -> Iterator[Metric]:
    """All that the core of a node has to tell."""
    cluster = inspection.context.cluster
    roles = ",".join(cluster.config.process_roles)
    yield Metric(NODE_INFO, (((__version__, cluster.cluster_id, roles), 1),))
    if cluster.config.is_broker:
        yield from _replication(inspection, found)
        yield from _logs(inspection, found)
        yield from _throttles(inspection, now)
    if cluster.config.is_controller:
        yield from _controller(inspection, found)
    yield from _quorum(inspection, now)
    yield Metric(
        REQUEST_TIME,
        [
            ((_api_name(key),), _histogram(times))
            for key, times in inspection.request_times.items()
            if times.count
        ],
    )


def _replication(inspection: Inspection, found: Survey) -> Iterator[Metric]:
    counters = inspection.context.runtime.counters
    lags, uncommitted = found.worst_follower_lags, found.worst_high_watermark_lags
    fetcher_lags = found.worst_fetcher_lags
    numbers: Sequence[tuple[MetricFamily, float]] = (
        (UNDER_REPLICATED, found.under_replicated),
        (UNDER_MIN_ISR, found.under_min_isr),
        (AT_MIN_ISR, found.at_min_isr),
        (OFFLINE_REPLICAS, found.offline_replicas),
        (OUT_OF_SYNC, len(found.out_of_sync)),
        (LEADERS, found.led),
        (PARTITIONS, found.hosted),
        (REASSIGNING, found.reassigning),
        (ISR_SHRINKS, counters.isr_shrinks),
        (ISR_EXPANDS, counters.isr_expands),
        (ISR_FAILED, counters.isr_updates_failed),
        (HIGH_WATERMARK_LAG_MAX, uncommitted[0].lag if uncommitted else 0),
        (FOLLOWER_LAG_MAX, lags[0].lag if lags else 0),
        (FETCHER_LAG_MAX, fetcher_lags[0].lag if fetcher_lags else 0),
        (TRUNCATIONS, counters.truncations),
        (TRUNCATED_RECORDS, counters.truncated_records),
        (PARKED_PRODUCES, found.parked),
        (FETCH_SESSIONS, len(inspection.context.sessions)),
        (RECORDS_IN, counters.records_in),
        (BATCHES_IN, counters.batches_in),
        (BYTES_IN, counters.bytes_in),
        (BYTES_OUT, counters.bytes_out),
        (REPLICATION_BYTES_IN, counters.replication_bytes_in),
        (REPLICATION_BYTES_OUT, counters.replication_bytes_out),
        (REJECTED, counters.rejected_batches),
        (DENIALS, counters.denials),
        (BROKER_STATE, BROKER_STATES[_broker_state(inspection)]),
    )
    yield from (one(family, value) for family, value in numbers)
    yield Metric(
        HIGH_WATERMARK_LAG,
        [((name.topic, str(name.partition)), lag) for lag, name in uncommitted],
    )
    yield Metric(
        FOLLOWER_LAG,
        [((name.topic, str(name.partition), str(replica)), lag) for lag, name, replica in lags],
    )
    yield Metric(
        FETCHER_LAG,
        [((name.topic, str(name.partition)), lag) for lag, name in fetcher_lags],
    )


def _broker_state(inspection: Inspection) -> str:
    context = inspection.context
    own = context.cluster.image.brokers.get(context.cluster.node_id)
    if context.lifecycle.is_leaving:
        return "leaving"
    if own is None or own.broker_epoch != context.cluster.broker_epoch:
        return "absent"
    if not context.lifecycle.is_loaded:
        return "loading"
    return "fenced" if own.fenced else "running"


def _logs(inspection: Inspection, found: Survey) -> Iterator[Metric]:
    directories = inspection.context.directories
    offline = sum(directory.offline_reason is not None for directory in directories)
    yield one(OFFLINE_DIRECTORIES, offline)
    yield Metric(
        DIRECTORY_SIZE,
        [((each.path,), found.directory_bytes[each.health]) for each in directories],
    )
    largest = found.topic_bytes.most_common(NAMED_MAX)
    yield Metric(LOG_SIZE, [((topic,), size) for topic, size in largest])


def _throttles(inspection: Inspection, now: Now) -> Iterator[Metric]:
    context = inspection.context
    quotas = {
        "Produce": context.throttles.produce.counts,
        "Fetch": context.throttles.fetch.counts,
        "Request": context.throttles.request.counts,
        "ControllerMutation": context.mutations.quota.counts,
    }
    yield Metric(THROTTLED, [((kind,), counts.throttled) for kind, counts in quotas.items()])
    yield Metric(THROTTLE_TIME, [((kind,), counts.time_ms) for kind, counts in quotas.items()])
    yield one(EXEMPT_TIME, context.throttles.exempt.per_second(now.monotonic_ms))
    for family, side in (
        (LEADER_THROTTLED_RATE, context.replication_throttles.leader),
        (FOLLOWER_THROTTLED_RATE, context.replication_throttles.follower),
    ):
        yield one(family, side.bytes_per_second)


def _controller(inspection: Inspection, found: Survey) -> Iterator[Metric]:
    context, elections = inspection.context, inspection.context.runtime.elections
    image = context.cluster.image
    fenced = sum(broker.fenced for broker in image.brokers.values())
    numbers: Sequence[tuple[MetricFamily, float]] = (
        (ACTIVE_CONTROLLER, int(context.quorum.is_active)),
        (ACTIVE_BROKERS, len(image.brokers) - fenced),
        (FENCED_BROKERS, fenced),
        (TOPICS, len(image.topics_by_id)),
        (CLUSTER_PARTITIONS, found.partitions),
        (OFFLINE_PARTITIONS, found.leaderless),
        (NOT_PREFERRED, found.not_preferred),
        (ELECTIONS, elections.elections),
        (UNCLEAN_ELECTIONS, elections.unclean_elections),
    )
    yield from (one(family, value) for family, value in numbers)
    latest = {
        (each.partition.topic, str(each.partition.partition), str(each.leader_epoch), each.may_lose)
        : each.wall_ms / 1000
        for each in elections.unclean
    }  # fmt: skip
    yield Metric(UNCLEAN_ELECTION, list(latest.items()))


def _quorum(inspection: Inspection, now: Now) -> Iterator[Metric]:
    context = inspection.context
    quorum = context.quorum
    yield one(QUORUM_LEADER, quorum.leader_id)
    yield one(QUORUM_EPOCH, quorum.epoch)
    yield Metric(QUORUM_ROLE, (((quorum.role.name,), 1),))
    yield one(QUORUM_HIGH_WATERMARK, quorum.replica.high_watermark)
    yield one(QUORUM_END, quorum.log.end_offset)
    yield one(VOTERS, len(quorum.voters.voters))
    described = quorum.describe(now)
    voters = () if described is None else described.voters
    end = quorum.log.end_offset
    yield Metric(
        VOTER_LAG,
        [((str(voter.replica_id),), end - max(0, voter.log_end_offset)) for voter in voters],
    )
    yield one(APPLIED, context.cluster.image.end_offset - 1)
    yield one(CONTROLLER_MISSING, int(context.controller_watch.missing is not None))


def _api_name(key: ApiKey) -> str:
    """As Kafka writes it: ApiVersions."""
    return "".join(word.capitalize() for word in key.name.split("_"))


def _histogram(times: RequestTimes) -> Histogram:
    buckets = list(times.buckets)
    buckets[0] += times.at_once
    return Histogram(BUCKETS_MS, buckets, times.waited_ms)


NODE_METRICS: Final = tuple(
    value for value in tuple(globals().values()) if isinstance(value, MetricFamily)
)
"""Every family, in the order of the table in the documentation."""
