"""Members of groups, of three libraries: they consume, commit, and journal both."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import (
    StickyPartitionAssignor,
)
from aiokafka.errors import IllegalStateError, NoOffsetForPartitionError
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka import ConsumerRebalanceListener as PythonListener
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor as PythonRange
from kafka.coordinator.assignors.roundrobin import (
    RoundRobinPartitionAssignor as PythonRoundRobin,
)
from kafka.errors import KafkaError as PythonError
from kafka.structs import OffsetAndMetadata
from tests.crash.journal import Journal, checksum
from tests.crash.workers.lines import PACE_S, POLL_S, Client, arguments, serve
from tests.librdkafka import begin, row_of

from kohort.client import Admin
from kohort.client.errors import KohortError

BATCH = 100
RETRY_MS = 20
HEARTBEAT_MS = 300
JOINING_MS = 3_000
"""Poll time of kafka-python without partitions: it forgets the response to a join that
comes between two polls, and joins again."""

Record = tuple[int, int, bytes, bytes]  # partition, offset, key, value


class Member(ABC):
    """The common part of members of all libraries.

    Args:
        wanted: the worker's arguments.
        settings: `group`, `client`, `assignor`, `session_ms`, `instance` or None.
        journal: for consumed records and acknowledged commits.
    """

    def __init__(
        self, wanted: dict[str, Any], settings: dict[str, Any], journal: Journal
    ) -> None:
        self.topic = wanted["topic"]
        self.bootstrap = wanted["bootstrap"]
        self.settings = settings
        self.held: set[int] = set()
        self._journal = journal
        # Consumed but uncommitted offsets. A refused commit is repeated, but never for
        # a partition that was taken away: its new owner may be further.
        self._pending: dict[int, int] = {}
        self._told: dict[str, Any] | None = None
        self._commits = 0

    @abstractmethod
    def _poll(self) -> Iterable[Record]: ...

    @abstractmethod
    def _commit(self, offsets: dict[int, int]) -> bool: ...

    @abstractmethod
    def identity(self) -> tuple[str, int]:
        """The library's member id and generation."""

    def python_settings(self, assignors: Mapping[str, type]) -> dict[str, Any]:
        """The arguments that aiokafka and kafka-python share."""
        return {
            "bootstrap_servers": self.bootstrap,
            "group_id": self.settings["group"],
            "client_id": self.settings["client"],
            "group_instance_id": self.settings["instance"],
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": self.settings["session_ms"],
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "retry_backoff_ms": RETRY_MS,
            "partition_assignment_strategy": [assignors[self.settings["assignor"]]],
        }

    def gained(self, partitions: Iterable[int]) -> None:
        """Called by the library's callback."""
        self.held = self.held | set(partitions)

    def gone(self, partitions: Iterable[int]) -> None:
        """Called by the library's callbacks, for revoked and lost partitions."""
        names = set(partitions)
        self.held = self.held - names
        for each in names:
            self._pending.pop(each, None)

    def work(self) -> None:
        """Polls, and commits the uncommitted offsets."""
        self._consume()
        member_id, generation = self.identity()
        self._told = {
            "member_id": member_id,
            "generation": generation,
            "partitions": sorted(self.held),
            "commits": self._commits,
        }

    def _consume(self) -> None:
        by_partition: dict[int, list[tuple[int, bytes, bytes]]] = {}
        for place, offset, key, value in self._poll():
            by_partition.setdefault(place, []).append((offset, key, value))
        group = self.settings["group"]
        for place, records in by_partition.items():
            first, last = records[0][0], records[-1][0]
            self._journal.write(
                "consumed", group, place, first, last, len(records), checksum(records)
            )
            if place in self.held:
                self._pending[place] = last + 1
        if not self._pending:
            return
        offsets = dict(self._pending)
        if not self._commit(offsets):
            return
        self._commits += 1
        for place, offset in offsets.items():
            self._journal.write("acked", group, place, offset)
            if self._pending.get(place) == offset:
                del self._pending[place]

    def tell(self) -> object:
        """Its id, generation, partitions and commits, after the last piece of work.

        Clients are not called from another thread: librdkafka's would wait for this
        one's call to end, kafka-python's must not be.
        """
        return self._told


