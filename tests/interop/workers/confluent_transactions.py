"""A transactional program over confluent-kafka (librdkafka)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from tests.interop.workers.lines import say
from tests.interop.workers.transacting import (
    BATCH,
    POLL_S,
    Row,
    Transform,
    Turns,
    say_ended,
    serve,
)
from tests.librdkafka import begin, row_of
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator


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


class Confluent:
    """One transactional producer for each member; the group's generation fences it."""

    def __init__(self, wanted: Transform) -> None:
        self.wanted = wanted
        self.turns = Turns(wanted.abort)
        self.batch: list[Message] = []
        self.producer = _producer(wanted.bootstrap, wanted.client)
        self.consumer = Consumer(
            {
                "bootstrap.servers": wanted.bootstrap,
                "group.id": wanted.group,
                "client.id": wanted.client,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "partition.assignment.strategy": "range",
                "session.timeout.ms": wanted.session_ms,
                "heartbeat.interval.ms": wanted.heartbeat_ms,
            }
        )
        self.consumer.subscribe(
            [wanted.topic], on_assign=self._assigned, on_revoke=self._revoked
        )

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        begin(consumer, partitions, is_cooperative=False)
        say("note", text=f"assigned {sorted(each.partition for each in partitions)}")

    def _revoked(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self.batch.clear()  # the next owner reads it again

    def step(self) -> None:
        """A transaction of the records of some polls."""
        while len(self.batch) < BATCH:
            message = self.consumer.poll(POLL_S)
            if message is None:
                break
            if (error := message.error()) is None:
                self.batch.append(message)
            else:
                say("note", text=str(error))
        if not self.batch:
            return
        try:
            self._transact()
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            say("note", text=f"aborts: {error}")
            self.producer.abort_transaction(PATIENCE_S)
            self._rewind()
        self.batch.clear()

    def _transact(self) -> None:
        rows = [row_of(message) for message in self.batch]
        aborts = self.turns.begin(
            [(p, o, k.decode(), v.decode()) for p, o, k, v in rows]
        )
        self.producer.begin_transaction()
        ends: dict[int, int] = {}
        for partition, offset, key, value in rows:
            self.producer.produce(self.wanted.out, key=key, value=value)
            ends[partition] = offset + 1
        if aborts:
            self.producer.flush(PATIENCE_S)
            self.producer.abort_transaction(PATIENCE_S)
            self._rewind()
        else:
            self.producer.send_offsets_to_transaction(
                [TopicPartition(self.wanted.topic, *each) for each in ends.items()],
                self.consumer.consumer_group_metadata(),
                PATIENCE_S,
            )
            self.producer.commit_transaction(PATIENCE_S)
        say_ended(is_commit=not aborts, records=len(self.batch))

    def _rewind(self) -> None:
        owned = self.consumer.assignment()
        for each in self.consumer.committed(owned, PATIENCE_S) if owned else []:
            place = TopicPartition(each.topic, each.partition, max(0, each.offset))
            self.consumer.seek(place)

    def close(self) -> None:
        """Leaves."""
        self.consumer.close()


def fence(bootstrap: str, out: str, transactional_id: str) -> str:
    """See transacting.py."""
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


def read(bootstrap: str, out: str, partitions: int) -> Iterator[list[Row]]:
    """See transacting.py."""
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
        rows: list[Row] = []
        for message in consumer.consume(100, POLL_S):
            assert message.error() is None, message.error()
            partition, offset, key, value = row_of(message)
            rows.append((partition, offset, key.decode(), value.decode()))
        yield rows


if __name__ == "__main__":
    serve(Confluent, fence, read)
