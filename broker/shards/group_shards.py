"""All partitions of ``__consumer_offsets``: finds the coordinator of a group."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kohort.broker import telemetry
from kohort.broker.coordinator.effects import Result, refused
from kohort.broker.coordinator.events import (
    Command,
    CommitInTransaction,
    CommitOffsets,
    GroupEvent,
    TopicsChanged,
)
from kohort.broker.coordinator.lasting import Lasting
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.coordinator.topics import TopicsImage
from kohort.broker.log.store import StorageError
from kohort.broker.runtime.hash import LONGEST, MOST
from kohort.broker.runtime.runtime import Runtime
from kohort.broker.runtime.shards import Shards
from kohort.broker.shards.credit import Credit
from kohort.broker.shards.disconnections import Disconnections
from kohort.broker.topics.topic import OFFSETS_TOPIC, Topic
from kohort.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.coordinator.classic.member import Member as ClassicMember
    from kohort.broker.coordinator.consumer.member import Member as ConsumerMember
    from kohort.broker.coordinator.group import Group
    from kohort.broker.coordinator.load import Loading
    from kohort.broker.log.ended_transactions import EndMarker
    from kohort.broker.log.partition import Partition
    from kohort.broker.log.producers import Verification
    from kohort.broker.notice import Notice
    from kohort.broker.shards.group_driver import GroupDriver
    from kohort.broker.shards.group_records import Encoder
    from kohort.broker.shards.group_shard import GroupShard

log = telemetry.Logger("shards")


class GroupShards(Shards["GroupShard"]):
    """All partitions of ``__consumer_offsets``.

    Args:
        settings: the settings of coordinators.
        runtime: the parts of the broker that they run on.
        make_encoder: makes the encoder of their records.
        linger_ms: ``group.coordinator.append.linger.ms``.
        new_member_id: makes member ids.
        create: creates ``__consumer_offsets``; called when the first group is used.
        credit: decides which members count as heard from while the clock is moved
            ahead.
        topics: the cluster's topics.

    Attributes:
        lasting: powers in force, which outlive the coordinators.
        disconnections: members whose connections were closed.
    """

    noun = "group"
    refuses_first = False

    def __init__(
        self,
        settings: GroupSettings,
        runtime: Runtime,
        make_encoder: Callable[[], Encoder],
        linger_ms: int,
        new_member_id: Callable[[str], str],
        create: Callable[[], object],
        credit: Credit,
        topics: TopicsImage,
    ) -> None:
        super().__init__(runtime, create, refuses_first=self.refuses_first)
        self._settings = settings
        self._clock = runtime.clock
        self._events = runtime.events
        self._make_encoder = functools.cache(make_encoder)
        self._linger_ms = linger_ms
        self._new_member_id = new_member_id
        self._credit = credit
        self._topics = topics
        self.lasting = Lasting()
        self.disconnections = Disconnections(self._find_member, self._publish)
        # Shards by the ids of groups that were used.
        self._of_group: dict[str, GroupShard] = {}

    def new_shard(self, index: int, partition: Partition) -> GroupShard:
        """Returns the shard of a partition."""
        from kohort.broker.shards.group_shard import GroupShard

        return GroupShard(index, partition, self._runtime, self)

    def begin(self) -> Loading:
        """Returns the groups before any record is read."""
        from kohort.broker.coordinator.load import Loading

        return Loading()

    def slices(self, shard: GroupShard, read: Loading) -> Iterator[None]:
        """Reads a shard's log; yields whenever others should run."""
        from kohort.broker.shards.group_records import Decoder

        decoder = Decoder()
        yield from shard.feed(read, decoder.read_in_pieces)
        if decoder.skipped:
            log.warning(
                "records_skipped",
                partition=f"{OFFSETS_TOPIC}-{shard.index}",
                count=sum(decoder.skipped.values()),
                reason="they are of share and streams groups",
            )

    def new_driver(
        self, shard: GroupShard, publish: Callable[[Notice, float], None]
    ) -> GroupDriver:
        """Returns a driver of a coordinator without groups."""
        from kohort.broker.coordinator.coordinator import Coordinator
        from kohort.broker.shards.group_driver import GroupDriver
        from kohort.broker.shards.group_shard import CommitLog

        return GroupDriver(
            Coordinator(
                self._settings,
                self._new_member_id,
                heartbeats=self._events.heartbeats,
                lasting=self.lasting,
                topics=self._topics,
            ),
            self._clock,
            CommitLog(shard.partition, self._make_encoder()),
            shard.reload,
            publish,
            self._linger_ms,
            self._credit,
        )

    def configure(self, settings: GroupSettings) -> None:
        """Replaces the settings of all coordinators."""
        self._settings = settings
        for shard in self._shards:
            if shard.driver is not None:
                shard.driver.coordinator.settings = settings

    def _id_of(self, event: GroupEvent | Command) -> str:
        return event.group_id

    def _refused(self, event: GroupEvent, error: ErrorCode) -> Result:
        return refused(event, error, self._settings)

    def attach(self, topic: Topic) -> None:
        """Takes the new ``__consumer_offsets``: its leaders load the groups."""
        self.lasting.forget_groups()
        self._of_group.clear()
        super().attach(topic)

    def detach(self, cause: str) -> None:
        """Drops ``__consumer_offsets``, which was deleted, or the broker stops."""
        self._of_group.clear()
        super().detach(cause)

    def for_id(self, id_: str) -> GroupShard:
        """Returns the shard of a group; see `Shards.for_id`."""
        shard = super().for_id(id_)
        if len(id_) <= LONGEST and len(self._of_group) < MOST:
            self._of_group[id_] = shard
        return shard

    def submit(self, node_id: int | None, event: GroupEvent) -> None:
        """Hands an event to its group's coordinator, or refuses it."""
        shard = self._of_group.get(event.group_id)
        if shard is not None and shard.serves == node_id:
            shard.driver.submit(event)  # type: ignore[union-attr]  # it serves
        else:
            super().submit(node_id, event)

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
            shard = self.for_id(group_id)
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
        shard = self.for_id(event.group_id)
        error = int(shard.error(node_id))
        if not error:
            error = shard.commit_in_transaction(event, verification)
            if error:
                self.commit_refused(node_id, event, error)
        if error:
            answer = event.token.answer  # type: ignore[attr-defined]  # a waiter
            answer(self._refused(event, ErrorCode(error)))

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
            shard = self.for_id(event.group_id)
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
    ) -> tuple[int, Group, ClassicMember | ConsumerMember] | None:
        """A member, its group, and the node of its coordinator."""
        shard = self._of_group.get(group_id)
        group: Any = None if shard is None else shard.groups.get(group_id)
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

    def topics_changed(self, names: Sequence[str]) -> None:
        """Tells all coordinators about topics that were created, deleted or grown.

        A coordinator that loads its groups later sees the topics as they are then.
        """
        event = TopicsChanged(names)
        for shard in self._shards:
            if shard.driver is not None:
                shard.driver.submit(event)

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
