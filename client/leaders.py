"""Leaders that a broker tells of when it is not the one itself (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.client.metadata import Metadata, Node
from kohort.protocol.slotted import replace, slotted


@slotted
class NewLeader:
    """Who leads a partition now, and since which epoch."""

    topic: str
    partition: int
    leader_id: int
    leader_epoch: int


def with_leaders(
    metadata: Metadata, leaders: Iterable[NewLeader], nodes: Iterable[Node]
) -> Metadata:
    """The metadata with these leaders, as far as they are news.

    Of a leader nothing is believed unless it is known where it listens, and its
    epoch is newer than what is known.
    """
    known = {**metadata.nodes, **{node.node_id: node for node in nodes}}
    topics = dict(metadata.topics)
    is_news = False
    for new in leaders:
        topic = topics.get(new.topic)
        if topic is None or not 0 <= new.partition < len(topic.partitions):
            continue
        partition = topic.partitions[new.partition]
        if new.leader_id not in known or new.leader_epoch <= partition.leader_epoch:
            continue
        rows = list(topic.partitions)
        rows[new.partition] = replace(
            partition, leader_id=new.leader_id, leader_epoch=new.leader_epoch
        )
        topics[new.topic] = replace(topic, partitions=rows)
        is_news = True
    return replace(metadata, nodes=known, topics=topics) if is_news else metadata
