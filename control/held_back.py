"""The records that open transactions hold back from read_committed consumers."""

from __future__ import annotations

from kohort.broker.server import Broker


def waiting(broker: Broker) -> dict[tuple[str, int], int]:
    """Returns the records behind the last stable offset, by partition.

    Partitions of open transactions, as far as the broker remembers those; without
    partitions that hold back nothing.
    """
    topics = broker.cluster.topics.by_name
    found: dict[tuple[str, int], int] = {}
    for seen in broker.events.remembered.transactions.latest.values():
        for name, index in seen.notice.fields["partitions"]:
            topic = topics.get(name)
            if topic is not None and index < len(topic.partitions):
                partition = topic.partitions[index]
                count = partition.high_watermark - partition.last_stable_offset
                if count:
                    found[name, index] = count
    return found
