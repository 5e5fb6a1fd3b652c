"""A worker over kohort's own client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.interop.workers.lines import (
    BATCH,
    POLL_S,
    PRODUCE_S,
    Join,
    Produce,
    Record,
    say_leads,
    say_owns,
    serve,
)

from kohort.client import (
    Consumer,
    ConsumerRebalanceListener,
    KohortError,
    Producer,
    TopicPartition,
)
from kohort.client.group.classic.member import ClassicMember

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


class KohortMember(ConsumerRebalanceListener):
    """One consumer, on an event loop that runs only during our calls."""

    def __init__(self, wanted: Join) -> None:
        self.topic = wanted.topic
        self.service = wanted.service
        self.held: set[int] = set()
        self.runner = asyncio.Runner()
        self.runner.run(self._start(wanted))

    async def _start(self, wanted: Join) -> None:
        self.consumer = Consumer(**wanted.settings(wanted.assignor))
        await self.consumer.start()
        self.consumer.subscribe([wanted.topic], listener=self)

    async def on_partitions_assigned(
        self, assigned: AbstractSet[TopicPartition]
    ) -> None:
        """Called with new partitions: a cooperative member keeps the rest."""
        generation = self.generation()
        if generation is not None and self._leads():
            say_leads(generation)
        self.held |= {each.partition for each in assigned}
        say_owns("assigned", self.held, generation)

    async def on_partitions_revoked(self, revoked: AbstractSet[TopicPartition]) -> None:
        """The client's callback."""
        offsets = self.service.due_at_release
        if offsets:
            await self._commit(offsets)
        self.held -= {each.partition for each in revoked}
        say_owns("revoked", self.held, self.generation())

    async def on_partitions_lost(self, lost: AbstractSet[TopicPartition]) -> None:
        """The client's callback."""
        self.held -= {each.partition for each in lost}
        say_owns("lost", self.held, self.generation())

    def poll(self) -> list[Record]:
        """One `getmany`."""
        wanted = self.consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=BATCH)
        return [
            (each.partition, each.offset, text_of(each.key), text_of(each.value))
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
        except KohortError as error:
            return str(error)
        return None

    def owns(self) -> list[int]:
        """From `assignment()`."""
        return [each.partition for each in self.consumer.assignment()]

    def generation(self) -> int | None:
        """From `group_metadata()`."""
        generation = self.consumer.group_metadata().generation_id
        return generation if generation >= 0 else None

    def seek(self, partition: int, offset: int) -> None:
        """Goes on from an offset."""
        self.consumer.seek(TopicPartition(self.topic, partition), offset)

    def close(self) -> None:
        """Leaves the group."""
        self.runner.run(self.consumer.close())
        self.runner.close()

    def _leads(self) -> bool:
        # Nothing public shows the leader, which applications do not need.
        group = self.consumer._group  # noqa: SLF001 - see above
        member = None if group is None else group.member
        return isinstance(member, ClassicMember) and member.is_leader


def text_of(part: bytes | None) -> str:
    """A key or value, which is never null here."""
    assert part is not None
    return part.decode()


async def _produce(wanted: Produce) -> None:
    async with Producer(bootstrap_servers=wanted.bootstrap) as producer:
        sent = [
            await producer.send(wanted.topic, value, key)
            for key, value in wanted.records()
        ]
        await asyncio.wait_for(asyncio.gather(*sent), PRODUCE_S)


def produce(wanted: Produce) -> None:
    """Sends them idempotently, and waits for every acknowledgement."""
    asyncio.run(_produce(wanted))


if __name__ == "__main__":
    serve(KohortMember, produce)
