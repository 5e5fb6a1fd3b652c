"""A worker over confluent-kafka (librdkafka)."""

from __future__ import annotations

import logging
import re
import struct

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from tests.interop.workers.lines import (
    BATCH,
    POLL_S,
    PRODUCE_S,
    Join,
    Produce,
    Record,
    say,
    say_leads,
    say_owns,
    serve,
)
from tests.librdkafka import begin

_LEADS = re.compile(r"JoinGroup response: GenerationId (\d+), .*, LeaderId \S+ \(me\)")


class Elections(logging.Handler):
    """Reads the leader in librdkafka's log, which is the only source."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line of the log; called inside `consume`, like the callbacks."""
        found = _LEADS.search(record.getMessage())
        if found is not None:
            say_leads(int(found[1]))


def _elections() -> logging.Logger:
    logger = logging.getLogger("librdkafka")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(Elections())
    return logger


class ConfluentMember:
    """One librdkafka consumer; its callbacks run inside `consume` and `close`."""

    def __init__(self, wanted: Join) -> None:
        settings: dict[str, object] = {
            "bootstrap.servers": wanted.bootstrap,
            "group.id": wanted.group,
            "client.id": wanted.client,
            "auto.offset.reset": wanted.reset,
            "enable.auto.commit": wanted.is_auto,
            "partition.assignment.strategy": wanted.assignor,
            "session.timeout.ms": wanted.session_ms,
            "heartbeat.interval.ms": wanted.heartbeat_ms,
        }
        if not wanted.is_plain:
            settings |= {"debug": "cgrp", "logger": _elections()}
        if wanted.instance is not None:
            settings["group.instance.id"] = wanted.instance
        if wanted.poll_ms is not None:
            settings["max.poll.interval.ms"] = wanted.poll_ms
        if wanted.request_ms is not None:
            settings["socket.timeout.ms"] = wanted.request_ms
        self.topic = wanted.topic
        self.service = wanted.service
        self.is_plain = wanted.is_plain
        self.cooperative = wanted.assignor == "cooperative-sticky"
        self.held: set[int] = set()
        self.consumer = Consumer(settings)
        self.consumer.subscribe(
            [wanted.topic],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._lost,
        )

    # A cooperative rebalance lists only changes; an eager one lists everything, and
    # adding that to nothing gives the same.
    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if not self.is_plain:
            begin(consumer, partitions, is_cooperative=self.cooperative)
        self.held |= {each.partition for each in partitions}
        say_owns("assigned", self.held, self.generation())

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        offsets = self.service.due_at_release
        if offsets:
            self.commit(offsets)
        self.held -= {each.partition for each in partitions}
        say_owns("revoked", self.held, self.generation())

    def _lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.held -= {each.partition for each in partitions}
        say_owns("lost", self.held, self.generation())

    def poll(self) -> list[Record]:
        """Returns librdkafka's queued records; transient errors go to the history."""
        records: list[Record] = []
        for message in self.consumer.consume(BATCH, POLL_S):
            error = message.error()
            if error is None:
                records.append(_record(message))
            else:
                say("error" if error.fatal() else "note", text=str(error))
        return records

    def commit(self, offsets: dict[int, int]) -> str | None:
        """A synchronous commit."""
        wanted = [
            TopicPartition(self.topic, partition, offset)
            for partition, offset in offsets.items()
        ]
        try:
            done = self.consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            return str(error)
        wrong = [str(each.error) for each in done if each.error is not None]
        return wrong[0] if wrong else None

    def owns(self) -> list[int]:
        """From `assignment()`."""
        return [each.partition for each in self.consumer.assignment()]

    def generation(self) -> int | None:
        """From the serialised group metadata: `CGMDv2:`, then a native int32."""
        raw: bytes = self.consumer.consumer_group_metadata()
        (generation,) = struct.unpack_from("=i", raw, len(b"CGMDv2:"))
        return int(generation) if generation >= 0 else None

    def seek(self, partition: int, offset: int) -> None:
        """Goes on from an offset."""
        self.consumer.seek(TopicPartition(self.topic, partition, offset))

    def close(self) -> None:
        """Revokes, leaves, and waits for both."""
        self.consumer.close()


def _record(message: Message) -> Record:
    key, value = message.key() or b"", message.value()
    partition, offset = message.partition(), message.offset()
    assert isinstance(key, bytes)
    assert isinstance(value, bytes)
    assert partition is not None
    assert offset is not None
    return partition, offset, key.decode(), value.decode()


def produce(wanted: Produce) -> None:
    """Sends them idempotently, and waits for every acknowledgement."""
    wrong: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            wrong.append(error)

    settings: dict[str, object] = {
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
        say("error", text=f"{left} not acknowledged, {len(wrong)} refused: {wrong[:1]}")


if __name__ == "__main__":
    serve(ConfluentMember, produce)
