"""The accounts of delivery of all groups of a stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

from kohort.broker.events.account.accounts import Accounts
from kohort.broker.events.account.group import GroupAccounts
from kohort.broker.events.account.values import Event, Partition, partitions
from kohort.broker.events.delivery import passages
from kohort.broker.events.delivery.counted import Counted
from kohort.broker.events.delivery.notes import (
    Asked,
    Dropped,
    Ended,
    Note,
    OutOfRange,
    Read,
    Sent,
)
from kohort.broker.events.delivery.partition import PartitionDelivery
from kohort.broker.events.delivery.passages import Pace
from kohort.broker.events.delivery.values import (
    WentBack,
)
from kohort.broker.events.seen import Seen
from kohort.broker.events.sources import Count
from kohort.broker.notice import Client

MOST_GROUPS: Final = 10_000
"""Groups with an account; the earliest goes."""
MOST_BACK: Final = 1_000
"""Commits of a group that went back; the earliest go."""

_ENDS: Final[Mapping[str, str]] = {
    "member_joined": passages.PAUSED,
    "rebalance_started": passages.PAUSED,
    "member_synced": passages.REVOKED,
    "partitions_changed": passages.REVOKED,
}
"""How a passage ends at an event, unless its member is gone."""
_DEPARTURES: Final = frozenset({"member_left", "session_expired"})
"""Causes of a rebalance that may be the end of the group's work."""
_GONE: Final = frozenset(
    {"member_left", "member_expired", "member_kicked", "member_replaced"}
)


