"""Clients of the asyncio libraries, which have the same names: kohort and aiokafka.

Each has an event loop that runs only during our calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from tests.workers.lines import (
    FLUSH_S,
    PACE_S,
    POLL_S,
    PRODUCE_S,
    Join,
    Member,
    Produce,
    Record,
    Say,
    Stream,
    Words,
    ends_of,
    rows_of,
)

T = TypeVar("T")


class LoopMember(Member):
    """One consumer, and the listener of its rebalances.

    Attributes:
        place: the library's TopicPartition.
        errors: what a commit raises.
        producers: those of a member that copies.
    """

    place: type
    errors: tuple[type[Exception], ...]
    consumer: Any

    def __init__(self, words: Words, say: Say) -> None:
        super().__init__(words, say)
        self.producers: list[Any] = []
        self._runner = asyncio.Runner()
        try:
            self.run(self.start())
        except BaseException:
            self._runner.close()
            raise

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs the loop until something is done."""
        return self._runner.run(work)

    async def start(self) -> None:
        """Makes and starts the consumer, and its producer if it copies."""
        raise NotImplementedError

    async def commit_soon(self, offsets: dict[int, int]) -> str | None:
        """See `commit`."""
        try:
            await self.consumer.commit(self.places(offsets))
        except self.errors as error:
            return repr(error)
        return None

    def places(self, offsets: dict[int, int]) -> dict[Any, int]:
        """The same, with the library's partitions."""
        topic = self.wanted.topic
        return {self.place(topic, each): offset for each, offset in offsets.items()}

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """The library's callback."""
        self.gained(each.partition for each in assigned)

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        """The library's callback."""
        if revoked and self.due_at_release:
            await self.commit_soon(self.due_at_release)
        self.released(each.partition for each in revoked)

    async def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        """The library's callback."""
        self.released((each.partition for each in lost), "lost")

    def poll(self) -> list[Record]:
        """One `getmany`."""
        return rows_of(self.run(self.getmany()))

    def pause(self, seconds: float) -> None:
        """The loop goes on, and heartbeats with it."""
        self.run(asyncio.sleep(seconds))

    async def getmany(self) -> Any:
        """One poll."""
        timeout_ms = int(POLL_S * 1000)
        return await self.consumer.getmany(
            timeout_ms=timeout_ms, max_records=self.wanted.batch
        )

    def commit(self, offsets: dict[int, int]) -> str | None:
        """A commit, waited for."""
        return self.run(self.commit_soon(offsets))

    def owns(self) -> list[int]:
        """From `assignment()`."""
        return [each.partition for each in self.consumer.assignment()]

    def seek(self, partition: int, offset: int) -> None:
        """Goes on from an offset."""
        self.consumer.seek(self.place(self.wanted.topic, partition), offset)

    def shut(self) -> None:
        """Leaves the group."""
        self.run(self.stop())
        self._runner.close()

    async def stop(self) -> None:
        """Closes consumer and producers."""
        await stop(self.consumer)
        for producer in self.producers:
            await stop(producer)


class LoopStream(Stream):
    """One producer, started when its broker is there."""

    def __init__(self, wanted: Words, say: Say) -> None:
        super().__init__(wanted, say)
        self._waiting: dict[asyncio.Future[Any], tuple[int, int]] = {}
        self._runner = asyncio.Runner()
        self._producer = self._runner.run(self.start())

    async def start(self) -> Any:
        """Returns a producer."""
        raise NotImplementedError

    def step(self) -> None:
        """Fills the window, and handles deliveries."""
        self._runner.run(self._fill_and_wait())

    async def _fill_and_wait(self) -> None:
        while len(self._waiting) < self.window:
            place, number, key, value = self.next()
            sent = await self._producer.send(
                self.wanted["topic"], value, key, partition=place
            )
            self._waiting[sent] = place, number
        await self._hear(POLL_S)
        await asyncio.sleep(PACE_S)  # limits the load

    async def _hear(self, limit_s: float) -> None:
        done, _ = await asyncio.wait(
            self._waiting, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
        )
        for each in done:
            error = each.exception()
            offset = None if error else each.result().offset
            name = type(error).__name__ if error else ""
            self.answered(*self._waiting.pop(each), offset, name)

    async def _finish(self) -> None:
        while self._waiting:
            before = len(self._waiting)
            await self._hear(FLUSH_S)
            if len(self._waiting) == before:
                raise TimeoutError(f"{before} records never answered")
        await stop(self._producer)

    def shut(self) -> None:
        """Waits for every acknowledgement."""
        self._runner.run(self._finish())
        self._runner.close()


async def stop(client: Any) -> None:
    """Closes a consumer or producer, by either name of that."""
    await (client.close() if hasattr(client, "close") else client.stop())


async def send(producer: Any, topic: str, rows: Iterable[tuple[bytes, bytes]]) -> None:
    """Sends keys and values, and waits until all are acknowledged."""
    sent = [await producer.send(topic, value, key) for key, value in rows]
    await asyncio.wait_for(asyncio.gather(*sent), PRODUCE_S)


async def copy(
    producer: Any, wanted: Join, records: Sequence[Record], *, aborts: bool
) -> dict[int, int] | None:
    """The records of a transaction; returns the offsets to commit in it, if it does."""
    await producer.begin_transaction()
    rows = [(key.encode(), value.encode()) for _, _, key, value in records]
    await send(producer, wanted.out or "", rows)
    if not aborts:
        return ends_of(records)
    await producer.abort_transaction()
    return None


def produce(make: Callable[..., Any], wanted: Produce, **settings: Any) -> None:
    """Sends records idempotently, and waits for every acknowledgement."""

    async def produce_all() -> None:
        producer = make(bootstrap_servers=wanted.bootstrap, **settings)
        await producer.start()
        await send(producer, wanted.topic, wanted.records())
        await stop(producer)

    asyncio.run(produce_all())


def fence(
    make: Callable[[], Coroutine[Any, Any, Any]], error_type: type[Exception], out: str
) -> str:
    """`make` starts a producer with the transactional id."""

    async def fence_first() -> str:
        first = await make()
        await first.begin_transaction()
        await first.send_and_wait(out, b"1", b"fenced")
        second = await make()
        text = ""
        try:
            await first.commit_transaction()
        except error_type as error:
            text = repr(error)
        await second.begin_transaction()
        await second.send_and_wait(out, b"2", b"fencing")
        await second.commit_transaction()
        await stop(second)
        await stop(first)
        return text

    return asyncio.run(fence_first())


def read(make: Coroutine[Any, Any, Any]) -> Iterator[list[Record]]:
    """Reads on and on with the consumer that `make` returns."""
    runner = asyncio.Runner()
    consumer = runner.run(make)
    while True:
        polled = runner.run(consumer.getmany(timeout_ms=int(POLL_S * 1000)))
        yield rows_of(polled)
