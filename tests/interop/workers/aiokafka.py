"""A worker over aiokafka."""

from __future__ import annotations

import asyncio

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import (
    StickyPartitionAssignor,
)
from aiokafka.errors import KafkaError
from tests.interop.workers.lines import (
    BATCH,
    POLL_S,
    PRODUCE_S,
    Join,
    Produce,
    Record,
    say_owns,
    serve,
)

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class AiokafkaMember(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """One AIOKafkaConsumer, on an event loop that runs only during our calls."""

    def __init__(self, wanted: Join) -> None:
        self.topic = wanted.topic
        self.service = wanted.service
        self.held: set[int] = set()
        self.runner = asyncio.Runner()
        self.runner.run(self._start(wanted))

    async def _start(self, wanted: Join) -> None:
        settings = wanted.settings(ASSIGNORS[wanted.assignor])
        if wanted.poll_ms is not None:
            settings["max_poll_interval_ms"] = wanted.poll_ms
            settings["rebalance_timeout_ms"] = wanted.poll_ms
        self.consumer = AIOKafkaConsumer(**settings)
        self.consumer.subscribe([wanted.topic], listener=self)
        await self.consumer.start()

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """The library's callback; it is eager only, so this is the whole assignment."""
        self.held = {each.partition for each in assigned}
        say_owns("assigned", self.held, self.generation())

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """The library's callback."""
        offsets = self.service.due_at_release
        if offsets and revoked:
            await self._commit(offsets)
        self.held -= {each.partition for each in revoked}
        say_owns("revoked", self.held, self.generation())

    def poll(self) -> list[Record]:
        """One `getmany`."""
        wanted = self.consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=BATCH)
        return [
            (
                each.partition,
                each.offset,
                (each.key or b"").decode(),
                each.value.decode(),
            )
            for records in self.runner.run(wanted).values()
            for each in records
        ]

    def commit(self, offsets: dict[int, int]) -> str | None:
        """A commit, waited for."""
        return self.runner.run(self._commit(offsets))

    async def _commit(self, offsets: dict[int, int]) -> str | None:
        wanted = {
            TopicPartition(self.topic, partition): offset
            for partition, offset in offsets.items()
        }
        try:
            await self.consumer.commit(wanted)
        except KafkaError as error:
            return repr(error)
        return None

    def owns(self) -> list[int]:
        """From `assignment()`."""
        return [each.partition for each in self.consumer.assignment()]

    def generation(self) -> int | None:
        """From the coordinator's field: aiokafka has no public method."""
        generation: int = self.consumer._coordinator.generation  # noqa: SLF001 - see the docstring
        return generation if generation >= 0 else None

    def seek(self, partition: int, offset: int) -> None:
        """Goes on from an offset."""
        self.consumer.seek(TopicPartition(self.topic, partition), offset)

    def close(self) -> None:
        """Leaves the group."""
        self.runner.run(self.consumer.stop())
        self.runner.close()


async def _produce(wanted: Produce) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=wanted.bootstrap,
        client_id="producer",
        enable_idempotence=True,
        request_timeout_ms=wanted.request_ms or 40_000,
    )
    await producer.start()
    sent = [
        await producer.send(wanted.topic, key=key, value=value)
        for key, value in wanted.records()
    ]
    await asyncio.wait_for(asyncio.gather(*sent), PRODUCE_S)
    await producer.stop()


def produce(wanted: Produce) -> None:
    """Sends them idempotently, and waits for every acknowledgement."""
    asyncio.run(_produce(wanted))


if __name__ == "__main__":
    serve(AiokafkaMember, produce)
