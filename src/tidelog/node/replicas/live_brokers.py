"""Which brokers may be in sync, by the metadata this node knows."""

from __future__ import annotations

from tidelog.model.ids import NO_EPOCH
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.replication.replica_context import BrokerEligibility

UNREGISTERED = BrokerEligibility(is_live=False, broker_epoch=NO_EPOCH)


class LiveBrokers:
    """The image's registrations, as replicas ask for them."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster

    def of(self, broker_id: int) -> BrokerEligibility:
        registration = self._cluster.image.brokers.get(broker_id)
        if registration is None:
            return UNREGISTERED
        return BrokerEligibility(registration.active, registration.broker_epoch)