class GroupDelivery:
    """The account of one group.

    Attributes:
        group_id: its id.
        partitions: by (topic, partition).
        went_back: commits below the committed offset.
        rewound: those of them that no event has told.
        told_uncommitted: records not committed, by the last event.
        loaded: offsets that a coordinator has loaded.
        is_transactional: whether a member's last commit was part of a transaction.
        early: by partition, the last connection that asked for it, but not for its
            reader. librdkafka may fetch a partition that it has lost, and drops those
            records when the partition comes back.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.partitions: dict[Partition, PartitionDelivery] = {}
        self.went_back: deque[WentBack] = deque(maxlen=MOST_BACK)
        self.rewound: list[WentBack] = []
        self.told_uncommitted = 0
        self.loaded: dict[Partition, int] = {}
        self.is_transactional = False
        self.early: dict[Partition, int] = {}
        # The generation in which a topic was first assigned.
        self._first: dict[str, int] = {}
        self._known: set[Partition] = set()
        self._paces: dict[str, Pace] = {}
        # By member, the partitions that it reads; some that it has read before.
        self._reads: dict[str, dict[Partition, None]] = {}
        # By member, the partitions that a rebalance took from it since it joined.
        self._revoked: dict[str, dict[Partition, None]] = {}
        # Partitions that may have something new to tell.
        self._fresh: dict[Partition, None] = {}

    def of(self, partition: Partition) -> PartitionDelivery:
        """The account of a partition, to be changed."""
        self._fresh[partition] = None
        found = self.partitions.get(partition)
        if found is None:
            found = PartitionDelivery(self.loaded.get(partition))
            self.partitions[partition] = found
        return found

    def reader(self, partition: Partition, member_id: str) -> PartitionDelivery:
        """The account of a partition that a member reads."""
        self._reads.setdefault(member_id, {})[partition] = None
        return self.of(partition)

    def pace(self, member_id: str) -> Pace:
        """The commits of a member."""
        found = self._paces.setdefault(member_id, Pace())
        found.is_transactional = self.is_transactional
        return found

    def take(self, event: Event, accounts: GroupAccounts) -> None:
        """Handles an event of the group, after its `GroupAccounts` did."""
        kind = event["kind"]
        if kind == "commit_refused":
            self._refused(event, accounts)
        elif kind in {"offsets_deleted", "offsets_expired"}:
            for each in partitions(event.get("deleted") or event.get("expired")):
                if each in self.partitions:
                    self.partitions[each].forget_commit()
        elif kind in _ENDS or kind in _GONE:
            if kind == "member_joined":
                self._learnt(event["member_id"])
            self._reconcile(event, accounts)
            if kind == "partitions_changed":
                self._note_late(event)

    def _refused(self, event: Event, accounts: GroupAccounts) -> None:
        # aiokafka forgets its member id before it has committed everything.
        sender = accounts.membership.connections.get(event.get("connection") or 0)
        member_id = event.get("member_id") or sender
        for row in event["offsets"]:
            found = self.partitions.get((row["topic"], row["partition"]))
            if found is not None and member_id:
                pace = self._paces.get(member_id) or Pace()
                pace.is_transactional = self.is_transactional
                found.refused(member_id, row["offset"], event["wall_ns"], pace)

    def _learnt(self, member_id: str) -> None:
        """A member joins: it knows of the partitions that it has lost."""
        for each in self._revoked.pop(member_id, ()):
            state = self.partitions.get(each)
            passage = None if state is None else state.passage
            if passage is not None and passage.member_id == member_id:
                passage.has_learnt = passage.release is not None

    def _reconcile(self, event: Event, accounts: GroupAccounts) -> None:
        """Ends the passages of members that read their partitions no more."""
        kind = event["kind"]
        # A static member of the consumer protocol comes back with its member id.
        replaced = event.get("replaced_member_id")
        members = dict.fromkeys(filter(None, (event.get("member_id"), replaced)))
        is_all = kind == "rebalance_started"
        rebalance = _last_rebalance(accounts)
        reads = self._reads
        for member_id, partition in [
            (reader, each)
            for reader in (reads if is_all else members)
            for each in reads.get(reader, ())
        ]:
            each = self.partitions.get(partition)
            passage = None if each is None else each.passage
            if (
                each is None
                or passage is None
                or passage.release is not None
                or passage.member_id != member_id
            ):
                del reads[member_id][partition]
                continue
            if accounts.readers.reader_of(partition) == member_id:
                if kind == "member_synced":
                    passage.droppable = passages.DROPPABLE
                continue
            life = accounts.membership.gone.get(member_id)
            how = _ENDS.get(kind, passages.REVOKED)
            if kind in _GONE and life is not None and life.how is not None:
                how = life.how.value
            pace = self.pace(member_id)
            each.release(how, int(event["wall_ns"]), rebalance, pace)
            if how == passages.REVOKED:
                self._revoked.setdefault(member_id, {})[partition] = None
            self._fresh[partition] = None
        for gone in members if kind in _GONE else ():
            self._paces.pop(gone, None)
            self._revoked.pop(gone, None)
            self._reads.pop(gone, None)

    def _note_late(self, event: Event) -> None:
        """Notes partitions that a topic has got since the group reads it."""
        generation = int(event.get("generation") or 0)
        for partition in partitions(event.get("partitions_gained")):
            first = self._first.setdefault(partition[0], generation)
            if partition not in self._known:
                self._known.add(partition)
                if generation > first and partition not in self.partitions:
                    self.of(partition).late_from = 0

    def commit(
        self,
        event: Mapping[str, Any],
        rows: Iterable[tuple[str, int, int]],
        accounts: GroupAccounts,
    ) -> None:
        """Handles accepted commits: (topic, partition, offset)."""
        member_id = event.get("member_id") or ""
        wall_ns = int(event["wall_ns"])
        in_transaction = event.get("producer_id") is not None
        is_admin = (
            not member_id and not in_transaction and (not accounts.membership.present)
        )
        steps, in_rebalance = 0, accounts.joining() is not None
        late: dict[Partition, None] = {}
        for topic, index, offset in rows:
            state = self.of((topic, index))
            passage = state.passage
            if passage is not None and passage.release is not None:
                in_rebalance = True
                late[topic, index] = None
            before, step = state.commit(
                member_id, offset, wall_ns, in_transaction=in_transaction
            )
            steps += step
            # kafkajs commits -2 to begin at the earliest offset.
            if offset >= 0 and not is_admin:
                self.is_transactional = in_transaction
            if before is None:
                continue
            reason: Literal["commit", "transaction", "admin"] = "commit"
            if is_admin:
                reason = "admin"
                state.blame("admin")
            elif in_transaction:
                reason = "transaction"
            row = WentBack(
                topic=topic,
                partition=index,
                previous=before,
                offset=offset,
                reason=reason,
                member_id=member_id,
                client_id=event.get("client_id") or "",
                host=event.get("host") or "",
                generation=int(event.get("generation") or 0),
                time_ns=wall_ns,
            )
            self.went_back.append(row)
            self.rewound.append(row)
        if member_id:
            pace = self.pace(member_id)
            pace.claim(steps, wall_ns, in_rebalance=in_rebalance)
            for partition in late | self._revoked.get(member_id, {}):
                self.of(partition).committed_late(member_id, wall_ns, pace)

    # -- events about it

    @property
    def has_news(self) -> bool:
        """True if something was skipped, or has been sent again, or went back."""
        for partition in [*self._fresh]:
            state = self.partitions.get(partition)
            is_repeated = state is not None and state.has_untold_repeat
            if state is not None and (
                state.has_untold_gap or (is_repeated and not state.due())
            ):
                return True
            if not is_repeated:
                del self._fresh[partition]
        return bool(self.rewound)


class Deliveries:
    """The accounts of all groups: pass events and notes in order.

    Args:
        accounts: the accounts of the same stream: members, owners, readers. They take
            each event before `take` does.

    Attributes:
        groups: by id.
        touched: groups with a note or a commit since it was emptied.
    """

    def __init__(self, accounts: Accounts) -> None:
        self.groups: dict[str, GroupDelivery] = {}
        self.touched: set[str] = set()
        self._accounts = accounts
        # Groups that were assigned a partition; partitions that a connection read.
        self._groups_of: dict[Partition, dict[str, None]] = {}
        self._read_by: dict[int, dict[tuple[str, Partition], None]] = {}
        self._handlers: Mapping[type, Callable[[Any], None]] = {
            Asked: self._asked,
            Sent: self._sent,
            OutOfRange: self._out_of_range,
            Read: self._read,
            Ended: self._ended,
            Dropped: self._dropped,
        }

    def of(self, group_id: str) -> GroupDelivery:
        """A group's account."""
        found = self.groups.get(group_id)
        self.touched.add(group_id)
        if found is None:
            if len(self.groups) >= MOST_GROUPS:
                del self.groups[next(iter(self.groups))]
            found = self.groups[group_id] = GroupDelivery(group_id)
        return found

    def take(self, event: Event) -> None:
        """Handles an event, after the accounts did."""
        group_id = event.get("group")
        if group_id is None:
            return
        for name in ("owned", "partitions_gained"):
            for each in partitions(event.get(name)):
                self._groups_of.setdefault(each, {})[group_id] = None
        self.of(group_id).take(event, self._accounts.of(group_id))

    def commit(self, seen: Seen) -> None:
        """Handles accepted commits, not rendered: they are the most frequent events."""
        _, _, _, wall_ns, notice = seen
        assert notice.group_id is not None
        member_id, _, client = notice.who or (None, None, None)
        topics, indexes, offsets, _ = notice.fields["offsets"]
        event = {
            "member_id": member_id,
            "client_id": None if client is None else client.id,
            "host": None if client is None else client.host,
            "generation": notice.generation,
            "producer_id": notice.fields.get("producer_id"),
            "wall_ns": wall_ns,
        }
        group_id = notice.group_id
        self.of(group_id).commit(
            event,
            zip(topics, indexes, offsets, strict=True),
            self._accounts.of(group_id),
        )

    def loaded(self, group_id: str, committed: Mapping[Partition, int]) -> None:
        """A coordinator has loaded a group, with these offsets."""
        group = self.of(group_id)
        group.loaded.update(committed)

    def note(self, note: Note) -> None:
        """Handles a note of a fetch."""
        self._handlers[type(note)](note)

    def counted(self, group_id: str, count: Count) -> Counted:
        """A group's account as of now; empty for an unknown group.

        Args:
            group_id: its id.
            count: counts records between offsets.
        """
        accounts = self._accounts.groups.get(group_id)
        group = self.groups.get(group_id) or GroupDelivery(group_id)
        return Counted(group_id, group.partitions, group.went_back, accounts, count)

    # -- the reader of a note

    def _readers(
        self, client: Client, partition: Partition
    ) -> list[tuple[GroupDelivery, str]]:
        """The groups, and their members, that the reader may be."""
        found = []
        for group_id in self._groups_of.get(partition, ()):
            accounts = self._accounts.groups.get(group_id)
            if accounts is None:
                continue
            owner = accounts.readers.reader_of(partition)
            if owner is not None and _is_client_of(accounts, owner, client):
                found.append((self.of(group_id), owner))
        if len(found) < 2:
            return found
        known = self._read_by.get(client.connection or 0, {})
        sure = [row for row in found if (row[0].group_id, partition) in known]
        if len(sure) == 1:
            return sure
        for group, _ in found:
            group.of(partition)
        return found

    def _asked(self, note: Asked) -> None:
        key = note.topic, note.partition
        found = self._readers(note.client, key)
        connection = note.client.connection or 0
        if len(found) != 1:
            for group_id in self._groups_of.get(key, ()) if not found else ():
                self.of(group_id).early[key] = connection
            self._confirm(note.client, note.wall_ns, was_read=True)
            return
        group, member_id = found[0]
        state = group.of(key)
        if state.is_read_by_another(connection, note.offset, self._read_by):
            group.early[key] = connection
            return
        group.reader(key, member_id)
        state.is_committed = note.is_committed
        before = state.passage
        state.asked(
            member_id,
            note.client,
            note.offset,
            note.log_start,
            note.wall_ns,
            group.pace(member_id),
        )
        begun = state.passage
        if begun is not before and group.early.get(key) == connection:
            assert begun is not None
            del group.early[key]
            begun.droppable = passages.DROPPABLE
        known = self._read_by.setdefault(connection, {})
        known[group.group_id, key] = None

    def _sent(self, note: Sent) -> None:
        key = note.topic, note.partition
        found = self._readers(note.client, key)
        if len(found) > 1:
            for group, _ in found:
                group.of(key).unknown.set(note.offset, note.end, True)
            return
        for group, member_id in found:
            state = group.of(key)
            if note.client.connection in state.strangers:
                state.unknown.set(note.offset, note.end, True)
            else:
                state.was_sent(
                    member_id, note.client, note.offset, note.end, note.wall_ns
                )
        known = self._read_by.get(note.client.connection or 0, {})
        for group_id in self._groups_of.get(key, ()) if not found else ():
            if (group_id, key) in known and group_id in self.groups:
                state = self.groups[group_id].of(key)
                state.went_astray(note.client, note.offset, note.end)

    def _out_of_range(self, note: OutOfRange) -> None:
        key = note.topic, note.partition
        for group, _ in self._readers(note.client, key):
            group.of(key).out_of_range()
        for group_id, partition in self._read_by.get(note.client.connection or 0, ()):
            read = self.groups.get(group_id)
            found = None if read is None else read.partitions.get(partition)
            if found is not None and found.passage is not None and partition != key:
                found.passage.droppable = passages.DROPPABLE_ON_ERROR

    def _read(self, note: Read) -> None:
        self._confirm(note.client, note.wall_ns, was_read=True)

    def _ended(self, note: Ended) -> None:
        self._confirm(note.client, note.wall_ns, was_read=note.was_read)
        self._read_by.pop(note.client.connection or 0, None)

    def _confirm(self, client: Client, wall_ns: int, *, was_read: bool) -> None:
        for group_id, partition in self._read_by.get(client.connection or 0, ()):
            group = self.groups.get(group_id)
            if group is not None and partition in group.partitions:
                state = group.partitions[partition]
                state.confirm(client, was_read=was_read, wall_ns=wall_ns)

    def _dropped(self, note: Dropped) -> None:
        key = note.topic, note.partition
        for group_id in self._groups_of.pop(key, ()):
            group = self.groups.get(group_id)
            if group is not None:
                group.partitions.pop(key, None)


def _last_rebalance(accounts: GroupAccounts) -> tuple[int, bool]:
    """When it began, and whether a member that left began it."""
    if accounts.last is None:
        return 0, False
    opening = accounts.last.opening.event
    # Its start may be missing from the events.
    started_ns = int(opening.get("wall_ns") or 0)
    return started_ns, opening.get("cause") in _DEPARTURES


def _is_client_of(accounts: GroupAccounts, member_id: str, client: Client) -> bool:
    """Returns whether a reader may be a member's client."""
    membership = accounts.membership
    joined = membership.connections.get(client.connection or 0)
    if joined is not None:
        return joined == member_id
    member = membership.members.get(member_id)
    return member is not None and (member.client_id, member.host) == client[:2]
