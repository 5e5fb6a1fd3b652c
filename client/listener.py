"""What an application is told about its partitions and its membership."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from kohort.client.offsets import TopicPartition


class ConsumerGroupMetadata(NamedTuple):
    """A consumer as its group knows it.

    Attributes:
        group_id: of the group.
        generation_id: the last that the consumer has joined; -1 without one.
        member_id: that the broker has given it; "" without one.
        group_instance_id: of a static member (KIP-345), else None.
    """

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


class ConsumerRebalanceListener:
    """Is told when partitions come and go; override what is of interest.

    The methods are awaited while the application waits for records, in `getmany`
    and the like or in `close`: never while it works on records, never two at a
    time. Until they return no record is given out and the group waits, for
    ``max.poll.interval.ms`` at most. What they raise comes out of the poll.
    """

    async def on_partitions_revoked(self, revoked: AbstractSet[TopicPartition]) -> None:
        """Partitions are about to go; offsets of them can still be committed."""

    async def on_partitions_assigned(
        self, assigned: AbstractSet[TopicPartition]
    ) -> None:
        """Partitions have come; positions can be set by `seek`.

        Called after every rebalance, with cooperative protocols also if there
        are no new ones.
        """

    async def on_partitions_lost(self, lost: AbstractSet[TopicPartition]) -> None:
        """Partitions are gone: others may own them, commits would fail.

        As in the Java client that is `on_partitions_revoked` unless overridden.
        """
        await self.on_partitions_revoked(lost)
