"""The state of a member of a consumer group; this package reads and changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kohort.client.group.consumer.state import TRANSITIONS, UNSUBSCRIBED, MemberState
from kohort.client.group.member import Member

Numbers = Mapping[bytes, tuple[int, ...]]
"""Partitions by the id of their topic, in order."""


@dataclass(slots=True, eq=False, repr=False)
class ConsumerMember(Member):
    """One member of a group that uses the consumer protocol (KIP-848).

    The client makes the `member_id`, which stays the same. `generation_id` is the
    member's epoch while it is in the group.
    """

    transitions = TRANSITIONS
    has_epoch = True
    state: MemberState = UNSUBSCRIBED
    pattern: str | None = None
    """A regular expression that the coordinator resolves, next to `subscription`."""
    had_pattern: bool = False
    """True if the coordinator may have one from this member."""

    # Heartbeats.
    heartbeat_sent: float = 0.0
    is_due: bool = False
    """True if a heartbeat follows the response to the one under way."""
    told: tuple[tuple[str, ...], str | None] | None = None
    """The subscription in the last heartbeat. None if the coordinator may not have it
    all: the next one is complete."""

    # Reconciliation.
    assigned: Numbers | None = None
    """The last assignment from the coordinator."""
    taken: Numbers = field(default_factory=dict)
    """The part of it that becomes, or has become, `owned`."""
    is_acknowledged: bool = True
    """False until a heartbeat says what the member owns by the last assignment."""
    reconciled: Numbers | None = None
    """The partitions that it owns since the last reconciliation; None before one."""
    names: dict[bytes, str] = field(default_factory=dict)
    """Names of topics, by id."""
    lookups: int = 0
    """Look-ups in a row that did not find all topics."""
    looks_up_later: bool = False
    """True until the next look-up begins."""

    @property
    def is_rebalancing(self) -> bool:
        """Always true: a heartbeat may raise the epoch before its response is here."""
        return True
