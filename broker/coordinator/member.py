"""One member of a group."""

from __future__ import annotations

from collections.abc import Collection

from kohort.broker.coordinator.effects import MemberDescription, Who
from kohort.broker.coordinator.events import TimerKey

NEVER = float("inf")

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) in order of preference; each name once."""


class Member:
    """A member, and the requests of it that wait for an answer.

    Attributes:
        join_token: of the join that waits; None where none does.
        sync_token: of the sync that waits; None where none does.
        is_new: its first join has not been answered yet. The session of such a
            member ends even while its join waits.
        session_timeout: in seconds, for the hot path.
        deadline: when its session ends, unless it shows a sign of life.
        armed: when the session's timer fires next, at or before `deadline`;
            never, where there is no timer.
        identity: who it is, for notices.
        owned: the assignment that listeners know it by; unlike `assignment` it
            stays while the group rebalances.
        told_at: when its join was answered, in seconds since the epoch.
    """

    __slots__ = (
        "armed",
        "assignment",
        "client_host",
        "client_id",
        "deadline",
        "group_instance_id",
        "identity",
        "is_new",
        "join_token",
        "member_id",
        "owned",
        "protocols",
        "rebalance_timeout_ms",
        "session_key",
        "session_timeout",
        "session_timeout_ms",
        "sync_token",
        "told_at",
    )

    def __init__(
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        client: tuple[str, str],
        timeouts_ms: tuple[int, int],
        protocols: Protocols,
    ) -> None:
        """Makes a member.

        Args:
            group_id: the group that it is in.
            member_id: its id.
            group_instance_id: of a static member (KIP-345).
            client: client id and host.
            timeouts_ms: of the session and of rebalances.
            protocols: what it supports.
        """
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id, self.client_host = client
        self.identity: Who = (member_id, group_instance_id, *client)
        self.protocols = protocols
        self.set_timeouts(*timeouts_ms)
        self.assignment = b""
        self.owned = b""
        self.told_at = 0.0
        self.join_token: object | None = None
        self.sync_token: object | None = None
        self.is_new = False
        self.session_key: TimerKey = ("session", group_id, member_id)
        self.deadline = NEVER
        self.armed = NEVER

    def set_timeouts(self, session_timeout_ms: int, rebalance_timeout_ms: int) -> None:
        """Takes the timeouts of a join."""
        self.session_timeout_ms = session_timeout_ms
        self.session_timeout = session_timeout_ms / 1000
        self.rebalance_timeout_ms = rebalance_timeout_ms

    @property
    def satisfies_heartbeat(self) -> bool:
        """Whether it counts as alive without heartbeats: while a request waits."""
        return not self.is_new and (
            self.join_token is not None or self.sync_token is not None
        )

    def metadata(self, protocol_name: str | None) -> bytes:
        """What it said for a protocol; nothing where it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: Collection[str]) -> str:
        """The first of its protocols that is a candidate."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"{self.member_id} supports none of {candidates}")

    def describe(self, protocol_name: str | None) -> MemberDescription:
        """How DescribeGroups shows it; metadata only for a given protocol."""
        return MemberDescription(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            b"" if protocol_name is None else self.metadata(protocol_name),
            self.assignment,
        )
