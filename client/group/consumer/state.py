"""The states of a member, and the table of all transitions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class MemberState(StrEnum):
    """States of a member, under the Java client's names.

    Listener calls may run in any state but LEAVING and ENDED; no step begins
    before they return. Heartbeats do not wait for them.
    """

    UNSUBSCRIBED = "unsubscribed"
    """Not in the group: without a subscription, or about to join.

    Ends when: it joins; it fails; it ends.
    """

    JOINING = "joining"
    """Sends heartbeats with epoch 0, until one is answered with an assignment.

    Ends when: it gets an assignment; it is fenced; it leaves; it fails.
    """

    RECONCILING = "reconciling"
    """Has an assignment that it does not fully own yet.

    The listener revokes and assigns partitions, and the names of topics are looked up.
    Ends when: it owns the assignment, or the part with known topics; it is fenced; it
    leaves; it fails.
    """

    ACKNOWLEDGING = "acknowledging"
    """Owns an assignment that the coordinator has not heard of.

    Ends when: the heartbeat is sent; another assignment comes; it is fenced; it
    leaves; it fails.
    """

    STABLE = "stable"
    """Owns its assignment.

    Ends when: another assignment comes; it is fenced; it leaves; it fails.
    """

    FENCED = "fenced"
    """Removed by the coordinator. Joins again after the listener has lost partitions.

    Ends when: it joins; it leaves; it fails.
    """

    STALE = "stale"
    """Has left because the application did not poll. Joins again at the next poll.

    Ends when: it joins; it ends.
    """

    LEAVING = "leaving"
    """Waits for the response to its last heartbeat.

    Ends when: it is answered, or fails.
    """

    FATAL = "fatal"
    """Has failed. Ends after the listener has lost partitions."""

    ENDED = "ended"
    """Closed or failed. Takes no more events."""


UNSUBSCRIBED = MemberState.UNSUBSCRIBED
JOINING = MemberState.JOINING
RECONCILING = MemberState.RECONCILING
ACKNOWLEDGING = MemberState.ACKNOWLEDGING
STABLE = MemberState.STABLE
FENCED = MemberState.FENCED
STALE = MemberState.STALE
LEAVING = MemberState.LEAVING
FATAL = MemberState.FATAL
ENDED = MemberState.ENDED

OUTSIDE = frozenset({UNSUBSCRIBED, FENCED, STALE})
"""Without a membership; joins when it can."""
INSIDE = frozenset({JOINING, RECONCILING, ACKNOWLEDGING, STABLE})
"""Sends heartbeats."""

_EXITS = {FENCED, STALE, LEAVING, FATAL, UNSUBSCRIBED, ENDED}

TRANSITIONS: Mapping[MemberState, frozenset[MemberState]] = {
    UNSUBSCRIBED: frozenset({JOINING, UNSUBSCRIBED, ENDED}),
    JOINING: frozenset({RECONCILING, *_EXITS}),
    RECONCILING: frozenset({RECONCILING, ACKNOWLEDGING, *_EXITS}),
    ACKNOWLEDGING: frozenset({STABLE, RECONCILING, *_EXITS}),
    STABLE: frozenset({RECONCILING, *_EXITS}),
    FENCED: frozenset({JOINING, UNSUBSCRIBED, ENDED}),
    STALE: frozenset({JOINING, UNSUBSCRIBED, ENDED}),
    LEAVING: frozenset({UNSUBSCRIBED, ENDED}),
    FATAL: frozenset({ENDED}),
    ENDED: frozenset(),
}
