"""Random steps of clients with topics, records and groups."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.power import batches
from tests.power.client import Client, accepted
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
from tests.wire.requests import (
    TOPIC,
    alter_configs,
    commit_offsets,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
)

from kohort.protocol.apis.k42_delete_groups import DeleteGroupsRequest

MOST_PARTITIONS = 4
KEYS = 4


@dataclass(frozen=True, slots=True)
class Scope:
    """Topics and groups of one sequence of steps.

    Attributes:
        names: of topics.
        groups: their ids.
        kinds: configurations that topics are created with.
    """

    names: Sequence[str]
    groups: Sequence[str]
    kinds: Sequence[dict[str, str]]


class Steps:
    """One step after the other.

    Args:
        scope: the topics and groups of the steps.
        world: the acknowledged state.
        draw: random choices of steps.
        now_ms: the time, for records.
        taking: made with each step, entered before its request, left after its
            response.

    Attributes:
        client: sends the requests; to be set.
        producers: id and next sequence number by partition; clear it if the broker may
            have forgotten them.
        may_delete_topics: whether steps delete topics.
    """

    def __init__(
        self,
        scope: Scope,
        world: World,
        draw: random.Random,
        now_ms: Callable[[], int],
        taking: Callable[[Step], AbstractContextManager[None]],
    ) -> None:
        self.client: Client
        self.world = world
        self.producers: dict[Place, tuple[int, int]] = {}
        self.may_delete_topics = True
        self._scope = scope
        self._draw = draw
        self._now_ms = now_ms
        self._taking = taking
        self._numbers = 0

    def take(self, *others: tuple[float, Callable[[], None]]) -> None:
        """Takes one step; `others` are further kinds, with their weights."""
        draw = self._draw
        parts = [
            (name, index)
            for name, topic in self.world.topics.items()
            for index in range(len(topic.parts))
        ]
        kinds: list[tuple[float, Callable[[], None]]] = [(3, self._create), *others]
        if parts:
            place = draw.choice(parts)
            kinds += [
                (40, lambda: self._produce(place)),
                (3 * self.may_delete_topics, lambda: self._delete(place[0])),
                (3 * self.may_delete_topics, lambda: self._recreate(place[0])),
                (4, lambda: self._delete_records(place)),
                (2, lambda: self._grow(place[0])),
                (2, lambda: self._configure(place[0])),
                (15, lambda: self._commit(place[0])),
                (2, lambda: self._delete_group(draw.choice(self._scope.groups))),
                (3, lambda: self._new_producer(place)),
            ]
        ((_, take),) = draw.choices(kinds, [weight for weight, _ in kinds])
        take()

    def change_topics(self) -> None:
        """A step that changes folders; mostly the one with the most of them."""
        draw, topics = self._draw, self.world.topics
        if len(topics) < 2 or draw.random() < 0.2:
            self._create()
            return
        name = max(topics, key=lambda name: (len(topics[name].parts), name))
        if draw.random() < 0.3:
            name = draw.choice(list(topics))
        place = name, draw.randrange(len(topics[name].parts))
        kinds: list[tuple[float, Callable[[], None]]] = [
            (5, lambda: self._delete(name)),
            (2, lambda: self._recreate(name)),
            (1, lambda: self._grow(name)),
            (1, lambda: self._delete_records(place)),
        ]
        ((_, take),) = draw.choices(kinds, [weight for weight, _ in kinds])
        take()

    def _create(self) -> None:
        free = [name for name in self._scope.names if name not in self.world.topics]
        if free:
            self._create_as(self._draw.choice(free))

    def _create_as(self, name: str) -> None:
        config = dict(self._draw.choice(self._scope.kinds))
        step = Create("create", name, self._draw.randint(1, 3), config)
        request = create_topics(name, partitions=step.count, config=config)
        with self._taking(step):
            (answer,) = self.client.call("CreateTopics", 7, request).topics
            accepted(answer)
            step.id = bytes(answer.topic_id)

    def _delete(self, name: str) -> None:
        with self._taking(Delete("delete", name)):
            (answer,) = self.client.call(
                "DeleteTopics", 6, delete_topics(name)
            ).responses
            accepted(answer)
        for place in [place for place in self.producers if place[0] == name]:
            del self.producers[place]

    def _recreate(self, name: str) -> None:
        if self._draw.random() < 0.5:
            self._delete_records((name, 0))
        self._delete(name)
        self._create_as(name)
        if self._draw.random() < 0.7:
            self._produce((name, 0))

    def _grow(self, name: str) -> None:
        count = len(self.world.topics[name].parts) + 1
        if count > MOST_PARTITIONS:
            return
        with self._taking(Grow("grow", name, count)):
            request = create_partitions(name, count)
            (answer,) = self.client.call("CreatePartitions", 3, request).results
            accepted(answer)

    def _configure(self, name: str) -> None:
        key = self._draw.choice(("max.message.bytes", "segment.ms"))
        value = str(self._draw.choice((400, 1_000, 100_000)))
        if key == "max.message.bytes":
            value += "000"
        request = alter_configs(TOPIC, name, **{key: value})
        with self._taking(Configure("configure", name, key, value)):
            (answer,) = self.client.call(
                "IncrementalAlterConfigs", 1, request
            ).responses
            accepted(answer)

    def _produce(self, place: Place) -> None:
        draw = self._draw
        part = self.world.part(place)
        assert part is not None
        records = [self._record() for _ in range(draw.randint(1, 3))]
        producer_id, sequence = self.producers.get(place, (-1, -1))
        data = batches.written(records, self._now_ms(), producer_id, sequence)
        step = Produce("produce", place)
        step.sent = Sent(part.end, records, producer_id, sequence, data)
        with self._taking(step):
            answer = accepted(self.client.send(place, data))
            assert answer.base_offset == part.end, f"{answer}, not at {part.end}"
        if producer_id >= 0:
            self.producers[place] = producer_id, sequence + len(records)

    def _record(self) -> tuple[bytes, bytes | None]:
        draw = self._draw
        self._numbers += 1
        key = b"key-%d" % draw.randrange(KEYS)
        size = draw.choice((0, 20, 150, 600))
        value = b"%d %d%s" % (self._now_ms(), self._numbers, b"." * size)
        return key, None if draw.random() < 0.1 else value

    def _new_producer(self, place: Place) -> None:
        step = NewProducer("new producer")
        with self._taking(step):
            step.id = self.client.new_producer_id()
        self.producers[place] = step.id, 0

    def _delete_records(self, place: Place) -> None:
        part = self.world.part(place)
        assert part is not None
        if self.world.topics[place[0]].is_compacted or part.end == part.start:
            return
        before = self._draw.randint(part.start, part.end)
        step = Start("delete records", {place: before})
        request = delete_records((*place, before))
        with self._taking(step):
            (about,) = self.client.call("DeleteRecords", 2, request).topics
            accepted(about.partitions[0])

    def _commit(self, name: str) -> None:
        draw = self._draw
        group = draw.choice(self._scope.groups)
        topic = self.world.topics[name]
        count = draw.randint(1, len(topic.parts))
        commits: dict[tuple[str, Place], Commit | None] = {}
        rows = []
        for index in draw.sample(range(len(topic.parts)), count):
            offset = draw.randint(0, topic.parts[index].end)
            text = "." * draw.choice((0, 7, 300))
            commits[group, (name, index)] = offset, text
            rows.append((index, offset, -1, text))
        request = commit_offsets(name, *rows, group=group)
        with self._taking(CommitOffsets("commit", group, commits)):
            (about,) = self.client.call("OffsetCommit", 8, request).topics
            for row in about.partitions:
                accepted(row)

    def _delete_group(self, group: str) -> None:
        shards = self.world.shards
        known = {key[0] for each in shards for key in each.after(len(each.changes))}
        if group not in known:
            return
        with self._taking(DeleteGroup("delete group", group)):
            request = DeleteGroupsRequest([group])
            (answer,) = self.client.call("DeleteGroups", 2, request).results
            accepted(answer)
