"""The program of aiokafka.

aiokafka sends TxnOffsetCommit without a generation and OffsetFetch without
`require_stable` (KIP-447 is missing), so the group cannot fence a former owner. As
before KIP-447, each input partition has a transactional id: the next owner's
InitProducerId ends the former owner's transaction, before the next owner asks for the
committed offset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

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
from aiokafka.errors import IllegalStateError, KafkaError, NoOffsetForPartitionError
from tests.workers import on_a_loop
from tests.workers.lines import (
    PACE_S,
    RETRY_MS,
    Produce,
    Record,
    Say,
    Words,
    fencing,
    producing,
    reading,
    rows_of,
    serve,
)

from kohort.client import Admin
from kohort.client.errors import KohortError

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
PATIENCE_MS = 600_000
"""Time limit of a stream's record: far longer than any broker is away."""


class AiokafkaMember(on_a_loop.LoopMember, ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """One AIOKafkaConsumer; if it copies, a producer for each of its partitions.

    A patient one works around two defects that set a group back: aiokafka takes a
    refused OffsetFetch for "nothing is committed", and repeats a refused commit even
    after the partition was taken away.
    """

    place = TopicPartition
    errors = (KafkaError,)

    def __init__(self, words: Words, say: Say) -> None:
        self._transactional: dict[TopicPartition, AIOKafkaProducer] = {}
        self._committing: asyncio.Task[object] | None = None
        super().__init__(words, say)

    async def start(self) -> None:
        """See the base."""
        wanted = self.wanted
        self._is_idle = asyncio.Lock()  # held by a transaction, and by each callback
        settings = wanted.settings(ASSIGNORS[wanted.assignor])
        if wanted.poll_ms is not None:
            settings["max_poll_interval_ms"] = wanted.poll_ms
            settings["rebalance_timeout_ms"] = wanted.poll_ms
        if wanted.is_patient:
            settings["auto_offset_reset"] = "none"
        while True:
            self.consumer = AIOKafkaConsumer(**settings)
            self.consumer.subscribe([wanted.topic], listener=self)
            try:
                await self.consumer.start()
            except KafkaError:
                await self.consumer.stop()
                if not wanted.is_patient:
                    raise
                await asyncio.sleep(PACE_S)
            else:
                return

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Fences former owners, and only then looks up where to begin."""
        # It is eager only, so this is the whole assignment.
        self.held = set()
        await super().on_partitions_assigned(assigned)
        if not self.wanted.out:
            return
        async with self._is_idle:
            for place in assigned:
                name = f"{self.wanted.group}-{place.partition}"
                producer = await _producer(self.wanted.bootstrap, name)
                offset = await self.consumer.committed(place) or 0
                self.consumer.seek(place, offset)
                self._transactional[place] = producer
                self.producers.append(producer)

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Waits for the open transaction, and closes the producers."""
        await super().on_partitions_revoked(revoked)
        async with self._is_idle:
            for producer in self.producers:
                await producer.stop()
            self.producers.clear()
            self._transactional.clear()

    def released(self, partitions: Iterable[int], why: str = "revoked") -> None:
        """Ends a commit that is still tried."""
        super().released(partitions, why)
        if self._committing is not None:
            self._committing.cancel()

    def poll(self) -> list[Record]:
        """One `getmany`; a patient member may have to begin."""
        try:
            return super().poll()
        except NoOffsetForPartitionError:
            if not self.wanted.is_patient:
                raise
            self.run(self._begin())
            return []

    async def _begin(self) -> None:
        """Starts to read partitions that really have no commit."""
        group = self.wanted.group
        try:
            async with Admin(bootstrap_servers=self.wanted.bootstrap) as admin:
                known = (await admin.list_consumer_group_offsets({group: None}))[group]
        except KohortError:  # the broker is away; the next poll asks again
            return
        for each in self.consumer.assignment():
            if (each.topic, each.partition) not in known:
                self.consumer.seek(each, 0)

    def commit(self, offsets: dict[int, int]) -> str | None:
        """A commit, waited for; a patient member's ends with its partitions."""
        if not self.wanted.is_patient:
            return super().commit(offsets)
        return self.run(self._commit_while_owned(offsets))

    async def _commit_while_owned(self, offsets: dict[int, int]) -> str | None:
        commit = self.consumer.commit(self.places(offsets))
        self._committing = asyncio.create_task(commit)
        await asyncio.wait({self._committing})
        try:
            self._committing.result()
        except (asyncio.CancelledError, KafkaError, IllegalStateError) as error:
            return repr(error)
        return None

    def identity(self) -> tuple[str, int | None]:
        """From the coordinator's fields: aiokafka has no public method."""
        coordinator = self.consumer._coordinator  # noqa: SLF001 - see the docstring
        generation: int = coordinator.generation
        return coordinator.member_id, generation if generation >= 0 else None

    def step(self) -> None:
        """A transaction for each partition of one poll, if it copies."""
        if self.wanted.out:
            self.run(self._copy())
        else:
            super().step()

    async def _copy(self) -> None:
        # Not under the lock: during a rebalance, getmany waits for its end.
        polled = await self.getmany()
        # Each assignment has new producers. Records from before it are read again.
        owned = dict(self._transactional)
        for place, records in polled.items():
            async with self._is_idle:
                producer = self._transactional.get(place)
                if producer is None or producer is not owned.get(place):
                    continue
                rows = rows_of({place: records})
                aborts = self.begins(rows)
                await self._transact(producer, place, rows, aborts=aborts)
                self.say("ended", is_commit=not aborts, records=len(rows))

    async def _transact(
        self,
        producer: AIOKafkaProducer,
        place: TopicPartition,
        rows: list[Record],
        *,
        aborts: bool,
    ) -> None:
        ends = await on_a_loop.copy(producer, self.wanted, rows, aborts=aborts)
        if ends is None:
            self.consumer.seek(place, rows[0][1])
            return
        await producer.send_offsets_to_transaction(self.places(ends), self.wanted.group)
        await producer.commit_transaction()


class AiokafkaStream(on_a_loop.LoopStream):
    """One AIOKafkaProducer."""

    async def start(self) -> AIOKafkaProducer:
        """Returns one, as soon as the broker is there."""
        while True:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.wanted["bootstrap"],
                client_id=self.wanted["client"],
                enable_idempotence=True,
                linger_ms=5,
                request_timeout_ms=PATIENCE_MS,
                retry_backoff_ms=RETRY_MS,
                **self.settings,
            )
            try:
                await producer.start()
            except KafkaError:  # the broker is away
                await producer.stop()
                await asyncio.sleep(PACE_S)
            else:
                return producer


