"""Consume, transform, produce, exactly once, with aiokafka, in a process of its own.

    python aiokafka_transformer.py BOOTSTRAP INPUT OUTPUT MEMBER

Copies every record of INPUT to OUTPUT in transactions, and goes on until it is killed.

aiokafka commits offsets in a transaction without saying which member it is, and in which
generation, so that no coordinator can refuse one that has lost its partitions (KIP-447); and it
may be told an offset that a transaction is about to replace. Therefore every input partition has a
transactional id of its own, whichever member has the partition.

Invariant: where a partition is committed is read only after its transactional id was initialised.
By then all earlier transactions are over and whoever wrote them is fenced.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

GROUP = "aiokafka-transformers"
AT_ONCE = 20


class Transformer(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    def __init__(self, bootstrap: str, source: str, target: str, member: str) -> None:
        self._bootstrap = bootstrap
        self._target = target
        self._producers: dict[TopicPartition, AIOKafkaProducer] = {}
        self._at_work = asyncio.Lock()
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            client_id=member,
            group_id=GROUP,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6000,
            heartbeat_interval_ms=200,
            retry_backoff_ms=50,
        )
        self._consumer.subscribe([source], listener=self)

    async def run(self) -> None:
        await self._consumer.start()
        while True:
            found = await self._consumer.getmany(timeout_ms=500, max_records=AT_ONCE)
            for place, records in found.items():
                async with self._at_work:
                    await self._handle(place, records)

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        async with self._at_work:
            while self._producers:
                await self._producers.popitem()[1].stop()

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Each partition is claimed when there is something to read in it."""

    async def _handle(self, place: TopicPartition, records: list[ConsumerRecord]) -> None:
        if place not in self._consumer.assignment():
            return
        if place not in self._producers or not await self._copy(place, records):
            await self._claim(place)

    async def _copy(self, place: TopicPartition, records: list[ConsumerRecord]) -> bool:
        """Copy in one transaction; if that fails, only a new producer knows how it ended."""
        producer = self._producers[place]
        try:
            await producer.begin_transaction()
            sent = [
                await producer.send(self._target, each.value, each.key, place.partition)
                for each in records
            ]
            await asyncio.gather(*sent)
            await producer.send_offsets_to_transaction({place: records[-1].offset + 1}, GROUP)
            await producer.commit_transaction()
        except KafkaError as problem:
            print(f"{place}: {problem!r}", file=sys.stderr, flush=True)
            return False
        return True

    async def _claim(self, place: TopicPartition) -> None:
        """Become the only one that writes for a partition, and go to where it is committed."""
        before = self._producers.pop(place, None)
        self._producers[place] = await self._initialised(f"{GROUP}-{place.partition}")
        if before is not None:
            await before.stop()
        self._consumer.seek(place, await self._consumer.committed(place) or 0)

    async def _initialised(self, transactional_id: str) -> AIOKafkaProducer:
        while True:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=10_000,
                retry_backoff_ms=50,
            )
            try:
                await producer.start()
            except KafkaError as problem:
                print(f"{transactional_id}: {problem!r}", file=sys.stderr, flush=True)
                await producer.stop()
            else:
                return producer


async def main() -> None:
    await Transformer(*sys.argv[1:]).run()


if __name__ == "__main__":
    asyncio.run(main())
