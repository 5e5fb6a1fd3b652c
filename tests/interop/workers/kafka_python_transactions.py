"""A transactional program over kafka-python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError, ProducerFencedError
from kafka.structs import OffsetAndMetadata
from tests.interop.workers.kafka_python import JOINING_MS
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
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator


def _producer(bootstrap: str, transactional_id: str) -> KafkaProducer:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        client_id=transactional_id,
        transactional_id=transactional_id,
    )
    producer.init_transactions()
    return producer


class KafkaPython:
    """One transactional producer for each member; the group's generation fences it."""

    def __init__(self, wanted: Transform) -> None:
        self.wanted = wanted
        self.turns = Turns(wanted.abort)
        self.producer = _producer(wanted.bootstrap, wanted.client)
        self.consumer = KafkaConsumer(
            partition_assignment_strategy=[RangePartitionAssignor], **wanted.settings()
        )
        self.consumer.subscribe([wanted.topic])
        self.consumer.topics()  # see workers/kafka_python.py

    def step(self) -> None:
        """A transaction of the records of one poll."""
        timeout_ms = int(POLL_S * 1000) if self.consumer.assignment() else JOINING_MS
        polled = self.consumer.poll(timeout_ms=timeout_ms, max_records=BATCH)
        if not polled:
            return
        try:
            self._transact(polled)
        except ProducerFencedError:
            raise
        except KafkaError as error:
            say("note", text=f"aborts: {error!r}")
            self.producer.abort_transaction()
            self._rewind()

    def _transact(self, polled: dict[TopicPartition, list]) -> None:  # type: ignore[type-arg]  # kafka-python has no types
        records = [record for each in polled.values() for record in each]
        aborts = self.turns.begin(rows_of(records))
        self.producer.begin_transaction()
        for record in records:
            self.producer.send(self.wanted.out, key=record.key, value=record.value)
        if aborts:
            self.producer.flush(PATIENCE_S)
            self.producer.abort_transaction()
            self._rewind()
        else:
            ends = {
                place: OffsetAndMetadata(each[-1].offset + 1, "", -1)
                for place, each in polled.items()
            }
            self.producer.send_offsets_to_transaction(
                ends, self.consumer.group_metadata()
            )
            self.producer.commit_transaction()
        say_ended(is_commit=not aborts, records=len(records))

    def _rewind(self) -> None:
        for place in self.consumer.assignment():
            self.consumer.seek(place, self.consumer.committed(place) or 0)

    def close(self) -> None:
        """Leaves."""
        self.consumer.close()
        self.producer.close()


def fence(bootstrap: str, out: str, transactional_id: str) -> str:
    """See transacting.py."""
    first = _producer(bootstrap, transactional_id)
    first.begin_transaction()
    first.send(out, key=b"fenced", value=b"1")
    first.flush(PATIENCE_S)
    second = _producer(bootstrap, transactional_id)
    try:
        first.commit_transaction()
    except KafkaError as error:
        text = repr(error)
    else:
        text = ""
    second.begin_transaction()
    second.send(out, key=b"fencing", value=b"2")
    second.commit_transaction()
    second.close()
    return text


def read(bootstrap: str, out: str, partitions: int) -> Iterator[list[Row]]:
    """See transacting.py."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed"
    )
    places = [TopicPartition(out, each) for each in range(partitions)]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    while True:
        polled = consumer.poll(timeout_ms=int(POLL_S * 1000))
        yield rows_of(record for each in polled.values() for record in each)


if __name__ == "__main__":
    serve(KafkaPython, fence, read)
