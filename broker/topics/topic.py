"""A topic: its partitions, their replicas and leaders; and the names of topics.

A partition has one log, which all its replicas share, so none is ever behind. A replica
is a node that may lead, and running replicas are in sync.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kohort.protocol.errors import ErrorCode
from kohort.protocol.slotted import slotted

if TYPE_CHECKING:
    from kohort.broker.log.partition import Partition

NO_NODE: Final = -1
"""Leader of a partition while no node with a replica runs."""

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""The topic of groups and their offsets."""

TRANSACTIONS_TOPIC: Final = "__transaction_state"
"""The topic of transactions."""

METADATA_TOPIC: Final = "__cluster_metadata"
"""The log of Kafka's controllers, a name that no topic may have."""

EVENTS_TOPIC: Final = "__kohort_events"
"""The topic of events about groups; see `kohort.broker.cluster.events_topic`."""

INTERNAL_TOPICS: Final = frozenset(
    {OFFSETS_TOPIC, EVENTS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"}
)
"""Internal topics of Kafka and kohort; clients may not write to them."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}").fullmatch


def why_no_topic_name(name: str) -> str | None:
    """The reason why a topic name is illegal; None if it is legal."""
    if name in {".", ".."} or not _LEGAL_NAME(name):
        return (
            f"topic name {name[:260]!r} is illegal: 1 to 249 of a-z, A-Z, 0-9, "
            '".", "_" and "-", and neither "." nor ".."'
        )
    return None


@slotted
class Reassignment:
    """A reassignment in progress of a partition: node ids.

    Both kinds are replicas of the partition until it completes.
    """

    adding: Sequence[int]
    removing: Sequence[int]


NO_REASSIGNMENT: Final = Reassignment((), ())


class Topic:
    """A topic.

    Attributes:
        name: its name.
        id: the 16 bytes of its id (KIP-516).
        partitions: its partitions by index.
        replicas: the nodes that may lead each partition, the preferred one first.
        leaders: the node that leads each partition, or `NO_NODE`.
        overrides: the topic's own configuration, as texts by key.
        reassignments: those in progress, by partition.
        min_insync_replicas: replicas that must run for a Produce with acks=all.
    """

    __slots__ = (
        "id",
        "leaders",
        "min_insync_replicas",
        "name",
        "overrides",
        "partitions",
        "reassignments",
        "replicas",
    )

    def __init__(self, name: str, topic_id: bytes, overrides: dict[str, str]) -> None:
        self.name = name
        self.id = topic_id
        self.partitions: list[Partition] = []
        self.replicas: list[Sequence[int]] = []
        self.leaders: list[int] = []
        self.reassignments: dict[int, Reassignment] = {}
        self.overrides = overrides
        self.min_insync_replicas = 1

    @property
    def is_internal(self) -> bool:
        """True if the topic is Kafka's or kohort's own."""
        return self.name in INTERNAL_TOPICS

    def leader_error(
        self, node_id: int, index: int, leader_epoch: int = -1
    ) -> ErrorCode:
        """The error if a node does not serve a partition as leader; NONE if it does.

        Args:
            node_id: the node that received the request.
            index: the partition, which need not exist.
            leader_epoch: the epoch that the client knows (KIP-320); -1 for none.

        Returns:
            NONE, UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH,
            UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER.
        """
        if not 0 <= index < len(self.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        is_leader = self.leaders[index] == node_id
        if is_leader or node_id in self.replicas[index]:
            error = self.partitions[index].epochs.check(leader_epoch)
            if error or is_leader:
                return error
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def read_error(self, node_id: int, index: int, leader_epoch: int) -> ErrorCode:
        """The same as `leader_error`, but a follower may serve reads, too (KIP-392)."""
        if (
            0 <= index < len(self.partitions)
            and self.leaders[index] != NO_NODE
            and node_id in self.replicas[index]
        ):
            return self.partitions[index].epochs.check(leader_epoch)
        return self.leader_error(node_id, index, leader_epoch)
