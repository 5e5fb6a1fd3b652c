"""A transactional program over aiokafka.

aiokafka sends TxnOffsetCommit without a generation and OffsetFetch without
`require_stable` (KIP-447 is missing), so the group cannot fence a former owner. As
before KIP-447, each input partition has a transactional id: the next owner's
InitProducerId ends the former owner's transaction, before the next owner asks for the
committed offset.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError
from tests.interop.workers.lines import say
from tests.interop.workers.transacting import (
    BATCH,
    POLL_S,
    Row,
    Transform,
    Turns,
    rows_of,
    say_ended,
    serve,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


async def _producer(bootstrap: str, transactional_id: str) -> AIOKafkaProducer:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        client_id=transactional_id,
        transactional_id=transactional_id,
    )
    await producer.start()
    return producer


class Aiokafka(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """One transactional producer for each partition that the member owns."""

    def __init__(self, wanted: Transform) -> None:
        self.wanted = wanted
        self.turns = Turns(wanted.abort)
        self.producers: dict[TopicPartition, AIOKafkaProducer] = {}
        self.runner = asyncio.Runner()
        self.runner.run(self._start())

    async def _start(self) -> None:
        self.is_idle = asyncio.Lock()  # held by a transaction, and by each callback
        self.consumer = AIOKafkaConsumer(
            partition_assignment_strategy=[RangePartitionAssignor],
            **self.wanted.settings(),
        )
        self.consumer.subscribe([self.wanted.topic], listener=self)
        await self.consumer.start()

    async def on_partitions_revoked(self, _revoked: set[TopicPartition]) -> None:
        """Waits for the open transaction, and closes the producers."""
        async with self.is_idle:
            for producer in self.producers.values():
                await producer.stop()
            self.producers.clear()

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Fences the former owners, and only then looks up where to begin."""
        say("note", text=f"assigned {sorted(each.partition for each in assigned)}")
        async with self.is_idle:
            for place in assigned:
                name = f"{self.wanted.group}-{place.partition}"
                producer = await _producer(self.wanted.bootstrap, name)
                offset = await self.consumer.committed(place) or 0
                self.consumer.seek(place, offset)
                self.producers[place] = producer

    def step(self) -> None:
        """A transaction for each partition of one poll."""
        self.runner.run(self._step())

    async def _step(self) -> None:
        # Not under the lock: during a rebalance, getmany waits for its end.
        polled = await self.consumer.getmany(
            timeout_ms=int(POLL_S * 1000), max_records=BATCH
        )
        # Each assignment has new producers. Records from before it are read again.
        owned = dict(self.producers)
        for place, records in polled.items():
            async with self.is_idle:
                producer = self.producers.get(place)
                if producer is not None and producer is owned.get(place):
                    await self._transact(producer, place, records)

    async def _transact(
        self, producer: AIOKafkaProducer, place: TopicPartition, records: list[Any]
    ) -> None:
        aborts = self.turns.begin(rows_of(records))
        await producer.begin_transaction()
        sent = [
            await producer.send(self.wanted.out, key=each.key, value=each.value)
            for each in records
        ]
        if aborts:
            await asyncio.gather(*sent)
            await producer.abort_transaction()
            self.consumer.seek(place, records[0].offset)
        else:
            await producer.send_offsets_to_transaction(
                {place: records[-1].offset + 1}, self.wanted.group
            )
            await producer.commit_transaction()
        say_ended(is_commit=not aborts, records=len(records))

    def close(self) -> None:
        """Leaves."""
        self.runner.run(self._stop())
        self.runner.close()

    async def _stop(self) -> None:
        await self.consumer.stop()
        for producer in self.producers.values():
            await producer.stop()


async def _fence(bootstrap: str, out: str, transactional_id: str) -> str:
    first = await _producer(bootstrap, transactional_id)
    await first.begin_transaction()
    await first.send_and_wait(out, key=b"fenced", value=b"1")
    second = await _producer(bootstrap, transactional_id)
    try:
        await first.commit_transaction()
    except KafkaError as error:
        text = repr(error)
    else:
        text = ""
    await second.begin_transaction()
    await second.send_and_wait(out, key=b"fencing", value=b"2")
    await second.commit_transaction()
    await second.stop()
    await first.stop()
    return text


def fence(bootstrap: str, out: str, transactional_id: str) -> str:
    """See transacting.py."""
    return asyncio.run(_fence(bootstrap, out, transactional_id))


async def _reader(bootstrap: str, out: str, partitions: int) -> AIOKafkaConsumer:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed"
    )
    await consumer.start()
    places = [TopicPartition(out, each) for each in range(partitions)]
    consumer.assign(places)
    await consumer.seek_to_beginning(*places)
    return consumer


def read(bootstrap: str, out: str, partitions: int) -> Iterator[list[Row]]:
    """See transacting.py."""
    runner = asyncio.Runner()
    consumer = runner.run(_reader(bootstrap, out, partitions))
    while True:
        polled = runner.run(consumer.getmany(timeout_ms=int(POLL_S * 1000)))
        yield rows_of(record for each in polled.values() for record in each)


if __name__ == "__main__":
    serve(Aiokafka, fence, read)
