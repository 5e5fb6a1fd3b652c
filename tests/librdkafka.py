"""What members over librdkafka do, so that they never get what is not theirs."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

COMMITTED_S = 30.0
"""For an answer that comes at once, unless the coordinator is away."""


def begin(
    consumer: Consumer, partitions: list[TopicPartition], *, is_cooperative: bool
) -> None:
    """To be called in `on_assign`: starts at 0 where nothing is committed.

    librdkafka is not to ask where a partition begins. If it asks (ListOffsets,
    which waits behind a Fetch), and the partition is revoked before the answer,
    then it asks again and fetches what it does not own
    (rd_kafka_toppar_handle_Offset, "outdated offset response"; since
    confluentinc/librdkafka@de853c2, 0.11.5). When the partition comes back, those
    records are forwarded a moment before they are made outdated
    (rd_kafka_toppar_op_fetch_start), and an application that reads in that moment
    gets them, from offset 0 on, whatever is committed. 2.16.0 does it with
    `consume` and with `poll`, on Apache Kafka 4.3 as well.

    Raises:
        KafkaException: the coordinator does not say what is committed.
    """
    known = consumer.committed(partitions, COMMITTED_S) if partitions else []
    new = {each.partition for each in known if each.offset < 0}
    if not new:
        return  # librdkafka assigns, and resumes at what is committed
    for each in partitions:
        if each.partition in new:
            each.offset = 0
    if is_cooperative:
        consumer.incremental_assign(partitions)
    else:
        consumer.assign(partitions)
