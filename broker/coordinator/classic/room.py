"""The room of the classic protocol: its events, timers and records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kohort.broker.coordinator.classic import (
    describe,
    heartbeat,
    join,
    leave,
    powers,
    rebalance,
    static,
    sync,
    waiting,
)
from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.classic.restore import restore, undone
from kohort.broker.coordinator.effects import GroupRecord
from kohort.broker.coordinator.events import (
    Credited,
    DescribeGroup,
    Expire,
    Heartbeat,
    HoldGroup,
    Join,
    Kick,
    Leave,
    LimitGroup,
    Mute,
    ReleaseGroup,
    Sync,
    TriggerRebalance,
    Unmute,
)
from kohort.broker.coordinator.room import Room, ShortWay
from kohort.broker.runtime.machine import Completion


def classic_room(new_member_id: Callable[[str], str], *, heartbeats: bool) -> Room:
    """Returns the room of the classic protocol.

    Args:
        new_member_id: makes a unique id from a client id or an instance id.
        heartbeats: whether heartbeats make notices, too.
    """
    short_ways: dict[type, ShortWay] = {Join: join.only_wait, Sync: sync.only_wait}
    hear = heartbeat.noticed_heartbeat
    if not heartbeats:
        hear = heartbeat.heartbeat
        short_ways[Heartbeat] = heartbeat.hear
    return Room(
        group_type=ClassicGroup.type,
        changes={
            Heartbeat: hear,
            Join: partial(join.join, new_member_id=new_member_id),
            Sync: sync.sync,
            Leave: leave.leave,
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
        questions={DescribeGroup: describe.describe},
        short_ways=short_ways,
        timers={
            "session": leave.session_expired,
            "join": rebalance.join_expired,
            "sync": rebalance.sync_expired,
        },
        completions={
            sync.Assigned: Completion(sync.assigned, sync.not_assigned),
            static.Replaced: Completion(static.replaced, static.not_replaced),
        },
        # Kafka, too, has groups of the classic protocol for offsets without members.
        records={GroupRecord: restore, type(None): restore},
        waiting=waiting.refused,
        undone=undone,
    )
