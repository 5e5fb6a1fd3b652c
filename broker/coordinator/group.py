"""Groups of any protocol: what offsets, listing, deletion and load know of a group.

It is Kafka's interface of the same name. Each protocol has a subclass in its room.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import ClassVar, Final, Protocol

from kohort.broker.coordinator.committed import (
    CommittedOffsets,
    OffsetEntry,
    OffsetKey,
)
from kohort.broker.coordinator.effects import ConsumerRecord, Effect, Written
from kohort.broker.coordinator.events import (
    CommitInTransaction,
    CommitOffsets,
    FetchOffsets,
    Offsets,
)
from kohort.broker.coordinator.state import GroupState
from kohort.broker.notice import Client, Who
from kohort.broker.runtime.events import TimerKey

Work = tuple[str, ...]
"""A step of a group that writes many records, such as ``("upgrade",)``."""
RETRY_S: Final = 10
"""Seconds after which a step is tried again whose records the log refused."""

Pending = dict[OffsetKey, dict[int, OffsetEntry | None]]
"""By (topic, partition), the pending offset of each producer id, in the order of the
log. None: a later commit has taken its place."""


class GroupMember(Protocol):
    """A member of a group of any protocol."""

    @property
    def member_id(self) -> str:
        """Its id."""

    @property
    def group_instance_id(self) -> str | None:
        """The instance id of a static member (KIP-345); None for a dynamic one."""

    @property
    def client(self) -> Client:
        """The sender of its requests."""

    @property
    def identity(self) -> Who:
        """Its ids and client, for notices."""

    @property
    def is_muted(self) -> bool:
        """Nothing that it sends counts as a sign of life."""

    @property
    def session_timeout(self) -> float:
        """In seconds."""

    @property
    def deadline(self) -> float:
        """When its session ends, in seconds since the epoch; infinity: never."""


class Group(ABC):
    """A group of any protocol, with its offsets.

    Attributes:
        type: the protocol, as ListGroups names it.
        group_id: its id.
        generation_id: its generation, or epoch.
        state: its state.
        previous_state: the state before.
        protocol_type: None for a group that has only ever had offsets.
        protocol_name: its assignor, for consumers.
        members: by id.
        static_members: member ids by instance id (KIP-345).
        committed: see `offsets`.
        expire_ms: the expiry of an offset, if its commit set one.
        pending: offsets of open transactions; see `kohort.broker.coordinator.pending`.
        refused: steps whose records the log refused, with the generation and the time.
    """

    __slots__ = ("committed", "expire_ms", "group_id", "pending", "refused")

    type: ClassVar[str]
    generation_id: int
    state: GroupState
    previous_state: GroupState
    protocol_type: str | None
    protocol_name: str | None
    static_members: dict[str, str]

    def __init__(self, group_id: str) -> None:
        """Creates a group without offsets."""
        self.group_id = group_id
        self.committed = CommittedOffsets()
        self.expire_ms: dict[OffsetKey, int] = {}
        self.pending: Pending = {}
        self.refused: dict[Work, tuple[int, float]] = {}

    @property
    def offsets(self) -> dict[OffsetKey, OffsetEntry]:
        """The committed offsets by (topic, partition)."""
        return self.committed.read()

    @property
    @abstractmethod
    def members(self) -> Mapping[str, GroupMember]:
        """The members by id."""

    @abstractmethod
    def ordered(self) -> Iterable[GroupMember]:
        """The members, in Kafka's order."""

    @abstractmethod
    def partitions_of(self, member_id: str) -> AbstractSet[tuple[str, int]]:
        """The (topic, partition) of a member.

        None without an assignment, or if its assignor is not one of consumers.
        """

    @abstractmethod
    def has_partitions(self, member_id: str) -> bool:
        """Returns whether a member has its latest assignment, in a Stable group."""

    @abstractmethod
    def subscribed_topics(self) -> AbstractSet[str] | None:
        """The topics that members consume; None if unknown."""

    @abstractmethod
    def sessions(self) -> Iterable[str]:
        """The ids whose sessions run: of members, and of those that may join."""

    @abstractmethod
    def client_of(self, member_id: str) -> Client | None:
        """The client of a session; None if it is unknown."""

    @abstractmethod
    def transition(self, state: GroupState, now: float) -> None:
        """Changes the state, at `now`, in seconds since the epoch."""

    def as_of(self, undone: Iterable[ConsumerRecord]) -> Group:
        """Returns the group before some changes, taken back by these records.

        Groups whose changes have no such records are returned as they are.
        """
        del undone
        return self

    def take_back(self, undone: Iterable[ConsumerRecord]) -> None:
        """Takes changes back: the log refused their records."""
        assert not [*undone]

    def note_refused(self, work: Work, now: float) -> None:
        """Notes that the log has refused the records of a step: they are too large."""
        self.refused = {
            each: found
            for each, found in self.refused.items()
            if now < found[1] + RETRY_S
        }
        self.refused[work] = self.generation_id, now

    def is_refused(self, work: Work, generation_id: int, now: float) -> bool:
        """Returns whether the log would refuse the records of a step again.

        It is not computed anew for each request: after `RETRY_S`, or in another
        generation, it may have fewer records.
        """
        found = self.refused.get(work)
        return (
            found is not None and found[0] == generation_id and now < found[1] + RETRY_S
        )

    # -- offsets

    @abstractmethod
    def validate_offset_commit(self, event: CommitOffsets, offsets: Offsets) -> int:
        """Returns the error code for a commit of offsets; 0 if it is valid.

        Args:
            event: the request.
            offsets: those of its offsets whose metadata is not too long.
        """

    @abstractmethod
    def validate_transactional_commit(
        self, event: CommitInTransaction, offsets: Offsets
    ) -> int:
        """Returns the error code for offsets in a transaction; 0 if it is valid."""

    def validate_offset_fetch(self, event: FetchOffsets) -> int:
        """Returns the error code for a fetch of offsets; 0 if it is valid."""
        del event
        return 0

    @abstractmethod
    def validate_offset_delete(self) -> int:
        """Returns the error code for a deletion of offsets; 0 if it is valid."""

    @abstractmethod
    def hear_commit(
        self, member_id: str, now: float, effects: list[Effect] | None = None
    ) -> bool:
        """Takes a valid commit as a sign of life, if the protocol does.

        Args:
            member_id: the sender.
            now: seconds since the epoch.
            effects: takes the timer of the member's session, if it has to be armed.

        Returns:
            False if nothing was done: there is a timer, and no `effects`.
        """

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Returns whether members consume a topic; True if that is unknown."""

    @abstractmethod
    def retention_since_ms(self) -> float | None:
        """Returns since when the offsets may expire (KIP-211).

        Returns:
            Ms since the epoch. None: each since its commit. Infinity: none expires.
        """

    # -- deletion

    @abstractmethod
    def tombstones(self) -> Iterable[Written]:
        """The records that delete it, apart from its offsets."""

    @abstractmethod
    def stop_timers(self) -> Iterable[TimerKey]:
        """The timers of a group without members: they are no longer needed."""