class ConfluentMember(Member):
    """One librdkafka consumer; its callbacks run inside of `consume` and `close`."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.settings["group"],
            "client.id": self.settings["client"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": self.settings["assignor"],
            "session.timeout.ms": self.settings["session_ms"],
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "reconnect.backoff.ms": RETRY_MS,
            "reconnect.backoff.max.ms": RETRY_MS * 10,
            "fetch.error.backoff.ms": RETRY_MS,
            "log_level": 0,
        }
        if self.settings["instance"] is not None:
            settings["group.instance.id"] = self.settings["instance"]
        self._consumer = Consumer(settings)
        self._consumer.subscribe(
            [self.topic],
            on_assign=self._assigned,
            on_revoke=lambda _, got: self.gone(each.partition for each in got),
            on_lost=lambda _, got: self.gone(each.partition for each in got),
        )

    def _assigned(self, consumer: Consumer, got: list[TopicPartition]) -> None:
        is_cooperative = self.settings["assignor"] == "cooperative-sticky"
        # If the broker is down, librdkafka looks it up itself when it is back.
        with contextlib.suppress(KafkaException):
            begin(consumer, got, is_cooperative=is_cooperative)
        self.gained(each.partition for each in got)

    def _poll(self) -> Iterable[Record]:
        records: list[Record] = []
        for message in self._consumer.consume(BATCH, POLL_S):
            error = message.error()
            if error is not None:
                if error.fatal():
                    raise KafkaException(error)
                continue  # the broker is away
            records.append(row_of(message))
        return records

    def _commit(self, offsets: dict[int, int]) -> bool:
        wanted = [
            TopicPartition(self.topic, place, offset)
            for place, offset in offsets.items()
        ]
        try:
            done = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException:
            return False
        return all(each.error is None for each in done)

    def identity(self) -> tuple[str, int]:
        """The generation from the group metadata: `CGMDv2:`, a native int32."""
        raw: bytes = self._consumer.consumer_group_metadata()
        (generation,) = struct.unpack_from("=i", raw, len(b"CGMDv2:"))
        return self._consumer.memberid() or "", generation

    def close(self) -> None:
        """Leaves, unless it is static."""
        self._consumer.close()


class _Listener:
    """Passes partitions to a member, as the listener of both Python libraries."""

    def __init__(self, member: Member) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._member.gained(each.partition for each in assigned)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._member.gone(each.partition for each in revoked)

    on_partitions_lost = on_partitions_revoked


def _rows_of(polled: dict[Any, Any]) -> list[Record]:
    """The result of a poll in both Python libraries."""
    return [
        (each.partition, each.offset, each.key, each.value)
        for records in polled.values()
        for each in records
    ]


class _AiokafkaListener(_Listener, ConsumerRebalanceListener):  # type: ignore[misc]  # no types
    """The rebalance listener for aiokafka."""


class _PythonListener(_Listener, PythonListener):  # type: ignore[misc]  # no types
    """The rebalance listener for kafka-python."""


class AiokafkaMember(Member):
    """One AIOKafkaConsumer, on a loop that runs only during our calls.

    Works around two defects of aiokafka that set a group back: it takes a refused
    OffsetFetch for "nothing is committed", and repeats a refused commit even after the
    partition was taken away.
    """

    ASSIGNORS = {  # noqa: RUF012 - constant
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._committing: asyncio.Task[object] | None = None
        self._loop = asyncio.Runner()
        self._consumer = self._loop.run(self._start())

    async def _start(self) -> Any:
        settings = self.python_settings(self.ASSIGNORS)
        while True:
            consumer = AIOKafkaConsumer(**{**settings, "auto_offset_reset": "none"})
            consumer.subscribe([self.topic], listener=_AiokafkaListener(self))
            try:
                await consumer.start()
            except AiokafkaError:  # the broker is away
                await consumer.stop()
                await asyncio.sleep(PACE_S)
            else:
                return consumer

    def _poll(self) -> Iterable[Record]:
        wanted = self._consumer.getmany(
            timeout_ms=int(POLL_S * 1000), max_records=BATCH
        )
        try:
            return _rows_of(self._loop.run(wanted))
        except NoOffsetForPartitionError:
            self._loop.run(self._begin())
            return ()

    async def _begin(self) -> None:
        """Starts to read partitions that really have no commit."""
        group = self.settings["group"]
        try:
            async with Admin(bootstrap_servers=self.bootstrap) as admin:
                known = (await admin.list_consumer_group_offsets({group: None}))[group]
        except KohortError:  # the broker is away; the next poll asks again
            return
        for each in self._consumer.assignment():
            if (each.topic, each.partition) not in known:
                self._consumer.seek(each, 0)

    def _commit(self, offsets: dict[int, int]) -> bool:
        wanted = {
            AiokafkaPartition(self.topic, place): offset
            for place, offset in offsets.items()
        }

        async def commit() -> None:
            self._committing = asyncio.create_task(self._consumer.commit(wanted))
            await asyncio.wait({self._committing})

        self._loop.run(commit())
        assert self._committing is not None
        try:
            self._committing.result()
        except (asyncio.CancelledError, AiokafkaError, IllegalStateError):
            return False  # refused, or revoked meanwhile
        return True

    def gone(self, partitions: Iterable[int]) -> None:
        """Called by the library's callbacks, for revoked and lost partitions."""
        super().gone(partitions)
        if self._committing is not None:
            self._committing.cancel()

    def identity(self) -> tuple[str, int]:
        """From the coordinator's fields: aiokafka has no public method."""
        coordinator = self._consumer._coordinator  # noqa: SLF001 - see the docstring
        return coordinator.member_id, coordinator.generation

    def close(self) -> None:
        """Leaves, unless it is static."""
        self._loop.run(self._consumer.stop())
        self._loop.close()


