"""Groups of one protocol, for scenes that look at their members."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.group import Group


def classic(groups: Iterable[Group]) -> dict[str, ClassicGroup]:
    """Returns the groups of the classic protocol by id."""
    return {each.group_id: each for each in groups if isinstance(each, ClassicGroup)}


def consumer(groups: Iterable[Group]) -> dict[str, ConsumerGroup]:
    """Returns the groups of the consumer protocol by id."""
    return {each.group_id: each for each in groups if isinstance(each, ConsumerGroup)}
