"""Reconciliation: the member revokes and owns what the coordinator assigns."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.client.group import application
from kohort.client.group.consumer.member import ConsumerMember
from kohort.client.group.consumer.state import ACKNOWLEDGING, RECONCILING
from kohort.client.group.consumer.topics import FindTopics
from kohort.client.group.effects import Compute
from kohort.client.group.member import Partitions
from kohort.client.group.turn import Turn
from kohort.protocol.apis.k68_consumer_group_heartbeat import Assignment

FIND_TOPICS = "FindTopics"


def assigned(member: ConsumerMember, assignment: Assignment) -> None:
    """Takes another assignment, which replaces one that is not reconciled yet."""
    rows = {
        t.topic_id: tuple(sorted(t.partitions)) for t in assignment.topic_partitions
    }
    if rows == member.assigned:
        return
    member.assigned = rows
    member.target = None
    member.lookups, member.looks_up_later = 0, False
    member.is_acknowledged = False
    member.transition(RECONCILING)


def proceed(turn: Turn, member: ConsumerMember) -> None:
    """Begins to reconcile the part with known topics; then it is to be acknowledged."""
    assert member.assigned is not None
    if member.awaits(FIND_TOPICS):
        return
    unknown = sorted(member.assigned.keys() - member.names.keys())
    if unknown and not member.looks_up_later:
        token = member.token()
        member.pending[token] = FIND_TOPICS
        turn.effects.append(Compute(token, FindTopics(unknown)))
        return
    known = {t: rows for t, rows in member.assigned.items() if t in member.names}
    target = frozenset(
        (member.names[topic_id], number)
        for topic_id, numbers in known.items()
        for number in numbers
    )
    if known != member.reconciled or target != member.owned:
        member.taken = known
        take_assignment(turn, member, target)
    elif not member.is_acknowledged:
        member.transition(ACKNOWLEDGING)


def take_assignment(turn: Turn, member: ConsumerMember, target: Partitions) -> None:
    """Takes an assignment; `proceed` acknowledges it after the listener's call."""
    member.target = target
    if application.take_assignment(turn, member, target):
        member.reconciled = member.taken
        member.is_acknowledged = False
        wanted = {*member.taken, *(member.assigned or ())}
        member.names = {t: n for t, n in member.names.items() if t in wanted}


def topics_found(
    turn: Turn, member: ConsumerMember, found: Mapping[bytes, str]
) -> None:
    """Notes names of topics; looks for others later, as metadata lags behind."""
    member.names |= found
    if member.assigned is None or member.assigned.keys() <= member.names.keys():
        member.lookups = 0
        return
    member.looks_up_later = True
    turn.arm("topics", turn.now + turn.backoff_s(member, member.lookups))
    member.lookups += 1
