"""The state of one member, which the functions of this folder read and change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kohort.client.assignors import ASSIGNORS
from kohort.client.assignors.contract import Assignor, RebalanceProtocol, TopicPartition
from kohort.client.config import ConsumerConfig
from kohort.client.errors import ConfigError
from kohort.client.group.effects import Call
from kohort.client.group.events import Closed
from kohort.client.group.state import ENDED, UNJOINED, MemberState, check

Partitions = frozenset[TopicPartition]

NOTHING: Partitions = frozenset()

_JOIN_LAPSE_MS = 5_000
"""Time beyond the rebalance timeout to wait for a response."""


def _assignors(names: Sequence[str]) -> list[Assignor]:
    unknown = [name for name in names if name not in ASSIGNORS]
    if unknown:
        known = ", ".join(sorted(ASSIGNORS))
        raise ConfigError(
            f"partition_assignment_strategy: {unknown[0]!r} is not one of {known}"
        )
    return [ASSIGNORS[name] for name in names]


@dataclass(slots=True, eq=False, repr=False)
class Member:
    """One member of a group.

    Raises:
        ConfigError: an assignor is unknown.
    """

    config: ConsumerConfig
    group_id: str = field(init=False)
    assignors: Sequence[Assignor] = field(init=False)
    """In order of preference. The member works cooperatively if all of them do;
    else eagerly, which is the first step of the way from one to the other."""
    state: MemberState = UNJOINED
    member_id: str = ""
    """Empty until the coordinator has assigned one."""
    generation_id: int = -1
    """-1 outside of a generation."""
    owned: Partitions = NOTHING
    """The partitions that it may consume."""
    subscription: tuple[str, ...] | None = None
    """The topics it subscribes to; None without a subscription."""
    topics: frozenset[str] = frozenset()
    """The topics whose partitions it has to know: the group's if it leads."""
    is_leader: bool = False
    protocol_name: str | None = None
    """The assignor that the group has chosen."""
    pending: dict[int, str] = field(default_factory=dict)
    """The requests, or assignment, that it waits for, by token."""
    last_token: int = 0

    # The listener.
    call: Call | None = None
    """The call that runs."""
    lost: Partitions = NOTHING
    """The partitions to call it about as lost."""
    target: Partitions | None = None
    """The assignment to take next."""
    last_assignment: tuple[Sequence[TopicPartition] | None, int] = (None, -1)
    """The last assignment and its generation, for an assignor's user data."""

    # Joins.
    rejoin_reason: str | None = None
    """Why it has to join."""
    join_reason: str = ""
    """Why it joined the last time."""
    attempts: int = 0
    retry_at: float | None = None
    partitions: dict[str, int] = field(default_factory=dict)
    """Partitions per topic, in the metadata."""
    assigned_by: dict[str, int] | None = None
    """Partitions per topic when it assigned as the leader."""

    # Signs of life.
    heartbeat_sent: float = 0.0
    session_deadline: float = 0.0
    session_armed: float | None = None
    stood_still: bool = False
    is_polling: bool = False
    poll_deadline: float = 0.0
    poll_armed: bool = False
    awaits_poll: bool = False
    """Whether max.poll.interval.ms has passed: no join is sent until a poll."""

    # Why it leaves.
    closed: Closed | None = None
    unsubscribed: bool = False
    has_failed: bool = False
    leave_deadline: float | None = None

    def __post_init__(self) -> None:
        self.group_id = self.config.group_id or ""
        self.assignors = _assignors(self.config.partition_assignment_strategy)

    @property
    def is_cooperative(self) -> bool:
        """Whether it keeps its partitions while it joins (KIP-429)."""
        cooperative = RebalanceProtocol.COOPERATIVE
        return all(cooperative in assignor.protocols for assignor in self.assignors)

    @property
    def rebalance_wait_ms(self) -> int:
        """How long a request may wait for a rebalance."""
        config = self.config
        limit_ms = config.max_poll_interval_ms + _JOIN_LAPSE_MS
        return max(config.request_timeout_ms, limit_ms)

    @property
    def is_unsubscribing(self) -> bool:
        """Whether it still has to give up its partitions after it unsubscribed."""
        return self.unsubscribed and self.state is not ENDED

    @property
    def is_leaving(self) -> bool:
        """Whether it leaves as soon as nothing else is under way."""
        return self.closed is not None or self.unsubscribed or self.has_failed

    def token(self) -> int:
        """A new token."""
        self.last_token += 1
        return self.last_token

    def settle(self, token: int) -> str | None:
        """Stops waiting for a token; returns its request, None if there is none."""
        return self.pending.pop(token, None)

    def awaits(self, request: str) -> bool:
        """Whether it waits for the answer to a request."""
        return request in self.pending.values()

    def rejoin_for(self, reason: str) -> None:
        """Asks for a join; of several reasons the first is sent."""
        if self.rejoin_reason is None:
            self.rejoin_reason = reason

    def unwanted(self, partitions: Partitions) -> Partitions:
        """Partitions of topics that it does not subscribe to."""
        wanted = self.subscription or ()
        return frozenset(p for p in partitions if p[0] not in wanted)

    def follow(self) -> None:
        """Leads no more: it watches its own topics alone."""
        self.is_leader = False
        self.topics = frozenset(self.subscription or ())
        self.assigned_by = None

    def transition(self, state: MemberState) -> None:
        """Goes to another state."""
        check(self.state, state)
        self.state = state
