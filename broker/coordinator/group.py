"""One group: its members, its counters, its protocol. Decides nothing about time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kohort.broker.coordinator.effects import (
    GroupRecord,
    HeartbeatResult,
    JoinResult,
    MemberRows,
    SyncResult,
)
from kohort.broker.coordinator.events import Client
from kohort.broker.coordinator.java_hash import buckets_for, spread
from kohort.broker.coordinator.member import Member, PendingMember, Protocols
from kohort.broker.coordinator.state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    GroupState,
    check,
)
from kohort.protocol.consumer import PROTOCOL_TYPE, Subscription
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError, codec

HEARTBEAT_RESULTS = {int(code): HeartbeatResult(int(code)) for code in ErrorCode}
_ALIVE = HEARTBEAT_RESULTS[ErrorCode.NONE]
_REBALANCING = HEARTBEAT_RESULTS[ErrorCode.REBALANCE_IN_PROGRESS]

OffsetEntry = tuple[int, int, str, int]
"""(offset, leader epoch, metadata, commit time in ms since the epoch)."""


class Group:
    """A group of the classic protocol.

    Attributes:
        previous_state: where it came from. A group that prepares its rebalance
            and was Empty before is in its initial windows (KIP-134).
        state_timestamp_ms: when it entered its state, ms since the epoch; -1
            if loaded from an old record without it.
        protocol_type: None for a group that only ever had offsets.
        heartbeat_result: the answer to a member's heartbeat in this state.
        members: by id; `ordered` has them in Kafka's order.
        static_members: member ids by instance id (KIP-345).
        pending_members: by id (KIP-394).
        pending_sync: members of this generation that have not synced yet.
        awaiting_join: how many members have a join that waits.
        support: how many members support a protocol.
        new_member_added: a member arrived in this initial window.
        window_ms: the length of the initial window that is open; None for none.
        remaining_ms: how much longer initial windows may last after that one.
        join_deadline: when the join phase, or the window, ends; None outside.
        sync_deadline: when members that have not synced are removed.
        rows: the latest generation's members: (id, instance id, metadata).
        started: when the join phase began, in seconds since the epoch.
        completed: when the last one was over.
        waits: by member id, the members that this join phase waits for; once a wait
            is over, its end and whether the member rejoined. For listeners.
        offsets: by (topic, partition).
        expire_ms: when an offset expires, where its commit said so itself.
    """

    __slots__ = (
        "_buckets",
        "_is_ordered",
        "_subscribed",
        "_subscriptions",
        "awaiting_join",
        "completed",
        "expire_ms",
        "generation_id",
        "group_id",
        "heartbeat_result",
        "join_deadline",
        "leader",
        "members",
        "new_member_added",
        "offsets",
        "pending_members",
        "pending_sync",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "remaining_ms",
        "rows",
        "started",
        "state",
        "state_timestamp_ms",
        "static_members",
        "support",
        "sync_deadline",
        "waits",
        "window_ms",
    )

    def __init__(self, group_id: str, now: float) -> None:
        """An Empty group that is made at `now`, seconds since the epoch."""
        self.group_id = group_id
        self.state: GroupState = EMPTY
        self.previous_state: GroupState = DEAD
        self.state_timestamp_ms = int(now * 1000)
        self.heartbeat_result = _ALIVE
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
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
        self.waits: dict[str, tuple[float, bool] | None] = {}
        self.join_deadline: float | None = None
        self.sync_deadline: float | None = None
        self.offsets: dict[tuple[str, int], OffsetEntry] = {}
        self.expire_ms: dict[tuple[str, int], int] = {}
        self._buckets = buckets_for(0)
        self._is_ordered = True
        self._subscriptions: MemberRows | None = None
        self._subscribed: frozenset[str] | None = None

    def transition(self, state: GroupState, now: float) -> None:
        """Goes to another state; see `kohort.broker.coordinator.state`."""
        check(self.state, state)
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = int(now * 1000)
        self.heartbeat_result = _REBALANCING if state is PREPARING_REBALANCE else _ALIVE

    # -- members

    def add(self, member: Member, protocol_type: str) -> None:
        """Takes in a member whose first join waits; the first one brings the type."""
        self.protocol_type = protocol_type
        self._put(member)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.elect_leader()
        self._count(member.protocols, 1)
        self.awaiting_join += 1
        self.pending_members.pop(member.member_id, None)

    def remove(self, member: Member) -> None:
        """Takes out a member; leadership passes on."""
        del self.members[member.member_id]
        self.pending_sync.discard(member.member_id)
        self._count(member.protocols, -1)
        if member.join_token is not None:
            self.awaiting_join -= 1
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        self.elect_leader()

    def replace(
        self, old: Member, new_member_id: str, connection: int | None
    ) -> Member:
        """Gives a static member without waiting requests a new id (KIP-345).

        Whether the old id has synced stays noted under the old id, as in Kafka:
        replaced before it synced, a member of a Stable group causes a rebalance
        when the time for syncs is over, even if it has synced under its new id.
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
        # Others may still read the rows as they were.
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
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)
        member.set_timeouts(session_timeout_ms, rebalance_timeout_ms)

    def _put(self, member: Member) -> None:
        self.members[member.member_id] = member
        self._buckets = buckets_for(len(self.members), self._buckets)
        self._is_ordered = False

    def ordered(self) -> Collection[Member]:
        """The members in the order in which Kafka goes through them: a HashMap's.

        It follows from the hashes of their ids, and from how many members the group
        has ever had at once.
        """
        if not self._is_ordered:
            # The sort is stable. Members of one bucket stay in order of arrival, also
            # when the buckets were fewer: theirs was one bucket then, too.
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
        """Whether all members have joined, and no pending member is left."""
        return self.awaiting_join == len(self.members) and not self.pending_members

    def rebalance_timeout_ms(self) -> int:
        """The longest of all members' timeouts; once per rebalance."""
        timeouts = (member.rebalance_timeout_ms for member in self.members.values())
        return max(0, max(timeouts, default=0))

    def elect_leader(self, *, of_generation: bool = False) -> bool:
        """Keeps the leader if it can lead, else elects the first that can.

        Any member can lead a group. A generation can only be led by a member that has
        joined it: static members may be late (Kafka's `maybeElectNewJoinedLeader`,
        where any member that can lead may be elected).
        Nothing else makes a leader, but for a log that names it (`restore`); a static
        member keeps the lead under its new id (`replace`).

        Returns:
            False if no member can lead.
        """
        leader = self.members.get(self.leader or "")
        if leader is not None and not (of_generation and leader.join_token is None):
            return True
        for member in self.ordered():
            if not of_generation or member.join_token is not None:
                self.leader = member.member_id
                return True
        if not self.members:
            self.leader = None
        return False

    # -- protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols fits in."""
        if self.state is EMPTY:
            return bool(protocol_type and protocols)
        if protocol_type != self.protocol_type:
            return False
        everybody = len(self.members)
        return any(self.support.get(name, 0) == everybody for name, _ in protocols)

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
            members: all members, if it leads.
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

    def sync_result(self, member: Member) -> SyncResult:
        """Returns the answer to a sync: the member's assignment."""
        return SyncResult(0, self.protocol_type, self.protocol_name, member.assignment)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members consume a topic, as of the last generation.

        Consumers that cannot be understood, or have no generation yet, might
        consume anything.
        """
        if self.protocol_type != PROTOCOL_TYPE:
            return False
        topics = self.subscribed_topics()
        return topics is None or topic in topics

    def _note_subscriptions(self, members: MemberRows) -> None:
        """Members that are no consumers leave it open for consumers that follow."""
        self._subscribed = None
        is_known = self.protocol_type == PROTOCOL_TYPE
        self._subscriptions = members if is_known else None

    def subscribed_topics(self) -> frozenset[str] | None:
        """All topics of the last generation's consumers; None if that is unknown.

        Worked out when asked for: generations come often, this question does not.
        """
        if self._subscriptions is not None:
            self._subscribed = _topics(entry[2] for entry in self._subscriptions)
            self._subscriptions = None
        return self._subscribed

    # -- the log

    def record(self, assignments: Mapping[str, bytes] | None = None) -> GroupRecord:
        """The group as it is to be found again; by default with its assignments."""
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

        Members come back with the protocol that was chosen, and with no other: a
        follower that rejoins with more of them has changed its metadata.
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


def _topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics in subscriptions; None if one of them cannot be decoded.

    Only the fields of version 0 are read, as Kafka does: newer versions add
    fields behind them, and those do not matter here.
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

    That is how Kafka chooses among protocols with equally many votes: always the same
    way, so that users rely on it.
    """
    buckets = buckets_for(size)
    return min(names, key=lambda name: spread(name) & (buckets - 1))
