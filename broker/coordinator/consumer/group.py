"""One consumer group (KIP-848): its epochs, members and assignments.

Its durable state changes by records alone: `ConsumerGroup.replay` takes one, whether it
is new or from the log, and returns the record that would undo it. So a change whose
records the log refuses is undone by these, and `as_of` shows the group as the log has
it. Everything else is computed from that state, or is a timer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar, Final, NamedTuple

from kohort.broker.coordinator.consumer.member import Member, MemberState
from kohort.broker.coordinator.consumer.regex import Resolution
from kohort.broker.coordinator.consumer.topics_hash import TopicHashes
from kohort.broker.coordinator.effects import (
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    ConsumerRecord,
    CurrentAssignmentRecord,
    Effect,
    PartitionMetadataTombstone,
    RegularExpressionRecord,
    TargetAssignmentRecord,
    TargetMemberRecord,
    TopicPartitions,
)
from kohort.broker.coordinator.events import (
    CommitInTransaction,
    CommitOffsets,
    FetchOffsets,
    Offsets,
)
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.state import (
    ASSIGNING,
    DEAD,
    EMPTY,
    RECONCILING,
    STABLE,
    GroupState,
)
from kohort.broker.coordinator.topics import TopicImage, TopicsImage
from kohort.broker.notice import Client
from kohort.broker.runtime.events import TimerKey
from kohort.broker.runtime.java_hash import in_timeline
from kohort.protocol.consumer import PROTOCOL_TYPE
from kohort.protocol.errors import ErrorCode

FIRST_EPOCH: Final = 1
"""The epoch of a group, and of its target assignment, before any record."""

Partitions = dict[bytes, frozenset[int]]
"""Partitions by topic id."""

Downgrade = Callable[..., bool]
"""``downgrade(turn, group, leaving, cause)``: makes a group a classic one in place of
removing its last members of the consumer protocol; returns whether it did so. See
`kohort.broker.coordinator.migration`."""


class Pattern(NamedTuple):
    """The topics that a pattern of some members matches."""

    topics: frozenset[str]
    version: int
    """The version of the cluster's metadata."""
    time_ms: int
    """Ms since the epoch."""


