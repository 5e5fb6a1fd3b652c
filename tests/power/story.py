"""A life of a broker: steps that are drawn, and the calls that they make."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.power import batches
from tests.power.disk import Call, Link, Sync
from tests.power.model import (
    Commit,
    CommitOffsets,
    Configure,
    Create,
    Delete,
    DeleteGroup,
    Grow,
    NewProducer,
    Place,
    Produce,
    Sent,
    Start,
    Step,
    World,
)
from tests.power.recorder import recording
from tests.power.serving import EARLIEST, TOPIC, Serving

from kohort.protocol.apis.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.apis.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kohort.protocol.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.protocol.apis.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdRequest
from kohort.protocol.apis.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kohort.protocol.apis.k42_delete_groups import DeleteGroupsRequest
from kohort.protocol.apis.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.protocol.messages import ZERO_UUID

NAMES = ("orders", "o", "l" * 195 + "1", "l" * 195 + "2", "x" * 249)
"""Folders of long names are near the 255 bytes that a name may have."""
GROUPS = ("alpha", "beta", "gamma", "delta")
KINDS: tuple[dict[str, str], ...] = (
    {},
    {"cleanup.policy": "compact", "delete.retention.ms": "1000"},
    {"retention.bytes": "900"},
    {"retention.ms": "4000"},
    {"segment.ms": "300"},
)
MOST_PARTITIONS = 4
KEYS = 4
PAUSE_S = 0.1
LONG_PAUSE_S = 4.0


@dataclass(frozen=True, slots=True)
class Began:
    """From here on a step is under way."""

    step: Step


@dataclass(frozen=True, slots=True)
class Ended:
    """A step has its answer."""

    step: Step


Entry = Call | Began | Ended


class Life:
    """What a broker does on a data directory, from start to stop.

    Args:
        path: the data directory.
        world: what is in it; it follows the steps.
        config: the broker's.
        now: the time at its start.
        seed: of what is drawn.

    Attributes:
        entries: what happened, in order.
        now: the time at its end.
        step: the last one that was begun.
    """

    def __init__(
        self,
        path: Path,
        world: World,
        config: Mapping[str, object],
        now: float,
        seed: str,
    ) -> None:
        self.entries: list[Entry] = []
        self.now = now
        self.step = Step()
        self._path = path
        self._config = config
        self._draw = random.Random(seed)
        self._world = world
        self._numbers = 0
        self._producers: dict[Place, tuple[int, int]] = {}
        self._serving: Serving

    def live(self, steps: int) -> None:
        """Starts, takes so many steps, and stops in order."""
        with recording(self._path, self.entries):
            self._starts()
            for _ in range(steps):
                self._step()
            self._stops()

    def _starts(self) -> None:
        with self._taking(Step("start")):
            self._serving = Serving(self._path, self._config, self.now)
            # Makes `__consumer_offsets`.
            self._serving.call("FindCoordinator", 3, FindCoordinatorRequest("alpha"))

    def _stops(self) -> None:
        with self._taking(Step("stop")):
            self._serving.close()
        self.now = self._serving.clock.now()

    def _taking(self, step: Step) -> _Taking:
        self.step = step
        return _Taking(step, self.entries, self._world)

    # -- what is drawn

    def _step(self) -> None:
        draw = self._draw
        parts = [
            (name, index)
            for name, topic in self._world.topics.items()
            for index in range(len(topic.parts))
        ]
        self._serving.advance(0)
        kinds: list[tuple[float, Callable[[], None]]] = [(3, self._create)]
        if parts:
            kinds += [
                (40, lambda: self._produce(draw.choice(parts))),
                (3, lambda: self._delete(draw.choice(parts)[0])),
                (3, lambda: self._recreate(draw.choice(parts)[0])),
                (4, lambda: self._delete_records(draw.choice(parts))),
                (2, lambda: self._grow(draw.choice(parts)[0])),
                (2, lambda: self._configure(draw.choice(parts)[0])),
                (15, lambda: self._commit(draw.choice(parts)[0])),
                (2, lambda: self._delete_group(draw.choice(GROUPS))),
                (3, lambda: self._new_producer(draw.choice(parts))),
            ]
        kinds += [(10, lambda: self._pass(LONG_PAUSE_S)), (1.5, self._restart)]
        weights = [weight for weight, _ in kinds]
        ((_, take),) = draw.choices(kinds, weights)
        take()
        self._pass(PAUSE_S * draw.choice((0.01, 1, 3)))

    def _create(self) -> None:
        free = [name for name in NAMES if name not in self._world.topics]
        if free:
            self._create_as(self._draw.choice(free))

    def _create_as(self, name: str) -> None:
        config = dict(self._draw.choice(KINDS))
        step = Create("create", name, self._draw.randint(1, 3), config)
        rows = [CreatableTopicConfig(*row) for row in config.items()]
        request = CreateTopicsRequest(
            [CreatableTopic(name, step.count, 1, configs=rows)]
        )
        with self._taking(step):
            (answer,) = self._serving.call("CreateTopics", 7, request).topics
            assert answer.error_code == 0, answer
            step.id = bytes(answer.topic_id)

    def _delete(self, name: str) -> None:
        with self._taking(Delete("delete", name)):
            request = DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=1000)
            (answer,) = self._serving.call("DeleteTopics", 6, request).responses
            assert answer.error_code == 0, answer
        for place in [place for place in self._producers if place[0] == name]:
            del self._producers[place]

    def _recreate(self, name: str) -> None:
        self._delete(name)
        self._create_as(name)
        if self._draw.random() < 0.7:
            self._produce((name, 0))

    def _grow(self, name: str) -> None:
        count = len(self._world.topics[name].parts) + 1
        if count > MOST_PARTITIONS:
            return
        with self._taking(Grow("grow", name, count)):
            request = CreatePartitionsRequest(
                [CreatePartitionsTopic(name, count, None)], 1000
            )
            (answer,) = self._serving.call("CreatePartitions", 3, request).results
            assert answer.error_code == 0, answer

    def _configure(self, name: str) -> None:
        key = self._draw.choice(("max.message.bytes", "segment.ms"))
        value = str(self._draw.choice((400, 1_000, 100_000)))
        if key == "max.message.bytes":
            value += "000"
        rows = [AlterableConfig(key, 0, value)]
        request = IncrementalAlterConfigsRequest(
            [AlterConfigsResource(TOPIC, name, rows)]
        )
        with self._taking(Configure("configure", name, key, value)):
            (answer,) = self._serving.call(
                "IncrementalAlterConfigs", 1, request
            ).responses
            assert answer.error_code == 0, answer

    def _produce(self, place: Place) -> None:
        draw = self._draw
        part = self._world.part(place)
        assert part is not None
        records = [self._record() for _ in range(draw.randint(1, 3))]
        producer_id, sequence = self._producers.get(place, (-1, -1))
        now_ms = int(self._serving.clock.now() * 1000)
        data = batches.written(records, now_ms, producer_id, sequence)
        step = Produce("produce", place)
        step.sent = Sent(part.end, records, producer_id, sequence, data)
        with self._taking(step):
            answer = send(self._serving, place, data)
            assert (answer.error_code, answer.base_offset) == (0, part.end), answer
        if producer_id >= 0:
            self._producers[place] = producer_id, sequence + len(records)

    def _record(self) -> tuple[bytes, bytes | None]:
        draw = self._draw
        self._numbers += 1
        key = b"key-%d" % draw.randrange(KEYS)
        size = draw.choice((0, 20, 150, 600))
        value = b"%d %d%s" % (int(self.now), self._numbers, b"." * size)
        return key, None if draw.random() < 0.1 else value

    def _new_producer(self, place: Place) -> None:
        step = NewProducer("new producer")
        with self._taking(step):
            step.id = new_producer_id(self._serving)
        self._producers[place] = step.id, 0

    def _delete_records(self, place: Place) -> None:
        part = self._world.part(place)
        assert part is not None
        if self._world.topics[place[0]].is_compacted or part.end == part.start:
            return
        before = self._draw.randint(part.start, part.end)
        step = Start("delete records", {place: before})
        request = DeleteRecordsRequest(
            [DeleteRecordsTopic(place[0], [DeleteRecordsPartition(place[1], before)])]
        )
        with self._taking(step):
            (about,) = self._serving.call("DeleteRecords", 2, request).topics
            assert about.partitions[0].error_code == 0, about

    def _commit(self, name: str) -> None:
        draw = self._draw
        group = draw.choice(GROUPS)
        topic = self._world.topics[name]
        count = draw.randint(1, len(topic.parts))
        commits: dict[tuple[str, Place], Commit | None] = {}
        rows = []
        for index in draw.sample(range(len(topic.parts)), count):
            offset = draw.randint(0, topic.parts[index].end)
            text = "." * draw.choice((0, 7, 300))
            commits[group, (name, index)] = offset, text
            rows.append(OffsetCommitRequestPartition(index, offset, -1, text))
        request = OffsetCommitRequest(
            group, topics=[OffsetCommitRequestTopic(name, partitions=rows)]
        )
        with self._taking(CommitOffsets("commit", group, commits)):
            (about,) = self._serving.call("OffsetCommit", 8, request).topics
            assert not any(row.error_code for row in about.partitions), about

    def _delete_group(self, group: str) -> None:
        shard = self._world.shards[0], self._world.shards[1]
        known = {key[0] for each in shard for key in each.after(len(each.changes))}
        if group not in known:
            return
        with self._taking(DeleteGroup("delete group", group)):
            request = DeleteGroupsRequest([group])
            (answer,) = self._serving.call("DeleteGroups", 2, request).results
            assert answer.error_code == 0, answer

    def _pass(self, seconds: float) -> None:
        """Time passes, and housekeeping with it: retention, compaction, checkpoints."""
        step = Start("time passes")
        with self._taking(step):
            self._serving.advance(seconds * self._draw.uniform(0.5, 1.5))
            for name, topic in self._world.topics.items():
                for index in range(len(topic.parts)):
                    start = self._serving.offset(name, index, EARLIEST)
                    if start != topic.parts[index].start:
                        step.starts[name, index] = start

    def _restart(self) -> None:
        self._stops()
        self._starts()
        self._producers.clear()


class _Taking:
    """The time that a step takes."""

    def __init__(self, step: Step, entries: list[Entry], world: World) -> None:
        self._step = step
        self._entries = entries
        self._world = world
        entries.append(Began(step))
        self._since = len(entries)

    def __enter__(self) -> None:
        """The call is made."""

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if failure is None:
            for entry in self._entries[self._since :]:
                follow(entry, self._world)
            self._entries.append(Ended(self._step))
            self._world.took(self._step)


def follow(entry: Entry, world: World) -> None:
    """Has a world know what the disk was told."""
    if isinstance(entry, Sync) and entry.path:
        world.synced(entry.path)
    elif isinstance(entry, Link) and entry.path:
        world.linked(entry.path)
    elif isinstance(entry, Ended):
        world.took(entry.step)


def send(serving: Serving, place: Place, data: bytes) -> Any:
    """Produces one batch."""
    rows = [PartitionProduceData(place[1], data)]
    request = ProduceRequest(
        None, -1, 1000, [TopicProduceData(place[0], ZERO_UUID, rows)]
    )
    (about,) = serving.call("Produce", 9, request).responses
    return about.partition_responses[0]


def new_producer_id(serving: Serving) -> int:
    """InitProducerId."""
    answer = serving.call("InitProducerId", 4, InitProducerIdRequest(None))
    assert answer.error_code == 0, answer
    producer_id: int = answer.producer_id
    return producer_id
