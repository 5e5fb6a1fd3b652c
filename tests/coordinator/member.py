"""A client of a coordinator, and its subscriptions and assignments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.coordinator.driver import HOST, Driver, Pending
from tests.coordinator.requests import start_commit, start_leave

from kohort.broker.coordinator.effects import (
    CommitResult,
    HeartbeatResult,
    JoinResult,
    SyncResult,
)
from kohort.broker.coordinator.events import Heartbeat, Join, Sync
from kohort.broker.notice import Client
from kohort.protocol.consumer import Assignment, Subscription, TopicPartitions, encode


def protocols(*names: str, metadata: bytes = b"meta") -> list[tuple[str, bytes]]:
    """Several protocols with the same metadata."""
    return [(name, metadata) for name in names]


def subscribed(
    *topics: str, protocol: str = "range", owned: Sequence[int] = ()
) -> list[tuple[str, bytes]]:
    """One protocol, with a consumer's subscription; it owns partitions of "t"."""
    parts = [TopicPartitions("t", owned)] if owned else []
    return [(protocol, encode(Subscription(topics, None, parts)))]


def dealt(*partitions: int) -> bytes:
    """An assignment of these partitions of the topic "t"."""
    parts = [TopicPartitions("t", partitions)] if partitions else []
    return encode(Assignment(parts), 0)


class Member:
    """A client: remembers answers, and uses them in its next requests."""

    def __init__(
        self,
        context: Driver,
        name: str,
        *,
        group: str = "g",
        instance: str | None = None,
        session_ms: int = 30_000,
        rebalance_ms: int = 30_000,
        protocol_type: str = "consumer",
        protocols: Sequence[tuple[str, bytes]] | None = None,
        requires_id: bool = True,
        skips: bool = True,
    ) -> None:
        self.context = context
        self.name = name
        self.client = Client(name, HOST, next(context.connections))
        self.group = group
        self.instance = instance
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.protocol_type = protocol_type
        self.protocols = protocols or [("range", f"meta-{name}".encode())]
        self.requires_id = requires_id
        self.skips = skips
        self.member_id = ""
        self.generation_id = -1
        # The members of the generation, if it leads.
        self.told: Sequence[tuple[str, str | None, bytes]] = ()

    def _joined(self, result: JoinResult) -> None:
        if result.error_code in (0, 79):
            self.member_id = result.member_id
        if result.error_code == 0:
            self.generation_id = result.generation_id
            self.told = result.members
            if result.leader == self.member_id:
                self.context.invariants.check_leader(
                    self.group, self.generation_id, self.instance or self.member_id
                )

    def join(self, **over: Any) -> Pending[JoinResult]:
        """JoinGroup."""
        pending: Pending[JoinResult] = Pending(f"join of {self.name}", self._joined)
        event = Join(
            pending,
            over.get("group", self.group),
            over.get("member_id", self.member_id),
            over.get("instance", self.instance),
            over.get("client", self.client),
            over.get("session_ms", self.session_ms),
            over.get("rebalance_ms", self.rebalance_ms),
            over.get("protocol_type", self.protocol_type),
            over.get("protocols", self.protocols),
            over.get("reason"),
            self.requires_id,
            self.skips,
        )
        return self.context.ask(event, pending)

    def enter(self) -> Pending[JoinResult]:
        """Joins, and joins again with the id that it got, if it has to."""
        pending = self.join()
        if pending.answered and pending.result.error_code == 79:
            pending = self.join()
        return pending

    def sync(
        self, assignments: Sequence[tuple[str, bytes]] = (), **over: Any
    ) -> Pending[SyncResult]:
        """SyncGroup."""
        generation_id = over.get("generation_id", self.generation_id)
        owner = self.instance or over.get("member_id", self.member_id)

        def synced(result: SyncResult) -> None:
            if result.error_code == 0:
                row = (self.group, generation_id, owner, result.assignment)
                self.context.assigned.append(row)

        pending = Pending(f"sync of {self.name}", synced)
        event = Sync(
            pending,
            over.get("group", self.group),
            generation_id,
            over.get("member_id", self.member_id),
            over.get("instance", self.instance),
            over.get("protocol_type"),
            over.get("protocol_name"),
            over.get("required", False),
            assignments,
        )
        return self.context.ask(event, pending)

    def heartbeat(self, **over: Any) -> int:
        """Sends a heartbeat; returns the error code."""
        return self.start_heartbeat(**over).result.error_code

    def start_heartbeat(self, **over: Any) -> Pending[HeartbeatResult]:
        """The same, while appends are held."""
        pending: Pending[HeartbeatResult] = Pending(f"heartbeat of {self.name}")
        event = Heartbeat(
            pending,
            over.get("group", self.group),
            over.get("generation_id", self.generation_id),
            over.get("member_id", self.member_id),
            over.get("instance", self.instance),
        )
        return self.context.ask(event, pending)

    def leave(self, **over: Any) -> int:
        """Sends LeaveGroup; returns the member's error code, or the request's."""
        leaving = (
            over.get("member_id", self.member_id),
            over.get("instance", self.instance),
        )
        result = start_leave(self.context, leaving, group=self.group).result
        return result.error_code or result.members[0][2]

    def commit(self, topic: str, offset: int, **over: Any) -> int:
        """Sends OffsetCommit for partition 0; returns the error code."""
        result = self.start_commit(topic, offset, **over).result
        return result.codes[0] if result.codes else result.error_code

    def start_commit(
        self, topic: str, offset: int, **over: Any
    ) -> Pending[CommitResult]:
        """The same, while appends are held."""
        mine: dict[str, Any] = {
            "generation_id": self.generation_id,
            "member_id": self.member_id,
            "instance": self.instance,
            "client": self.client,
        }
        return start_commit(
            self.context, [(topic, 0, offset, -1, "")], group=self.group, **mine | over
        )

    def keep_alive(self, ms: int) -> None:
        """Sends heartbeats four times a second for some time."""
        for _ in range(ms // 250):
            self.heartbeat()
            self.context.sleep(250)


Members = Sequence[Member]


def assign(*members: Member) -> list[tuple[str, bytes]]:
    """One assignment per member, with the member's name."""
    return [(m.member_id, f"assigned-{m.name}".encode()) for m in members]