async def _producer(bootstrap: str, transactional_id: str) -> AIOKafkaProducer:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        client_id=transactional_id,
        transactional_id=transactional_id,
    )
    await producer.start()
    return producer


def produce(wanted: Produce) -> None:
    """Sends them idempotently, and waits for every acknowledgement."""
    on_a_loop.produce(
        AIOKafkaProducer,
        wanted,
        client_id="producer",
        enable_idempotence=True,
        request_timeout_ms=wanted.request_ms or 40_000,
    )


def fence(bootstrap: str, out: str, transactional_id: str) -> str:
    """See lines.py."""
    return on_a_loop.fence(
        lambda: _producer(bootstrap, transactional_id), KafkaError, out
    )


def read(bootstrap: str, out: str, partitions: int) -> Iterator[list[Record]]:
    """See lines.py."""
    return on_a_loop.read(_reader(bootstrap, out, partitions))


async def _reader(bootstrap: str, out: str, partitions: int) -> AIOKafkaConsumer:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed"
    )
    await consumer.start()
    places = [TopicPartition(out, each) for each in range(partitions)]
    consumer.assign(places)
    await consumer.seek_to_beginning(*places)
    return consumer


if __name__ == "__main__":
    serve(
        {"join": AiokafkaMember, "stream": AiokafkaStream},
        {
            "produce": producing(produce),
            "fence": fencing(fence),
            "read": reading(read),
        },
    )
