"""A pod: one consumer of a group, in a separate process, that works at a given speed.

    python -m bench.afternoon.pod LIBRARY BOOTSTRAP GROUP NAME ASSIGNOR SESSION_MS \
        HEARTBEAT_MS SPEED

It reads a batch, takes its time over it, and commits processed records once a second.
SIGTERM: it finishes its batch, commits and leaves. Exit codes: 0 then; 75 where the
group is full; 1 for another error.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol

BATCH: Final = 10
COMMIT_S: Final = 1.0
POLL_S: Final = 0.3
GROUP_IS_FULL: Final = 75
"""EX_TEMPFAIL of sysexits.h."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Settings of a pod."""

    bootstrap: str
    group: str
    name: str
    assignor: str
    session_ms: int
    heartbeat_ms: int
    speed: int


class GroupIsFullError(Exception):
    """The group has no room (KIP-389)."""


class CommitError(Exception):
    """A commit was refused; a rebalance may always come between."""


class Consumer(Protocol):
    """A consumer of some library."""

    def poll(self) -> list[tuple[int, int]]:
        """Partitions and offsets of up to BATCH records."""

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commits by partition, and waits for the answer.

        Raises:
            CommitError: it was refused.
        """

    def close(self) -> None:
        """Leaves the group."""


class Librdkafka:
    """confluent-kafka."""

    def __init__(self, wanted: Wanted) -> None:
        import confluent_kafka

        self._library = confluent_kafka
        self._topic = wanted.group
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": wanted.bootstrap,
                "group.id": wanted.group,
                "client.id": wanted.name,
                "partition.assignment.strategy": wanted.assignor,
                "session.timeout.ms": wanted.session_ms,
                "heartbeat.interval.ms": wanted.heartbeat_ms,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([wanted.group])

    def poll(self) -> list[tuple[int, int]]:
        """As above."""
        found = []
        for message in self._consumer.consume(BATCH, POLL_S):
            error = message.error()
            if error is None:
                found.append((message.partition() or 0, message.offset() or 0))
            elif error.name() == "GROUP_MAX_SIZE_REACHED":
                raise GroupIsFullError
        return found

    def commit(self, offsets: Mapping[int, int]) -> None:
        """As above."""
        place = self._library.TopicPartition
        wanted = [place(self._topic, *each) for each in offsets.items()]
        try:
            self._consumer.commit(offsets=wanted, asynchronous=False)
        except self._library.KafkaException as error:
            raise CommitError(str(error)) from error

    def close(self) -> None:
        """As above."""
        self._consumer.close()


def _polled(runner: asyncio.Runner, consumer: Any) -> list[tuple[int, int]]:
    """Partitions and offsets that a consumer of asyncio has."""
    found = runner.run(
        consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=BATCH)
    )
    return [(each.partition, each.offset) for some in found.values() for each in some]


class Aiokafka:
    """aiokafka, on a loop that runs while a call of ours does."""

    def __init__(self, wanted: Wanted) -> None:
        self._topic = wanted.group
        self._runner = asyncio.Runner()
        self._runner.run(self._start(wanted))

    async def _start(self, wanted: Wanted) -> None:
        import aiokafka
        from aiokafka.coordinator.assignors.roundrobin import (
            RoundRobinPartitionAssignor,
        )

        self._library = aiokafka
        if wanted.assignor != "roundrobin":
            raise ValueError(f"{wanted.assignor}: aiokafka pods have roundrobin only")
        self._consumer = aiokafka.AIOKafkaConsumer(
            wanted.group,
            bootstrap_servers=wanted.bootstrap,
            group_id=wanted.group,
            client_id=wanted.name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=wanted.session_ms,
            heartbeat_interval_ms=wanted.heartbeat_ms,
            partition_assignment_strategy=[RoundRobinPartitionAssignor],
        )
        try:
            await self._consumer.start()
        except aiokafka.errors.KafkaError as error:
            raise _translated(error) from error

    def poll(self) -> list[tuple[int, int]]:
        """As above."""
        try:
            return _polled(self._runner, self._consumer)
        except self._library.errors.KafkaError as error:
            raise _translated(error) from error

    def commit(self, offsets: Mapping[int, int]) -> None:
        """As above."""
        place = self._library.TopicPartition
        wanted = {place(self._topic, each): offsets[each] for each in offsets}
        # It would refuse all by itself for one that it does not have any more.
        held = self._consumer.assignment()
        wanted = {each: wanted[each] for each in wanted if each in held}
        try:
            self._runner.run(self._consumer.commit(wanted))
        except self._library.errors.KafkaError as error:
            raise CommitError(str(error)) from error

    def work(self, seconds: float) -> None:
        """Takes time, while heartbeats continue."""
        self._runner.run(asyncio.sleep(seconds))

    def close(self) -> None:
        """As above."""
        self._runner.run(self._consumer.stop())
        self._runner.close()


def _translated(error: Exception) -> Exception:
    """Error 81, which aiokafka 0.14 does not know: an unknown error to it."""
    return GroupIsFullError() if "UnknownError" in repr(error) else error


class Kohort:
    """kohort's own, on a loop that runs while a call of ours does."""

    def __init__(self, wanted: Wanted) -> None:
        self._topic = wanted.group
        self._runner = asyncio.Runner()
        self._runner.run(self._start(wanted))

    async def _start(self, wanted: Wanted) -> None:
        import kohort.client

        self._library = kohort.client
        self._consumer = kohort.client.Consumer(
            wanted.group,
            bootstrap_servers=wanted.bootstrap,
            group_id=wanted.group,
            client_id=wanted.name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=wanted.session_ms,
            heartbeat_interval_ms=wanted.heartbeat_ms,
            partition_assignment_strategy=[wanted.assignor],
        )
        await self._consumer.start()

    def poll(self) -> list[tuple[int, int]]:
        """As above."""
        try:
            return _polled(self._runner, self._consumer)
        except self._library.GroupMaxSizeReachedError as error:
            raise GroupIsFullError from error

    def commit(self, offsets: Mapping[int, int]) -> None:
        """As above."""
        place = self._library.TopicPartition
        wanted = {place(self._topic, each): offsets[each] for each in offsets}
        try:
            self._runner.run(self._consumer.commit(wanted))
        except self._library.KohortError as error:
            raise CommitError(str(error)) from error

    def work(self, seconds: float) -> None:
        """Takes time, while heartbeats continue."""
        self._runner.run(asyncio.sleep(seconds))

    def close(self) -> None:
        """As above."""
        self._runner.run(self._consumer.close())
        self._runner.close()


