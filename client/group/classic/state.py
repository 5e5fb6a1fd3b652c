"""The states of a member, and the table of all transitions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class MemberState(StrEnum):
    """States of a member, under the Java client's names.

    Listener calls may run in any state but LEAVING and ENDED; no step begins
    before they return.
    """

    UNJOINED = "unjoined"
    """Without a valid generation. Joins as soon as it can.

    May have an id, and, where a cooperative join or sync failed, partitions.
    Ends when: JoinGroup is sent; it leaves; it ends.
    """

    PREPARING_REBALANCE = "preparing_rebalance"
    """Waits for the JoinGroup response, and sends no heartbeats.

    Ends when: it is answered, or fails; the member leaves.
    """

    COMPLETING_REBALANCE = "completing_rebalance"
    """In a new generation, still without its assignment. Sends heartbeats.

    The leader assigns; then every member's SyncGroup waits for its answer.
    Ends when: SyncGroup is answered, or fails; membership is lost; it leaves.
    """

    STABLE = "stable"
    """Has an assignment. Sends heartbeats.

    Ends when: it joins again; membership is lost; it leaves.
    """

    LEAVING = "leaving"
    """Waits for the LeaveGroup response.

    Ends when: it is answered, or fails.
    """

    ENDED = "ended"
    """Closed or failed. Takes no more events."""


UNJOINED = MemberState.UNJOINED
PREPARING_REBALANCE = MemberState.PREPARING_REBALANCE
COMPLETING_REBALANCE = MemberState.COMPLETING_REBALANCE
STABLE = MemberState.STABLE
LEAVING = MemberState.LEAVING
ENDED = MemberState.ENDED

TRANSITIONS: Mapping[MemberState, frozenset[MemberState]] = {
    UNJOINED: frozenset({UNJOINED, PREPARING_REBALANCE, LEAVING, ENDED}),
    PREPARING_REBALANCE: frozenset({COMPLETING_REBALANCE, UNJOINED, LEAVING, ENDED}),
    COMPLETING_REBALANCE: frozenset({STABLE, UNJOINED, LEAVING, ENDED}),
    STABLE: frozenset({PREPARING_REBALANCE, UNJOINED, LEAVING, ENDED}),
    LEAVING: frozenset({UNJOINED, ENDED}),
    ENDED: frozenset(),
}
