"""The program of kafka-python."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from kafka import (
    AsyncConsumerRebalanceListener,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
)
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError, ProducerFencedError
from kafka.structs import OffsetAndMetadata
from tests.patience import PATIENCE_S
from tests.workers.lines import (
    PACE_S,
    POLL_S,
    PRODUCE_S,
    RETRY_MS,
    Committer,
    Member,
    Produce,
    Record,
    Say,
    Words,
    ends_of,
    fencing,
    producing,
    reading,
    rows_of,
    serve,
    text_of,
)

# kafka-python 3.0 forgets a response to JoinGroup or SyncGroup that comes between two
# polls, and joins again; if that is the leader, all members have to. So a member
# without partitions polls for long enough to have its responses within one poll.
JOINING_MS = 3_000
# As in its documentation: `consumer.poll(timeout_ms=1000)`.
PLAIN_MS = 1_000
PATIENT = {
    "reconnect_backoff_ms": RETRY_MS,
    "reconnect_backoff_max_ms": RETRY_MS * 10,
}
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class KafkaPythonMember(Member, AsyncConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """One KafkaConsumer, and the listener of its rebalances.

    If it copies, the group's generation fences its producer.
    """

    more: Mapping[str, object] = MappingProxyType({})
    """Further settings of the consumer."""

    def __init__(self, words: Words, say: Say) -> None:
        super().__init__(words, say)
        wanted = self.wanted
        if wanted.out:
            self.producer = _producer(wanted.bootstrap, wanted.client)
        settings = {**wanted.settings(ASSIGNORS[wanted.assignor]), **self.more}
        if wanted.poll_ms is not None:
            settings["max_poll_interval_ms"] = wanted.poll_ms
        if wanted.is_patient:
            settings |= PATIENT
        while True:
            try:
                self._begin(settings)
            except KafkaError:
                if not wanted.is_patient:
                    raise
                time.sleep(PACE_S)  # the broker is away
            else:
                return

    def _begin(self, settings: dict[str, Any]) -> None:
        self.consumer = KafkaConsumer(**settings)
        self.consumer.subscribe([self.wanted.topic], listener=self)
        # Loads the topics now, before it joins. Otherwise it may have to join again,
        # and forgets to if it leads and a poll ends during its SyncGroup.
        if not self.wanted.is_plain:
            try:
                self.consumer.topics()
            except KafkaError:
                self.consumer.close(autocommit=False)
                raise

    # A cooperative rebalance lists only changes, an eager one everything.
    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """The library's callback."""
        self.gained(each.partition for each in assigned)

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """The library's callback: a commit that blocks would not return."""
        if self.due_at_release:
            offsets = _commits(self.wanted.topic, self.due_at_release)
            with contextlib.suppress(KafkaError):
                await self.consumer.commit_async(offsets)
        self.released(each.partition for each in revoked)

    async def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        """The library's callback."""
        self.released((each.partition for each in lost), "lost")

    def poll(self) -> list[Record]:
        """One `poll`."""
        timeout_ms = int(POLL_S * 1000)
        if self.wanted.is_plain:
            timeout_ms = PLAIN_MS
        elif not self.held:
            timeout_ms = JOINING_MS
        try:
            return rows_of(
                self.consumer.poll(timeout_ms=timeout_ms, max_records=self.wanted.batch)
            )
        except KafkaError:
            if not self.wanted.is_patient:
                raise
            return []  # the broker is away

    def commit(self, offsets: dict[int, int]) -> str | None:
        """A synchronous commit."""
        try:
            self.consumer.commit(_commits(self.wanted.topic, offsets))
        except KafkaError as error:
            return repr(error)
        return None

    def transact(self, records: list[Record], *, aborts: bool) -> str | None:
        """See the base."""
        try:
            self._transact(records, aborts=aborts)
        except ProducerFencedError:
            raise
        except KafkaError as error:
            self.producer.abort_transaction()
            self._rewind()
            return repr(error)
        return None

    def _transact(self, records: list[Record], *, aborts: bool) -> None:
        self.producer.begin_transaction()
        for _, _, key, value in records:
            self.producer.send(self.wanted.out, key=key.encode(), value=value.encode())
        if aborts:
            self.producer.flush(PATIENCE_S)
            self.producer.abort_transaction()
            self._rewind()
            return
        self.producer.send_offsets_to_transaction(
            _commits(self.wanted.topic, ends_of(records)),
            self.consumer.group_metadata(),
        )
        self.producer.commit_transaction()

    def _rewind(self) -> None:
        for place in self.consumer.assignment():
            self.consumer.seek(place, self.consumer.committed(place) or 0)

    def owns(self) -> list[int]:
        """From `assignment()`."""
        return [each.partition for each in self.consumer.assignment()]

    def identity(self) -> tuple[str, int | None]:
        """From `group_metadata()`."""
        found = self.consumer.group_metadata()
        generation: int = found.generation_id
        return found.member_id, generation if generation >= 0 else None

    def seek(self, partition: int, offset: int) -> None:
        """Goes on from an offset."""
        self.consumer.seek(TopicPartition(self.wanted.topic, partition), offset)

    def shut(self) -> None:
        """Leaves the group."""
        self.consumer.close()
        if self.wanted.out:
            self.producer.close()


