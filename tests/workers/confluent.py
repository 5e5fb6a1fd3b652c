"""The program of confluent-kafka (librdkafka)."""

from __future__ import annotations

import logging
import re
import struct
import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from tests.librdkafka import begin
from tests.patience import PATIENCE_S
from tests.workers.lines import (
    FLUSH_S,
    PACE_S,
    POLL_S,
    PRODUCE_S,
    RETRY_MS,
    Committer,
    Member,
    Produce,
    Record,
    Say,
    Stream,
    Words,
    ends_of,
    fencing,
    producing,
    reading,
    serve,
    text_of,
)

PATIENT = {
    "reconnect.backoff.ms": RETRY_MS,
    "reconnect.backoff.max.ms": RETRY_MS * 10,
    "log_level": 0,
}
PATIENCE_MS = 600_000
"""Time limit of a stream's record: far longer than any broker is away."""
_LEADS = re.compile(r"JoinGroup response: GenerationId (\d+), .*, LeaderId \S+ \(me\)")


class Elections(logging.Handler):
    """Reads the leader in librdkafka's log, which is the only source."""

    def __init__(self, say: Say) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        """One line of the log; called inside `consume`, like the callbacks."""
        found = _LEADS.search(record.getMessage())
        if found is not None:
            self._say("leads", generation=int(found[1]))


def _elections(say: Say) -> logging.Logger:
    logger = logging.getLogger("librdkafka")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.handlers = [Elections(say)]
    return logger


