"""``__kohort_events``: the stream of events as a topic, for any Kafka consumer.

A record is an event: its value is JSON, its key the group. While the topic exists, all
events are written to it, beginning with the remembered ones; an `events_lost` stands in
place of forgotten ones. Writing an event costs some twenty times as much as publishing
it, so the topic does not exist by default. ``events.topic.enable`` creates it, and
clients can create it like any other topic.

A group that reads this topic and commits would produce events about itself forever, so
events of groups that subscribe to the topic, or commit to it, are left out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kohort.broker import telemetry
from kohort.broker.cluster.cluster import Cluster
from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.classic.member import Protocols
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.group import Group
from kohort.broker.events.bus import Events, Reader
from kohort.broker.events.remembered import REMEMBERED
from kohort.broker.events.seen import Seen
from kohort.broker.events.views.reading import json_of, pause, take
from kohort.broker.log.store import StorageError
from kohort.broker.runtime.hash import partition_of
from kohort.broker.topics.topic import EVENTS_TOPIC, Topic
from kohort.protocol.consumer import decode_subscription
from kohort.protocol.messages import WireError
from kohort.protocol.records import Record, build_batch

LINGER_S: Final = 0.02
"""The pause between two batches."""
NEWCOMER_S: Final = 1.0
"""Longest wait for the first member of a group to join after it got its id: only its
subscription shows whether the group reads this topic. Clients join at once."""
RETRY_S: Final = 1.0
"""Pause before retrying a batch that could not be written."""
LONGEST_BATCH: Final = 512 * 1024
"""Maximum bytes of a batch with more than one event; consumers fetch whole batches."""
BUFFER: Final = 2 * REMEMBERED
"""Events that may wait to be written: all the remembered ones, when the topic is
created, and as many again while the disk is full."""
MOST_READERS: Final = 10_000
"""Readers of the topic that are remembered. A forgotten reader is noticed again at its
next join or commit."""

_NAME = EVENTS_TOPIC.encode()

log = telemetry.Logger("events")


class EventsTopic:
    """Writes the stream to the topic until the topic is deleted.

    Args:
        cluster: the cluster of the topic.
        events: the stream.
        topic: the topic, which has the name `EVENTS_TOPIC`.
    """

    def __init__(self, cluster: Cluster, events: Events, topic: Topic) -> None:
        self._cluster = cluster
        self._events = events
        self._topic = topic
        # By node: the number of the next event.
        self._next: dict[int, int] = {}
        # The groups that read the topic, the oldest first.
        self._readers: dict[str, None] = {}
        # Groups whose first member has its id and has not joined yet.
        self._newcomers: set[str] = set()
        self._has_no_newcomers = asyncio.Event()
        self._reader: Reader
        self._closing = asyncio.Event()
        self._is_failing = False
        self._task: asyncio.Task[None]

    def start(self) -> None:
        """Starts writing on the running loop, with this run's remembered events."""
        for group in self._cluster.shards.groups():
            if _reads(group):
                self._add_reader(group.group_id)
        for seen in self._events.remembered.latest:
            self._note_reader(seen)
        self._events.listen(self._note_reader)
        self._reader = self._events.subscribe(size=BUFFER, past=True, accounts=True)
        self._task = asyncio.create_task(self._run())

    def leave(self) -> None:
        """Stops writing."""
        self._events.finish_accounts()
        self._reader.close()
        self._closing.set()
        self._has_no_newcomers.set()

    async def close(self) -> None:
        """Stops after all events so far are written."""
        self.leave()
        await self._task

    # -- readers of the topic

    def _note_reader(self, seen: Seen) -> None:
        """Notes whether an event shows that its group reads the topic."""
        notice = seen.notice
        if notice.kind not in _KINDS_WITH_READERS or notice.group_id is None:
            return
        if notice.kind == "member_id_given":
            group = self._group(notice.group_id)
            if group is not None and not group.members:
                self._newcomers.add(notice.group_id)
            return
        self._newcomers.discard(notice.group_id)
        if not self._newcomers:
            self._has_no_newcomers.set()
        if notice.kind in _COMMITS:
            # The first column has the names of topics.
            is_reader = EVENTS_TOPIC in notice.fields["offsets"][0]
        elif notice.kind == "group_loaded":
            is_reader = _reads(self._group(notice.group_id))
        else:
            is_reader = _subscribes(notice.fields["protocols"])
        if is_reader:
            self._add_reader(notice.group_id)

    def _add_reader(self, group_id: str) -> None:
        self._readers[group_id] = None
        if len(self._readers) > MOST_READERS:
            del self._readers[next(iter(self._readers))]

    def _group(self, group_id: str) -> Group | None:
        return self._cluster.shards.for_id(group_id).groups.get(group_id)

    # -- writing

    async def _run(self) -> None:
        reader = self._reader
        try:
            while len(reader) or not reader.is_closed:
                await reader.wait()
                await pause(self._closing, LINGER_S)
                while len(reader):
                    await self._wait_for_newcomers()
                    events = take(reader)
                    records = self._records(events)
                    while not self._append(records):
                        if self._closing.is_set():
                            return
                        await pause(self._closing, RETRY_S)
                    if self._is_deleted():
                        return
                    # Let other tasks run.
                    await asyncio.sleep(0)
        finally:
            self._events.unlisten(self._note_reader)
            reader.close()

    async def _wait_for_newcomers(self) -> None:
        """Waits until each new group has shown whether it reads the topic."""
        if self._newcomers and not self._closing.is_set():
            self._has_no_newcomers.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(NEWCOMER_S):
                    await self._has_no_newcomers.wait()
            self._newcomers.clear()

    def _records(self, events: Sequence[Mapping[str, Any]]) -> list[Record]:
        """Converts events to records, without those of groups that read the topic."""
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
        """Returns an event, after an `events_lost` if some before it are missing."""
        node, sequence = event["node"], event["sequence"]
        expected = self._next.get(node, 1)
        self._next[node] = sequence + 1
        # The stream's own announcement; its number is that of the last missing event.
        if event["kind"] == "events_lost":
            first = min(expected, event["first"])
            return [event if first == event["first"] else {**event, "first": first}]
        if sequence == expected:
            return [event]
        return [self._events.lost(node, expected, sequence - 1), event]

    def _is_deleted(self) -> bool:
        return self._cluster.topics.by_name.get(EVENTS_TOPIC) is not self._topic

    def _append(self, records: list[Record]) -> bool:
        """Appends records and removes them from the list; False if the disk is full."""
        partitions = self._topic.partitions
        try:
            while records and not self._is_deleted():
                # One partition, unless a client created the topic with more.
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


