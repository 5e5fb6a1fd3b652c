"""Inspection: reads the groups and offsets that a data directory has.

Reads the segment files of ``__consumer_offsets`` as kohort and Apache Kafka write
them, and nothing else of the directory; opens them for reading only, so that a
broker may be running on it. The result is the state that a coordinator would load.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.consumer.member import Member
from kohort.broker.coordinator.effects import EpochPartitions, GroupRecord
from kohort.broker.coordinator.load import Found, Loading
from kohort.broker.coordinator.state import EMPTY, STABLE
from kohort.broker.coordinator.topics import NoTopics
from kohort.broker.log.checkpoints import topic_partition
from kohort.broker.log.judgement import Batches, Read
from kohort.broker.log.segment import is_segment
from kohort.broker.shards.group_records import Decoder
from kohort.broker.topics.topic import OFFSETS_TOPIC
from kohort.protocol import consumer
from kohort.protocol.messages import WireError
from kohort.protocol.offsets_log import RECORD_TYPES

_BUFFER = 1 << 20
_ATTEMPTS = 3
"""Attempts to read a partition whose files a compaction replaces meanwhile; a second
compaction right behind the first is unlikely."""


class InspectError(Exception):
    """There is nothing to inspect, and why."""


class _DamageError(Exception):
    """A log cannot be read any further, and why."""


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member as it was stored; timeouts in ms.

    `subscribed` and `assigned` are None where they are not those of a consumer.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscribed: Sequence[str] | None
    assigned: Mapping[str, Sequence[int]] | None


@dataclass(frozen=True, slots=True)
class ConsumerMemberView:
    """A member of a consumer group (KIP-848) as it was stored.

    `assigned` and `target` are partitions by topic id: the log has no names. `revoking`
    has the partitions that the member has to give up.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rack_id: str | None
    member_epoch: int
    state: str
    rebalance_timeout_ms: int
    server_assignor: str | None
    subscribed: Sequence[str]
    subscribed_regex: str | None
    assigned: Mapping[str, Sequence[int]]
    revoking: Mapping[str, Sequence[int]]
    target: Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class OffsetView:
    """A committed offset; times in ms since the epoch.

    `expire_timestamp_ms` is None where the broker's retention decides.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as it would be loaded.

    Share and streams groups have nothing but offsets here, and no state. `partition` is
    None for a file outside of a folder that says it. `generation_id` is the epoch of a
    consumer group; other groups have no `assignment_epoch`.
    """

    group_id: str
    partition: int | None
    kind: str
    state: str | None
    protocol_type: str
    generation_id: int
    assignment_epoch: int | None
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int | None
    members: Sequence[MemberView] | Sequence[ConsumerMemberView]
    offsets: Sequence[OffsetView]


@dataclass
class Inspection:
    """The groups of a data directory.

    Attributes:
        path: the directory.
        partitions: the number of partitions of ``__consumer_offsets`` read.
        groups: ordered by partition and id.
        skipped: the number of records of share and streams groups, by the name of
            their type.
        notes: remarks that are no damage.
        damaged: descriptions of damage.
    """

    path: Path
    partitions: int = 0
    groups: list[GroupView] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


def examine(path: Path) -> Inspection:
    """Reads a data directory, or one folder of a partition.

    Raises:
        InspectError: there is nothing to read.
    """
    found = Inspection(path)
    try:
        for folder, index in _partitions(path):
            found.partitions += 1
            _examine_partition(found, folder, index)
    except OSError as error:
        raise InspectError(f"{error.filename}: {error.strerror}") from None
    found.groups.sort(key=lambda view: (view.partition or 0, view.group_id))
    return found


def _partitions(path: Path) -> list[tuple[Path, int | None]]:
    """The partitions' folders, or the one segment, and their indexes."""
    if path.is_file():
        return [(path, _index(path.absolute().parent))]
    if not path.is_dir():
        raise InspectError(f"{path} does not exist")
    if any(_segments(path)):
        return [(path, _index(path.absolute()))]
    # A directory may hold one for each node, or for each disk.
    for pattern in (f"{OFFSETS_TOPIC}-*", f"*/{OFFSETS_TOPIC}-*"):
        folders = [(f, _index(f)) for f in path.glob(pattern) if f.is_dir()]
        known = [(f, index) for f, index in folders if index is not None]
        if known:
            return sorted(known, key=lambda pair: (pair[1], pair[0]))
    raise InspectError(f"{path} has no partition of {OFFSETS_TOPIC}")


def _index(folder: Path) -> int | None:
    found = topic_partition(folder.name)
    return found[1] if found is not None and found[0] == OFFSETS_TOPIC else None


def _segments(path: Path) -> list[Path]:
    """Segments in the order of their offsets, which are their names."""
    if path.is_file():
        return [path]
    return sorted(file for file in path.iterdir() if is_segment(file.name))


class _PartitionLog:
    """The groups of one partition, as far as its log can be read."""

    def __init__(self) -> None:
        self.decoder = Decoder()
        self.loading = Loading()
        self.notes: list[str] = []
        self.damage: str | None = None

    def read(self, path: Path) -> None:
        try:
            for batch in _batches(_segments(path), self.notes):
                self.loading.feed(self.decoder.read(batch))
        except _DamageError as error:
            self.damage = str(error)
        except WireError as error:
            self.damage = f"{path}: {error}"
        if self.loading.transactions:
            self.notes.append(
                f"{path}: {len(self.loading.transactions)} open "
                "transactions, without their offsets"
            )


def _read_partition(path: Path) -> _PartitionLog:
    for _ in range(_ATTEMPTS - 1):
        log = _PartitionLog()
        try:
            log.read(path)
        except FileNotFoundError:
            # A broker has replaced segments after they were listed.
            continue
        return log
    log = _PartitionLog()
    log.read(path)
    return log


