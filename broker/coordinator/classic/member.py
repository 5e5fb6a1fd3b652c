"""One member of a group."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kohort.broker.coordinator.effects import Effect, MemberDescription
from kohort.broker.notice import Client, Who, make
from kohort.broker.runtime.effects import Arm
from kohort.broker.runtime.events import TimerKey
from kohort.broker.runtime.java_hash import spread

NEVER = float("inf")

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) in order of preference; each name once."""


class PendingMember(NamedTuple):
    """A member id that was handed out and has not joined yet (KIP-394)."""

    identity: Who
    deadline: float
    """When it is removed, in seconds since the epoch."""
    session_timeout: float
    """Its session timeout, in seconds."""


class Member:
    """A member, and its requests that wait for an answer.

    Attributes:
        join_token: the join that waits, or None.
        sync_token: the sync that waits, or None.
        is_muted: nothing that it sends counts as a sign of life.
        is_new: its first join has not been answered yet. The session of a new
            member ends even while its join waits.
        session_timeout: in seconds, for the hot path.
        deadline: when its session ends, unless it shows a sign of life.
        armed: when the session's timer fires next, at or before `deadline`;
            infinity without a timer.
        client: the sender of its first JoinGroup, on the connection of the latest.
        identity: its ids and client, for notices.
        spread: bits of its id's hash, by which its group orders members.
        owned: the assignment that listeners know; unlike `assignment`, it stays while
            the group rebalances.
        told_at: when its join was answered, in seconds since the epoch.
    """

    __slots__ = (
        "armed",
        "assignment",
        "client",
        "deadline",
        "group_instance_id",
        "identity",
        "is_muted",
        "is_new",
        "join_token",
        "member_id",
        "owned",
        "protocols",
        "rebalance_timeout_ms",
        "session_key",
        "session_timeout",
        "session_timeout_ms",
        "spread",
        "sync_token",
        "told_at",
    )

    def __init__(
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        client: Client,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Protocols,
    ) -> None:
        """Creates a member without waiting requests and without a session timer.

        Args:
            group_id: its group.
            member_id: its id.
            group_instance_id: of a static member (KIP-345).
            client: the sender of its JoinGroup.
            session_timeout_ms: how long it may be silent.
            rebalance_timeout_ms: how long it may take to rejoin.
            protocols: supported protocols with their metadata, in order of preference.
        """
        self.member_id = member_id
        self.spread = spread(member_id)
        self.group_instance_id = group_instance_id
        self.client = client
        self.identity = make(Who, (member_id, group_instance_id, client))
        self.protocols = protocols
        self.set_timeouts(session_timeout_ms, rebalance_timeout_ms)
        self.assignment = b""
        self.owned = b""
        self.told_at = 0.0
        self.join_token: object | None = None
        self.sync_token: object | None = None
        self.is_new = False
        self.is_muted = False
        self.session_key: TimerKey = ("session", group_id, member_id)
        self.deadline = NEVER
        self.armed = NEVER

    def set_connection(self, connection: int | None) -> None:
        """Notes the connection of its latest JoinGroup.

        As in Kafka, client id and host stay those of the first one.
        """
        if connection != self.client.connection:
            self.client = self.client._replace(connection=connection)
            self.identity = self.identity._replace(client=self.client)

    def set_timeouts(self, session_timeout_ms: int, rebalance_timeout_ms: int) -> None:
        """Takes the timeouts of a join."""
        self.session_timeout_ms = session_timeout_ms
        self.session_timeout = session_timeout_ms / 1000
        self.rebalance_timeout_ms = rebalance_timeout_ms

    def stay_alive(self, now: float) -> bool:
        """Restarts its session, unless it is muted; see `sessions.keep_alive`.

        Returns:
            False if nothing was done: the session's timer has to be armed.
        """
        if not self.is_muted:
            deadline = now + self.session_timeout
            if deadline < self.armed:
                return False
            self.deadline = deadline
        return True

    def keep_alive(self, now: float, effects: list[Effect]) -> None:
        """The same; arms the session's timer if necessary."""
        if not self.stay_alive(now):
            self.deadline = self.armed = now + self.session_timeout
            effects.append(Arm(self.session_key, self.deadline))

    @property
    def satisfies_heartbeat(self) -> bool:
        """True while a request of it waits: it is alive without heartbeats."""
        return not (self.is_new or self.is_muted) and (
            self.join_token is not None or self.sync_token is not None
        )

    @property
    def has_joined(self) -> bool:
        """True if a join of it waits, and counts."""
        return self.join_token is not None and not self.is_muted

    def metadata(self, protocol_name: str | None) -> bytes:
        """Returns its metadata for a protocol; empty if it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: Collection[str]) -> str:
        """Returns the first of its protocols that is a candidate."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"{self.member_id} supports none of {candidates}")

    def describe(self, protocol_name: str | None) -> MemberDescription:
        """Returns its row in DescribeGroups; metadata only for a given protocol."""
        return MemberDescription(
            self.member_id,
            self.group_instance_id,
            self.client.id,
            self.client.host,
            b"" if protocol_name is None else self.metadata(protocol_name),
            self.assignment,
        )
