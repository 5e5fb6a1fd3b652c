"""The assignors of consumer groups, with Apache Kafka's results (KIP-848).

Their result depends on the order in which Kafka goes through members, topics and
partitions, which is that of Java's hash tables. `members` has the orders of the input,
`partitions` that of a member's assignment. `uniform` divides the work between
`homogeneous` and `heterogeneous`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kohort.broker.coordinator.consumer.assignors import range as range_assignor
from kohort.broker.coordinator.consumer.assignors import uniform
from kohort.broker.coordinator.consumer.assignors.members import (
    Assign,
    Assignments,
    MemberSpec,
    meeting_order,
)

ASSIGNORS: Final[Mapping[str, Assign]] = MappingProxyType(
    {"uniform": uniform.assign, "range": range_assignor.assign}
)
"""By the names of ``group.consumer.assignors``."""

__all__ = ["ASSIGNORS", "Assign", "Assignments", "MemberSpec", "meeting_order"]
