"""The surroundings of the consumer protocol in a coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kohort.broker.coordinator.consumer.cause import Refusal
from kohort.broker.coordinator.consumer.changes import Change
from kohort.broker.coordinator.consumer.group import ConsumerGroup, Downgrade
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.room import Groups
from kohort.broker.coordinator.topics import TopicsImage
from kohort.broker.coordinator.turn import Turn

Upgrade = Callable[[Turn, Groups, Group, ConsumerGroup], Change | Refusal]
"""``upgrade(turn, groups, old, new)``: begins the change of a classic group with
members to a consumer group, or says why not; see `kohort.broker.coordinator.migration`.
"""


class Surroundings(NamedTuple):
    """The parts of its coordinator that the consumer room uses."""

    new_member_id: Callable[[str], str]
    """Makes a unique id from a client id."""
    topics: TopicsImage
    """The topics of the cluster."""
    upgrade: Upgrade
    downgrade: Downgrade

    def new_group(self, turn: Turn, group_id: str) -> ConsumerGroup:
        """Makes a group without members."""
        assignor = turn.settings.consumer_assignors[0]
        return ConsumerGroup(group_id, self.topics, assignor, self.downgrade)
