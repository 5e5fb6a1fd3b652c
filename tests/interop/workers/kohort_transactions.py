"""A transactional program over kohort's own client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

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

from kohort.client import Consumer, KohortError, Producer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def _producer(bootstrap: str, transactional_id: str) -> Producer[bytes, bytes]:
    return Producer(
        bootstrap_servers=bootstrap,
        client_id=transactional_id,
        transactional_id=transactional_id,
    )


class Kohort:
    """One transactional producer for each member; the group's generation fences it."""

    def __init__(self, wanted: Transform) -> None:
        self.wanted = wanted
        self.turns = Turns(wanted.abort)
        self.runner = asyncio.Runner()
        self.runner.run(self._start())

    async def _start(self) -> None:
        self.producer = _producer(self.wanted.bootstrap, self.wanted.client)
        await self.producer.start()
        settings: dict[str, Any] = self.wanted.settings()
        self.consumer = Consumer(
            self.wanted.topic, partition_assignment_strategy=["range"], **settings
        )
        await self.consumer.start()

    def step(self) -> None:
        """A transaction of the records of one poll."""
        self.runner.run(self._step())

    async def _step(self) -> None:
        timeout_ms = int(POLL_S * 1000)
        polled = await self.consumer.getmany(timeout_ms=timeout_ms, max_records=BATCH)
        if not polled:
            return
        try:
            await self._transact(polled)
        except KohortError as error:
            if error.fatal:
                raise
            say("note", text=f"aborts: {error}")
            await self.producer.abort_transaction()
            await self.consumer.seek_to_committed()

    async def _transact(self, polled: Mapping[TopicPartition, Sequence[Any]]) -> None:
        records = [record for each in polled.values() for record in each]
        aborts = self.turns.begin(rows_of(records))
        await self.producer.begin_transaction()
        sent = [
            await self.producer.send(self.wanted.out, each.value, each.key)
            for each in records
        ]
        if aborts:
            await asyncio.gather(*sent)
            await self.producer.abort_transaction()
            await self.consumer.seek_to_committed()
        else:
            ends = {place: each[-1].offset + 1 for place, each in polled.items()}
            await self.producer.send_offsets_to_transaction(
                ends, self.consumer.group_metadata()
            )
            await self.producer.commit_transaction()
        say_ended(is_commit=not aborts, records=len(records))

    def close(self) -> None:
        """Leaves."""
        self.runner.run(self.consumer.close())
        self.runner.run(self.producer.close())
        self.runner.close()


async def _fence(bootstrap: str, out: str, transactional_id: str) -> str:
    async with _producer(bootstrap, transactional_id) as first:
        await first.begin_transaction()
        await first.send_and_wait(out, b"1", b"fenced")
        async with _producer(bootstrap, transactional_id) as second:
            try:
                await first.commit_transaction()
            except KohortError as error:
                text = repr(error)
            else:
                text = ""
            async with second.transaction():
                await second.send(out, b"2", b"fencing")
    return text


def fence(bootstrap: str, out: str, transactional_id: str) -> str:
    """See transacting.py."""
    return asyncio.run(_fence(bootstrap, out, transactional_id))


async def _reader(bootstrap: str, out: str, partitions: int) -> Consumer[Any, Any]:
    consumer: Consumer[Any, Any] = Consumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    await consumer.start()
    consumer.assign([TopicPartition(out, each) for each in range(partitions)])
    return consumer


def read(bootstrap: str, out: str, partitions: int) -> Iterator[list[Row]]:
    """See transacting.py."""
    runner = asyncio.Runner()
    consumer = runner.run(_reader(bootstrap, out, partitions))
    while True:
        polled = runner.run(consumer.getmany(timeout_ms=int(POLL_S * 1000)))
        yield rows_of(record for each in polled.values() for record in each)


if __name__ == "__main__":
    serve(Kohort, fence, read)