LIBRARIES: Final[Mapping[str, Callable[[Wanted], Any]]] = MappingProxyType(
    {"librdkafka": Librdkafka, "aiokafka": Aiokafka, "kohort": Kohort}
)


class Pod:
    """Reads, works and commits until SIGTERM."""

    def __init__(self, library: str, wanted: Wanted) -> None:
        self._speed = wanted.speed
        self._done: dict[int, int] = {}
        self._is_stopping = False
        signal.signal(signal.SIGTERM, self._stop)
        self._consumer: Consumer = LIBRARIES[library](wanted)
        self._work: Callable[[float], None]
        self._work = getattr(self._consumer, "work", time.sleep)

    def _stop(self, _number: int, _frame: object) -> None:
        self._is_stopping = True

    def run(self) -> None:
        """Returns after SIGTERM."""
        committed_at = time.monotonic()
        while not self._is_stopping:
            found = self._consumer.poll()
            self._work(len(found) / self._speed)
            for partition, offset in found:
                self._done[partition] = offset + 1
            if time.monotonic() - committed_at >= COMMIT_S:
                self._commit()
                committed_at = time.monotonic()
        self._commit()
        self._consumer.close()

    def _commit(self) -> None:
        """Commits; the new owner of a refused partition processes its records again."""
        done, self._done = self._done, {}
        if done:
            try:
                self._consumer.commit(done)
            except CommitError as error:
                print(f"commit refused: {error}", file=sys.stderr, flush=True)


def main() -> int:
    """Runs one; its exit code."""
    library, bootstrap, group, name, assignor, *numbers = sys.argv[1:]
    session_ms, heartbeat_ms, speed = map(int, numbers)
    wanted = Wanted(bootstrap, group, name, assignor, session_ms, heartbeat_ms, speed)
    try:
        Pod(library, wanted).run()
    except GroupIsFullError:
        return GROUP_IS_FULL
    return 0


if __name__ == "__main__":
    sys.exit(main())
