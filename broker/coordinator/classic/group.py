"""One classic group: its members, its counters, its protocol. It handles no time."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import ClassVar

from kohort.broker.coordinator.classic.member import Member, PendingMember, Protocols
from kohort.broker.coordinator.classic.state import check
from kohort.broker.coordinator.effects import (
    Effect,
    GroupRecord,
    GroupTombstone,
    HeartbeatResult,
    JoinResult,
    MemberRows,
    SyncResult,
)
from kohort.broker.coordinator.events import (
    CommitInTransaction,
    CommitOffsets,
    Offsets,
)
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    GroupState,
)
from kohort.broker.notice import Client
from kohort.broker.runtime.events import TimerKey
from kohort.broker.runtime.java_hash import buckets_for, spread
from kohort.protocol.consumer import (
    PROTOCOL_TYPE,
    Subscription,
    assigned_partitions,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError, codec

HEARTBEAT_RESULTS = {int(code): HeartbeatResult(int(code)) for code in ErrorCode}
_ALIVE = HEARTBEAT_RESULTS[ErrorCode.NONE]
_REBALANCING = HEARTBEAT_RESULTS[ErrorCode.REBALANCE_IN_PROGRESS]


class ClassicGroup(Group):
    """A group of the classic protocol.

    Attributes:
        previous_state: the state before. A group that prepares its rebalance and was
            Empty before is in its initial windows (KIP-134).
        state_timestamp_ms: when it entered its state, ms since the epoch; -1
            if loaded from an old record without it.
        protocol_type: None for a group that has only ever had offsets.
        heartbeat_result: the answer to a member's heartbeat in this state.
        members: by id; `ordered` has them in Kafka's order.
        static_members: member ids by instance id (KIP-345).
        pending_members: by id (KIP-394).
        pending_sync: members of this generation that have not synced yet.
        awaiting_join: number of members with a waiting join; muted ones do not count.
        support: number of members that support a protocol, by protocol.
        new_member_added: a member arrived in this initial window.
        window_ms: the length of the open initial window; None without one.
        remaining_ms: how much longer initial windows may last after that one.
        join_deadline: end of the join phase, or of the window; None outside both.
        sync_deadline: when members that have not synced are removed.
        rest: while the group is held, the seconds left until the deadline of its state;
            None without a deadline.
        parked: while the group is held or its leader is muted, the assignments that
            the leader has sent, by member id.
        rows: the latest generation's members: (id, instance id, metadata).
        started: start of the join phase, in seconds since the epoch.
        completed: end of the last join phase, likewise.
        join_fields: the fields of the latest notice of a join.
            For listeners.
        waits: by member id, the members that this join phase waits for; once a wait
            is over, its end and whether the member rejoined. For listeners.
        told: by member id, when a heartbeat of a member that the group waits for was
            first answered REBALANCE_IN_PROGRESS. For listeners.
    """

    __slots__ = (
        "_buckets",
        "_is_ordered",
        "_latest_offer",
        "_subscribed",
        "_subscriptions",
        "awaiting_join",
        "completed",
        "generation_id",
        "heartbeat_result",
        "join_deadline",
        "join_fields",
        "leader",
        "members",
        "new_member_added",
        "parked",
        "pending_members",
        "pending_sync",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "remaining_ms",
        "rest",
        "rows",
        "started",
        "state",
        "state_timestamp_ms",
        "static_members",
        "support",
        "sync_deadline",
        "told",
        "waits",
        "window_ms",
    )

    type: ClassVar = "classic"
    members: dict[str, Member]

    def __init__(self, group_id: str, now: float) -> None:
        """Creates an Empty group at `now`, seconds since the epoch."""
        super().__init__(group_id)
        self.state: GroupState = EMPTY
        self.previous_state: GroupState = DEAD
        self.state_timestamp_ms = int(now * 1000)
        self.heartbeat_result = _ALIVE
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: dict[str, PendingMember] = {}
        self.pending_sync: set[str] = set()
        self.awaiting_join = 0
        self.support: dict[str, int] = {}
        self.new_member_added = False
        self.window_ms: int | None = None
        self.remaining_ms = 0
        self.rows: MemberRows = ()
        self.started = self.completed = now
        self.join_fields: dict[str, object] = {}
        self.waits: dict[str, tuple[float, bool] | None] = {}
        self.told: dict[str, float] = {}
        self.join_deadline: float | None = None
        self.sync_deadline: float | None = None
        self.rest: float | None = None
        self.parked: dict[str, bytes] | None = None
        self._buckets = buckets_for(0)
        self._is_ordered = True
        self._latest_offer: Protocols = ()
        self._subscriptions: MemberRows | None = None
        self._subscribed: frozenset[str] | None = None

    def sessions(self) -> Iterable[str]:
        """The ids of members and pending members."""
        return [*self.members, *self.pending_members]

    def client_of(self, member_id: str) -> Client | None:
        """The client of a member or pending member; None if it is unknown."""
        if member_id in self.members:
            return self.members[member_id].client
        pending = self.pending_members.get(member_id)
        return None if pending is None else pending.identity.client

    def transition(self, state: GroupState, now: float) -> None:
        """Changes the state; see `kohort.broker.coordinator.classic.state`."""
        check(self.state, state)
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = int(now * 1000)
        self.heartbeat_result = _REBALANCING if state is PREPARING_REBALANCE else _ALIVE

    # -- members

    def add(self, member: Member, protocol_type: str) -> None:
        """Adds a member whose first join waits; the first sets the protocol type."""
        self.protocol_type = protocol_type
        self._put(member)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.elect_leader()
        self._count(member.protocols, 1)
        self.awaiting_join += 1
        self.pending_members.pop(member.member_id, None)

    def take_over(self, generation_id: int, members: Iterable[Member]) -> None:
        """Makes a new group Stable, with members that come from a consumer group."""
        self.generation_id, self.protocol_type = generation_id, PROTOCOL_TYPE
        for member in members:
            self._put(member)
            if member.group_instance_id is not None:
                self.static_members[member.group_instance_id] = member.member_id
            self.leader = self.leader or member.member_id
            self._count(member.protocols, 1)
        self.protocol_name = self.select_protocol()
        self.state = STABLE
        self.rows = self.current_members()
        self._note_subscriptions(self.rows)

    def remove(self, member: Member) -> None:
        """Removes a member; leadership passes on."""
        del self.members[member.member_id]
        self.pending_sync.discard(member.member_id)
        self._count(member.protocols, -1)
        self.drop_join(member)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        self.elect_leader()

    def park_join(self, member: Member, token: object) -> None:
        """Lets a member's join wait."""
        member.join_token = token
        self.awaiting_join += not member.is_muted

    def drop_join(self, member: Member) -> None:
        """Stops the wait of a member's join, if one waits."""
        if member.join_token is not None:
            member.join_token = None
            self.awaiting_join -= not member.is_muted

    def replace(
        self, old: Member, new_member_id: str, connection: int | None
    ) -> Member:
        """Gives a static member without waiting requests a new id (KIP-345).

        As in Kafka, `pending_sync` keeps the old id: if a member is replaced before it
        has synced, a Stable group rebalances when the time for syncs is over, even if
        the member has synced under its new id.
        """
        new = Member(
            self.group_id,
            new_member_id,
            old.group_instance_id,
            old.client._replace(connection=connection),
            old.session_timeout_ms,
            old.rebalance_timeout_ms,
            old.protocols,
        )
        new.assignment = old.assignment
        new.owned = old.owned
        del self.members[old.member_id]
        self._put(new)
        if old.group_instance_id is not None:
            self.static_members[old.group_instance_id] = new_member_id
        if self.leader == old.member_id:
            self.leader = new_member_id
        # A new list: the old rows may be in use elsewhere.
        self.rows = [
            row if row[0] != old.member_id else (new_member_id, *row[1:])
            for row in self.rows
        ]
        return new

    def update(
        self,
        member: Member,
        protocols: Protocols,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
    ) -> None:
        """Takes protocols and timeouts of a member's later JoinGroup."""
        before, member.protocols = member.protocols, protocols
        if [name for name, _ in before] != [name for name, _ in protocols]:
            self._count(before, -1)
            self._count(protocols, 1)
        member.set_timeouts(session_timeout_ms, rebalance_timeout_ms)

    def _put(self, member: Member) -> None:
        self.members[member.member_id] = member
        self._buckets = buckets_for(len(self.members), self._buckets)
        self._is_ordered = False

    def ordered(self) -> Collection[Member]:
        """The members in the order in which Kafka iterates over them: a HashMap's.

        The order depends on the hashes of their ids, and on the largest number of
        members that the group has ever had.
        """
        if not self._is_ordered:
            # The sort is stable: members of one bucket stay in order of arrival. That
            # also holds after the HashMap has grown: they shared one bucket before,
            # too.
            mask = self._buckets - 1
            members = sorted(self.members.values(), key=lambda m: m.spread & mask)
            self.members = {member.member_id: member for member in members}
            self._is_ordered = True
        return self.members.values()

    def _count(self, protocols: Protocols, change: int) -> None:
        for name, _ in protocols:
            self.support[name] = self.support.get(name, 0) + change
            if not self.support[name]:
                del self.support[name]

    def validate_member(self, member_id: str, group_instance_id: str | None) -> int:
        """Returns the error code for an unknown or fenced member; 0 for a valid one."""
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return 0

    def has_all_members_joined(self) -> bool:
        """Returns whether all members have joined and no pending member is left."""
        return self.awaiting_join == len(self.members) and not self.pending_members

    def rebalance_timeout_ms(self) -> int:
        """The longest timeout of all members; computed once per rebalance."""
        timeouts = [member.rebalance_timeout_ms for member in self.members.values()]
        return max(0, max(timeouts, default=0))

    def elect_leader(self, *, of_generation: bool = False) -> bool:
        """Keeps the leader if it can lead, else elects the first member that can.

        Any member can lead a group, but only a member that has joined can lead a
        generation: static members may be late (Kafka's `maybeElectNewJoinedLeader`,
        where any member that can lead may be elected). There are two other ways to
        become leader: a log names it (`restore`), and a static member stays leader
        under its new id (`replace`).

        Returns:
            False if no member can lead.
        """
        leader = self.members.get(self.leader or "")
        if leader is not None and (leader.has_joined or not of_generation):
            return True
        for member in self.ordered():
            if not of_generation or member.has_joined:
                self.leader = member.member_id
                return True
        if not self.members:
            self.leader = None
        return False

    # -- protocols

    def shared_offer(self, protocols: Protocols) -> Protocols:
        """Returns these protocols, as the same object as in the join before.

        Members of a group mostly subscribe alike: listeners then keep one object.
        """
        if protocols is not self._latest_offer and protocols != self._latest_offer:
            self._latest_offer = protocols
        return self._latest_offer

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Returns whether a member with these protocols can join."""
        if self.state is EMPTY:
            return bool(protocol_type and protocols)
        if protocol_type != self.protocol_type:
            return False
        support = [self.support.get(name, 0) for name, _ in protocols]
        return len(self.members) in support

    def select_protocol(self) -> str:
        """Chooses the protocol that most members prefer, of those that all support."""
        everybody = len(self.members)
        candidates = [name for name, n in self.support.items() if n == everybody]
        if len(candidates) == 1:
            return candidates[0]
        votes: dict[str, int] = {}
        for member in self.ordered():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        most = max(votes.values())
        best = [name for name, n in votes.items() if n == most]
        if len(best) == 1:
            return best[0]
        return _first_in_java(best, len(votes))

    def next_generation(self, now: float) -> list[tuple[str, str | None, bytes]]:
        """Starts a generation of the current members; returns them for the leader.

        Each is (member id, instance id, metadata), as in the leader's JoinGroup
        response.
        """
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.pending_sync.clear()
        self.rows = listed = self.current_members()
        self._note_subscriptions(listed)
        self.transition(COMPLETING_REBALANCE if listed else EMPTY, now)
        return listed

    def current_members(self) -> list[tuple[str, str | None, bytes]]:
        """Lists the members for the leader, with their latest metadata."""
        name = self.protocol_name
        return [
            (m.member_id, m.group_instance_id, m.metadata(name)) for m in self.ordered()
        ]

    def join_result(
        self, member: Member, members: MemberRows = (), *, skip_assignment: bool = False
    ) -> JoinResult:
        """Returns the answer to a join: the member is in this generation.

        Args:
            member: the member.
            members: all members, if it is the leader.
            skip_assignment: whether it need not assign again (KIP-814).
        """
        return JoinResult(
            0,
            member.member_id,
            self.generation_id,
            self.protocol_type,
            self.protocol_name,
            self.leader or "",
            skip_assignment,
            members,
        )

    def followers_result(self) -> JoinResult:
        """Returns the answer to the joins of all followers, without their ids."""
        return JoinResult(
            0,
            "",
            self.generation_id,
            self.protocol_type,
            self.protocol_name,
            self.leader or "",
        )

    def sync_result(self) -> SyncResult:
        """Returns the answer to syncs, without the members' assignments."""
        return SyncResult(0, self.protocol_type, self.protocol_name)

    def is_subscribed_to(self, topic: str) -> bool:
        """Returns whether members consume a topic, as of the last generation.

        Consumers with unreadable metadata, or without a generation, might consume any
        topic.
        """
        if self.protocol_type != PROTOCOL_TYPE:
            return False
        topics = self.subscribed_topics()
        return topics is None or topic in topics

    def _note_subscriptions(self, members: MemberRows) -> None:
        """Notes a generation's consumers; other members leave the topics unknown."""
        self._subscribed = None
        is_known = self.protocol_type == PROTOCOL_TYPE
        self._subscriptions = members if is_known else None

    def subscribed_topics(self) -> frozenset[str] | None:
        """All topics of the last generation's consumers; None if unknown.

        Computed on demand: generations are frequent, this question is rare.
        """
        if self._subscriptions is not None:
            self._subscribed = _topics(entry[2] for entry in self._subscriptions)
            self._subscriptions = None
        return self._subscribed

    def partitions_of(self, member_id: str) -> AbstractSet[tuple[str, int]]:
        """The (topic, partition) of a member."""
        return assigned_partitions(self.members[member_id].assignment)

    def has_partitions(self, member_id: str) -> bool:
        """Returns whether a member has synced, in a Stable group."""
        return self.state is STABLE and member_id not in self.pending_sync

    # -- offsets and deletion

    def validate_offset_commit(self, event: CommitOffsets, offsets: Offsets) -> int:
        """Checks the member and its generation; an Empty group takes any commit."""
        del offsets
        generation_id = event.generation_id
        if generation_id < 0 and self.state is EMPTY:
            return 0
        error = self.validate_member(event.member_id, event.group_instance_id)
        if error:
            return error
        if generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if self.state is COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return 0

    def validate_transactional_commit(
        self, event: CommitInTransaction, offsets: Offsets
    ) -> int:
        """Checks the member; old clients send none (KIP-447), in any state."""
        del offsets
        generation_id = event.generation_id
        if generation_id < 0 and (
            self.state is EMPTY
            or (not event.member_id and event.group_instance_id is None)
        ):
            return 0
        error = self.validate_member(event.member_id, event.group_instance_id)
        if not error and generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def validate_offset_delete(self) -> int:
        """Only consumers' metadata has a subscription that can be read."""
        if self.state is not EMPTY and self.protocol_type != PROTOCOL_TYPE:
            return ErrorCode.NON_EMPTY_GROUP
        return 0

    def hear_commit(
        self, member_id: str, now: float, effects: list[Effect] | None = None
    ) -> bool:
        """A commit of a member is a sign of life; simple consumers are no members."""
        member = self.members.get(member_id)
        if member is None:
            return True
        if effects is None:
            return member.stay_alive(now)
        member.keep_alive(now, effects)
        return True

    def retention_since_ms(self) -> float | None:
        """The retention begins when the group becomes Empty.

        It begins with the commit for topics that the consumers of a Stable group do not
        subscribe to, and for simple consumers. No offset expires during a rebalance, if
        subscriptions cannot be read, or if members are not consumers.
        """
        if self.protocol_type is None:
            return None
        if self.state is EMPTY:
            return self.state_timestamp_ms if self.state_timestamp_ms >= 0 else None
        if (
            self.state is not STABLE
            or self.protocol_type != PROTOCOL_TYPE
            or self.subscribed_topics() is None
        ):
            return math.inf
        return None

    def tombstones(self) -> Sequence[GroupTombstone]:
        """The record that deletes it."""
        return (GroupTombstone(self.group_id),)

    def stop_timers(self) -> Sequence[TimerKey]:
        """Forgets its pending members; returns their timers."""
        pending, self.pending_members = self.pending_members, {}
        return [("session", self.group_id, member_id) for member_id in pending]

    # -- the log

    def record(self, assignments: Mapping[str, bytes] | None = None) -> GroupRecord:
        """The group as it is to be restored; by default with its assignments."""
        name = self.protocol_name
        return GroupRecord(
            self.group_id,
            self.protocol_type or "",
            self.generation_id,
            name,
            self.leader,
            self.state_timestamp_ms,
            [
                (
                    m.member_id,
                    m.group_instance_id,
                    m.client.id,
                    m.client.host,
                    m.rebalance_timeout_ms,
                    m.session_timeout_ms,
                    m.metadata(name),
                    m.assignment if assignments is None else assignments[m.member_id],
                )
                for m in self.ordered()
            ],
        )

    def restore(self, record: GroupRecord) -> None:
        """Restores a new group from its record: Stable, or Empty without members.

        Members come back only with the protocol that was chosen, so a follower that
        rejoins with more protocols has changed its metadata.
        """
        self.generation_id = record.generation_id
        self.protocol_type = record.protocol_type or None
        self.protocol_name = record.protocol_name
        self.state_timestamp_ms = record.state_timestamp_ms
        for row in record.members:
            member_id, instance, client_id, host, rebalance_ms, session_ms = row[:6]
            if rebalance_ms == -1:
                rebalance_ms = session_ms  # JoinGroup v0 had one timeout for both
            member = Member(
                self.group_id,
                member_id,
                instance,
                Client(client_id, host),
                session_ms,
                rebalance_ms,
                ((record.protocol_name or "", row[6]),),
            )
            member.assignment = row[7]
            self._put(member)
            if instance is not None:
                self.static_members[instance] = member_id
            self._count(member.protocols, 1)
        if self.members:
            self.state = STABLE
            self.leader = record.leader
            self.elect_leader()
        self.rows = self.current_members()
        self._note_subscriptions(self.rows)


def find(groups: Mapping[str, Group], group_id: str) -> ClassicGroup | None:
    """Returns a group, if it is of the classic protocol."""
    group = groups.get(group_id)
    return group if type(group) is ClassicGroup else None


def _topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics in subscriptions; None if one of them cannot be decoded.

    Only the fields of version 0 are read, as in Kafka: newer versions append fields,
    which do not matter here.
    """
    known = codec(Subscription, 0, flexible=False)
    topics: set[str] = set()
    for data in subscriptions:
        if len(data) < 2 or data[0] & 0x80:
            return None
        try:
            message, _ = known.decode(data, 2, len(data))
        except WireError:
            return None
        topics.update(message.topics)
    return frozenset(topics)


def _first_in_java(names: Iterable[str], size: int) -> str:
    """Returns the name that comes first in a Java HashMap of this many entries.

    Kafka breaks ties between protocols this way. It is deterministic, so users rely on
    it.
    """
    buckets = buckets_for(size)
    return min(names, key=lambda name: spread(name) & (buckets - 1))
