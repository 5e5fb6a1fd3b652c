"""The room of migration: classic requests to consumer groups, and their timers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kohort.broker.coordinator.consumer import restore
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.events import Heartbeat, Join, Leave, Sync
from kohort.broker.coordinator.migration import heartbeat, join, leave, sync, timers
from kohort.broker.coordinator.room import Room


def migration_room(new_member_id: Callable[[str], str], *, heartbeats: bool) -> Room:
    """Returns the room of classic members in consumer groups.

    Args:
        new_member_id: makes a unique id from a client id or an instance id.
        heartbeats: whether heartbeats make notices, too.
    """
    return Room(
        group_type=ConsumerGroup.type,
        changes={
            Heartbeat: partial(heartbeat.heartbeat, is_noticed=heartbeats),
            Join: partial(join.join, new_member_id=new_member_id),
            Sync: sync.sync,
            Leave: leave.leave,
        },
        questions={},
        short_ways={},
        timers={"join": timers.join_expired, "sync": timers.sync_expired},
        completions={},
        records={},
        waiting=lambda _: (),
        undone=restore.undone,
    )
