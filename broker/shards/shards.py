"""All partitions of ``__consumer_offsets``: finds the coordinator of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kohort.broker.clock import Clock
from kohort.broker.coordinator import notices
from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import (
    refused,
)
from kohort.broker.coordinator.events import CommitOffsets, GroupEvent
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.events.bus import Events
from kohort.broker.log.store import StorageError
from kohort.broker.shards.driver import GroupDriver, answer
from kohort.broker.shards.group_records import Encoder
from kohort.broker.shards.hash import partition_of
from kohort.broker.shards.loader import Loader
from kohort.broker.shards.shard import Shard
from kohort.broker.topics.topic import Topic
from kohort.protocol.errors import ErrorCode


class Shards:
    """All partitions of ``__consumer_offsets``.

    Args:
        settings: the settings of coordinators.
        clock: the source of time and timers.
        encoder: makes batches of records.
        linger_ms: ``group.coordinator.append.linger.ms``.
        new_member_id: makes member ids.
        load_delay_ms: ``coordinator.load.delay.ms``.
        create: creates ``__consumer_offsets``; called when the first group is used.
        events: the stream of events.

    Attributes:
        loader: reads their logs.
    """

    def __init__(
        self,
        settings: GroupSettings,
        clock: Clock,
        encoder: Encoder,
        linger_ms: int,
        new_member_id: Callable[[str], str],
        load_delay_ms: int,
        create: Callable[[], object],
        events: Events,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._encoder = encoder
        self._linger_ms = linger_ms
        self._new_member_id = new_member_id
        self._load_delay_ms = load_delay_ms
        self._create = create
        self._events = events
        self.loader = Loader(clock)
        self._shards: list[Shard] = []

    def __iter__(self) -> Iterator[Shard]:
        return iter(self._shards)

    def __len__(self) -> int:
        """The number of shards; 0 before ``__consumer_offsets`` is created."""
        return len(self._shards)

    def _make(self) -> Coordinator:
        events = self._events
        coordinator = Coordinator(
            self._settings, self._new_member_id, heartbeats=events.heartbeats
        )
        coordinator.listening = events.listening
        return coordinator

    def attach(self, topic: Topic) -> None:
        """``__consumer_offsets`` exists: its leaders load the groups."""
        self._shards = [
            Shard(
                index,
                partition,
                self._clock,
                self._encoder,
                self._linger_ms,
                self.loader,
                self._make,
                self._load_delay_ms,
                self._events,
            )
            for index, partition in enumerate(topic.partitions)
        ]
        for shard, leader in zip(self._shards, topic.leaders, strict=True):
            shard.lead(leader)

    def detach(self, cause: str) -> None:
        """``__consumer_offsets`` was deleted, or the broker stops."""
        shards, self._shards = self._shards, []
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
        """Whether FindCoordinator may name coordinators; see `FirstUse`."""
        return True

    def for_group(self, group_id: str) -> Shard:
        """Returns the shard of a group."""
        index = self.index_of(group_id)
        return self._shards[index]

    def submit(self, node_id: int, event: GroupEvent) -> None:
        """Hands an event to its group's coordinator; refuses it on another node."""
        shards = self._shards
        if shards:
            shard = shards[partition_of(event.group_id, len(shards))]
        else:
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

    def _refuse(self, event: GroupEvent, error: ErrorCode) -> None:
        answer(event.token, refused(event, error, self._settings))

    def commit_refused(self, node_id: int, event: CommitOffsets, error: int) -> None:
        """Publishes that offsets were refused before a coordinator was asked."""
        if not self._events.listening:
            return
        group = None
        if self._shards:
            shard = self.for_group(event.group_id)
            if shard.node_id == node_id:
                group = shard.groups.get(event.group_id)
        notice = notices.commit_refused(group, event, event.offsets, error)
        self._events.of(node_id).publish(notice, self._clock.now())

    def groups(self) -> Iterator[Group]:
        """Yields all loaded groups."""
        for shard in self._shards:
            yield from shard.groups.values()

    def led_by(self, node_id: int) -> list[Shard]:
        """The shards that a node leads."""
        return [shard for shard in self._shards if shard.node_id == node_id]

    def topics_deleted(self, names: Sequence[str]) -> None:
        """Removes the offsets that were committed for deleted topics."""
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
