"""Subscriptions of members: when they start a new group epoch.

A heartbeat bumps the group epoch if its member subscribes to other topics by name, or
if a pattern with known topics is new to the member or given up. It also does so if the
topics themselves have changed since the last epoch, by their hash. A pattern that is
new to the group is resolved later (`patterns`), which then bumps the epoch.
"""

from __future__ import annotations

from kohort.broker.coordinator.consumer import patterns
from kohort.broker.coordinator.consumer.cause import Cause, Refusal
from kohort.broker.coordinator.consumer.changes import Change
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.consumer.member import Member
from kohort.broker.coordinator.effects import ConsumerMember
from kohort.broker.coordinator.events import ConsumerHeartbeat, TopicsChanged
from kohort.broker.coordinator.room import Groups
from kohort.broker.coordinator.turn import Turn


def stated_by(event: ConsumerHeartbeat, before: ConsumerMember) -> ConsumerMember:
    """Returns a member's subscription and client after a heartbeat.

    Null fields have not changed. A heartbeat of the consumer protocol ends a member's
    use of the classic one.
    """
    topics, timeout_ms = before.subscribed_topics, event.rebalance_timeout_ms
    if event.subscribed_topics is not None and {*event.subscribed_topics} != {*topics}:
        topics = (*sorted({*event.subscribed_topics}),)
    return ConsumerMember(
        event.group_instance_id or before.group_instance_id,
        event.rack_id or before.rack_id,
        event.client.id,
        event.client.host,
        topics,
        before.subscribed_regex
        if event.subscribed_regex is None
        else event.subscribed_regex,
        before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        event.server_assignor or before.server_assignor,
        None,
    )


def subscribe(
    change: Change, member: Member, before: ConsumerMember, cause: Cause
) -> bool | Refusal:
    """Follows a member's subscription after a heartbeat.

    Args:
        change: has the member's new subscription.
        member: the member.
        before: its subscription before.
        cause: the cause if this starts a new epoch.

    Returns:
        Whether the subscription has changed; or the error of an invalid pattern.
    """
    group = change.group
    old, new = before.subscribed_regex or None, member.regex
    last = patterns.resolved(group)
    names_changed = member.topics != frozenset(before.subscribed_topics)
    bumps = names_changed
    is_new = False
    if new != old:
        if old is not None:
            change.forget_patterns([old])
            bumps |= new is None
        if new is not None and group.subscribers[new] == 1:
            refusal = patterns.validate(new)
            if refusal is not None:
                return refusal
            is_new = True
        elif new in group.patterns:
            bumps = True
    patterns.schedule(change.turn, group, last, is_new=is_new)
    if bumps:
        change.bump(cause)
    elif group.is_stale:
        new_hash = change.topics_hash()
        group.is_stale = False
        if new_hash != group.topics_hash:
            change.bump(Cause("topics_changed"), new_hash)
    if not change.has_new_epoch:
        change.join_epoch(cause)
    return names_changed or new != old


def topics_changed(_: Turn, groups: Groups, event: TopicsChanged) -> None:
    """Notes that the cluster has other topics: the next heartbeats look for them."""
    for group in groups.values():
        if type(group) is ConsumerGroup:
            group.has_stale_patterns = True
            if any(group.is_subscribed_to(topic) for topic in event.topics):
                group.is_stale = True
