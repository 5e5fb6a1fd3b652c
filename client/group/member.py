"""The state that members of all protocols have: subscription, partitions, polls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from kohort.client.assignors.contract import TopicPartition
from kohort.client.config import ConsumerConfig
from kohort.client.group.effects import Call
from kohort.client.group.events import Closed

Partitions = frozenset[TopicPartition]

NOTHING: Partitions = frozenset()


@dataclass(slots=True, eq=False, repr=False)
class Member(ABC):
    """One member of a group."""

    transitions: ClassVar[Mapping[Any, frozenset[Any]]]
    """All transitions of its states; none from the last one."""
    has_epoch: ClassVar[bool] = False
    """True if `generation_id` is the member's own epoch (KIP-848)."""
    config: ConsumerConfig
    group_id: str = field(init=False)
    state: StrEnum = field(init=False)
    """Its state in its protocol; `transition` changes it."""
    member_id: str = ""
    """Empty until the member has one, from the coordinator or the client."""
    generation_id: int = -1
    """The generation, or the member's epoch, of its commits; -1 without one."""
    owned: Partitions = NOTHING
    """The partitions that it may consume."""
    subscription: tuple[str, ...] | None = None
    """The topics it subscribes to; None without a subscription."""
    topics: frozenset[str] = frozenset()
    """The topics to watch in the metadata."""
    pending: dict[int, str] = field(default_factory=dict)
    """The requests, or the computation, that it waits for, by token."""
    last_token: int = 0

    # The listener.
    call: Call | None = None
    """The running call."""
    lost: Partitions = NOTHING
    """The lost partitions for its next call."""
    target: Partitions | None = None
    """The next assignment."""

    # Back-off.
    attempts: int = 0
    retry_at: float | None = None

    # Polls.
    is_polling: bool = False
    poll_deadline: float = 0.0
    poll_armed: bool = False
    awaits_poll: bool = False
    """True if max.poll.interval.ms has passed: it stays outside until a poll."""

    # Reasons to leave.
    closed: Closed | None = None
    unsubscribed: bool = False
    """True until it has left after it unsubscribed."""
    has_failed: bool = False
    has_ended: bool = False
    """True in its last state; it takes no more events."""

    def __post_init__(self) -> None:
        self.group_id = self.config.group_id or ""

    @property
    @abstractmethod
    def is_rebalancing(self) -> bool:
        """True if the coordinator may refuse commits until a rebalance is complete."""

    @property
    def is_leaving(self) -> bool:
        """True if it leaves as soon as no request or call is under way."""
        return self.closed is not None or self.unsubscribed or self.has_failed

    def transition(self, state: StrEnum) -> None:
        """Changes the state.

        Raises:
            AssertionError: `transitions` does not have it: a mistake of ours.
        """
        if state not in self.transitions[self.state]:
            raise AssertionError(f"no transition from {self.state} to {state}")
        self.state = state
        self.has_ended = not self.transitions[state]

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

    def unwanted(self, partitions: Partitions) -> Partitions:
        """Partitions of topics that it does not subscribe to."""
        wanted = self.subscription or ()
        return frozenset(p for p in partitions if p[0] not in wanted)
