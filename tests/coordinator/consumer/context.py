"""Scenes of consumer groups."""

from __future__ import annotations

from typing import Any

from tests.coordinator.consumer.member import Consumer
from tests.coordinator.context import Context
from tests.coordinator.driver import Pending

from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.effects import DescribeConsumerGroupResult
from kohort.broker.coordinator.events import (
    DescribeConsumerGroup,
    TopicsChanged,
    TopicsDeleted,
)
from kohort.simulation.checking.groups import consumer


class Scene(Context):
    """A context with consumers and topics.

    Target assignments follow one another at once unless a scene sets an interval.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**({"consumer_assignment_interval_ms": 0} | settings))

    def topic(self, name: str = "t", partitions: int = 2) -> str:
        """Creates a topic."""
        self.topics.create(name, partitions)
        self.submit(TopicsChanged([name]))
        return name

    def grow(self, name: str, partitions: int) -> None:
        """Adds partitions to a topic."""
        self.topics.grow(name, partitions)
        self.submit(TopicsChanged([name]))

    def drop(self, name: str) -> None:
        """Deletes a topic."""
        self.topics.delete(name)
        self.submit(TopicsDeleted([name]))
        self.submit(TopicsChanged([name]))

    def consumer(self, name: str, *topics: str, **options: Any) -> Consumer:
        """A client that may join."""
        return Consumer(self, name, *topics, **options)

    def settled(self, *names: str, topic: str = "t", **options: Any) -> list[Consumer]:
        """Members of one group that have all partitions of their target."""
        consumers = [self.consumer(name, topic, **options) for name in names]
        for each in consumers:
            each.join()
        self.settle(*consumers)
        return consumers

    def settle(self, *consumers: Consumer, rounds: int = 4) -> None:
        """Some rounds of heartbeats, after which all have what they should have."""
        for _ in range(rounds):
            for each in consumers:
                each.settle()

    @property
    def group(self) -> ConsumerGroup:
        """The group "g"."""
        return consumer(self.coordinator.groups.values())["g"]

    def describe_consumers(self, group: str = "g") -> DescribeConsumerGroupResult:
        """ConsumerGroupDescribe."""
        pending: Pending[DescribeConsumerGroupResult] = Pending("describe")
        return self.ask(DescribeConsumerGroup(pending, group), pending).result
