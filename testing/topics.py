"""Topics of a test: made with records, and read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import TYPE_CHECKING, Final

from kohort.broker.config import parse_topic
from kohort.broker.config_values import to_text
from kohort.broker.log.aborted import is_aborted
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import (
    Record as WireRecord,
)
from kohort.protocol.records import build_batch, read_header, read_records
from kohort.testing.waiting import Handle

if TYPE_CHECKING:
    from kohort.broker.log.ended_transactions import AbortedTransaction
    from kohort.broker.server import Broker
    from kohort.broker.topics.topic import Topic as BrokerTopic
    from kohort.testing.thread import BrokerThread

Value = str | bytes | None
Records = int | Iterable[Value | tuple[Value, Value]]
"""Records to write: a number of them, values, or (key, value) pairs."""

IN_A_BATCH: Final = 1000
"""Records of a batch: some 30 KB of them, far below ``message.max.bytes``."""


class TopicError(ValueError):
    """A topic is missing, exists, or cannot be made."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a topic.

    Attributes:
        topic: the topic's name.
        partition: the partition's index.
        offset: its offset there.
        key: the key in bytes; None for null.
        value: the value in bytes; None for null.
        headers: (name, value) pairs.
        timestamp_ms: ms since the epoch; -1 for none.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp_ms: int


class Topic(Handle):
    """A topic of the broker.

    Nothing has to be awaited here; ``await kohort.topic(...)`` works as well.

    Attributes:
        name: its name.
    """

    def __init__(self, thread: BrokerThread, name: str) -> None:
        self.name = name
        self._thread = thread

    def __repr__(self) -> str:
        """As it is made."""
        return f"Topic({self.name!r})"

    def produce(self, records: Records) -> None:
        """Appends records; when it returns, consumers can fetch them.

        A record with a key goes to the partition that Kafka's default partitioner
        gives it; others go round robin, from partition 0 on in each call.

        Args:
            records: a number N stands for the values "0" to "N-1"; otherwise values,
                or (key, value) pairs, each a str, bytes or None.

        Raises:
            TopicError: the topic refuses a record.
        """
        rows = [_row(each) for each in _values(records)]
        self._thread.call(_append, self._thread.broker, self.name, rows)

    def records(self, *, committed: bool = False) -> list[Record]:
        """All records, by partition and offset, without the markers of transactions.

        Args:
            committed: True for those that a ``read_committed`` consumer gets: no
                records of aborted transactions, and none from the first open one on.
        """
        broker = self._thread.broker
        batches = self._thread.call(_batches, broker, self.name, committed)
        return [
            Record(
                self.name,
                partition,
                record.offset,
                record.key,
                record.value,
                record.headers,
                record.timestamp_ms,
            )
            for partition, batch in batches
            if not read_header(batch).is_control
            for record in read_records(batch)
        ]


def create(
    thread: BrokerThread,
    name: str,
    partitions: int | None,
    config: Mapping[str, object] | None,
) -> Topic:
    """Creates a topic.

    Raises:
        TopicError: its name is illegal or taken.
        ConfigError: an unknown key of topics, or an invalid value.
    """
    texts = {key: to_text(value) or "" for key, value in (config or {}).items()}
    for key, text in texts.items():
        parse_topic(key, text)

    def work() -> None:
        cluster = thread.broker.cluster
        if name in cluster.topics.by_name:
            raise TopicError(f"topic {name!r} already exists")
        why = cluster.topics.why_illegal(name)
        if why is not None:
            raise TopicError(why)
        number, factor, _ = cluster.automatic(name)
        cluster.create_topic(name, partitions or number, factor, texts)

    thread.call(work)
    return Topic(thread, name)


def existing(broker: Broker, name: str) -> BrokerTopic:
    """A topic of the broker.

    Raises:
        TopicError: it does not exist; lists those that do.
    """
    found = broker.cluster.topics.by_name.get(name)
    if found is None:
        some = ", ".join(sorted(broker.cluster.topics.by_name))
        there_are = f"the topics are: {some}" if some else "there are no topics yet"
        raise TopicError(f"there is no topic {name!r}; {there_are}")
    return found


def _values(records: Records) -> Iterable[Value | tuple[Value, Value]]:
    if isinstance(records, int):
        return map(str, range(records))
    if isinstance(records, str | bytes):
        raise TypeError("records: must be a number, or values in a list")
    return records


def _row(each: Value | tuple[Value, Value]) -> tuple[bytes | None, bytes | None]:
    key, value = each if isinstance(each, tuple) else (None, each)
    return _bytes(key), _bytes(value)


def _bytes(value: Value) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _append(
    broker: Broker, name: str, rows: Sequence[tuple[bytes | None, bytes | None]]
) -> None:
    topic = existing(broker, name)
    now_ms = broker.cluster.now_ms()
    number = len(topic.partitions)
    turns = count()
    by_partition: dict[int, list[WireRecord]] = {}
    for key, value in rows:
        index = next(turns) % number if key is None else _partition_of(key, number)
        record = WireRecord(0, now_ms, key, value, ())
        by_partition.setdefault(index, []).append(record)
    for index, records in by_partition.items():
        left = iter(records)
        while some := list(islice(left, IN_A_BATCH)):
            batch = build_batch(some)
            result = topic.partitions[index].append(batch, now_ms=now_ms)
            if result.error_code:
                error = ErrorCode(result.error_code).name
                raise TopicError(f"{name}-{index}: {error}: {result.reason}")


def _partition_of(key: bytes, number: int) -> int:
    # The client takes half as long to load as the rest of a test's broker.
    from kohort.client.producing.partitioners import partition_for_key

    return partition_for_key(key, number)


def _batches(broker: Broker, name: str, committed: bool) -> list[tuple[int, bytes]]:
    found = []
    for index, partition in enumerate(existing(broker, name).partitions):
        start, end = partition.log_start_offset, partition.log_end_offset
        aborted: Sequence[AbortedTransaction] = ()
        if committed:
            end = partition.last_stable_offset
            aborted = partition.store.aborted(start, end)
        for batch in partition.batches(start):
            header = read_header(batch)
            if header.base_offset < end and not is_aborted(header, aborted):
                found.append((index, batch))
    return found
