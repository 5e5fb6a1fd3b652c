"""The state of a member of the classic protocol; this package reads and changes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kohort.client.assignors import ASSIGNORS
from kohort.client.assignors.contract import Assignor, RebalanceProtocol, TopicPartition
from kohort.client.group.classic.state import (
    COMPLETING_REBALANCE,
    PREPARING_REBALANCE,
    TRANSITIONS,
    UNJOINED,
    MemberState,
)
from kohort.client.group.member import Member
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest

_JOIN_LAPSE_MS = 5_000
"""Time beyond the rebalance timeout to wait for a response."""


@dataclass(slots=True, eq=False, repr=False)
class ClassicMember(Member):
    """One member of a group that uses the classic protocol."""

    transitions = TRANSITIONS

    assignors: Sequence[Assignor] = field(init=False)
    """In order of preference. The member works cooperatively if all of them are
    cooperative, else eagerly: the first step of a migration."""
    state: MemberState = UNJOINED
    is_leader: bool = False
    """If so, `topics` are those of the whole group."""
    protocol_name: str | None = None
    """The assignor that the group has chosen."""
    last_assignment: tuple[Sequence[TopicPartition] | None, int] = (None, -1)
    """The last assignment and its generation, for the assignor's user data."""

    # Joins.
    rejoin_reason: str | None = None
    """The reason to join; None if it need not."""
    join_reason: str = ""
    """The reason of its last join."""
    partitions: dict[str, int] = field(default_factory=dict)
    """Partitions per topic, in the metadata."""
    assigned_by: dict[str, int] | None = None
    """Partitions per topic when it assigned as the leader."""
    leave_deadline: float | None = None

    # Heartbeats.
    heartbeat: HeartbeatRequest | None = None
    """The latest; the same object until its generation or id changes."""
    heartbeat_sent: float = 0.0
    session_deadline: float = 0.0
    session_armed: float | None = None
    stood_still: bool = False

    def __post_init__(self) -> None:
        Member.__post_init__(self)
        names = self.config.partition_assignment_strategy
        self.assignors = [ASSIGNORS[name] for name in names]

    @property
    def is_rebalancing(self) -> bool:
        """True from its JoinGroup until SyncGroup is answered."""
        return self.state in (PREPARING_REBALANCE, COMPLETING_REBALANCE)

    @property
    def is_cooperative(self) -> bool:
        """True if it keeps its partitions while it joins (KIP-429)."""
        cooperative = RebalanceProtocol.COOPERATIVE
        return all(cooperative in assignor.protocols for assignor in self.assignors)

    @property
    def rebalance_wait_ms(self) -> int:
        """Time limit of a request that waits for a rebalance."""
        config = self.config
        limit_ms = config.max_poll_interval_ms + _JOIN_LAPSE_MS
        return max(config.request_timeout_ms, limit_ms)

    def rejoin_for(self, reason: str) -> None:
        """Asks for a join; the first of several reasons is sent."""
        if self.rejoin_reason is None:
            self.rejoin_reason = reason

    def follow(self) -> None:
        """Stops leading, and watches its own topics only."""
        self.is_leader = False
        self.topics = frozenset(self.subscription or ())
        self.assigned_by = None
