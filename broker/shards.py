"""Shards: from a group's id to the coordinator that has it, and is its only one.

A group belongs to one partition of ``__consumer_offsets``, by the hash of its id.
Whoever leads that partition coordinates the group: it loads what the partition
says of its groups, and from then on each change is a record there. A coordinator
whose partition gets another leader is unloaded, and what waits for it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kohort.broker import telemetry
from kohort.broker.clock import Clock, Timer
from kohort.broker.coordinator import offsets
from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import (
    Append,
    CommitResult,
    DeleteGroupResult,
    DeleteOffsetsResult,
    DescribeGroupResult,
    Effect,
    FetchOffsetsResult,
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    Reply,
    Result,
    SyncResult,
)
from kohort.broker.coordinator.events import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    FetchOffsets,
    GroupEvent,
    Heartbeat,
    Join,
    Leave,
    Sync,
    TopicsDeleted,
)
from kohort.broker.coordinator.replay import Loading
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.driver import GroupDriver
from kohort.broker.events.bus import Events
from kohort.broker.events.render import ns
from kohort.broker.group_records import Decoder, Encoder
from kohort.broker.log.partition import Partition
from kohort.broker.log.store import StorageError
from kohort.broker.shard_hash import partition_of
from kohort.broker.topics import NOBODY, OFFSETS_TOPIC, Topic
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError

SLICE_BYTES: Final = 64 * 1024
"""Bytes of a partition that are loaded before others get their turn: some 5 ms."""

log = telemetry.get_logger("shards")


class Loader:
    """Reads the logs of shards, one after the other and a slice at a time.

    Args:
        clock: what slices wait for their turns with.

    Attributes:
        idle: called, once, when nothing is left to read.
    """

    def __init__(self, clock: Clock) -> None:
        self.idle: list[Callable[[], object]] = []
        self._clock = clock
        self._queue: dict[Shard, Iterator[None]] = {}
        self._timer: Timer | None = None

    @property
    def is_busy(self) -> bool:
        """Whether anything is left to read."""
        return bool(self._queue)

    def add(self, shard: Shard, slices: Iterator[None]) -> None:
        """Has a shard loaded; at once, if it is short and nobody else waits."""
        self._queue[shard] = slices
        if self._timer is None:
            self._work()

    def remove(self, shard: Shard) -> None:
        """A shard is not to be loaded any more; fine if it never was."""
        self._queue.pop(shard, None)

    def _work(self) -> None:
        self._timer = None
        for shard, slices in self._queue.items():
            try:
                next(slices)
            except StopIteration:
                del self._queue[shard]
                shard.finish_load()
            except (WireError, StorageError) as error:
                del self._queue[shard]
                shard.fail_load(error)
            break
        if self._queue:
            self._timer = self._clock.call_at(self._clock.now(), self._work)
        else:
            idle, self.idle = self.idle, []
            for callback in idle:
                callback()


class Shard:
    """One partition of ``__consumer_offsets`` and, where it is led, its coordinator.

    Args:
        index: the number of the partition.
        partition: its log.
        clock: where time and timers come from.
        encoder: makes batches of records.
        loader: reads logs.
        make: makes a coordinator without groups.
        load_delay_ms: how much longer than it takes loading is to last.
        events: where what happens is told.

    Attributes:
        index: see above.
        node_id: the node that leads it, or `NOBODY`.
        driver: what runs the coordinator; None where there is none.
        is_active: whether the coordinator has its groups, and takes events.
    """

    __slots__ = (
        "_clock",
        "_deleted",
        "_encoder",
        "_events",
        "_is_failed",
        "_load_delay_ms",
        "_load_since",
        "_loader",
        "_make",
        "_partition",
        "_read",
        "_timer",
        "driver",
        "index",
        "is_active",
        "node_id",
    )

    def __init__(
        self,
        index: int,
        partition: Partition,
        clock: Clock,
        encoder: Encoder,
        loader: Loader,
        make: Callable[[], Coordinator],
        load_delay_ms: int,
        events: Events,
    ) -> None:
        self.index = index
        self.node_id = NOBODY
        self.driver: GroupDriver | None = None
        self.is_active = False
        self._partition = partition
        self._clock = clock
        self._make = make
        self._encoder = encoder
        self._load_delay_ms = load_delay_ms
        self._events = events
        self._loader = loader
        # What the log said so far, while it is read.
        self._read: Loading | None = None
        self._load_since = 0.0
        self._timer: Timer | None = None
        # Topics that were deleted while the groups were not there.
        self._deleted: list[str] = []
        self._is_failed = False

    @property
    def state(self) -> str:
        """What the shard is doing: unloaded, loading, active or failed."""
        if self._is_failed:
            return "failed"
        if self.is_active:
            return "active"
        return "unloaded" if self._read is None else "loading"

    @property
    def group_count(self) -> int:
        """How many groups it has by now."""
        return 0 if self.driver is None else len(self.driver.coordinator.groups)

    def lead(self, node_id: int, cause: str = "moved") -> None:
        """The partition has this leader from now on; `NOBODY` for none.

        Args:
            node_id: the leader.
            cause: why the one before does not lead any more; see `shard_unloaded`.
        """
        self.unload(cause)
        self.node_id = node_id
        if node_id != NOBODY:
            self._load()

    # -- loading

    def _load(self) -> None:
        """Begins to load."""
        self._is_failed = False
        self._load_since = self._clock.now()
        self._read = Loading()
        self._loader.add(self, self._slices(self._read))

    def _slices(self, read: Loading) -> Iterator[None]:
        """Reads what the log says, with a stop whenever others should have a turn."""
        decoder, size = Decoder(), 0
        for batch in self._partition.batches(self._partition.log_start_offset):
            for number, some in enumerate(decoder.read_in_pieces(batch)):
                if number:
                    yield
                read.feed(some)
            size += len(batch)
            if size >= SLICE_BYTES:
                size = 0
                yield
        if decoder.skipped:
            log.warning(
                "records_skipped",
                partition=f"{OFFSETS_TOPIC}-{self.index}",
                count=sum(decoder.skipped.values()),
                reason="they are of groups that are not of the classic protocol",
            )

    def finish_load(self) -> None:
        """Everything is read: takes events as soon as the delay is over."""
        until = self._load_since + self._load_delay_ms / 1000
        if self._clock.now() < until:
            self._timer = self._clock.call_at(until, self._activate)
        else:
            self._activate()

    def fail_load(self, error: Exception) -> None:
        """Its groups are not served, as in Kafka; everything else goes on."""
        log.error(
            "coordinator_not_loaded",
            partition=f"{OFFSETS_TOPIC}-{self.index}",
            reason=str(error),
        )
        self._read = None
        self._is_failed = True
        self._tell(self.node_id, "shard_unloaded", cause="failed")

    def _tell(self, node_id: int, kind: str, **fields: object) -> None:
        node = self._events.of(node_id)
        node.tell(kind, self._clock.now(), partition=self.index, **fields)

    def _activate(self) -> None:
        read, self._read = self._read, None
        assert read is not None  # noqa: S101 - unloading cancels the timer
        self._timer = None
        publish = self._events.of(self.node_id).publish
        self.driver = driver = GroupDriver(
            self._make(), self._clock, self._append, self._revert, publish
        )
        self.is_active = True
        duration_ns = ns(self._clock.now()) - ns(self._load_since)
        groups = len(read.found)
        self._tell(self.node_id, "shard_loaded", groups=groups, duration_ns=duration_ns)
        driver.start(read)
        if self._deleted:
            deleted, self._deleted = self._deleted, []
            driver.submit(TopicsDeleted(deleted))

    def unload(self, cause: str) -> None:
        """Takes the coordinator away; what waits for it is told NOT_COORDINATOR."""
        node_id, self.node_id = self.node_id, NOBODY
        self._stop(node_id, cause)

    def _stop(
        self, node_id: int, cause: str, unanswered: Sequence[Effect] = ()
    ) -> None:
        driver, self.driver = self.driver, None
        self.is_active = False
        self._loader.remove(self)
        self._read = None
        self._is_failed = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if driver is None:
            return
        driver.stop()
        self._tell(node_id, "shard_unloaded", cause=cause)
        for effect in unanswered:
            if isinstance(effect, Reply):
                _answer(effect, _reverted(effect.result))
        for effect in driver.coordinator.unload():
            if isinstance(effect, Reply):
                _answer(effect, effect.result)

    # -- serving

    def _append(self, append: Append) -> None:
        now_ms = int(self._clock.now() * 1000)
        try:
            batch = self._encoder.encode(append.records, now_ms)
        except WireError as error:
            # A name that the wire lets in, and the log does not.
            raise StorageError(str(error)) from None
        self._partition.append_own(batch, now_ms=now_ms)

    def _revert(self, effects: Sequence[Effect]) -> None:
        """Records could not be written: goes back to what the log has.

        As in Kafka, whoever waits is told NOT_COORDINATOR, and asks again.
        """
        log.error(
            "coordinator_reloads",
            partition=f"{OFFSETS_TOPIC}-{self.index}",
            reason="its records could not be written",
        )
        self._stop(self.node_id, "failed", effects)
        self._load()

    def topics_deleted(self, names: Sequence[str]) -> None:
        """Topics are gone: what was committed for them goes, too."""
        if self.driver is None:
            # It is read, or will be once the partition has a leader.
            self._deleted += names
        else:
            self.driver.submit(TopicsDeleted(names))

    def error(self, node_id: int) -> ErrorCode:
        """Why a node does not serve the groups of this shard; NONE if it does."""
        if self.node_id != node_id or self._is_failed:
            return ErrorCode.NOT_COORDINATOR
        if not self.is_active:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE


class Shards:
    """All partitions of ``__consumer_offsets``.

    Args:
        settings: what coordinators go by.
        clock: where time and timers come from.
        encoder: makes batches of records.
        new_member_id: makes member ids.
        load_delay_ms: ``coordinator.load.delay.ms``.
        create: called where a group is asked for and there is no topic yet.
        events: where what happens is told.

    Attributes:
        loader: reads their logs.
    """

    def __init__(
        self,
        settings: GroupSettings,
        clock: Clock,
        encoder: Encoder,
        new_member_id: Callable[[str], str],
        load_delay_ms: int,
        create: Callable[[], object],
        events: Events,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._encoder = encoder
        self._new_member_id = new_member_id
        self._load_delay_ms = load_delay_ms
        self._create = create
        self._events = events
        self.loader = Loader(clock)
        self._shards: list[Shard] = []

    def __iter__(self) -> Iterator[Shard]:
        return iter(self._shards)

    def __len__(self) -> int:
        """How many there are; 0 while there is no ``__consumer_offsets``."""
        return len(self._shards)

    def _make(self) -> Coordinator:
        events = self._events
        coordinator = Coordinator(
            self._settings, self._new_member_id, heartbeats=events.heartbeats
        )
        coordinator.listening = events.listening
        return coordinator

    def attach(self, topic: Topic) -> None:
        """``__consumer_offsets`` is there: its leaders load their groups."""
        self._shards = [
            Shard(
                index,
                partition,
                self._clock,
                self._encoder,
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
        """``__consumer_offsets`` is deleted, or the broker stops."""
        shards, self._shards = self._shards, []
        for shard in shards:
            shard.unload(cause)

    def lead(self, index: int, node_id: int, cause: str) -> None:
        """A partition of ``__consumer_offsets`` has another leader; see `Shard`."""
        self._shards[index].lead(node_id, cause)

    def index_of(self, group_id: str) -> int:
        """The partition of ``__consumer_offsets`` that a group belongs to."""
        if not self._shards:
            self._create()
        return partition_of(group_id, len(self._shards))

    def of(self, group_id: str) -> Shard:
        """The shard that a group belongs to."""
        index = self.index_of(group_id)
        return self._shards[index]

    def submit(self, node_id: int, event: GroupEvent) -> None:
        """Hands an event to the coordinator of its group, if that is on this node."""
        shards = self._shards
        if shards:
            shard = shards[partition_of(event.group_id, len(shards))]
        else:
            try:
                shard = self.of(event.group_id)
            except StorageError:
                # No room for the topic: its partitions have no leaders yet.
                error = ErrorCode.NOT_COORDINATOR
                event.token.answer(_refused(event, error))  # type: ignore[attr-defined]
                return
        if shard.is_active and shard.node_id == node_id:
            shard.driver.submit(event)  # type: ignore[union-attr]  # it is active
        else:
            event.token.answer(_refused(event, shard.error(node_id)))  # type: ignore[attr-defined]

    def commit_refused(self, node_id: int, event: CommitOffsets, error: int) -> None:
        """Tells listeners of offsets that no coordinator is asked to store."""
        if not self._events.listening:
            return
        group = None
        if self._shards:
            shard = self.of(event.group_id)
            if shard.driver is not None and shard.node_id == node_id:
                group = shard.driver.coordinator.groups.get(event.group_id)
        notice = offsets.notice(group, event, event.offsets, error)
        self._events.of(node_id).publish(notice, self._clock.now())

    def of_node(self, node_id: int) -> list[Shard]:
        """The shards that a node leads."""
        return [shard for shard in self._shards if shard.node_id == node_id]

    def topics_deleted(self, names: Sequence[str]) -> None:
        """Topics are gone: what was committed for them goes, too."""
        for shard in self._shards:
            shard.topics_deleted(names)


class NodeGroups:
    """The groups that one node coordinates; where its handlers hand events in."""

    __slots__ = ("_node_id", "_shards")

    def __init__(self, node_id: int, shards: Shards) -> None:
        self._node_id = node_id
        self._shards = shards

    def submit(self, event: GroupEvent) -> None:
        """Hands an event to the coordinator of its group, or has it refused."""
        self._shards.submit(self._node_id, event)

    def commit_refused(self, event: CommitOffsets, error: int) -> None:
        """Offsets were refused before they came to a coordinator."""
        self._shards.commit_refused(self._node_id, event, error)

    def drivers(self) -> list[GroupDriver] | None:
        """Those of all coordinators here; None while one of them is loading."""
        drivers = []
        for shard in self._shards.of_node(self._node_id):
            error = shard.error(self._node_id)
            if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return None
            if shard.driver is not None and not error:
                drivers.append(shard.driver)
        return drivers


def _answer(reply: Reply, result: Result) -> None:
    reply.token.answer(result)  # type: ignore[attr-defined]


# -- refusing

_NEEDS_GROUP_ID = (Join, Sync, Heartbeat, Leave, DeleteOffsets)
"""Events that Kafka refuses without a group id before it looks for a coordinator."""


_RESULTS: Final[dict[type, Callable[[int], Result]]] = {
    Sync: SyncResult,
    Leave: LeaveResult,
    CommitOffsets: CommitResult,
    FetchOffsets: FetchOffsetsResult,
    DeleteGroup: DeleteGroupResult,
    DeleteOffsets: DeleteOffsetsResult,
}


def _refused(event: GroupEvent, error: ErrorCode) -> Result:
    """The result of an event that no coordinator takes."""
    if isinstance(event, _NEEDS_GROUP_ID) and not event.group_id:
        error = ErrorCode.INVALID_GROUP_ID
    if isinstance(event, Heartbeat):
        if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # Kafka takes any heartbeat then: whoever sends it may be a member.
            error = ErrorCode.NONE
        return HeartbeatResult(error)
    if isinstance(event, Join):
        return JoinResult(error, "")
    if isinstance(event, DescribeGroup):
        return DescribeGroupResult(error, event.group_id, "")
    return _RESULTS[type(event)](error)


def _reverted(result: Result) -> Result:
    """NOT_COORDINATOR in place of a result that stands on records not written."""
    error = ErrorCode.NOT_COORDINATOR
    match result:
        case JoinResult():
            return JoinResult(error, result.member_id)
        case DescribeGroupResult():
            return DescribeGroupResult(error, result.group_id, "")
        case _:
            return type(result)(error)  # type: ignore[arg-type]