class ConsumerGroup(Group):
    """A group of the consumer protocol.

    Attributes:
        generation_id: the group epoch.
        assignment_epoch: that of the target assignment; less than the group epoch
            while a new one has to be computed.
        assigned_ms: the time of the target assignment, ms since the epoch; 0 for none.
        topics_hash: the hash of the topics that it subscribes to; `hashes` has each.
        members: by id.
        most_members: the largest number of members that it has had.
        static_members: member ids by instance id (KIP-345).
        targets: the target assignment, by member id.
        patterns: by pattern, the topics that it matches, once they are known.
        subscribers: by pattern, the number of members that have it.
        names: by topic, the number of members that subscribe to it by name.
        owners: by topic id and partition, the member that may read it.
        topics: the cluster's topics.
        default_assignor: the assignor if no member asks for one.
        downgrade: makes it a classic group when its last members of the consumer
            protocol go; None if it never becomes one.
        classic_members: the number of its members that use the classic protocol.
        classic_protocols: by protocol, the number of these that support it.
        is_stale: its topics may have changed since `topics_hash` was computed.
        has_stale_patterns: topics have changed since patterns were resolved.
        resolves_at: when its patterns will be resolved; None if they need not be.
        resolution: that work, if it has begun, and the version of the topics.
        started: when the group epoch was bumped, in seconds since the epoch.
            For listeners.
        computed: when the target assignment was computed, likewise.
        listed: the members of the previous target assignment. For listeners.
    """

    __slots__ = (
        "_epoch",
        "_replays",
        "_stable",
        "_target",
        "assigned_ms",
        "assignment_epoch",
        "classic_members",
        "classic_protocols",
        "computed",
        "default_assignor",
        "downgrade",
        "generation_id",
        "has_stale_patterns",
        "hashes",
        "is_stale",
        "listed",
        "members",
        "most_members",
        "names",
        "owners",
        "patterns",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "resolution",
        "resolves_at",
        "started",
        "state",
        "static_members",
        "subscribers",
        "targets",
        "topics",
        "topics_hash",
    )

    type: ClassVar = "consumer"
    members: dict[str, Member]

    def __init__(
        self,
        group_id: str,
        topics: TopicsImage,
        default_assignor: str,
        downgrade: Downgrade | None = None,
    ) -> None:
        """Creates a group without records, members and offsets."""
        super().__init__(group_id)
        self.downgrade = downgrade
        self.classic_protocols: dict[str, int] = {}
        self.topics = topics
        self.hashes = TopicHashes()
        self.default_assignor = default_assignor
        self.protocol_type = PROTOCOL_TYPE
        self.protocol_name: str | None = None
        self.state: GroupState = EMPTY
        self.previous_state: GroupState = DEAD
        self.members = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, TopicPartitions] = {}
        self.patterns: dict[str, Pattern] = {}
        self.subscribers: dict[str, int] = {}
        self.names: dict[str, int] = {}
        self.owners: dict[bytes, dict[int, str]] = {}
        self.is_stale = self.has_stale_patterns = True
        self.resolves_at: float | None = None
        self.resolution: tuple[Resolution, int] | None = None
        self.started = self.computed = 0.0
        self.listed: tuple[str, ...] = ()
        self.most_members = self.classic_members = 0
        # The values of the records; None without one.
        self._epoch: tuple[int, int] | None = None
        self._target: tuple[int, int] | None = None
        # By epoch, the number of stable members in it.
        self._stable: dict[int, int] = {}
        self.generation_id = self.assignment_epoch = FIRST_EPOCH
        self.assigned_ms = self.topics_hash = 0
        self._replays: Mapping[type, Callable[[Any], ConsumerRecord]] = {
            ConsumerGroupRecord: self._replay_epoch,
            ConsumerMemberRecord: self._replay_member,
            TargetAssignmentRecord: self._replay_target,
            TargetMemberRecord: self._replay_target_member,
            CurrentAssignmentRecord: self._replay_current,
            RegularExpressionRecord: self._replay_pattern,
        }

    # -- records

    def replay(self, record: ConsumerRecord) -> ConsumerRecord:
        """Changes the durable state; returns the record that undoes the change."""
        undo = self._replays[type(record)](record)
        self._find_state()
        return undo

    def _replay_epoch(self, record: ConsumerGroupRecord) -> ConsumerGroupRecord:
        before, self._epoch = self._epoch, record.value
        self.generation_id, self.topics_hash = record.value or (FIRST_EPOCH, 0)
        return ConsumerGroupRecord(self.group_id, before)

    def _replay_target(self, record: TargetAssignmentRecord) -> TargetAssignmentRecord:
        before, self._target = self._target, record.value
        self.assignment_epoch, self.assigned_ms = record.value or (FIRST_EPOCH, 0)
        return TargetAssignmentRecord(self.group_id, before)

    def _replay_target_member(self, record: TargetMemberRecord) -> TargetMemberRecord:
        member_id, value = record.member_id, record.value
        before = self.targets.get(member_id)
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = value
        return TargetMemberRecord(self.group_id, member_id, before)

    def _replay_pattern(
        self, record: RegularExpressionRecord
    ) -> RegularExpressionRecord:
        regex, value = record.regex, record.value
        found = self.patterns.pop(regex, None)
        if value is not None:
            topics, version, time_ms = value
            self.patterns[regex] = Pattern(frozenset(topics), version, time_ms)
        before = None
        if found is not None:
            before = sorted(found.topics), found.version, found.time_ms
        return RegularExpressionRecord(self.group_id, regex, before)

    def _replay_member(self, record: ConsumerMemberRecord) -> ConsumerMemberRecord:
        member_id = record.member_id
        member = self._member(member_id)
        before = member.stated
        self._count_subscription(member, -1)
        instance_id = member.group_instance_id
        if instance_id and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        if record.value is None:
            self._count_stable(member, -1)
            self._release(member)
            del self.members[member_id]
        member.state_itself(record.value)
        self._count_subscription(member, 1)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member_id
        return ConsumerMemberRecord(self.group_id, member_id, before)

    def _replay_current(
        self, record: CurrentAssignmentRecord
    ) -> CurrentAssignmentRecord:
        member_id = record.member_id
        member = self._member(member_id)
        before = member.current
        self._count_stable(member, -1)
        self._release(member)
        member.move(record.value)
        if member.stated is None and record.value is None:
            del self.members[member_id]
        else:
            self._count_stable(member, 1)
            for topic_id, partition in member.holds():
                self.owners.setdefault(topic_id, {})[partition] = member_id
        return CurrentAssignmentRecord(self.group_id, member_id, before)

    def _member(self, member_id: str) -> Member:
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = Member(self.group_id, member_id)
            self._count_stable(member, 1)
            self.most_members = max(self.most_members, len(self.members))
        return member

    def _release(self, member: Member) -> None:
        """Removes it as an owner, unless a later record has another owner."""
        for topic_id, partition in member.holds():
            owners = self.owners.get(topic_id, {})
            if owners.get(partition) == member.member_id:
                del owners[partition]
                if not owners:
                    del self.owners[topic_id]

    def _count_stable(self, member: Member, change: int) -> None:
        if member.state is MemberState.STABLE:
            _count(self._stable, member.epoch, change)

    def _count_subscription(self, member: Member, change: int) -> None:
        for topic in member.topics:
            _count(self.names, topic, change)
        if member.regex is not None:
            _count(self.subscribers, member.regex, change)
        if member.says.classic is not None:
            self.classic_members += change
            for name, _ in member.says.classic[1]:
                _count(self.classic_protocols, name, change)

    def _find_state(self) -> None:
        if self.state is DEAD:
            return
        if not self.members:
            self.state = EMPTY
        elif self.generation_id > self.assignment_epoch:
            self.state = ASSIGNING
        elif self._stable.get(self.assignment_epoch, 0) == len(self.members):
            self.state = STABLE
        else:
            self.state = RECONCILING

    def records(self) -> Iterator[ConsumerRecord]:
        """Yields the records of its durable state, without offsets."""
        group_id = self.group_id
        for member_id, member in self.members.items():
            if member.stated is not None:
                yield ConsumerMemberRecord(group_id, member_id, member.stated)
        for regex, pattern in self.patterns.items():
            value = sorted(pattern.topics), pattern.version, pattern.time_ms
            yield RegularExpressionRecord(group_id, regex, value)
        if self._epoch is not None:
            yield ConsumerGroupRecord(group_id, self._epoch)
        for member_id, target in self.targets.items():
            yield TargetMemberRecord(group_id, member_id, target)
        if self._target is not None:
            yield TargetAssignmentRecord(group_id, self._target)
        for member_id, member in self.members.items():
            if member.current is not None:
                yield CurrentAssignmentRecord(group_id, member_id, member.current)

    def ordered_ids(self) -> list[str]:
        """The ids of the members in the order in which Kafka iterates over them."""
        return in_timeline(self.members, self.most_members)

    def tombstones(
        self, order: Sequence[str] | None = None
    ) -> Iterator[ConsumerRecord]:
        """The records that delete it, in Kafka's order.

        Args:
            order: the ids of its members; by default `ordered_ids`.
        """
        group_id = self.group_id
        member_ids = self.ordered_ids() if order is None else order
        for member_id in member_ids:
            yield CurrentAssignmentRecord(group_id, member_id, None)
        for member_id in member_ids:
            yield TargetMemberRecord(group_id, member_id, None)
        yield TargetAssignmentRecord(group_id, None)
        for member_id in member_ids:
            yield ConsumerMemberRecord(group_id, member_id, None)
        for regex in self.patterns:
            yield RegularExpressionRecord(group_id, regex, None)
        yield PartitionMetadataTombstone(group_id)
        yield ConsumerGroupRecord(group_id, None)

    def as_of(self, undone: Iterable[Any]) -> ConsumerGroup:
        """Returns the group without some changes, or itself if there are none."""
        records = [*undone]
        if not records:
            return self
        earlier = ConsumerGroup(self.group_id, self.topics, self.default_assignor)
        for record in (*self.records(), *records):
            earlier.replay(record)
        earlier.committed = self.committed
        earlier.most_members = self.most_members
        return earlier

    def take_back(self, undone: Iterable[Any]) -> None:
        """Takes changes back: the log refused their records."""
        for record in undone:
            self.replay(record)

    def transition(self, state: GroupState, now: float) -> None:
        """Marks it as Dead; its other states follow from its records."""
        del now
        assert state is DEAD
        self.previous_state, self.state = self.state, state

    # -- members

    def ordered(self) -> Iterable[Member]:
        """The members, in Kafka's order."""
        return [self.members[each] for each in self.ordered_ids()]

    def partitions_of(self, member_id: str) -> AbstractSet[tuple[str, int]]:
        """The (topic, partition) that a member may read."""
        return self.named(pairs_of(self.members[member_id].assigned))

    def target_of(self, member_id: str) -> AbstractSet[tuple[str, int]]:
        """The (topic, partition) of a member in the target assignment."""
        return self.named(pairs_of(by_topic(self.targets.get(member_id, ()))))

    def named(self, partitions: Iterable[tuple[bytes, int]]) -> set[tuple[str, int]]:
        """Returns partitions by topic in place of its id; a deleted topic has none."""
        found = ((self.topics.with_id(topic), each) for topic, each in partitions)
        return {(image.name, each) for image, each in found if image is not None}

    def has_partitions(self, member_id: str) -> bool:
        """Returns whether a member has its partitions of the target assignment."""
        is_current = self.state in {STABLE, RECONCILING}
        return is_current and self.members[member_id].is_reconciled(
            self.assignment_epoch
        )

    def sessions(self) -> Iterable[str]:
        """The ids of members."""
        return [*self.members]

    def client_of(self, member_id: str) -> Client | None:
        """The client of a member; None if it is unknown."""
        member = self.members.get(member_id)
        return None if member is None else member.client

    def static_member(self, instance_id: str | None) -> Member | None:
        """The member with an instance id."""
        if instance_id is None or instance_id not in self.static_members:
            return None
        return self.members[self.static_members[instance_id]]

    def waits_for_partitions(self, member: Member) -> bool:
        """Returns whether others hold partitions of a member's target assignment."""
        return any(
            partition not in member.assigned.get(topic_id, ())
            and partition in self.owners.get(topic_id, ())
            for topic_id, partitions in self.targets.get(member.member_id, ())
            for partition in partitions
        )

    def assignor(self, voter: Member | None = None) -> str:
        """The assignor that most members ask for, or else the default one.

        Of several, it is the first one in a hash table of Kafka's: for a new target
        assignment another than for a description.

        Args:
            voter: the member whose heartbeat needs a new target assignment. Kafka has
                put its vote into a copy of the table; alone, it is the first there.
        """
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.says.server_assignor
            if name is not None:
                votes[name] = votes.get(name, 0) + 1
        if not votes:
            return self.default_assignor
        ordered = in_timeline(votes, len(votes))
        newest = None if voter is None else voter.says.server_assignor
        if newest is not None and votes[newest] == 1:
            ordered.insert(0, newest)
        return max(ordered, key=votes.__getitem__)

    # -- topics

    def subscription(self, member: Member) -> frozenset[str]:
        """The topics that a member subscribes to, by name and by its pattern."""
        pattern = None if member.regex is None else self.patterns.get(member.regex)
        return member.topics if pattern is None else member.topics | pattern.topics

    def topic_ids(self, member: Member) -> frozenset[bytes]:
        """The ids of the topics that a member subscribes to, if they exist."""
        images = self.existing(self.subscription(member))
        return frozenset(each.topic_id for each in images)

    def subscribed_topics(self) -> AbstractSet[str]:
        """The topics that any member subscribes to."""
        if not self.patterns:
            return self.names.keys()
        matched = (each.topics for each in self.patterns.values())
        return frozenset(self.names).union(*matched)

    def existing(self, names: AbstractSet[str]) -> list[TopicImage]:
        """Returns the topics of these names that exist; most may not."""
        there = self.topics.names()
        if len(there) < len(names):
            names = {each for each in there if each in names}
        found = map(self.topics.named, names)
        return [each for each in found if each is not None]

    def is_homogeneous(self) -> bool:
        """Returns whether all members subscribe to the same topics."""
        everybody = len(self.members)
        if not self.subscribers:
            return all(count == everybody for count in self.names.values())
        count = next(iter(self.subscribers.values()))
        return count == everybody and len(self.subscribers) == 1 and not self.names

    def is_subscribed_to(self, topic: str) -> bool:
        """Returns whether a member consumes a topic, by its name or a pattern."""
        return topic in self.names or any(
            topic in each.topics for each in self.patterns.values()
        )

    # -- offsets

    def validate_offset_commit(self, event: CommitOffsets, offsets: Offsets) -> int:
        """Checks the member and its epoch.

        An older epoch is valid for partitions that the member has had since that epoch
        (KIP-1251).
        """
        epoch = event.generation_id
        if epoch < 0 and not self.members:
            return 0
        member = self.members.get(event.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not member.is_classic and event.unknown_group_is_illegal_generation:
            # OffsetCommit before v9 knows no epochs.
            return ErrorCode.UNSUPPORTED_VERSION
        return self._validate_epoch(member, epoch, offsets)

    def validate_transactional_commit(
        self, event: CommitInTransaction, offsets: Offsets
    ) -> int:
        """The same; old clients name no member (KIP-447)."""
        epoch = event.generation_id
        is_unnamed = not event.member_id and event.group_instance_id is None
        if epoch < 0 and (not self.members or (epoch == -1 and is_unnamed)):
            return 0
        member = self.members.get(event.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self._validate_epoch(member, epoch, offsets)
        if error == ErrorCode.STALE_MEMBER_EPOCH:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def _validate_epoch(self, member: Member, epoch: int, offsets: Offsets) -> int:
        stale = ErrorCode.STALE_MEMBER_EPOCH
        if member.is_classic:
            stale = ErrorCode.ILLEGAL_GENERATION
        if epoch == member.epoch:
            return 0
        if epoch > member.epoch:
            return stale
        for topic, partition in zip(offsets.topics, offsets.partitions, strict=True):
            image = self.topics.named(topic)
            topic_id = b"" if image is None else image.topic_id
            since = member.assigned.get(topic_id, {}).get(partition)
            if since is None:
                since = member.revoking.get(topic_id, {}).get(partition)
            if since is None or epoch < since:
                return stale
        return 0

    def validate_offset_fetch(self, event: FetchOffsets) -> int:
        """Checks the member and its epoch, if the request names one."""
        if event.member_id is None and event.member_epoch < 0:
            return 0
        member = self.members.get(event.member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if event.member_epoch == member.epoch:
            return 0
        if member.is_classic:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.STALE_MEMBER_EPOCH

    def validate_offset_delete(self) -> int:
        """Offsets of topics without subscribers can always be deleted."""
        return 0

    def hear_commit(
        self, member_id: str, now: float, effects: list[Effect] | None = None
    ) -> bool:
        """Only heartbeats are signs of life."""
        del member_id, now, effects
        return True

    def retention_since_ms(self) -> float | None:
        """Offsets of topics without subscribers expire, each since its commit."""
        return None

    def stop_timers(self) -> Iterable[TimerKey]:
        """The timer of patterns: an empty group has no members and no sessions."""
        if self.resolves_at is None:
            return ()
        self.resolves_at = self.resolution = None
        return (("regex", self.group_id),)


def _count(counts: dict[Any, int], key: Any, change: int) -> None:
    """Adds to a count; a count of 0 has no entry."""
    counts[key] = counts.get(key, 0) + change
    if not counts[key]:
        del counts[key]


def find(groups: Mapping[str, Group], group_id: str) -> ConsumerGroup | None:
    """Returns a group, if it is of the consumer protocol."""
    group = groups.get(group_id)
    return group if type(group) is ConsumerGroup else None


def pairs_of(
    partitions: Mapping[bytes, Iterable[int]],
) -> Iterator[tuple[bytes, int]]:
    """Yields partitions as pairs."""
    return ((topic, each) for topic, ids in partitions.items() for each in ids)


def by_topic(rows: TopicPartitions) -> Partitions:
    """Returns partitions by topic id."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in rows}
