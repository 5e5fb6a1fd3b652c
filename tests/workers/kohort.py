"""The program of kohort's own client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.workers import on_a_loop
from tests.workers.lines import Produce, Record, fencing, producing, reading, serve

from kohort.client import (
    Consumer,
    ConsumerRebalanceListener,
    KohortError,
    Producer,
    TopicPartition,
)
from kohort.client.group.classic.member import ClassicMember


class KohortMember(on_a_loop.LoopMember, ConsumerRebalanceListener):
    """One consumer; if it copies, the group's generation fences its producer."""

    place = TopicPartition
    errors = (KohortError,)

    async def start(self) -> None:
        """See the base."""
        wanted = self.wanted
        if wanted.out:
            self.producers = [await _producer(wanted.bootstrap, wanted.client)]
        while True:
            self.consumer = Consumer(**wanted.settings(wanted.assignor))
            try:
                await self.consumer.start()
            except KohortError:
                await self.consumer.close()
                if not wanted.is_patient:
                    raise
            else:
                break
        self.consumer.subscribe([wanted.topic], listener=self)

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Called with new partitions: a cooperative member keeps the rest."""
        # Nothing public shows the leader, which applications do not need.
        group = self.consumer._group  # noqa: SLF001 - see above
        member = None if group is None else group.member
        _, generation = self.identity()
        if (
            generation is not None
            and isinstance(member, ClassicMember)
            and member.is_leader
        ):
            self.say("leads", generation=generation)
        await super().on_partitions_assigned(assigned)

    def poll(self) -> list[Record]:
        """One `getmany`; a patient member polls again after an error."""
        try:
            return super().poll()
        except KohortError as error:
            if not self.wanted.is_patient or error.fatal:
                raise
            self.say("note", text=repr(error))
            return []

    def identity(self) -> tuple[str, int | None]:
        """From `group_metadata()`."""
        found = self.consumer.group_metadata()
        generation = found.generation_id
        return found.member_id, generation if generation >= 0 else None

    def transact(self, records: list[Record], *, aborts: bool) -> str | None:
        """See the base."""
        return self.run(self._transact(records, aborts=aborts))

    async def _transact(self, records: list[Record], *, aborts: bool) -> str | None:
        (producer,) = self.producers
        try:
            ends = await on_a_loop.copy(producer, self.wanted, records, aborts=aborts)
            if ends is None:
                await self.consumer.seek_to_committed()
                return None
            await producer.send_offsets_to_transaction(
                self.places(ends), self.consumer.group_metadata()
            )
            await producer.commit_transaction()
        except KohortError as error:
            if error.fatal:
                raise
            await producer.abort_transaction()
            await self.consumer.seek_to_committed()
            return str(error)
        return None


class KohortStream(on_a_loop.LoopStream):
    """One producer."""

    async def start(self) -> Any:
        """See the base."""
        producer = Producer(
            bootstrap_servers=self.wanted["bootstrap"],
            client_id=self.wanted["client"],
            **self.settings,
        )
        await producer.start()
        return producer


async def _producer(bootstrap: str, transactional_id: str) -> Any:
    producer = Producer(
        bootstrap_servers=bootstrap,
        client_id=transactional_id,
        transactional_id=transactional_id,
    )
    await producer.start()
    return producer


def produce(wanted: Produce) -> None:
    """Sends them idempotently, and waits for every acknowledgement."""
    on_a_loop.produce(Producer, wanted)


def fence(bootstrap: str, out: str, transactional_id: str) -> str:
    """See lines.py."""
    return on_a_loop.fence(
        lambda: _producer(bootstrap, transactional_id), KohortError, out
    )


def read(bootstrap: str, out: str, partitions: int) -> Iterator[list[Record]]:
    """See lines.py."""
    return on_a_loop.read(_reader(bootstrap, out, partitions))


async def _reader(bootstrap: str, out: str, partitions: int) -> Any:
    consumer: Consumer[Any, Any] = Consumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    await consumer.start()
    consumer.assign([TopicPartition(out, each) for each in range(partitions)])
    return consumer


if __name__ == "__main__":
    serve(
        {"join": KohortMember, "stream": KohortStream},
        {
            "produce": producing(produce),
            "fence": fencing(fence),
            "read": reading(read),
        },
    )
