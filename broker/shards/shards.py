"""All partitions of ``__consumer_offsets``: finds the coordinator of a group.

Coordinators are loaded when ``__consumer_offsets`` is created or restored, so that a
broker accepts connections sooner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from kohort.broker.clock import Clock
from kohort.broker.coordinator.effects import (
    CommandResult,
    Result,
    refused,
)
from kohort.broker.coordinator.events import (
    Command,
    CommitInTransaction,
    CommitOffsets,
    GroupEvent,
)
from kohort.broker.coordinator.lasting import Lasting
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.events.bus import Events
from kohort.broker.log.store import StorageError
from kohort.broker.shards.credit import Credit
from kohort.broker.shards.disconnections import Disconnections
from kohort.broker.shards.hash import LONGEST, MOST, partition_of
from kohort.broker.shards.loader import Loader
from kohort.broker.topics.topic import Topic
from kohort.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.coordinator.classic.group import Group
    from kohort.broker.coordinator.classic.member import Member
    from kohort.broker.coordinator.coordinator import Coordinator
    from kohort.broker.log.ended_transactions import EndMarker
    from kohort.broker.log.producers import Verification
    from kohort.broker.notice import Notice
    from kohort.broker.shards.driver import GroupDriver
    from kohort.broker.shards.group_records import Encoder
    from kohort.broker.shards.shard import Shard


class Shards:
    """All partitions of ``__consumer_offsets``.

    Args:
        settings: the settings of coordinators.
        clock: the source of time and timers.
        make_encoder: makes the encoder of their records.
        linger_ms: ``group.coordinator.append.linger.ms``.
        new_member_id: makes member ids.
        load_delay_ms: ``coordinator.load.delay.ms``.
        create: creates ``__consumer_offsets``; called when the first group is used.
        events: the stream of events.
        credit: decides which members count as heard from while the clock is moved
            ahead.

    Attributes:
        loader: reads their logs.
        lasting: powers in force, which outlive the coordinators.
        disconnections: members whose connections were closed.
    """

    def __init__(
        self,
        settings: GroupSettings,
        clock: Clock,
        make_encoder: Callable[[], Encoder],
        linger_ms: int,
        new_member_id: Callable[[str], str],
        load_delay_ms: int,
        create: Callable[[], object],
        events: Events,
        credit: Credit,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._make_encoder = make_encoder
        self._linger_ms = linger_ms
        self._new_member_id = new_member_id
        self._load_delay_ms = load_delay_ms
        self._create = create
        self._events = events
        self._credit = credit
        self.loader = Loader(clock)
        self.lasting = Lasting()
        self.disconnections = Disconnections(self._find_member, self._publish)
        self._shards: list[Shard] = []
        # Shards by the ids of groups that were used.
        self._of_group: dict[str, Shard] = {}

    def __iter__(self) -> Iterator[Shard]:
        return iter(self._shards)

    def __len__(self) -> int:
        """The number of shards; 0 before ``__consumer_offsets`` is created."""
        return len(self._shards)

    def _make(self) -> Coordinator:
        from kohort.broker.coordinator.coordinator import Coordinator

        events = self._events
        coordinator = Coordinator(
            self._settings,
            self._new_member_id,
            heartbeats=events.heartbeats,
            lasting=self.lasting,
        )
        coordinator.listening = events.listening
        return coordinator

    def attach(self, topic: Topic) -> None:
        """Takes the new ``__consumer_offsets``: its leaders load the groups."""
        from kohort.broker.shards.shard import Shard

        self.lasting.forget_groups()
        self._of_group.clear()
        encoder = self._make_encoder()
        self._shards = [
            Shard(
                index,
                partition,
                self._clock,
                encoder,
                self._linger_ms,
                self.loader,
                self._make,
                self._load_delay_ms,
                self._events,
                self._credit,
            )
            for index, partition in enumerate(topic.partitions)
        ]
        for shard, leader in zip(self._shards, topic.leaders, strict=True):
            shard.lead(leader)

    def detach(self, cause: str) -> None:
        """Drops ``__consumer_offsets``, which was deleted, or the broker stops."""
        shards, self._shards = self._shards, []
        self._of_group.clear()
        for shard in shards:
            shard.unload(cause)

    def lead(self, index: int, node_id: int, cause: str) -> None:
        """Sets the leader of a shard; see `Shard.lead`."""
        self._shards[index].lead(node_id, cause)

    def index_of(self, group_id: str) -> int:
        """The partition of ``__consumer_offsets`` that a group belongs to."""
        if not self._shards:
            self._create()
        return partition_of(group_id, len(self._shards))

    def can_find(self) -> bool:
        """Returns whether FindCoordinator may name coordinators; see `FirstUse`."""
        return True

    def for_group(self, group_id: str) -> Shard:
        """Returns the shard of a group."""
        index = self.index_of(group_id)
        shard = self._shards[index]
        if len(group_id) <= LONGEST and len(self._of_group) < MOST:
            self._of_group[group_id] = shard
        return shard

    def submit(self, node_id: int, event: GroupEvent) -> None:
        """Hands an event to its group's coordinator; refuses it on another node."""
        shard = self._of_group.get(event.group_id)
        if shard is None:
            try:
                shard = self.for_group(event.group_id)
            except StorageError:
                # The disk has no room for the topic.
                self._refuse(event, ErrorCode.NOT_COORDINATOR)
                return
        if shard.is_active and shard.node_id == node_id:
            shard.driver.submit(event)  # type: ignore[union-attr]  # it is active
        else:
            self._refuse(event, shard.error(node_id))

    def command(self, command: Command) -> None:
        """Hands a command to its group's coordinator, on any node.

        Raises:
            StorageError: the disk has no room for ``__consumer_offsets``.
        """
        shard = self.for_group(command.group_id)
        if shard.driver is not None:
            shard.driver.submit(command)
        else:
            _answer(command.token, CommandResult(shard.refusal))

    def _refuse(self, event: GroupEvent, error: ErrorCode) -> None:
        _answer(event.token, refused(event, error, self._settings))

    def verify(
        self, node_id: int, group_id: str, producer_id: int, epoch: int, *, adds: bool
    ) -> Verification | int:
        """Begins to verify a commit of offsets in a transaction (KIP-890).

        Args:
            node_id: the node that is asked.
            group_id: the group.
            producer_id: the producer of the transaction.
            epoch: its epoch.
            adds: the transaction coordinator will add the partition.

        Returns:
            The verification, for `commit_in_transaction`: the transaction coordinator
            has to be asked. NONE if the partition has this transaction already. Or an
            error: NOT_COORDINATOR, INVALID_PRODUCER_EPOCH.
        """
        try:
            shard = self.for_group(group_id)
        except StorageError:
            return ErrorCode.NOT_COORDINATOR
        if shard.node_id != node_id:
            return ErrorCode.NOT_COORDINATOR
        return shard.verify(producer_id, epoch, adds=adds)

    def commit_in_transaction(
        self,
        node_id: int,
        event: CommitInTransaction,
        verification: Verification | None,
    ) -> None:
        """Hands a commit to its group's coordinator; or refuses it.

        Args:
            node_id: the node that is asked.
            event: the commit.
            verification: of `verify`, now that the transaction coordinator has
                confirmed it; None if it was not asked.
        """
        shard = self.for_group(event.group_id)
        if not shard.is_active or shard.node_id != node_id:
            self._refuse(event, shard.error(node_id))
            return
        error = shard.commit_in_transaction(event, verification)
        if error:
            self.commit_refused(node_id, event, error)
            self._refuse(event, ErrorCode(error))

    def end_transaction(
        self, index: int, end: EndMarker, append: Callable[[], int]
    ) -> int:
        """Ends a transaction in a partition of ``__consumer_offsets``.

        Args:
            index: the partition.
            end: the marker.
            append: appends it, and returns the error code. Called once all earlier
                records of the partition's coordinator are in the log.

        Returns:
            The error code; NOT_LEADER_OR_FOLLOWER while the coordinator is loading, so
            that the sender tries again.
        """
        return self._shards[index].end_transaction(end, append)

    def commit_refused(
        self, node_id: int, event: CommitOffsets | CommitInTransaction, error: int
    ) -> None:
        """Publishes that offsets were refused before they reached a coordinator."""
        if not self._events.listening:
            return
        from kohort.broker.coordinator import notices

        group = None
        if self._shards:
            shard = self.for_group(event.group_id)
            if shard.node_id == node_id:
                group = shard.groups.get(event.group_id)
        notice = notices.commit_refused(group, event, event.offsets, error)
        self._events.of(node_id).publish(notice, self._clock.now())

    def credit(self, until: float | None) -> None:
        """Counts members with a live connection as heard from.

        Args:
            until: the end of an advance of the clock that begins now; also applies to
                members that join during it. None: the advance is over.
        """
        self._credit.until = -math.inf if until is None else until
        self._credit.look()
        for shard in self._shards:
            if shard.driver is not None:
                shard.driver.credit_all(self._clock.now() if until is None else until)

    def connection_closed(self, connection: int) -> None:
        """Publishes that the connection of members is closed."""
        self.disconnections.closed(connection, self._clock.now())

    def _find_member(
        self, group_id: str, member_id: str
    ) -> tuple[int, Group, Member] | None:
        """A member, its group, and the node of its coordinator."""
        shard = self._of_group.get(group_id)
        group = None if shard is None else shard.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if shard is None or group is None or member is None:
            return None
        return shard.node_id, group, member

    def _publish(self, node_id: int, notice: Notice) -> None:
        self._events.of(node_id).publish(notice, self._clock.now())

    def groups(self) -> Iterator[Group]:
        """Yields all loaded groups."""
        for shard in self._shards:
            yield from shard.groups.values()

    def led_by(self, node_id: int) -> list[Shard]:
        """The shards that a node leads."""
        return [shard for shard in self._shards if shard.node_id == node_id]

    def topics_deleted(self, names: Sequence[str]) -> None:
        """Removes the offsets committed for deleted topics."""
        for shard in self._shards:
            shard.topics_deleted(names)

    def drivers(self, node_id: int) -> list[GroupDriver] | None:
        """The drivers of a node's coordinators; None while one of them is loading."""
        drivers = []
        for shard in self.led_by(node_id):
            error = shard.error(node_id)
            if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return None
            if shard.driver is not None and not error:
                drivers.append(shard.driver)
        return drivers


def _answer(token: object, result: Result) -> None:
    from kohort.broker.shards.driver import answer

    answer(token, result)
