"""Consuming, for ``kohort consume``."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import sys
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from kohort.client.admin import Admin
from kohort.client.config import AdminConfig, ConsumerConfig
from kohort.client.consumer import Consumer
from kohort.client.consuming.chunks import ConsumerRecord
from kohort.client.consuming.consumer_group import ConsumerRebalanceListener
from kohort.client.errors import UnknownTopicError
from kohort.client.network.metadata import TopicInfo
from kohort.client.offsets import EARLIEST, LATEST, TopicPartition
from kohort.control.kafka.options import Access, say
from kohort.control.kafka.rendering import (
    Format,
    Render,
    as_json_line,
    shown_bytes,
    shown_places,
)
from kohort.control.kafka.streams import Stream
from kohort.control.kafka.times import duration_ms, time_ms
from kohort.control.terminal import counted, fail

POLL_MS = 250
"""Longest time until a closed pipe is noticed."""
ENDS_MS = 50
"""The same for that the ends are reached."""
CLOSE_MS = 5_000
"""Longest wait for the group at the end."""

Records = Mapping[TopicPartition, list[ConsumerRecord]]


@dataclass(frozen=True)
class Start:
    """Start position, without a group.

    Attributes:
        offset: `EARLIEST`, `LATEST`, or an offset; None for a time.
        back: records before the end; None for an offset or a time.
        time_ms: since the epoch.
    """

    offset: int | None = None
    back: int | None = None
    time_ms: int | None = None


@dataclass(frozen=True)
class Wanted:
    """The records to print; see the options."""

    topics: tuple[str, ...]
    pattern: str | None
    partitions: frozenset[int]
    start: Start | None
    most: int | None
    until_end: bool
    render: Render
    is_quiet: bool


def config_of(access: Access, reset: str | None, **said: Any) -> ConsumerConfig:
    """The consumer's settings; reading a topic does not create it."""
    usual = {"client_id": "kohort-consume", "allow_auto_create_topics": False}
    if reset is not None:
        usual["auto_offset_reset"] = reset
    if said["group_id"] is None and "group_id" in access.settings:
        fail("-X group.id: use --group", 2)
    return access.config(ConsumerConfig, usual=usual, **said)


def start_of(offset: str | None, from_time: str | None) -> Start | None:
    """The start that options name; ends the command if they name none."""
    if offset in {"earliest", "latest"}:
        return Start(offset=EARLIEST if offset == "earliest" else LATEST)
    if offset is not None:
        if not re.fullmatch(r"-?\d{1,18}", offset, re.ASCII):
            fail(f"--offset {offset!r}: must be earliest, latest, N or -N", 2)
        back = offset.startswith("-")
        return Start(back=int(offset[1:])) if back else Start(offset=int(offset))
    if from_time is None:
        return None
    try:
        return Start(time_ms=int(time.time() * 1000) - duration_ms(from_time))
    except ValueError:
        pass  # it is a point in time then
    try:
        return Start(time_ms=time_ms(from_time))
    except ValueError as error:
        fail(f"--from-time {error}, or a duration like 15m for the time since then", 2)


def renderer(text: str | None, *, as_json: bool, raw: bool, null: str) -> Render:
    """Returns the function that renders records."""
    if as_json:
        return as_json_line
    is_terminal = sys.stdout.isatty()

    def shown(data: bytes) -> bytes:
        return data if raw else shown_bytes(data, is_terminal=is_terminal)

    try:
        return Format(r"%s\n" if text is None else text, null.encode(), shown)
    except ValueError as error:
        fail(f"--format {error}", 2)


async def consume(config: ConsumerConfig, wanted: Wanted) -> int:
    """Prints records; the exit code."""
    consumer = Consumer(config=config)
    printing = _Printing(consumer, wanted)
    try:
        topics = await _topics(config, wanted)
        await consumer.start()
        if config.group_id is None:
            await printing.assign(topics)
        else:
            listener = _Listener(printing)
            if wanted.pattern is None:
                consumer.subscribe(wanted.topics, listener=listener)
            else:
                consumer.subscribe(pattern=wanted.pattern, listener=listener)
        await printing.run()
    except (asyncio.CancelledError, BrokenPipeError):
        pass  # both end it as intended
    finally:
        printing.is_over = True
        await consumer.close(CLOSE_MS)
    if not wanted.is_quiet:
        say(counted(printing.count, "record"))
    return 0


async def _topics(config: ConsumerConfig, wanted: Wanted) -> list[TopicInfo]:
    """Returns the existing topics; without a group, a missing topic is an error."""
    names = {field.name for field in dataclasses.fields(AdminConfig)}
    common = AdminConfig(**{name: getattr(config, name) for name in names})
    async with Admin(common) as admin:
        found = await admin.describe_topics(wanted.topics)
    if config.group_id is None and not config.allow_auto_create_topics:
        found.check()
    for name, error in found.errors.items():
        if not isinstance(error, UnknownTopicError):
            raise error
        if not wanted.is_quiet:
            say(f"topic {name!r} does not exist yet")
    return list(found.values.values())


