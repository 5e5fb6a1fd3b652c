"""The requests of a transaction, as its state asks for them; the driver sends them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from kohort.client.offsets import OffsetAndMetadata, TopicPartition
from kohort.protocol.slotted import slotted

if TYPE_CHECKING:  # a producer does not load the consumer
    from kohort.client.consuming.consumer_group import ConsumerGroupMetadata

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]


@slotted
class InitProducer:
    """Asks for a producer id; for the next epoch, if it has one (KIP-360)."""

    producer_id: int
    epoch: int


@slotted
class AddPartitions:
    """Adds partitions, with transaction version 1."""

    partitions: tuple[TopicPartition, ...]


@slotted
class AddOffsets:
    """Adds a group, with transaction version 1."""

    group_id: str


@slotted
class CommitOffsets:
    """Commits offsets of a group. `version` is the transaction version."""

    group: ConsumerGroupMetadata
    offsets: Offsets
    version: int


@slotted
class EndTransaction:
    """Commits or aborts. `version` is the transaction version."""

    is_commit: bool
    version: int


Request: TypeAlias = (
    InitProducer | AddPartitions | AddOffsets | CommitOffsets | EndTransaction
)
