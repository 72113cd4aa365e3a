"""What a cluster says about itself, asked through librdkafka while brokers come and go."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

PATIENCE_S: Final = 2.0
WITHIN_S: Final = 30.0
LOST: Final = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT}


def metadata(
    admin: AdminClient, topic: str | None = None, within_s: float = 30.0
) -> ClusterMetadata:
    """Ask again and again, each time with little patience.

    librdkafka repeats a lost request at the broker that it was sent to, even if that is the
    one which was killed a moment ago: one long wait would end with nothing.
    """
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            return admin.list_topics(topic, timeout=PATIENCE_S)
        except KafkaException as error:
            if error.args[0].code() not in LOST or time.monotonic() >= deadline:
                raise