class _Printing:
    """Takes records from a consumer, and prints them.

    Attributes:
        count: records that were printed.
        is_over: whether it has ended, so that changes of partitions are not printed.
    """

    def __init__(self, consumer: Consumer, wanted: Wanted) -> None:
        self.wanted = wanted
        self.count = 0
        self.is_over = False
        self._consumer = consumer
        self._ends: dict[TopicPartition, int] = {}
        self._is_placed = False
        self._out = Stream(sys.stdout.fileno(), writes=True)

    # -- where it begins and ends

    async def assign(self, topics: list[TopicInfo]) -> None:
        """Begins with partitions, in no group."""
        places = [
            TopicPartition(topic.name, p.partition)
            for topic in topics
            for p in topic.partitions
            if not self.wanted.partitions or p.partition in self.wanted.partitions
        ]
        for topic in topics:
            missing = self.wanted.partitions - {p.partition for p in topic.partitions}
            if missing:
                raise UnknownTopicError(
                    f"the topic has {len(topic.partitions)} partitions",
                    topic=topic.name,
                    partition=min(missing),
                )
        offsets = await self._starts(places)
        self._consumer.assign(places)
        for place, offset in offsets.items():
            self._consumer.seek(place, offset)
        await self.placed(frozenset(places))

    async def _starts(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        consumer, start = self._consumer, self.wanted.start
        if start is None:
            return {}  # auto.offset.reset says it
        ends = await consumer.end_offsets(places)
        if start.offset == LATEST:
            return ends
        begins = await consumer.beginning_offsets(places)
        if start.offset == EARLIEST:
            return begins
        if start.time_ms is not None:
            times = dict.fromkeys(places, start.time_ms)
            rows = await consumer.offsets_for_times(times)
            return {
                p: ends[p] if row is None else row.offset for p, row in rows.items()
            }
        found = {}
        for place in places:
            back, offset = start.back, start.offset
            wanted = ends[place] - back if back is not None else offset or 0
            # Beyond the log, the consumer would reset the offset by its policy.
            found[place] = min(max(wanted, begins[place]), ends[place])
        return found

    async def placed(self, places: AbstractSet[TopicPartition]) -> None:
        """Takes assigned partitions."""
        self._is_placed = True
        if self.wanted.until_end and places:
            self._ends |= await self._consumer.end_offsets(places)

    def gone(self, places: AbstractSet[TopicPartition]) -> None:
        """Partitions have gone to others."""
        for place in places:
            self._ends.pop(place, None)

    async def _is_at_the_ends(self) -> bool:
        if not self.wanted.until_end or not self._is_placed:
            return False
        for place in [*self._ends]:
            if await self._consumer.position(place) < self._ends[place]:
                return False
        return True

    # -- records

    async def run(self) -> None:
        """Prints until there is nothing more to be printed."""
        wanted, consumer = self.wanted, self._consumer
        timeout_ms = ENDS_MS if wanted.until_end else POLL_MS
        while wanted.most is None or self.count < wanted.most:
            if self._out.is_broken or await self._is_at_the_ends():
                return
            most = consumer.config.max_poll_records
            if wanted.most is not None:
                most = min(most, wanted.most - self.count)
            found = await consumer.getmany(timeout_ms=timeout_ms, max_records=most)
            rows = {place: self._cut(place, r) for place, r in found.items()}
            await self._print({place: r for place, r in rows.items() if r})

    def _cut(
        self, place: TopicPartition, rows: list[ConsumerRecord]
    ) -> list[ConsumerRecord]:
        """Leaves out records behind the ends that ``--until-end`` has noted."""
        end = self._ends.get(place)
        if end is None or rows[-1].offset < end:
            return rows
        kept = [row for row in rows if row.offset < end]
        self._consumer.pause(place)
        self._consumer.seek(place, end)
        return kept

    async def _print(self, found: Records) -> None:
        render = self.wanted.render
        left = dict(found)
        try:
            for place, rows in found.items():
                await self._out.write(b"".join(map(render, rows)))
                del left[place]
                self.count += len(rows)
        finally:
            # Records that were not printed are not committed: they come again.
            for place, rows in left.items():
                self._consumer.seek(place, rows[0].offset)


class _Listener(ConsumerRebalanceListener):
    """Prints assigned and revoked partitions on stderr."""

    def __init__(self, printing: _Printing) -> None:
        self._printing = printing
        self._has_begun = False

    async def on_partitions_assigned(
        self, assigned: AbstractSet[TopicPartition]
    ) -> None:
        """As above."""
        if assigned or not self._has_begun:
            self._report_places("assigned", assigned)
        self._has_begun = True
        await self._printing.placed(assigned)

    async def on_partitions_revoked(self, revoked: AbstractSet[TopicPartition]) -> None:
        """As above."""
        self._report_places("revoked", revoked)
        self._printing.gone(revoked)

    async def on_partitions_lost(self, lost: AbstractSet[TopicPartition]) -> None:
        """As above."""
        self._report_places("lost", lost)
        self._printing.gone(lost)

    def _report_places(self, what: str, places: AbstractSet[TopicPartition]) -> None:
        printing = self._printing
        if not printing.wanted.is_quiet and not printing.is_over:
            say(f"{what} {shown_places(places) or 'nothing'}")
