"""``__kohort_events``: the stream as a topic, which any consumer of Kafka's reads.

A record is an event: its value is JSON, its key the group. The topic is written as
long as there is a topic of that name, and begins with what is remembered; what is
not any more is announced. Nobody pays for it otherwise: to write an event costs some
twenty times what it costs to see it. It comes to be by ``events.topic.enable``, or as
other topics do, because somebody asks for it or creates it.

Who reads the topic and commits would make events by that, which it would read, and
so on without end. So events about groups that subscribe to the topic, or commit to
it, are in every view but this one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kohort.broker import telemetry
from kohort.broker.cluster import Cluster
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.member import Protocols
from kohort.broker.events.bus import REMEMBERED, Events, Reader, Seen
from kohort.broker.events.views.reading import json_of, take
from kohort.broker.log.store import StorageError
from kohort.broker.shard_hash import partition_of
from kohort.broker.topics import EVENTS_TOPIC, Topic
from kohort.protocol.consumer import decode_subscription
from kohort.protocol.messages import WireError
from kohort.protocol.records import Record, build_batch

LINGER_S: Final = 0.02
"""The pause between two batches."""
NEWCOMER_S: Final = 1.0
"""How long it is waited for a group's first member to join once it was given an id:
until then nobody knows if the group is to read the topic. Clients join at once."""
RETRY_S: Final = 1.0
"""The pause before a batch that could not be written is tried again."""
LONGEST_BATCH: Final = 512 * 1024
"""Bytes of a batch, if it has more than one event: what consumers fetch at once."""
BUFFER: Final = 2 * REMEMBERED
"""Events that wait to be written: all that are remembered, when the topic is made, and
as many again while the disk is full."""
MOST_READERS: Final = 10_000
"""Groups that are remembered to read the topic. One that is forgotten is known again
by its next join or commit."""

_NAME = EVENTS_TOPIC.encode()

log = telemetry.get_logger("events")


class EventsTopic:
    """Writes the stream to the topic, until that is deleted.

    Args:
        cluster: where the topic is.
        events: the stream.
        topic: the topic, which has the name `EVENTS_TOPIC`.
    """

    def __init__(self, cluster: Cluster, events: Events, topic: Topic) -> None:
        self._cluster = cluster
        self._events = events
        self._topic = topic
        # By node: the number of the next event.
        self._next: dict[int, int] = {}
        # A dict for its order: who reads the topic, by group.
        self._readers: dict[str, None] = {}
        # Groups whose first member was given an id, and has not joined yet.
        self._newcomers: set[str] = set()
        self._told = asyncio.Event()
        self._reader: Reader
        self._closing = asyncio.Event()
        self._is_failing = False
        self._task: asyncio.Task[None]

    def start(self) -> None:
        """Begins to write, on the running loop: what is remembered of this run."""
        for shard in self._cluster.shards:
            if shard.driver is not None:
                for group in shard.driver.coordinator.groups.values():
                    if _reads(group):
                        self._note(group.group_id)
        for seen in self._events.remembered.latest:
            self._look(seen)
        self._events.listen(self._look)
        self._reader = self._events.subscribe(size=BUFFER, past=True)
        self._task = asyncio.create_task(self._run())

    def leave(self) -> None:
        """Writes no more: there is another topic of that name."""
        self._reader.close()
        self._closing.set()
        self._told.set()

    async def close(self) -> None:
        """Writes what has happened until now."""
        self.leave()
        await self._task

    # -- who reads the topic

    def _look(self, seen: Seen) -> None:
        """Notes whether an event shows that its group reads the topic."""
        notice = seen.notice
        if notice.kind not in _TELLING or notice.group_id is None:
            return
        if notice.kind == "member_id_given":
            group = self._group(notice.group_id)
            if group is not None and not group.members:
                self._newcomers.add(notice.group_id)
            return
        self._newcomers.discard(notice.group_id)
        if not self._newcomers:
            self._told.set()
        if notice.kind in _COMMITS:
            # Flat: of each offset six fields, and the topic is the first.
            is_reader = EVENTS_TOPIC in notice.fields["offsets"][::6]
        elif notice.kind == "group_loaded":
            is_reader = _reads(self._group(notice.group_id))
        else:
            is_reader = _subscribes(notice.fields["protocols"])
        if is_reader:
            self._note(notice.group_id)

    def _note(self, group_id: str) -> None:
        self._readers[group_id] = None
        if len(self._readers) > MOST_READERS:
            del self._readers[next(iter(self._readers))]

    def _group(self, group_id: str) -> Group | None:
        driver = self._cluster.shards.of(group_id).driver
        return None if driver is None else driver.coordinator.groups.get(group_id)

    # -- writing

    async def _run(self) -> None:
        reader = self._reader
        try:
            while len(reader) or not reader.is_closed:
                await reader.wait()
                await self._pause(LINGER_S)
                while len(reader):
                    await self._hear_newcomers()
                    events = take(reader)
                    records = self._records(events)
                    while not self._append(records):
                        if self._closing.is_set():
                            return
                        await self._pause(RETRY_S)
                    if self._is_deleted():
                        return
                    # Others have their turn.
                    await asyncio.sleep(0)
        finally:
            self._events.unlisten(self._look)
            reader.close()

    async def _hear_newcomers(self) -> None:
        """Waits until it is known of all groups whether they read the topic."""
        if self._newcomers and not self._closing.is_set():
            self._told.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(NEWCOMER_S):
                    await self._told.wait()
            self._newcomers.clear()

    def _records(self, events: Sequence[Mapping[str, Any]]) -> list[Record]:
        """Events as records, without those that the topic is not to have."""
        run, readers = self._events.run, self._readers
        return [
            _record(each)
            for event in events
            # A broker that was stopped and started again remembers its last run.
            if event["run"] == run
            for each in self._with_gap(event)
            if each["group"] not in readers
        ]

    def _with_gap(self, event: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """An event, behind the announcement of those that were forgotten before it."""
        node, sequence = event["node"], event["sequence"]
        expected = self._next.get(node, 1)
        self._next[node] = sequence + 1
        # The stream's own announcement has the number of the last that is missing.
        if event["kind"] == "events_lost":
            first = min(expected, event["first"])
            return [event if first == event["first"] else {**event, "first": first}]
        if sequence == expected:
            return [event]
        return [self._events.lost(node, expected, sequence - 1), event]

    def _is_deleted(self) -> bool:
        return self._cluster.topics.by_name.get(EVENTS_TOPIC) is not self._topic

    def _append(self, records: list[Record]) -> bool:
        """Appends records, and takes them off the list; False if there is no room."""
        partitions = self._topic.partitions
        try:
            while records and not self._is_deleted():
                # There is one partition, unless somebody wanted to have more.
                batch = _first_of(records, len(partitions))
                partition = partitions[_index(batch[0], len(partitions))]
                now_ms = self._cluster.now_ms()
                partition.append_own(build_batch(batch), now_ms=now_ms)
                records[:] = records[len(batch) :]
        except StorageError as error:
            if not self._is_failing:
                self._is_failing = True
                log.warning("events_not_written", topic=EVENTS_TOPIC, reason=str(error))
            return False
        self._is_failing = False
        return True

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._closing.wait(), seconds)
        except TimeoutError:
            return


_COMMITS = frozenset({"offsets_committed", "commit_refused"})
_TELLING = _COMMITS | {
    "group_loaded",
    "member_id_given",
    "member_joined",
    "member_replaced",
}
"""The kinds of events that may show who reads the topic, or that it will show soon."""


def _index(record: Record, count: int) -> int:
    """The partition that a record goes to, by its group's hash."""
    return partition_of(record.key.decode(), count) if record.key else 0