class ConfluentMember(Member):
    """One librdkafka consumer; its callbacks run inside `consume` and `close`.

    If it copies, the group's generation fences its producer.
    """

    def __init__(self, words: Words, say: Say) -> None:
        super().__init__(words, say)
        wanted = self.wanted
        if wanted.out:
            self.producer = _producer(wanted.bootstrap, wanted.client)
        self._is_cooperative = (
            wanted.is_consumer or wanted.assignor == "cooperative-sticky"
        )
        self.consumer = Consumer(self._settings())
        self.consumer.subscribe(
            [wanted.topic],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=lambda _, lost: self.released(_numbers(lost), "lost"),
        )

    def _settings(self) -> dict[str, Any]:
        wanted = self.wanted
        settings: dict[str, Any] = {
            "bootstrap.servers": wanted.bootstrap,
            "group.id": wanted.group,
            "client.id": wanted.client,
            "auto.offset.reset": wanted.reset,
            "enable.auto.commit": wanted.is_auto,
        }
        if wanted.is_consumer:
            settings |= {
                "group.protocol": "consumer",
                "group.remote.assignor": wanted.assignor,
            }
        else:
            settings |= {
                "partition.assignment.strategy": wanted.assignor,
                "session.timeout.ms": wanted.session_ms,
                "heartbeat.interval.ms": wanted.heartbeat_ms,
            }
        if wanted.is_patient:
            settings |= {**PATIENT, "fetch.error.backoff.ms": RETRY_MS}
        elif not wanted.is_plain:
            settings |= {"debug": "cgrp", "logger": _elections(self.say)}
        if wanted.out:
            settings["isolation.level"] = "read_committed"
        if wanted.instance is not None:
            settings["group.instance.id"] = wanted.instance
        if wanted.poll_ms is not None:
            settings["max.poll.interval.ms"] = wanted.poll_ms
        if wanted.request_ms is not None:
            settings["socket.timeout.ms"] = wanted.request_ms
        return settings

    # A cooperative rebalance lists only changes; an eager one lists everything, and
    # adding that to nothing gives the same.
    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if not self.wanted.is_plain:
            try:
                begin(consumer, partitions, is_cooperative=self._is_cooperative)
            except KafkaException:
                # If the broker is away, librdkafka looks it up when it is back.
                if not self.wanted.is_patient:
                    raise
        self.gained(_numbers(partitions))

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self.due_at_release:
            self.commit(self.due_at_release)
        self.released(_numbers(partitions))

    def poll(self) -> list[Record]:
        """Returns librdkafka's queued records; transient errors go to the history."""
        records: list[Record] = []
        for message in self.consumer.consume(self.wanted.batch, POLL_S):
            error = message.error()
            if error is None:
                records.append(_record(message))
            else:
                self.say("error" if error.fatal() else "note", text=str(error))
        if self.wanted.out:  # the next owner of a revoked partition reads it again
            return [each for each in records if each[0] in self.held]
        return records

    def commit(self, offsets: dict[int, int]) -> str | None:
        """A synchronous commit."""
        try:
            done = self.consumer.commit(
                offsets=self._places(offsets), asynchronous=False
            )
        except KafkaException as error:
            return str(error)
        wrong = [str(each.error) for each in done if each.error is not None]
        return wrong[0] if wrong else None

    def _places(self, offsets: dict[int, int]) -> list[TopicPartition]:
        return [TopicPartition(self.wanted.topic, *each) for each in offsets.items()]

    def transact(self, records: list[Record], *, aborts: bool) -> str | None:
        """See the base."""
        try:
            self._transact(records, aborts=aborts)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.producer.abort_transaction(PATIENCE_S)
            self._rewind()
            return str(error)
        return None

    def _transact(self, records: list[Record], *, aborts: bool) -> None:
        assert self.wanted.out is not None
        self.producer.begin_transaction()
        for _, _, key, value in records:
            self.producer.produce(self.wanted.out, key=key, value=value)
        if aborts:
            self.producer.flush(PATIENCE_S)
            self.producer.abort_transaction(PATIENCE_S)
            self._rewind()
            return
        self.producer.send_offsets_to_transaction(
            self._places(ends_of(records)),
            self.consumer.consumer_group_metadata(),
            PATIENCE_S,
        )
        self.producer.commit_transaction(PATIENCE_S)

    def _rewind(self) -> None:
        owned = self.consumer.assignment()
        for each in self.consumer.committed(owned, PATIENCE_S) if owned else []:
            place = TopicPartition(each.topic, each.partition, max(0, each.offset))
            self.consumer.seek(place)

    def owns(self) -> list[int]:
        """From `assignment()`."""
        return [*_numbers(self.consumer.assignment())]

    def identity(self) -> tuple[str, int | None]:
        """The generation from the serialised metadata: `CGMDv2:`, a native int32."""
        raw: bytes = self.consumer.consumer_group_metadata()
        (generation,) = struct.unpack_from("=i", raw, len(b"CGMDv2:"))
        return self.consumer.memberid() or "", generation if generation >= 0 else None

    def seek(self, partition: int, offset: int) -> None:
        """Goes on from an offset."""
        self.consumer.seek(TopicPartition(self.wanted.topic, partition, offset))

    def shut(self) -> None:
        """Revokes, leaves, and waits for both."""
        self.consumer.close()


def _numbers(partitions: Iterable[TopicPartition]) -> Iterator[int]:
    return (each.partition for each in partitions)


def _record(message: Message) -> Record:
    key, value = message.key() or b"", message.value()
    partition, offset = message.partition(), message.offset()
    assert isinstance(key, bytes)
    assert isinstance(value, bytes)
    assert partition is not None
    assert offset is not None
    return partition, offset, key.decode(), value.decode()


class ConfluentStream(Stream):
    """One librdkafka producer."""

    def __init__(self, wanted: Words, say: Say) -> None:
        super().__init__(wanted, say)
        self._waiting = 0
        self._producer = Producer(
            {
                "bootstrap.servers": wanted["bootstrap"],
                "client.id": wanted["client"],
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": PATIENCE_MS,
                "retry.backoff.ms": RETRY_MS,
                **PATIENT,
                **self.settings,
            }
        )

    def _delivered(
        self, place: int, number: int, error: KafkaError | None, message: Message
    ) -> None:
        self._waiting -= 1
        self.answered(
            place, number, message.offset(), str(error.code()) if error else ""
        )

    def step(self) -> None:
        """Fills the window, and handles deliveries."""
        while self._waiting < self.window:
            place, number, key, value = self.next()
            self._waiting += 1
            self._producer.produce(
                self.wanted["topic"],
                key=key,
                value=value,
                partition=place,
                on_delivery=partial(self._delivered, place, number),
            )
        self._producer.poll(POLL_S)
        time.sleep(PACE_S)  # limits the load

    def shut(self) -> None:
        """Waits for every acknowledgement."""
        left = self._producer.flush(FLUSH_S)
        if left:
            raise TimeoutError(f"{left} records never answered")


