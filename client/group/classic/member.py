"""The state of one member; the functions of this package read and change it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kohort.client.assignors import ASSIGNORS
from kohort.client.assignors.contract import Assignor, RebalanceProtocol, TopicPartition
from kohort.client.config import ConsumerConfig
from kohort.client.group.classic.state import ENDED, UNJOINED, MemberState, check
from kohort.client.group.effects import Call
from kohort.client.group.events import Closed

Partitions = frozenset[TopicPartition]

NOTHING: Partitions = frozenset()

_JOIN_LAPSE_MS = 5_000
"""Time beyond the rebalance timeout to wait for a response."""


@dataclass(slots=True, eq=False, repr=False)
class Member:
    """One member of a group."""

    config: ConsumerConfig
    group_id: str = field(init=False)
    assignors: Sequence[Assignor] = field(init=False)
    """In order of preference. The member works cooperatively if all of them are
    cooperative, else eagerly: the first step of a migration."""
    state: MemberState = UNJOINED
    member_id: str = ""
    """Empty until the coordinator has assigned one."""
    generation_id: int = -1
    """-1 without a generation."""
    owned: Partitions = NOTHING
    """The partitions that it may consume."""
    subscription: tuple[str, ...] | None = None
    """The topics it subscribes to; None without a subscription."""
    topics: frozenset[str] = frozenset()
    """The topics to watch: those of the whole group if it is the leader."""
    is_leader: bool = False
    protocol_name: str | None = None
    """The assignor that the group has chosen."""
    pending: dict[int, str] = field(default_factory=dict)
    """The requests, or the assignment, that it waits for, by token."""
    last_token: int = 0

    # The listener.
    call: Call | None = None
    """The running call."""
    lost: Partitions = NOTHING
    """The lost partitions for its next call."""
    target: Partitions | None = None
    """The next assignment."""
    last_assignment: tuple[Sequence[TopicPartition] | None, int] = (None, -1)
    """The last assignment and its generation, for the assignor's user data."""

    # Joins.
    rejoin_reason: str | None = None
    """The reason to join; None if it need not."""
    join_reason: str = ""
    """The reason of its last join."""
    attempts: int = 0
    retry_at: float | None = None
    partitions: dict[str, int] = field(default_factory=dict)
    """Partitions per topic, in the metadata."""
    assigned_by: dict[str, int] | None = None
    """Partitions per topic when it assigned as the leader."""

    # Heartbeats and polls.
    heartbeat_sent: float = 0.0
    session_deadline: float = 0.0
    session_armed: float | None = None
    stood_still: bool = False
    is_polling: bool = False
    poll_deadline: float = 0.0
    poll_armed: bool = False
    awaits_poll: bool = False
    """True if max.poll.interval.ms has passed: no join is sent until a poll."""

    # Reasons to leave.
    closed: Closed | None = None
    unsubscribed: bool = False
    has_failed: bool = False
    leave_deadline: float | None = None

    def __post_init__(self) -> None:
        self.group_id = self.config.group_id or ""
        names = self.config.partition_assignment_strategy
        self.assignors = [ASSIGNORS[name] for name in names]

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

    @property
    def is_unsubscribing(self) -> bool:
        """True if it still has to revoke its partitions after it unsubscribed."""
        return self.unsubscribed and self.state is not ENDED

    @property
    def is_leaving(self) -> bool:
        """True if it leaves as soon as no request or call is under way."""
        return self.closed is not None or self.unsubscribed or self.has_failed

    def token(self) -> int:
        """A new token."""
        self.last_token += 1
        return self.last_token

    def settle(self, token: int) -> str | None:
        """Stops waiting for a token; returns its request, None if there is none."""
        return self.pending.pop(token, None)

    def awaits(self, request: str) -> bool:
        """Returns whether it waits for a response."""
        return request in self.pending.values()

    def rejoin_for(self, reason: str) -> None:
        """Asks for a join; the first of several reasons is sent."""
        if self.rejoin_reason is None:
            self.rejoin_reason = reason

    def unwanted(self, partitions: Partitions) -> Partitions:
        """Partitions of topics that it does not subscribe to."""
        wanted = self.subscription or ()
        return frozenset(p for p in partitions if p[0] not in wanted)

    def follow(self) -> None:
        """Stops leading, and watches its own topics only."""
        self.is_leader = False
        self.topics = frozenset(self.subscription or ())
        self.assigned_by = None

    def transition(self, state: MemberState) -> None:
        """Changes the state."""
        check(self.state, state)
        self.state = state
