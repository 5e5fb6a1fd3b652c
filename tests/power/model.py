"""The acknowledged state of a broker: the state that a power cut must, or may, leave.

A run is a sequence of steps. Each is applied when its response arrives; the one in
progress at the cut may have happened or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

OFFSETS = "__consumer_offsets"
SHARDS = 2
"""Partitions of `__consumer_offsets`."""

Value = tuple[bytes, bytes | None]
"""Key and value of a record."""
Place = tuple[str, int]
"""Topic and partition."""
Commit = tuple[int, str]
"""Offset and metadata."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A batch that a partition has acknowledged."""

    first: int
    records: Sequence[Value]
    producer_id: int
    sequence: int
    data: bytes

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.first + len(self.records)


@dataclass(slots=True)
class Part:
    """A partition of one incarnation of a topic.

    Attributes:
        batches: those acknowledged, in order, without gaps.
        begin: the offset of the first of them.
        start: the start of the log.
        flushed: all before this offset has been synced.
        flushing: the same, for the step in progress: a sync of the file alone need not
            keep its name.
    """

    batches: list[Sent] = field(default_factory=list)
    begin: int = 0
    start: int = 0
    flushed: int = 0
    flushing: int = 0

    @property
    def end(self) -> int:
        """The offset behind the last record."""
        return self.batches[-1].end if self.batches else self.begin


@dataclass(slots=True)
class Topic:
    """One incarnation of a topic."""

    id: bytes
    config: dict[str, str]
    parts: list[Part]

    @property
    def is_retained(self) -> bool:
        """True if old records may be deleted by retention."""
        return not self.config.keys().isdisjoint({"retention.ms", "retention.bytes"})

    @property
    def is_compacted(self) -> bool:
        """True if compaction may remove records that later ones replace."""
        return self.config.get("cleanup.policy") == "compact"


@dataclass(slots=True)
class Shard:
    """A partition of `__consumer_offsets`: changes of committed offsets.

    Attributes:
        base: the committed offsets before the first change.
        changes: each is one batch of the log; None for a deleted commit.
        flushed: how many of them have been synced.
        flushing: the same, for the step in progress.
    """

    base: dict[tuple[str, Place], Commit] = field(default_factory=dict)
    changes: list[Mapping[tuple[str, Place], Commit | None]] = field(
        default_factory=list
    )
    flushed: int = 0
    flushing: int = 0

    @property
    def end(self) -> int:
        """The number of changes."""
        return len(self.changes)

    def after(self, count: int) -> dict[tuple[str, Place], Commit]:
        """The committed offsets after the first changes."""
        found: dict[tuple[str, Place], Commit | None] = dict(self.base)
        for change in self.changes[:count]:
            found.update(change)
        return {key: commit for key, commit in found.items() if commit is not None}


def shard_of(group: str) -> int:
    """The partition of a group: Java's hash of its name, as in Kafka."""
    code = 0
    for byte in group.encode("ascii"):
        code = (31 * code + byte) & 0xFFFFFFFF
    code = code - (1 << 32) if code >> 31 else code
    return abs(code) % SHARDS


@dataclass(slots=True)
class World:
    """All acknowledged state.

    Attributes:
        flushes_all: whether everything acknowledged must survive: the broker syncs each
            append before it answers, or only its process is killed.
        topics: by name.
        shards: the partitions of `__consumer_offsets`.
        producer_ids: those handed out.
        has_own_time: whether retention may run at any moment.
    """

    flushes_all: bool
    topics: dict[str, Topic] = field(default_factory=dict)
    shards: list[Shard] = field(
        default_factory=lambda: [Shard() for _ in range(SHARDS)]
    )
    producer_ids: set[int] = field(default_factory=set)
    has_own_time: bool = False

    def part(self, place: Place) -> Part | None:
        """A partition, if it exists."""
        topic = self.topics.get(place[0])
        if topic is None or place[1] >= len(topic.parts):
            return None
        return topic.parts[place[1]]

    def linked(self, path: str) -> None:
        """Notes a new segment: the ones before it should be synced."""
        place, name = _split(path)
        part = self.part(place)
        if part is not None and name.endswith(".log"):
            part.flushing = int(name.partition(".")[0])

    def synced(self, path: str) -> None:
        """Notes a sync of a file: the whole log so far is on the disk."""
        place, name = _split(path)
        if not name.endswith(".log"):
            return
        if place[0] == OFFSETS:
            shard = self.shards[place[1]]
            shard.flushing = len(shard.changes)
        part = self.part(place)
        if part is not None:
            part.flushing = part.end

    def took(self, step: Step) -> None:
        """Applies a step that was answered."""
        for log in self._logs():
            log.flushed = max(log.flushed, log.flushing)
        step.apply(self)
        if self.flushes_all:
            for log in self._logs():
                log.flushed = log.end

    def _logs(self) -> list[Part | Shard]:
        parts = [part for topic in self.topics.values() for part in topic.parts]
        return [*parts, *self.shards]


