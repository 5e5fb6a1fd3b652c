"""Workarounds for members with librdkafka, so that they never get others' records."""

from __future__ import annotations

import time

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from tests.patience import PATIENCE_S

ELSEWHERE = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
"""The errors of a coordinator that moves; librdkafka looks for the new one.
"""


def row_of(message: Message) -> tuple[int, int, bytes, bytes]:
    """Partition, offset, key and value of a consumed message."""
    place, offset = message.partition(), message.offset()
    key, value = message.key(), message.value()
    assert place is not None
    assert offset is not None
    assert isinstance(key, bytes)
    assert isinstance(value, bytes)
    return place, offset, key, value


def begin(
    consumer: Consumer, partitions: list[TopicPartition], *, is_cooperative: bool
) -> None:
    """Starts partitions at their committed offset, or at 0; call it in `on_assign`.

    librdkafka should not look up where a partition begins. If it sends ListOffsets,
    which waits behind a Fetch, and the partition is revoked before the response, then
    it retries and fetches a partition that it does not own
    (rd_kafka_toppar_handle_Offset, "outdated offset response"; since
    confluentinc/librdkafka@de853c2, 0.11.5). When the partition comes back, those
    records are forwarded a moment before they are made outdated
    (rd_kafka_toppar_op_fetch_start), and an application that reads in that moment gets
    them, from offset 0 on, whatever is committed. 2.16.0 does it with `consume` and
    with `poll`, on Apache Kafka 4.3 as well.

    Nor should it look up committed offsets by itself: a former coordinator refuses the
    whole group and lists no partition (OffsetFetch v2 and later, as Apache Kafka 4.3
    has it), and then 2.16.0 waits for them forever: the partitions are not read before
    the next rebalance.

    Raises:
        KafkaException: the coordinator does not return the committed offsets.
    """
    if not partitions:
        return
    known = _committed(consumer, partitions)
    for each in known:
        each.offset = max(each.offset, 0)
    if is_cooperative:
        consumer.incremental_assign(known)
    else:
        consumer.assign(known)


def _committed(
    consumer: Consumer, partitions: list[TopicPartition]
) -> list[TopicPartition]:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return consumer.committed(partitions, PATIENCE_S)
        except KafkaException as error:
            if error.args[0].code() not in ELSEWHERE or time.monotonic() > deadline:
                raise
