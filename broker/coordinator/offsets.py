"""Committed offsets: commit, fetch, delete, expire."""

from __future__ import annotations

from collections.abc import Collection

from kohort.broker.coordinator import notices
from kohort.broker.coordinator.effects import (
    Append,
    Arm,
    CommitResult,
    DeleteOffsetsResult,
    Effect,
    FetchOffsetsResult,
    GroupTombstone,
    OffsetRecord,
    Record,
    Reply,
)
from kohort.broker.coordinator.events import (
    CommitOffsets,
    DeleteOffsets,
    FetchOffsets,
    TopicsDeleted,
)
from kohort.broker.coordinator.group import Group, OffsetEntry
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.coordinator.state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from kohort.broker.coordinator.turn import Turn
from kohort.protocol.consumer import PROTOCOL_TYPE
from kohort.protocol.errors import ErrorCode

_COMMITTED = CommitResult(ErrorCode.NONE)
_REFUSED = {int(code): CommitResult(int(code)) for code in ErrorCode}


# -- commit: on the hot path, so without a Turn


def commit(
    settings: GroupSettings,
    groups: dict[str, Group],
    event: CommitOffsets,
    now: float,
    *,
    listening: bool,
) -> list[Effect]:
    """Stores offsets; a simple consumer's first commit makes its group."""
    group = groups.get(event.group_id)
    error = _validate(group, event)
    if error or not event.offsets:
        reply = Reply(event.token, _REFUSED[error])
        if error and listening:
            return [notices.commit_refused(group, event, event.offsets, error), reply]
        return [reply]
    effects: list[Effect] = []
    is_new = group is None
    if group is None:
        group = Group(event.group_id, now)
    elif group.state is STABLE or group.state is PREPARING_REBALANCE:
        # In these states a commit is a sign of life. `_validate` has seen to it
        # that it comes from a member.
        member = group.members[event.member_id]
        deadline = member.deadline = now + member.session_timeout
        if deadline < member.armed:
            member.armed = deadline
            effects.append(Arm(member.session_key, deadline))
    records, result = _store(settings, group, event, now)
    if records:
        effects.append(Append(records))
        if is_new:
            groups[event.group_id] = group
    if listening:
        if is_new or result.codes is not None:
            effects += notices.commit_handled(group, event, result.codes, is_new=is_new)
        else:
            effects.append(notices.offsets_committed(group, event, event.offsets))
    effects.append(Reply(event.token, result))
    return effects


def _validate(group: Group | None, event: CommitOffsets) -> int:
    generation_id = event.generation_id
    if group is None:
        if generation_id < 0:
            return 0
        if event.unknown_group_is_illegal_generation:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.GROUP_ID_NOT_FOUND
    if generation_id < 0 and group.state is EMPTY:
        return 0
    error = group.validate_member(event.member_id, event.group_instance_id)
    if error:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return 0


def _store(
    settings: GroupSettings, group: Group, event: CommitOffsets, now: float
) -> tuple[list[Record], CommitResult]:
    group_id, offsets = group.group_id, group.offsets
    now_ms = int(now * 1000)
    longest = settings.offset_metadata_max_bytes
    records: list[Record] = []
    codes: list[int] | None = None
    expire_ms = -1 if event.retention_ms == -1 else now_ms + event.retention_ms
    for i, offset in enumerate(event.offsets):
        topic, partition, value, leader_epoch, metadata, _ = offset
        if metadata and len(metadata) > longest:
            codes = codes or [0] * len(event.offsets)
            codes[i] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        entry = (value, leader_epoch, metadata or "", now_ms)
        offsets[topic, partition] = entry
        if expire_ms != -1:
            group.expire_ms[topic, partition] = expire_ms
        elif group.expire_ms:
            group.expire_ms.pop((topic, partition), None)
        records.append(OffsetRecord(group_id, topic, partition, entry, expire_ms))
    if codes is None:
        return records, _COMMITTED
    return records, CommitResult(ErrorCode.NONE, codes)


# -- fetch


def fetch(groups: dict[str, Group], event: FetchOffsets) -> FetchOffsetsResult:
    """Committed offsets; unknown groups, topics and partitions have none."""
    group = groups.get(event.group_id)
    offsets = {} if group is None else group.offsets
    rows: list[tuple[str, list[tuple[int, int, int, str | None]]]] = []
    if event.topics is None:
        by_topic: dict[str, list[tuple[int, int, int, str | None]]] = {}
        for (topic, partition), entry in offsets.items():
            by_topic.setdefault(topic, []).append(_row(partition, entry))
        rows.extend(by_topic.items())
    else:
        for topic, partitions in event.topics:
            rows.append((topic, [_row(p, offsets.get((topic, p))) for p in partitions]))
    return FetchOffsetsResult(ErrorCode.NONE, rows)


def _row(partition: int, entry: OffsetEntry | None) -> tuple[int, int, int, str | None]:
    if entry is None:
        return partition, -1, -1, ""
    return partition, entry[0], entry[1], entry[2]


