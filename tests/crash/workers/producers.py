"""Idempotent producers of confluent-kafka and aiokafka.

Each sends numbered records to every partition in turn, a window at a time, as long as
it runs, and writes down the acknowledgements.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import KafkaError, Message, Producer
from tests.crash.journal import Journal, key_of, value_of
from tests.crash.workers.lines import PACE_S, POLL_S, Client, arguments, serve

FLUSH_S = 120.0
PATIENCE_MS = 600_000
"""Time limit of a record: far longer than any broker here is down."""
RETRY_MS = 20


class Source:
    """The records of one producer, in order; continues when its client is replaced.

    Args:
        name: of the producer.
        partitions: number of partitions.
    """

    def __init__(self, name: str, partitions: int) -> None:
        self.name = name
        self.sent = [0] * partitions
        self._turn = 0

    def next(self) -> tuple[int, int]:
        """The partition and the number in it of the next record."""
        place = self._turn % len(self.sent)
        self._turn += 1
        self.sent[place] += 1
        return place, self.sent[place] - 1


class SourceProducer:
    """The common part of producers of both libraries.

    Args:
        wanted: the worker's arguments.
        settings: the library's, in addition to the common ones, and `window`: the
            number of records that may wait for their acknowledgement.
        source: of the records.
        journal: for the acknowledgements.
    """

    def __init__(
        self,
        wanted: dict[str, Any],
        settings: dict[str, Any],
        source: Source,
        journal: Journal,
    ) -> None:
        self._wanted = wanted
        self._settings = settings
        self._source = source
        self._journal = journal

    def tell(self) -> object:
        """Returns nothing: the journal has everything."""
        return self._source.name


class ConfluentProducer(SourceProducer):
    """One librdkafka producer."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._waiting = 0
        self._producer = Producer(
            {
                "bootstrap.servers": self._wanted["bootstrap"],
                "client.id": self._source.name,
                "enable.idempotence": True,
                "linger.ms": self._wanted["linger_ms"],
                "message.timeout.ms": PATIENCE_MS,
                "reconnect.backoff.ms": RETRY_MS,
                "reconnect.backoff.max.ms": RETRY_MS * 10,
                "retry.backoff.ms": RETRY_MS,
                "log_level": 0,
                **self._settings["librdkafka"],
            }
        )

    def _delivered(
        self, place: int, number: int, error: KafkaError | None, message: Message
    ) -> None:
        self._waiting -= 1
        name = self._source.name
        if error is not None:
            reason = str(error.code())
            self._journal.write("gave-up", name, place, number, reason)
            return
        offset = message.offset()
        known = -1 if offset is None or offset < 0 else offset
        self._journal.write("acked", name, place, number, known)

    def work(self) -> None:
        """Fills the window, and handles deliveries."""
        while self._waiting < self._settings["window"]:
            place, number = self._source.next()
            self._waiting += 1
            self._producer.produce(
                self._wanted["topic"],
                key=key_of(self._source.name, place),
                value=value_of(number),
                partition=place,
                on_delivery=partial(self._delivered, place, number),
            )
        self._producer.poll(POLL_S)
        time.sleep(PACE_S)

    def close(self) -> None:
        """Waits for every acknowledgement."""
        left = self._producer.flush(FLUSH_S)
        if left:
            raise TimeoutError(f"{self._source.name}: {left} records never answered")


class AiokafkaProducer(SourceProducer):
    """One AIOKafkaProducer, on a loop that runs only during our calls."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._waiting: dict[asyncio.Future[Any], tuple[int, int]] = {}
        self._loop = asyncio.Runner()
        self._producer = self._loop.run(self._start())

    async def _start(self) -> Any:
        while True:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._wanted["bootstrap"],
                client_id=self._source.name,
                enable_idempotence=True,
                linger_ms=self._wanted["linger_ms"],
                request_timeout_ms=PATIENCE_MS,
                retry_backoff_ms=RETRY_MS,
                **self._settings["aiokafka"],
            )
            try:
                await producer.start()
            except AiokafkaError:  # the broker is away
                await producer.stop()
                await asyncio.sleep(PACE_S)
            else:
                return producer

    async def _fill_and_wait(self) -> None:
        while len(self._waiting) < self._settings["window"]:
            place, number = self._source.next()
            sent = await self._producer.send(
                self._wanted["topic"],
                key=key_of(self._source.name, place),
                value=value_of(number),
                partition=place,
            )
            self._waiting[sent] = (place, number)
        await self._hear(POLL_S)
        await asyncio.sleep(PACE_S)

    async def _hear(self, limit_s: float) -> None:
        done, _ = await asyncio.wait(
            self._waiting, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
        )
        for each in done:
            place, number = self._waiting.pop(each)
            name = self._source.name
            error = each.exception()
            if error is not None:
                reason = type(error).__name__
                self._journal.write("gave-up", name, place, number, reason)
            else:
                self._journal.write("acked", name, place, number, each.result().offset)

    async def _finish(self) -> None:
        while self._waiting:
            before = len(self._waiting)
            await self._hear(FLUSH_S)
            if len(self._waiting) == before:
                raise TimeoutError(f"{self._source.name}: {before} never answered")
        await self._producer.stop()

    def work(self) -> None:
        """Fills the window, and handles deliveries."""
        self._loop.run(self._fill_and_wait())

    def close(self) -> None:
        """Waits for every acknowledgement."""
        self._loop.run(self._finish())
        self._loop.close()


def main() -> None:
    """Produces until the command `stop`."""
    wanted, journal = arguments()
    sources: list[Source] = []
    make: list[Callable[[], Client]] = []
    for settings in wanted["producers"]:
        source = Source(settings["name"], wanted["partitions"])
        sources.append(source)
        kind = ConfluentProducer if "librdkafka" in settings else AiokafkaProducer
        make.append(partial(kind, wanted, settings, source, journal))
    serve(make, lambda: {each.name: each.sent for each in sources})


if __name__ == "__main__":
    main()