def _examine_partition(found: Inspection, path: Path, index: int | None) -> None:
    log = _read_partition(path)
    found.notes += log.notes
    if log.damage is not None:
        found.damaged.append(log.damage)
    for number, count in log.decoder.skipped.items():
        name = RECORD_TYPES.get(number, f"type {number}")
        found.skipped[name] = found.skipped.get(name, 0) + count
    others = log.decoder.others
    for group_id in others:
        log.loading.found.setdefault(group_id, Found())
    for group_id, facts in log.loading.found.items():
        if facts.consumer:
            found.groups.append(_consumer_view(group_id, index, facts))
        else:
            kind = others.get(group_id, ClassicGroup.type)
            found.groups.append(_group_view(group_id, index, kind, facts))


def _batches(segments: Sequence[Path], notes: list[str]) -> Iterator[bytes]:
    """The batches of a partition, checked."""
    for path in segments:
        with path.open("rb") as file:
            # A running broker writes on behind this.
            size = file.seek(0, os.SEEK_END)

            def read(position: int, count: int, file: IO[bytes] = file) -> bytes:
                file.seek(position)
                return file.read(count)

            batches = Batches(read, size, _first_offset(path), is_dense=False)
            for position, header in batches:
                yield read(position, header.size)
            if batches.why:
                _judge_rest(batches, path, read, size, notes, path is segments[-1])


def _first_offset(path: Path) -> int:
    """The least offset that a segment may have."""
    return int(path.stem) if is_segment(path.name) else 0


def _judge_rest(
    batches: Batches,
    path: Path,
    read: Read,
    size: int,
    notes: list[str],
    is_last: bool,
) -> None:
    """True if a log may end there: it is being written to, or was.

    It may end within a batch that was being written, or in space that was set
    aside for more.
    """
    start = batches.position
    is_zero = not any(
        any(read(position, min(_BUFFER, size - position)))
        for position in range(start, size, _BUFFER)
    )
    if not is_zero and not batches.is_torn:
        offset = batches.next_offset
        raise _DamageError(f"{path}: byte {start}, offset {offset}: {batches.why}")
    rest = f"{size - start} bytes from {start} on are not a whole batch"
    if not is_last:
        raise _DamageError(f"{path}: {rest}")
    notes.append(f"{path}: {rest} and are ignored")


def _group_view(group_id: str, index: int | None, kind: str, found: Found) -> GroupView:
    record = found.record
    if record is None:
        record = GroupRecord(group_id, "", 0, None, None, -1, [])
    state: str | None = STABLE if record.members else EMPTY
    if kind != ClassicGroup.type and found.record is None:
        state = None
    return GroupView(
        group_id,
        index,
        kind,
        state,
        record.protocol_type,
        record.generation_id,
        None,
        record.protocol_name,
        record.leader,
        None if record.state_timestamp_ms == -1 else record.state_timestamp_ms,
        _member_views(record),
        _offset_views(found),
    )


def _offset_views(found: Found) -> list[OffsetView]:
    return [
        OffsetView(topic, partition, *entry, found.expire_ms.get((topic, partition)))
        for (topic, partition), entry in sorted(found.offsets.items())
    ]


def _consumer_view(group_id: str, index: int | None, found: Found) -> GroupView:
    group = ConsumerGroup(group_id, NoTopics(), "")
    for record in found.consumer.values():
        group.replay(record)
    return GroupView(
        group_id,
        index,
        group.type,
        group.state,
        consumer.PROTOCOL_TYPE,
        group.generation_id,
        group.assignment_epoch,
        None,
        None,
        group.assigned_ms or None,
        [_consumer_member_view(group, member) for member in group.members.values()],
        _offset_views(found),
    )


def _consumer_member_view(group: ConsumerGroup, member: Member) -> ConsumerMemberView:
    stated = member.says
    target = group.targets.get(member.member_id, ())
    return ConsumerMemberView(
        member.member_id,
        stated.group_instance_id,
        stated.client_id,
        stated.client_host,
        stated.rack_id,
        member.epoch,
        member.state.name,
        stated.rebalance_timeout_ms,
        stated.server_assignor,
        sorted(stated.subscribed_topics),
        stated.subscribed_regex or None,
        _by_topic_id(member.at.assigned),
        _by_topic_id(member.at.pending_revocation),
        {_id_text(topic_id): sorted(partitions) for topic_id, partitions in target},
    )


def _by_topic_id(rows: EpochPartitions) -> dict[str, list[int]]:
    return {_id_text(topic_id): sorted(partitions) for topic_id, partitions, _ in rows}


def _id_text(topic_id: bytes) -> str:
    """A topic id as Kafka's tools print it."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def _member_views(record: GroupRecord) -> list[MemberView]:
    is_consumer = record.protocol_type == consumer.PROTOCOL_TYPE
    views = []
    for row in record.members:
        member_id, instance_id, client_id, host, rebalance_ms, session_ms = row[:6]
        views.append(
            MemberView(
                member_id,
                instance_id,
                client_id,
                host,
                session_ms,
                session_ms if rebalance_ms == -1 else rebalance_ms,
                _subscribed(row[6]) if is_consumer else None,
                _assigned(row[7]) if is_consumer else None,
            )
        )
    return views


def _subscribed(data: bytes) -> list[str] | None:
    try:
        return sorted(consumer.decode_subscription(data).topics)
    except WireError:
        return None


def _assigned(data: bytes) -> dict[str, list[int]] | None:
    if not data:  # a member without an assignment has no bytes at all
        return {}
    try:
        found = consumer.decode_assignment(data).assigned_partitions
    except WireError:
        return None
    return dict(sorted((entry.topic, sorted(entry.partitions)) for entry in found))
