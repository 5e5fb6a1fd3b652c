"""The room of the consumer protocol: its events, timers and records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kohort.broker.coordinator.consumer import (
    describe,
    heartbeat,
    leave,
    patterns,
    powers,
    restore,
    subscription,
)
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.effects import ConsumerGroupRecord
from kohort.broker.coordinator.events import (
    ConsumerHeartbeat,
    Credited,
    DescribeConsumerGroup,
    Expire,
    HoldGroup,
    Kick,
    LimitGroup,
    Mute,
    ReleaseGroup,
    TopicsChanged,
    TriggerRebalance,
    Unmute,
)
from kohort.broker.coordinator.room import Room, ShortWay
from kohort.broker.coordinator.topics import TopicsImage


def consumer_room(
    new_member_id: Callable[[str], str], topics: TopicsImage, *, heartbeats: bool
) -> Room:
    """Returns the room of the consumer protocol.

    Args:
        new_member_id: makes a unique id from a client id.
        topics: the topics of the cluster.
        heartbeats: whether heartbeats make notices, too.
    """
    short_ways: dict[type, ShortWay] = {}
    if not heartbeats:
        short_ways[ConsumerHeartbeat] = heartbeat.hear
    return Room(
        group_type=ConsumerGroup.type,
        changes={
            ConsumerHeartbeat: partial(
                heartbeat.heartbeat,
                new_member_id=new_member_id,
                topics=topics,
                is_noticed=heartbeats,
            ),
            TopicsChanged: subscription.topics_changed,
            Credited: leave.credited,
            Kick: powers.kick,
            Expire: powers.expire,
            Mute: powers.mute,
            Unmute: powers.unmute,
            TriggerRebalance: powers.trigger,
            HoldGroup: powers.hold,
            ReleaseGroup: powers.release,
            LimitGroup: powers.limit,
        },
        questions={DescribeConsumerGroup: describe.describe},
        short_ways=short_ways,
        timers={
            "session": leave.session_expired,
            "revoke": leave.revocation_expired,
            "regex": patterns.resolve_due,
        },
        completions={},
        records={ConsumerGroupRecord: partial(restore.restore, topics=topics)},
        waiting=lambda _: (),
        undone=restore.undone,
    )
