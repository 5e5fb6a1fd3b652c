"""The states of a group and the transitions between them; the table is complete."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class GroupState(StrEnum):
    """States of a group, under the names that Kafka shows."""

    EMPTY = "Empty"
    """Has no members; its offsets are kept.

    Joins start a rebalance. Heartbeats, syncs and leaves come from unknown
    members. Commits are accepted from clients that claim no generation.
    Ends when: a member joins; the group is deleted; its last offset expires.
    """

    PREPARING_REBALANCE = "PreparingRebalance"
    """Joins wait until all members are in, or until time is up.

    Heartbeats and syncs are answered REBALANCE_IN_PROGRESS, commits of the old
    generation are accepted.
    Ends when: all members have joined; the rebalance timeout, or the last
    initial window (KIP-134), is over; no member is left.
    """

    COMPLETING_REBALANCE = "CompletingRebalance"
    """A new generation waits for its leader's assignments.

    Syncs of followers wait, heartbeats succeed, commits are answered
    REBALANCE_IN_PROGRESS.
    Ends when: the leader syncs; a member joins, leaves, expires, changes its
    metadata, or does not sync in time.
    """

    STABLE = "Stable"
    """Members have their assignments.

    All requests of the current generation succeed.
    Ends when: a member joins, leaves or expires, the leader rejoins, a follower
    changes its metadata, or a member does not fetch its assignment in time.
    """

    DEAD = "Dead"
    """The group is gone. Requests see it as unknown."""


EMPTY = GroupState.EMPTY
PREPARING_REBALANCE = GroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE = GroupState.COMPLETING_REBALANCE
STABLE = GroupState.STABLE
DEAD = GroupState.DEAD

TRANSITIONS: Mapping[GroupState, frozenset[GroupState]] = {
    EMPTY: frozenset({PREPARING_REBALANCE, DEAD}),
    PREPARING_REBALANCE: frozenset({COMPLETING_REBALANCE, EMPTY}),
    COMPLETING_REBALANCE: frozenset({STABLE, PREPARING_REBALANCE}),
    STABLE: frozenset({PREPARING_REBALANCE}),
    DEAD: frozenset(),
}


def check(before: GroupState, after: GroupState) -> None:
    """Raises if the table does not have a transition.

    Raises:
        AssertionError: it does not; a defect of ours.
    """
    if after not in TRANSITIONS[before]:
        raise AssertionError(f"no transition from {before} to {after}")