def _commits(
    topic: str, offsets: dict[int, int], group: str = ""
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The arguments of a commit; a group's commits have its texts."""
    return {
        TopicPartition(topic, place): OffsetAndMetadata(
            offset, text_of(group, offset) if group else "", -1
        )
        for place, offset in offsets.items()
    }


class KafkaPythonCommitter(Committer):
    """Uses kafka-python's synchronous commit."""

    def __init__(self, wanted: Words, say: Say) -> None:
        super().__init__(wanted, say)
        self._consumer = self._connected()
        self._consumer.assign([TopicPartition(wanted["topic"], 0)])

    def _connected(self) -> KafkaConsumer:
        while True:
            try:
                return KafkaConsumer(
                    bootstrap_servers=self.wanted["bootstrap"],
                    client_id=self.group,
                    group_id=self.group,
                    enable_auto_commit=False,
                    retry_backoff_ms=RETRY_MS,
                    **PATIENT,
                )
            except KafkaError:  # the broker is away
                time.sleep(PACE_S)

    def commit(self, offsets: dict[int, int]) -> list[int]:
        """See the base."""
        try:
            self._consumer.commit(_commits(self.wanted["topic"], offsets, self.group))
        except KafkaError:
            return []
        return list(offsets)

    def shut(self) -> None:
        """Closes the consumer."""
        self._consumer.close()


def produce(wanted: Produce) -> None:
    """Sends them, and waits for every acknowledgement."""
    producer = KafkaProducer(
        bootstrap_servers=wanted.bootstrap,
        client_id="producer",
        request_timeout_ms=wanted.request_ms or 30_000,
    )
    sent = [
        producer.send(wanted.topic, key=key, value=value)
        for key, value in wanted.records()
    ]
    for each in sent:
        each.get(timeout=PRODUCE_S)
    producer.close()


def _producer(bootstrap: str, transactional_id: str) -> KafkaProducer:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        client_id=transactional_id,
        transactional_id=transactional_id,
    )
    producer.init_transactions()
    return producer


def fence(bootstrap: str, out: str, transactional_id: str) -> str:
    """See lines.py."""
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


def read(bootstrap: str, out: str, partitions: int) -> Iterator[list[Record]]:
    """See lines.py."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed"
    )
    places = [TopicPartition(out, each) for each in range(partitions)]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    while True:
        yield rows_of(consumer.poll(timeout_ms=int(POLL_S * 1000)))


if __name__ == "__main__":
    serve(
        {"join": KafkaPythonMember, "commit": KafkaPythonCommitter},
        {
            "produce": producing(produce),
            "fence": fencing(fence),
            "read": reading(read),
        },
    )