class PythonMember(Member):
    """One KafkaConsumer of kafka-python."""

    ASSIGNORS = {"range": PythonRange, "roundrobin": PythonRoundRobin}  # noqa: RUF012 - constant

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._consumer = self._connected()

    def _connected(self) -> Any:
        while True:
            try:
                consumer = KafkaConsumer(
                    reconnect_backoff_ms=RETRY_MS,
                    reconnect_backoff_max_ms=RETRY_MS * 10,
                    **self.python_settings(self.ASSIGNORS),
                )
            except PythonError:  # the broker is away
                time.sleep(PACE_S)
                continue
            try:
                consumer.subscribe([self.topic], listener=_PythonListener(self))
                # Loads the topics now, before it joins. Otherwise it may have to join
                # again, and forgets to if it leads and a poll ends during its
                # SyncGroup.
                consumer.topics()
            except PythonError:
                consumer.close(autocommit=False)
                time.sleep(PACE_S)
            else:
                return consumer

    def _poll(self) -> Iterable[Record]:
        timeout_ms = int(POLL_S * 1000) if self.held else JOINING_MS
        try:
            got = self._consumer.poll(timeout_ms=timeout_ms, max_records=BATCH)
        except PythonError:  # the broker is away
            return []
        return _rows_of(got)

    def _commit(self, offsets: dict[int, int]) -> bool:
        wanted = {
            PythonPartition(self.topic, place): OffsetAndMetadata(offset, "", -1)
            for place, offset in offsets.items()
        }
        try:
            self._consumer.commit(wanted)
        except PythonError:
            return False
        return True

    def identity(self) -> tuple[str, int]:
        """From `group_metadata()`."""
        metadata = self._consumer.group_metadata()
        return metadata.member_id, metadata.generation_id

    def close(self) -> None:
        """Leaves, unless it is static."""
        self._consumer.close()


KINDS: dict[str, type[ConfluentMember | AiokafkaMember | PythonMember]] = {
    "confluent": ConfluentMember,
    "aiokafka": AiokafkaMember,
    "kafka-python": PythonMember,
}


def main() -> None:
    """Consumes until the command `stop`."""
    wanted, journal = arguments()
    make: list[Callable[[], Client]] = [
        partial(KINDS[settings["library"]], wanted, settings, journal)
        for settings in wanted["members"]
    ]
    serve(make, dict)


if __name__ == "__main__":
    main()
