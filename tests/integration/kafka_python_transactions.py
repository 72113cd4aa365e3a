"""kafka-python at work in transactions, in a process of its own: `... BOOTSTRAP TOPIC`."""

from __future__ import annotations

import sys

from kafka import KafkaProducer

producer = KafkaProducer(bootstrap_servers=sys.argv[1], transactional_id="kafka-python")
producer.init_transactions()
for value, commits in ((b"first", True), (b"aborted", False), (b"second", True)):
    producer.begin_transaction()
    producer.send(sys.argv[2], value).get(20)
    if commits:
        producer.commit_transaction()
    else:
        producer.abort_transaction()
producer.close()
