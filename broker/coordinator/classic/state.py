"""The states of a group of the classic protocol, and the transitions between them.

Empty: joins start a rebalance. Heartbeats, syncs and leaves come from unknown members.
Commits are accepted from clients that claim no generation. Ends when a member joins,
the group is deleted, or its last offset expires.

PreparingRebalance: joins wait. Heartbeats and syncs are answered REBALANCE_IN_PROGRESS,
commits of the old generation are accepted. Ends when all members have joined, when the
rebalance timeout or the last initial window (KIP-134) is over, or when no member is
left.

CompletingRebalance: syncs of followers wait, heartbeats succeed, commits are answered
REBALANCE_IN_PROGRESS. Ends when the leader syncs, or when a member joins, leaves,
expires, changes its metadata, or does not sync in time.

Stable: all requests of the current generation succeed. Ends when a member joins, leaves
or expires, the leader rejoins, a follower changes its metadata, or a member does not
fetch its assignment in time.
"""

from __future__ import annotations

from collections.abc import Mapping

from kohort.broker.coordinator.state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    GroupState,
)

TRANSITIONS: Mapping[GroupState, frozenset[GroupState]] = {
    EMPTY: frozenset({PREPARING_REBALANCE, DEAD}),
    PREPARING_REBALANCE: frozenset({COMPLETING_REBALANCE, EMPTY}),
    COMPLETING_REBALANCE: frozenset({STABLE, PREPARING_REBALANCE}),
    STABLE: frozenset({PREPARING_REBALANCE}),
    DEAD: frozenset(),
}
"""The table is complete."""


def check(before: GroupState, after: GroupState) -> None:
    """Raises if the table does not have a transition.

    Raises:
        AssertionError: it does not; a defect of ours.
    """
    if after not in TRANSITIONS.get(before, ()):
        raise AssertionError(f"no transition from {before} to {after}")