def _split(path: str) -> tuple[Place, str]:
    folder, _, name = path.rpartition("/")
    topic, _, index = folder.rpartition("-")
    return (topic, int(index) if index.isdigit() else -1), name


# -- steps


@dataclass(slots=True)
class Step:
    """A step that changes nothing: a restart."""

    name: str = "restart"

    def apply(self, world: World) -> None:
        """Changes the world when it is acknowledged."""


@dataclass(slots=True)
class Create(Step):
    """CreateTopics."""

    topic: str = ""
    count: int = 0
    config: dict[str, str] = field(default_factory=dict)
    id: bytes = b""

    def apply(self, world: World) -> None:
        """Adds an incarnation."""
        parts = [Part() for _ in range(self.count)]
        world.topics[self.topic] = Topic(self.id, dict(self.config), parts)


@dataclass(slots=True)
class Delete(Step):
    """DeleteTopics, which also deletes the topic's committed offsets."""

    topic: str = ""

    def apply(self, world: World) -> None:
        """Removes the topic."""
        del world.topics[self.topic]
        for shard in world.shards:
            change = self.forgets(shard)
            if change:
                shard.changes.append(change)

    def forgets(self, shard: Shard) -> dict[tuple[str, Place], Commit | None]:
        """The commits that it deletes from a shard."""
        now = shard.after(len(shard.changes))
        return {key: None for key in now if key[1][0] == self.topic}


@dataclass(slots=True)
class Grow(Step):
    """CreatePartitions."""

    topic: str = ""
    count: int = 0

    def apply(self, world: World) -> None:
        """Adds partitions."""
        parts = world.topics[self.topic].parts
        parts += [Part() for _ in range(self.count - len(parts))]


@dataclass(slots=True)
class Configure(Step):
    """IncrementalAlterConfigs of one key."""

    topic: str = ""
    key: str = ""
    value: str = ""

    def apply(self, world: World) -> None:
        """Sets the value."""
        world.topics[self.topic].config[self.key] = self.value


@dataclass(slots=True)
class Produce(Step):
    """Produce of one batch."""

    place: Place = ("", 0)
    sent: Sent = field(default_factory=lambda: Sent(0, (), -1, -1, b""))

    def apply(self, world: World) -> None:
        """Adds the batch."""
        part = world.part(self.place)
        assert part is not None
        assert self.sent.first == part.end, f"{self} behind {part.end}"
        part.batches.append(self.sent)


@dataclass(slots=True)
class Start(Step):
    """DeleteRecords, or retention: moves the starts of logs."""

    starts: dict[Place, int] = field(default_factory=dict)

    def apply(self, world: World) -> None:
        """Moves the starts."""
        for place, start in self.starts.items():
            part = world.part(place)
            if part is not None:
                part.start = max(part.start, start)


@dataclass(slots=True)
class CommitOffsets(Step):
    """OffsetCommit of some partitions, which is one batch."""

    group: str = ""
    commits: dict[tuple[str, Place], Commit | None] = field(default_factory=dict)

    def apply(self, world: World) -> None:
        """Sets the offsets."""
        world.shards[shard_of(self.group)].changes.append(self.commits)


@dataclass(slots=True)
class DeleteGroup(Step):
    """DeleteGroups of one."""

    group: str = ""

    def apply(self, world: World) -> None:
        """Removes its offsets."""
        shard = world.shards[shard_of(self.group)]
        shard.changes.append(self.forgets(shard))

    def forgets(self, shard: Shard) -> dict[tuple[str, Place], Commit | None]:
        """The commits that it deletes."""
        now = shard.after(len(shard.changes))
        return {key: None for key in now if key[0] == self.group}


@dataclass(slots=True)
class NewProducer(Step):
    """InitProducerId."""

    id: int = -1

    def apply(self, world: World) -> None:
        """Adds an id that no other producer may get."""
        world.producer_ids.add(self.id)
