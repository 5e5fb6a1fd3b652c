"""The leader's computation of an assignment: its input and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kohort.client.assignors.contract import Subscriptions, TopicPartition
from kohort.protocol.slotted import slotted


@slotted
class MakeAssignment:
    """Assign partitions to all members."""

    protocol_name: str
    subscriptions: Subscriptions
    """Members with an unreadable subscription are left out, and get no partitions."""
    topics: Sequence[str]
    """The subscribed topics of all members, watched from now on."""
    is_skipped: bool
    """True to look up partitions only, and assign nothing (KIP-814)."""


@slotted
class AssignmentMade:
    """The result of `MakeAssignment`."""

    assignments: Mapping[str, Sequence[TopicPartition]]
    """By member id."""
    partitions: Mapping[str, int]
    """Partitions per topic at that time; 0 for a missing topic."""