# -- delete (KIP-496)


def delete(turn: Turn, groups: dict[str, Group], event: DeleteOffsets) -> None:
    """Deletes offsets of topics that no member subscribes to."""
    group = groups.get(event.group_id)
    error = ErrorCode.NONE
    if not event.group_id:
        error = ErrorCode.INVALID_GROUP_ID
    elif group is None:
        error = ErrorCode.GROUP_ID_NOT_FOUND
    elif group.state is not EMPTY and group.protocol_type != PROTOCOL_TYPE:
        # Only the metadata of consumers has a subscription that can be read.
        error = ErrorCode.NON_EMPTY_GROUP
    if error or group is None:
        turn.reply(event.token, DeleteOffsetsResult(error))
        return
    records: list[Record] = []
    gone: list[tuple[str, int]] = []
    topics = []
    for topic, partitions in event.topics:
        code = ErrorCode.NONE
        if group.is_subscribed_to(topic):
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        else:
            keys = [(topic, p) for p in partitions if (topic, p) in group.offsets]
            records += _remove(group, keys)
            gone += dict.fromkeys(keys)
        topics.append((topic, [(p, int(code)) for p in partitions]))
    if records:
        turn.append(*records)
        notices.offsets_deleted(turn, group, gone, "admin")
    turn.reply(event.token, DeleteOffsetsResult(ErrorCode.NONE, topics))


def topics_deleted(turn: Turn, groups: dict[str, Group], event: TopicsDeleted) -> None:
    """Deletes committed offsets of deleted topics."""
    gone = frozenset(event.topics)
    records: list[Record] = []
    for group in groups.values():
        keys = [key for key in group.offsets if key[0] in gone]
        records += _remove(group, keys)
        if keys:
            notices.offsets_deleted(turn, group, keys, "topic_deleted")
    if records:
        turn.append(*records)


def _remove(group: Group, keys: Collection[tuple[str, int]]) -> list[Record]:
    records: list[Record] = []
    for topic, partition in dict.fromkeys(keys):
        del group.offsets[topic, partition]
        group.expire_ms.pop((topic, partition), None)
        records.append(OffsetRecord(group.group_id, topic, partition, None))
    return records


# -- expire


CHECKED_AT_ONCE = 1000
"""Groups, at `COST_OF_GROUP`, and offsets that one part of a check looks at: 0.5 ms
where all of them go."""
COST_OF_GROUP = 5
"""Offsets that cost as much as a group does."""


def expire(turn: Turn, groups: dict[str, Group], group_ids: list[str]) -> list[str]:
    """Removes offsets that were kept long enough, and groups that have nothing left.

    Args:
        turn: the turn that it happens in.
        groups: all groups.
        group_ids: those that are to be checked; some may be gone.

    Returns:
        Those that are left for other turns.
    """
    records: list[Record] = []
    looked_at = 0
    checked = 0
    for group_id in group_ids:
        if looked_at >= CHECKED_AT_ONCE:
            break
        checked += 1
        group = groups.get(group_id)
        if group is None:
            continue
        looked_at += COST_OF_GROUP + len(group.offsets)
        expired = _expired(turn, group)
        if expired:
            records += _remove(group, expired)
            notices.offsets_expired(turn, group, expired)
        if group.state is EMPTY and not group.offsets:
            records += bury(turn, groups, group)
    if records:
        turn.append(*records)
    return group_ids[checked:]


def _expired(turn: Turn, group: Group) -> list[tuple[str, int]]:
    """The offsets of one group that go.

    They are kept from the day on which the group became Empty; those of topics
    that the consumers of a Stable group do not subscribe to, and those of
    simple consumers, from their commit on (KIP-211). During rebalances, where
    subscriptions are not understood, and where members are no consumers, all
    are kept.
    """
    since_ms: int | None = None
    if group.protocol_type is not None:
        if group.state is EMPTY:
            if group.state_timestamp_ms >= 0:
                since_ms = group.state_timestamp_ms
        elif (
            group.state is not STABLE
            or group.protocol_type != PROTOCOL_TYPE
            or group.subscribed_topics() is None
        ):
            return []
    now_ms = int(turn.now * 1000)
    retention_ms = turn.settings.offsets_retention_ms
    expired = []
    for key, entry in group.offsets.items():
        if key in group.expire_ms:
            is_over = now_ms >= group.expire_ms[key]
        else:
            kept_since_ms = entry[3] if since_ms is None else since_ms
            is_over = now_ms - kept_since_ms >= retention_ms
        if is_over and not group.is_subscribed_to(key[0]):
            expired.append(key)
    return expired


def bury(turn: Turn, groups: dict[str, Group], group: Group) -> list[Record]:
    """Removes a group without members, with its offsets."""
    records = _remove(group, list(group.offsets))
    for member_id in group.pending_members:
        turn.disarm(("session", group.group_id, member_id))
    group.transition(DEAD, turn.now)
    notices.group_state(turn, group)
    del groups[group.group_id]
    return [*records, GroupTombstone(group.group_id)]
