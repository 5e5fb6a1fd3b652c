"""Committed offsets: commit, fetch, delete, expire."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.broker.coordinator import notices
from kohort.broker.coordinator.appends import (
    Appends,
    Changed,
    GroupChange,
    OffsetBefore,
    committed_offsets,
)
from kohort.broker.coordinator.effects import (
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
from kohort.broker.coordinator.java_hash import java_length
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
    appends: Appends,
    groups: dict[str, Group],
    event: CommitOffsets,
    now: float,
    *,
    listening: bool,
) -> list[Effect]:
    """Stores offsets; a simple consumer's first commit makes its group.

    Refusals are answered at once, stored offsets when they are in the log.
    """
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
    records, before, result = _store(settings, group, event, now)
    if is_new:
        groups[event.group_id] = group
        if not records:
            # Kafka, too, makes the group although all metadata is too long.
            appends.unwritten.add(event.group_id)
    told = _told(group, event, result, is_new=is_new) if listening else []
    told.append(Reply(event.token, result))
    if not records:
        for effect in told:
            appends.after(effect, effects)
        return effects
    change = Changed((GroupChange(group, before, is_new),))
    effects.append(appends.add(records, change, told))
    return effects


def _told(
    group: Group, event: CommitOffsets, result: CommitResult, *, is_new: bool
) -> list[Effect]:
    """Returns the notices of a commit."""
    if is_new or result.codes is not None:
        return [*notices.commit_handled(group, event, result.codes, is_new=is_new)]
    return [notices.offsets_committed(group, event, event.offsets)]


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
) -> tuple[list[Record], list[OffsetBefore], CommitResult]:
    group_id, offsets, expire = group.group_id, group.offsets, group.expire_ms
    now_ms = int(now * 1000)
    longest = settings.offset_metadata_max_bytes
    records: list[Record] = []
    before: list[OffsetBefore] = []
    codes: list[int] | None = None
    expire_ms = -1 if event.retention_ms == -1 else now_ms + event.retention_ms
    for i, offset in enumerate(event.offsets):
        topic, partition, value, leader_epoch, metadata, _ = offset
        if metadata and is_too_long(metadata, longest):
            codes = codes or [0] * len(event.offsets)
            codes[i] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        key = topic, partition
        before.append((key, offsets.get(key), expire.get(key) if expire else None))
        offsets[key] = entry = (value, leader_epoch, metadata or "", now_ms)
        if expire_ms != -1:
            expire[key] = expire_ms
        elif expire:
            expire.pop(key, None)
        records.append(OffsetRecord(group_id, topic, partition, entry, expire_ms))
    if codes is None:
        return records, before, _COMMITTED
    return records, before, CommitResult(ErrorCode.NONE, codes)


def is_too_long(metadata: str, longest: int) -> bool:
    """Whether Kafka refuses metadata of this length: Java counts UTF-16 units."""
    return 2 * len(metadata) > longest and java_length(metadata) > longest


# -- fetch


def fetch(
    appends: Appends, groups: dict[str, Group], event: FetchOffsets
) -> FetchOffsetsResult:
    """Committed offsets; unknown groups, topics and partitions have none."""
    offsets = committed_offsets(appends, groups, event.group_id)
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
    removal = _Removal()
    topics = []
    for topic, partitions in event.topics:
        code = ErrorCode.NONE
        if group.is_subscribed_to(topic):
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        else:
            removal.remove(group, [(topic, p) for p in partitions])
        topics.append((topic, [(p, int(code)) for p in partitions]))
    if removal.records:
        gone = [key for change in removal.changes for key, _, _ in change.offsets]
        notices.offsets_deleted(turn, group, gone, "admin")
    removal.append(turn, is_atomic=True)
    turn.reply_after_appends(event.token, DeleteOffsetsResult(ErrorCode.NONE, topics))


def topics_deleted(turn: Turn, groups: dict[str, Group], event: TopicsDeleted) -> None:
    """Deletes committed offsets of deleted topics."""
    gone = frozenset(event.topics)
    removal = _Removal()
    for group in groups.values():
        keys = [key for key in group.offsets if key[0] in gone]
        removal.remove(group, keys)
        if keys:
            notices.offsets_deleted(turn, group, keys, "topic_deleted")
    removal.append(turn, is_atomic=False)


class _Removal:
    """Offsets and groups that one turn removes.

    Attributes:
        records: the records that remove them.
        changes: the groups as they were.
    """

    __slots__ = ("changes", "records")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.changes: list[GroupChange] = []

    def remove(self, group: Group, keys: Iterable[tuple[str, int]]) -> None:
        """Removes those of these offsets that the group has."""
        before = self._remove(group, keys)
        if before:
            self.changes.append(GroupChange(group, before))

    def _remove(
        self, group: Group, keys: Iterable[tuple[str, int]]
    ) -> list[OffsetBefore]:
        before: list[OffsetBefore] = []
        for key in keys:
            entry = group.offsets.pop(key, None)
            if entry is not None:
                before.append((key, entry, group.expire_ms.pop(key, None)))
                self.records.append(OffsetRecord(group.group_id, *key, None))
        return before

    def bury(self, turn: Turn, groups: dict[str, Group], group: Group) -> None:
        """Removes a group without members, with its offsets."""
        before = self._remove(group, [*group.offsets])
        for member_id in group.pending_members:
            turn.disarm(("session", group.group_id, member_id))
        group.pending_members.clear()
        del groups[group.group_id]
        self.records.append(GroupTombstone(group.group_id))
        self.changes.append(GroupChange(group, before, was_deleted=True))

    def append(self, turn: Turn, *, is_atomic: bool) -> None:
        """Writes the records; the notices of this turn wait for them.

        As in Kafka, what an admin deletes has to fit into one batch (`is_atomic`).
        """
        if self.records:
            changed = Changed(self.changes)
            turn.append_changes(self.records, changed, is_atomic=is_atomic)


def buried(turn: Turn, changed: Changed) -> None:
    """The log has these changes: the groups that were deleted are Dead."""
    for change in changed.changes:
        if change.was_deleted:
            change.group.transition(DEAD, turn.now)
            notices.group_state(turn, change.group)


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
    removal = _Removal()
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
            removal.remove(group, expired)
            notices.offsets_expired(turn, group, expired)
        if group.state is EMPTY and not group.offsets:
            removal.bury(turn, groups, group)
    removal.append(turn, is_atomic=False)
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


def bury(turn: Turn, groups: dict[str, Group], group: Group) -> None:
    """Removes a group without members, with its offsets."""
    removal = _Removal()
    removal.bury(turn, groups, group)
    removal.append(turn, is_atomic=True)
