"""The room of the consumer protocol: its events, timers and records."""

from __future__ import annotations

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
from kohort.broker.coordinator.consumer.surroundings import Surroundings
from kohort.broker.coordinator.effects import ConsumerGroupRecord
from kohort.broker.coordinator.events import (
    ConsumerHeartbeat,
    Credited,
    DescribeConsumerGroup,
    Expire,
    Fence,
    HoldGroup,
    HoldMember,
    Kick,
    LimitGroup,
    Mute,
    ReleaseGroup,
    ReleaseMember,
    TopicsChanged,
    TriggerRebalance,
    Unmute,
)
from kohort.broker.coordinator.room import Room, ShortWay


def consumer_room(around: Surroundings, *, heartbeats: bool) -> Room:
    """Returns the room of the consumer protocol.

    Args:
        around: its surroundings.
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
                around=around,
                is_noticed=heartbeats,
            ),
            TopicsChanged: subscription.topics_changed,
            Credited: leave.credited,
            Kick: powers.kick,
            Expire: powers.expire,
            Mute: powers.mute,
            Unmute: powers.unmute,
            Fence: powers.fence,
            HoldMember: powers.hold_member,
            ReleaseMember: powers.release_member,
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
        records={ConsumerGroupRecord: partial(restore.restore, around=around)},
        waiting=lambda _: (),
        undone=restore.undone,
    )