class ConfluentCommitter(Committer):
    """Uses librdkafka's synchronous commit."""

    def __init__(self, wanted: Words, say: Say) -> None:
        super().__init__(wanted, say)
        self._consumer = Consumer(
            {
                "bootstrap.servers": wanted["bootstrap"],
                "client.id": self.group,
                "group.id": self.group,
                "enable.auto.commit": False,
                **PATIENT,
            }
        )

    def commit(self, offsets: dict[int, int]) -> list[int]:
        """See the base."""
        topic = self.wanted["topic"]
        wanted = [
            TopicPartition(topic, place, offset, text_of(self.group, offset))
            for place, offset in offsets.items()
        ]
        try:
            done = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException:
            return []
        return [each.partition for each in done if each.error is None]

    def shut(self) -> None:
        """Closes the consumer."""
        self._consumer.close()


def produce(wanted: Produce) -> None:
    """Sends them idempotently, and waits for every acknowledgement."""
    wrong: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            wrong.append(error)

    settings: dict[str, Any] = {
        "bootstrap.servers": wanted.bootstrap,
        "client.id": "producer",
        "enable.idempotence": True,
        "linger.ms": 5,
    }
    if wanted.request_ms is not None:
        settings["request.timeout.ms"] = wanted.request_ms
        settings["delivery.timeout.ms"] = 4 * wanted.request_ms
        settings["socket.timeout.ms"] = wanted.request_ms
    producer = Producer(settings)
    for key, value in wanted.records():
        producer.produce(wanted.topic, key=key, value=value, on_delivery=delivered)
    left = producer.flush(PRODUCE_S)
    if wrong or left:
        raise RefusedError(
            f"{left} not acknowledged, {len(wrong)} refused: {wrong[:1]}"
        )


class RefusedError(Exception):
    """Records were not acknowledged."""


def _producer(bootstrap: str, transactional_id: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": transactional_id,
            "transactional.id": transactional_id,
        }
    )
    producer.init_transactions(PATIENCE_S)
    return producer


def fence(bootstrap: str, out: str, transactional_id: str) -> str:
    """See lines.py."""
    first = _producer(bootstrap, transactional_id)
    first.begin_transaction()
    first.produce(out, key="fenced", value="1")
    first.flush(PATIENCE_S)
    second = _producer(bootstrap, transactional_id)
    try:
        first.commit_transaction(PATIENCE_S)
    except KafkaException as error:
        wrong: KafkaError = error.args[0]
        assert wrong.fatal(), wrong
        text = f"{wrong.name()}: {wrong.str()}"
    else:
        text = ""
    second.begin_transaction()
    second.produce(out, key="fencing", value="2")
    second.commit_transaction(PATIENCE_S)
    return text


def read(bootstrap: str, out: str, partitions: int) -> Iterator[list[Record]]:
    """See lines.py."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(out, each, 0) for each in range(partitions)])
    while True:
        messages = consumer.consume(100, POLL_S)
        for message in messages:
            assert message.error() is None, message.error()
        yield [_record(message) for message in messages]


if __name__ == "__main__":
    serve(
        {
            "join": ConfluentMember,
            "stream": ConfluentStream,
            "commit": ConfluentCommitter,
        },
        {
            "produce": producing(produce),
            "fence": fencing(fence),
            "read": reading(read),
        },
    )