def _first_of(records: Sequence[Record], count: int) -> Sequence[Record]:
    """The next batch: records that go to the same partition of so many."""
    first, size = _index(records[0], count), 0
    for number, record in enumerate(records):
        size += len(record.value or b"")
        if number and (size > LONGEST_BATCH or _index(record, count) != first):
            return records[:number]
    return records


def _record(event: Mapping[str, Any]) -> Record:
    group = event["group"]
    key = None if group is None else group.encode()
    return Record(0, event["time_ns"] // 1_000_000, key, json_of(event))


def _reads(group: Group | None) -> bool:
    """Whether a group subscribes to the topic, or has committed to it."""
    return group is not None and (
        any(topic == EVENTS_TOPIC for topic, _ in group.offsets)
        or any(_subscribes(member.protocols) for member in group.members.values())
    )


def _subscribes(protocols: Protocols) -> bool:
    """Whether a member's subscription has the topic."""
    return any(_NAME in metadata and _is_named(metadata) for _, metadata in protocols)


def _is_named(metadata: bytes) -> bool:
    """Whether a subscription that has the name somewhere in it means the topic."""
    try:
        return EVENTS_TOPIC in decode_subscription(metadata).topics
    except WireError:
        # Nobody can tell; better some events too few than events without end.
        return True
