"""The names of groups' states. Each protocol has a table of its transitions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class GroupState(StrEnum):
    """States of a group, under the names that Kafka shows."""

    EMPTY = "Empty"
    """It has no members; its offsets are kept."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """Joins wait until all members are in, or until time is up."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """A new generation waits for its leader's assignments."""

    ASSIGNING = "Assigning"
    """A consumer group's target assignment is older than the group (KIP-848)."""

    RECONCILING = "Reconciling"
    """Members of a consumer group move to the target assignment."""

    STABLE = "Stable"
    """Members have their assignments."""

    DEAD = "Dead"
    """The group is gone. Requests see it as unknown."""


HOLDABLE: Final[Mapping[str, tuple[GroupState, ...]]] = MappingProxyType(
    {
        "classic": (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE),
        "consumer": (GroupState.ASSIGNING, GroupState.RECONCILING),
    }
)
"""States in which a group can be held, by its type."""

EMPTY = GroupState.EMPTY
PREPARING_REBALANCE = GroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE = GroupState.COMPLETING_REBALANCE
ASSIGNING = GroupState.ASSIGNING
RECONCILING = GroupState.RECONCILING
STABLE = GroupState.STABLE
DEAD = GroupState.DEAD
