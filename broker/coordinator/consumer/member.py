"""One member of a consumer group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from kohort.broker.coordinator.effects import (
    ConsumerMember,
    CurrentAssignment,
    EpochPartitions,
)
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.notice import Client, Who, make
from kohort.broker.runtime.events import TimerKey

NEVER: Final = float("inf")
AWAY: Final = -2
"""The epoch of a static member that left and will come back."""

Epochs = Mapping[bytes, Mapping[int, int]]
"""By topic id and partition, the epoch at which the partition was assigned."""


class MemberState(IntEnum):
    """The state of a member, with Kafka's numbers."""

    STABLE = 0
    """It has its partitions of the target assignment."""
    UNREVOKED_PARTITIONS = 1
    """It has to give up partitions before it goes on to the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """It is in the epoch of the target; other members have some of its partitions."""
    UNKNOWN = 127
    """A newer version of Kafka wrote it; the member has to join again."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        del value
        return cls.UNKNOWN


NEW: Final = ConsumerMember(None, None, "", "", (), "", -1, None, None)
"""A member before its first heartbeat."""
NOWHERE: Final = CurrentAssignment(0, -1, MemberState.STABLE, (), ())
"""The state of a member before its first heartbeat."""


class Member:
    """A member: its durable state, and its timers.

    `kohort.broker.coordinator.consumer.group` alone changes the durable state.

    Attributes:
        member_id: its id.
        stated: its subscription and client, as its record has them; None without one.
        current: its epochs and partitions, likewise.
        topics: the names that it subscribes to.
        assigned: the partitions that it may read, with the epochs at which they were
            assigned.
        revoking: the partitions that it has to give up, likewise.
        alive: the sender, the settings and the heartbeat interval of a heartbeat that
            changed nothing; None before one, and after a change.
        connection: the connection of its latest join; None if unknown.
        is_fenced: its heartbeats fail until it joins again: a test fenced it.
        is_muted: nothing that it sends counts as a sign of life.
        session_timeout: in seconds.
        deadline: when its session ends, unless it shows a sign of life.
        armed: when the session's timer fires next, at or before `deadline`; infinity
            without a timer.
        rejoin_by: when a classic member is removed unless it has joined again; None if
            it need not.
        sync_by: when a classic member is removed unless it has synced; likewise.
        revoke_by: when it is removed unless it has given up its partitions, in seconds
            since the epoch; None if it has none to give up.
    """

    __slots__ = (
        "_identity",
        "alive",
        "armed",
        "assigned",
        "connection",
        "current",
        "deadline",
        "is_fenced",
        "is_muted",
        "member_id",
        "rejoin_by",
        "revoke_by",
        "revoking",
        "session_key",
        "session_timeout",
        "stated",
        "sync_by",
        "topics",
    )

    def __init__(self, group_id: str, member_id: str) -> None:
        """Creates a member without state and without timers."""
        self.member_id = member_id
        self.stated: ConsumerMember | None = None
        self.current: CurrentAssignment | None = None
        self.topics: frozenset[str] = frozenset()
        self.assigned: Epochs = {}
        self.revoking: Epochs = {}
        self.alive: tuple[Client, GroupSettings, int] | None = None
        self.connection: int | None = None
        self.is_fenced = False
        self.is_muted = False
        self.session_timeout = 0.0
        self.session_key: TimerKey = ("session", group_id, member_id)
        self.deadline = NEVER
        self.armed = NEVER
        self.revoke_by: float | None = None
        self.rejoin_by: float | None = None
        self.sync_by: float | None = None
        self._identity: Who | None = None

    # -- durable state

    def state_itself(self, stated: ConsumerMember | None) -> None:
        """Takes the subscription and the client of a record."""
        self.stated = stated
        self.topics = frozenset((stated or NEW).subscribed_topics)
        self._identity = self.alive = None

    def move(self, current: CurrentAssignment | None) -> None:
        """Takes the epochs and partitions of a record."""
        self.current = current
        found = current or NOWHERE
        self.assigned = epochs_of(found.assigned)
        self.revoking = epochs_of(found.pending_revocation)

    @property
    def says(self) -> ConsumerMember:
        """Its subscription and client."""
        return self.stated or NEW

    @property
    def at(self) -> CurrentAssignment:
        """Its epochs and partitions."""
        return self.current or NOWHERE

    @property
    def epoch(self) -> int:
        """Its epoch; -2 while it is away."""
        return self.at.member_epoch

    @property
    def state(self) -> MemberState:
        """Its state."""
        return MemberState(self.at.state)

    @property
    def regex(self) -> str | None:
        """The pattern of topics that it subscribes to; None for none."""
        return self.says.subscribed_regex or None

    @property
    def is_classic(self) -> bool:
        """Whether it uses the classic protocol, in a group that migrates."""
        return self.says.classic is not None

    @property
    def has_to_revoke(self) -> bool:
        """True if the rebalance timeout runs: it has partitions to give up."""
        return (
            self.at.state == MemberState.UNREVOKED_PARTITIONS
            and self.epoch != AWAY
            and not self.is_classic
        )

    def is_reconciled(self, epoch: int) -> bool:
        """Returns whether it has its partitions of the target of an epoch."""
        at = self.at
        return at.state == MemberState.STABLE and at.member_epoch == epoch

    def holds(self) -> Iterable[tuple[bytes, int]]:
        """Yields the partitions that no other member may read."""
        for partitions in (self.assigned, self.revoking):
            for topic_id, epochs in partitions.items():
                for partition in epochs:
                    yield topic_id, partition

    # -- as all groups see it

    @property
    def group_instance_id(self) -> str | None:
        """Its instance id, if it is static (KIP-345)."""
        return self.says.group_instance_id

    @property
    def client(self) -> Client:
        """The sender of its heartbeats."""
        says = self.says
        return Client(says.client_id, says.client_host, self.connection)

    @property
    def identity(self) -> Who:
        """Its ids and client, for notices."""
        if self._identity is None:
            who = self.member_id, self.group_instance_id, self.client
            self._identity = make(Who, who)
        return self._identity

    def heard_on(self, connection: int | None) -> None:
        """Notes the connection of its latest join."""
        if connection != self.connection:
            self.connection = connection
            self._identity = None


def epochs_of(rows: EpochPartitions) -> dict[bytes, dict[int, int]]:
    """Returns the partitions of a record, and their epochs, by topic id."""
    return {
        topic_id: dict(zip(partitions, epochs, strict=True))
        for topic_id, partitions, epochs in rows
    }


def rows_of(epochs: Epochs) -> EpochPartitions:
    """Returns partitions and their epochs as a record has them."""
    rows = []
    for topic_id, partitions in epochs.items():
        ordered = sorted(partitions)
        rows.append((topic_id, ordered, [partitions[each] for each in ordered]))
    return rows
