"""A member of a consumer group, as a client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.coordinator.driver import HOST, Driver, Pending
from tests.coordinator.requests import start_commit

from kohort.broker.coordinator.effects import ConsumerHeartbeatResult
from kohort.broker.coordinator.events import ConsumerHeartbeat
from kohort.broker.notice import Client

Owned = dict[str, list[int]]
"""Partitions by topic."""
Rows = Sequence[tuple[bytes, Sequence[int]]]
"""Partitions by topic id."""


class Consumer:
    """A client: does as kafka-clients' consumer does, one heartbeat at a time.

    Attributes:
        epoch: its epoch.
        owns: the partitions that it owns.
        may_own: the assignment of the latest response that had one.
    """

    def __init__(
        self,
        driver: Driver,
        name: str,
        *topics: str,
        group: str = "g",
        instance: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        rack: str | None = None,
        rebalance_ms: int = 30_000,
    ) -> None:
        self.driver = driver
        self.name = name
        self.member_id = f"m-{name}"
        self.client = Client(name, HOST, next(driver.connections))
        self.topics: Sequence[str] = topics
        self.group = group
        self.instance = instance
        self.regex = regex
        self.assignor = assignor
        self.rack = rack
        self.rebalance_ms = rebalance_ms
        self.epoch = 0
        self.owns: Rows = ()
        self.may_own: Rows = ()

    def beat(self, **over: Any) -> ConsumerHeartbeatResult:
        """Sends a heartbeat with these fields alone, and takes its answer."""
        return self.start_beat(**over).result

    def start_beat(
        self, *, is_lost: bool = False, **over: Any
    ) -> Pending[ConsumerHeartbeatResult]:
        """The same, while appends are held, or if the answer gets lost."""
        taken = None if is_lost else self._take
        pending: Pending[ConsumerHeartbeatResult] = Pending(f"{self.name} beats", taken)
        owned = over.get("owned")
        event = ConsumerHeartbeat(
            pending,
            self.group,
            over.get("member_id", self.member_id),
            over.get("epoch", self.epoch),
            over.get("instance", self.instance),
            over.get("client", self.client),
            over.get("rack"),
            over.get("rebalance_ms", -1),
            over.get("topics"),
            over.get("regex"),
            over.get("assignor"),
            None if owned is None else [*owned],
            over.get("is_id_required", True),
        )
        return self.driver.ask(event, pending)

    @property
    def assigned(self) -> Owned:
        """The partitions that it may own, of topics that exist."""
        found = {}
        for topic_id, partitions in self.may_own:
            image = self.driver.topics.with_id(topic_id)
            if image is not None:
                found[image.name] = [*partitions]
        return found

    def give_up(self) -> None:
        """Owns nothing any more, and has to join again."""
        self.epoch, self.owns, self.may_own = 0, (), ()

    def _take(self, result: ConsumerHeartbeatResult) -> None:
        if result.error_code:
            return
        self.member_id = result.member_id or self.member_id
        self.epoch = result.member_epoch
        if result.assignment is not None:
            self.may_own = result.assignment

    def join(self, **over: Any) -> ConsumerHeartbeatResult:
        """Joins: a heartbeat of epoch 0, with all fields."""
        return self.start_join(**over).result

    def start_join(self, **over: Any) -> Pending[ConsumerHeartbeatResult]:
        """The same, while appends are held."""
        self.owns = ()
        fields: dict[str, Any] = {
            "epoch": 0,
            "topics": self.topics,
            "regex": self.regex,
            "assignor": self.assignor,
            "rack": self.rack,
            "rebalance_ms": self.rebalance_ms,
            "owned": (),
        }
        return self.start_beat(**(fields | over))

    def settle(self, **over: Any) -> ConsumerHeartbeatResult:
        """Takes over its assignment, and tells the coordinator."""
        self.owns = self.may_own
        return self.beat(owned=self.owns, **over)

    def leave(self, epoch: int = -1) -> ConsumerHeartbeatResult:
        """Leaves, by default for good."""
        pending: Pending[ConsumerHeartbeatResult] = Pending(f"{self.name} leaves")
        event = ConsumerHeartbeat(
            pending,
            self.group,
            self.member_id,
            epoch,
            self.instance,
            self.client,
            None,
            -1,
            None,
            None,
            None,
            None,
            True,
        )
        return self.driver.ask(event, pending).result

    def commit(self, topic: str, offset: int, **over: Any) -> int:
        """Sends OffsetCommit for partition 0; returns the error code."""
        fields: dict[str, Any] = {
            "group": self.group,
            "generation_id": self.epoch,
            "member_id": self.member_id,
            "client": self.client,
        }
        partition = over.pop("partition", 0)
        rows = [(topic, partition, offset, -1, None)]
        result = start_commit(self.driver, rows, **(fields | over)).result
        return result.error_code
