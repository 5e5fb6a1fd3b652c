"""A worker over kafka-python."""

from __future__ import annotations

from kafka import (
    ConsumerRebalanceListener,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
)
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata
from tests.interop.workers.lines import (
    BATCH,
    POLL_S,
    PRODUCE_S,
    Join,
    Produce,
    Record,
    say_owns,
    serve,
)

# kafka-python 3.0 forgets a response to JoinGroup or SyncGroup that comes between two
# polls, and joins again; if that is the leader, all members have to. So a member
# without partitions polls for long enough to have its responses within one poll.
JOINING_MS = 3_000
# As in its documentation: `consumer.poll(timeout_ms=1000)`.
PLAIN_MS = 1_000

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class KafkaPythonMember(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """One KafkaConsumer, and the listener of its rebalances."""

    def __init__(self, wanted: Join) -> None:
        self.topic = wanted.topic
        self.service = wanted.service
        self.held: set[int] = set()
        self.is_plain = wanted.is_plain
        settings = wanted.settings(ASSIGNORS[wanted.assignor])
        if wanted.poll_ms is not None:
            settings["max_poll_interval_ms"] = wanted.poll_ms
        self.consumer = KafkaConsumer(**settings)
        self.consumer.subscribe([wanted.topic], listener=self)
        # Loads the topics now, before it joins. Otherwise it may have to join again,
        # and forgets to if it leads and a poll ends during its SyncGroup.
        if not self.is_plain:
            self.consumer.topics()

    # A cooperative rebalance lists only changes, an eager one everything.
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """The library's callback."""
        self.held |= {each.partition for each in assigned}
        say_owns("assigned", self.held, None)

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """The library's callback."""
        offsets = self.service.due_at_release
        if offsets:
            self.commit(offsets)
        self.held -= {each.partition for each in revoked}
        say_owns("revoked", self.held, None)

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        """The library's callback."""
        self.held -= {each.partition for each in lost}
        say_owns("lost", self.held, None)

    def poll(self) -> list[Record]:
        """One `poll`."""
        timeout_ms = int(POLL_S * 1000)
        if self.is_plain:
            timeout_ms = PLAIN_MS
        elif not self.held:
            timeout_ms = JOINING_MS
        by_partition = self.consumer.poll(timeout_ms=timeout_ms, max_records=BATCH)
        return [
            (
                each.partition,
                each.offset,
                (each.key or b"").decode(),
                each.value.decode(),
            )
            for records in by_partition.values()
            for each in records
        ]

    def commit(self, offsets: dict[int, int]) -> str | None:
        """A synchronous commit."""
        wanted = {
            TopicPartition(self.topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        try:
            self.consumer.commit(wanted)
        except KafkaError as error:
            return repr(error)
        return None

    def owns(self) -> list[int]:
        """From `assignment()`."""
        return [each.partition for each in self.consumer.assignment()]

    def generation(self) -> int | None:
        """From `group_metadata()`."""
        generation: int = self.consumer.group_metadata().generation_id
        return generation if generation >= 0 else None

    def seek(self, partition: int, offset: int) -> None:
        """Goes on from an offset."""
        self.consumer.seek(TopicPartition(self.topic, partition), offset)

    def close(self) -> None:
        """Leaves the group."""
        self.consumer.close()


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


if __name__ == "__main__":
    serve(KafkaPythonMember, produce)