_COMMITS = frozenset({"offsets_committed", "commit_refused"})
_KINDS_WITH_READERS = _COMMITS | {
    "group_loaded",
    "member_id_given",
    "member_joined",
    "member_replaced",
}
"""Kinds of events that show that a group reads the topic, or soon may."""


def _index(record: Record, count: int) -> int:
    """Returns the partition of a record, by the hash of its group."""
    return partition_of(record.key.decode(), count) if record.key else 0


def _first_of(records: Sequence[Record], count: int) -> Sequence[Record]:
    """Returns the next batch: the first records that go to one partition."""
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
    """Returns whether a group subscribes to the topic or has committed to it."""
    if group is not None and any(topic == EVENTS_TOPIC for topic, _ in group.offsets):
        return True
    if isinstance(group, ConsumerGroup):
        return EVENTS_TOPIC in group.subscribed_topics()
    return isinstance(group, ClassicGroup) and any(
        _subscribes(member.protocols) for member in group.members.values()
    )


def _subscribes(protocols: Protocols) -> bool:
    """Returns whether a member's subscription contains the topic."""
    return any(_NAME in metadata and _is_named(metadata) for _, metadata in protocols)


def _is_named(metadata: bytes) -> bool:
    """Returns whether a subscription with the name's bytes contains the topic."""
    try:
        return EVENTS_TOPIC in decode_subscription(metadata).topics
    except WireError:
        # Unknown: losing some events is better than producing events forever.
        return True
