"""The names of groups' states. Each protocol has a table of its transitions."""

from __future__ import annotations

from enum import StrEnum
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


EMPTY = GroupState.EMPTY
PREPARING_REBALANCE = GroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE = GroupState.COMPLETING_REBALANCE
ASSIGNING = GroupState.ASSIGNING
RECONCILING = GroupState.RECONCILING
STABLE = GroupState.STABLE
DEAD = GroupState.DEAD

ANY_HOLDABLE: Final = (
    PREPARING_REBALANCE,
    COMPLETING_REBALANCE,
    ASSIGNING,
    RECONCILING,
)
"""The states in which a group of any protocol can be held."""
