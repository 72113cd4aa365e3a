"""The claims of the demo, each checked: in the topic, on the disks, in the tables."""

from __future__ import annotations

import subprocess
from typing import NamedTuple

from examples.demo.orders import Orders
from examples.demo.pipeline import TIDELOG, Pipeline
from examples.demo.saying import say
from examples.demo.watching import Watcher

from tidelog.testing.cluster import Cluster


class Claim(NamedTuple):
    """Something that was promised."""

    what: str
    holds: bool


def prove(cluster: Cluster, orders: Orders, watcher: Watcher, pipeline: Pipeline) -> list[Claim]:
    """Everything that was promised, with whether it is so."""
    acknowledged = set(orders.acknowledged)
    bronze = pipeline.orders_in("bronze")
    silver, refused = pipeline.orders_in("silver"), pipeline.orders_refused_by("silver")
    say("the pipeline's audit compares topic and tables, record by record")
    pipeline_is_sound = pipeline.audit()
    say("the replica audit compares the disks of all brokers, batch by batch")
    replicas_are_sound = audit_replicas(cluster)
    return [
        Claim("no order was refused", not orders.failed),
        Claim("every acknowledged order is in the topic", acknowledged <= set(watcher.found)),
        Claim("no order is in the topic twice", set(watcher.found.values()) <= {1}),
        Claim("every acknowledged order is in the bronze table", acknowledged <= set(bronze)),
        Claim("no order is in the bronze table twice", set(bronze.values()) <= {1}),
        Claim(
            "every order is in silver or, where it breaks the rule, in its quarantine",
            silver + refused == bronze and not set(silver) & set(refused),
        ),
        Claim("the pipeline's own audit finds nothing", pipeline_is_sound),
        Claim("all replicas hold the same batches, and every checksum fits", replicas_are_sound),
    ]


def audit_replicas(cluster: Cluster) -> bool:
    command = [TIDELOG, "audit", "replicas", "--data", str(cluster.directory)]
    return subprocess.run(command).returncode == 0
