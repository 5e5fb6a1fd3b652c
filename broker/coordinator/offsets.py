"""Committed offsets: commit, fetch, delete, expire."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from itertools import repeat
from typing import Final, TypeGuard

from kohort.broker.coordinator import notices, pending
from kohort.broker.coordinator.appends import (
    Changed,
    GroupAppends,
    GroupChange,
    committed_group,
    committed_offsets,
    unstable_offsets,
)
from kohort.broker.coordinator.committed import OffsetEntry, OffsetKey
from kohort.broker.coordinator.effects import (
    CommitRecords,
    CommitResult,
    DeleteOffsetsResult,
    Effect,
    FetchedOffset,
    FetchOffsetsResult,
    OffsetRecord,
    Written,
)
from kohort.broker.coordinator.events import (
    CommitOffsets,
    DeleteOffsets,
    FetchOffsets,
    Offsets,
    TopicsDeleted,
)
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.coordinator.state import DEAD, EMPTY
from kohort.broker.coordinator.turn import Turn
from kohort.broker.runtime.effects import Reply
from kohort.broker.runtime.java_hash import java_length
from kohort.protocol.errors import ErrorCode
from kohort.protocol.row_cache import RowCache

_KEYS: Final[RowCache[tuple[Sequence[str], Sequence[int]], tuple[OffsetKey, ...]]] = (
    RowCache()
)
"""Lists of keys, by topics and partitions."""
COMMITTED: Final = CommitResult(ErrorCode.NONE)
"""The answer to most commits."""
MakeGroup = Callable[[str, float], Group]
"""Makes a group for offsets, by its id, and the time in seconds since the epoch."""
_REFUSED = {int(code): CommitResult(int(code)) for code in ErrorCode}


# -- commit: on the hot path, so without a Turn
#
# Nearly all commits change nothing but offsets that are in the log already, and are
# written at once. `Coordinator.prepare_commit` checks such a commit, the driver writes
# its records, and `Coordinator.finish_commit` changes the group: there is nothing to
# undo, and nothing waits. `commit` does the rest: it changes the group first, and its
# reply waits for the records.


def commit(
    settings: GroupSettings,
    appends: GroupAppends,
    groups: dict[str, Group],
    event: CommitOffsets,
    now: float,
    make_group: MakeGroup,
    *,
    listening: bool,
) -> list[Effect]:
    """Stores offsets; a simple consumer's first commit creates its group.

    Refusals are answered at once, stored offsets when they are in the log.
    """
    group = groups.get(event.group_id)
    wanted, result = without_too_long(settings, event.offsets)
    error = _validate(group, event, wanted)
    if error or not event.offsets:
        reply = Reply(event.token, _REFUSED[error])
        if error and listening:
            return [notices.commit_refused(group, event, event.offsets, error), reply]
        return [reply]
    effects: list[Effect] = []
    is_new = group is None
    if group is None:
        group = make_group(event.group_id, now)
    else:
        group.hear_commit(event.member_id, now, effects)
    records, change = _store(group, event, wanted, now, is_new=is_new)
    if is_new:
        groups[event.group_id] = group
        if not records:
            # Kafka, too, creates the group although all metadata is too long.
            appends.unwritten.add(event.group_id)
    told = _told(group, event, result, is_new=is_new) if listening else []
    told.append(Reply(event.token, result))
    if not records:
        for effect in told:
            appends.after(effect, effects)
        return effects
    effects.append(appends.add(records, Changed((change,)), told))
    return effects


def _told(
    group: Group, event: CommitOffsets, result: CommitResult, *, is_new: bool
) -> list[Effect]:
    """Returns the notices of a commit."""
    if is_new or result.codes is not None:
        return [*notices.commit_handled(group, event, result.codes, is_new=is_new)]
    who = notices.sender(group, event)
    return [notices.offsets_committed(group, who, event.offsets)]


def only_stores(group: Group | None, event: CommitOffsets) -> TypeGuard[Group]:
    """Returns whether a commit changes only offsets of a group that exists.

    Not if it has metadata, as few have: that of Kafka Streams is the exception.
    """
    wanted = event.offsets
    return (
        group is not None
        and not group.pending
        and not group.expire_ms
        and event.retention_ms == -1
        and len(wanted.partitions) > 0
        and not any(wanted.metadata)
        and not _validate(group, event, wanted)
    )


def _validate(group: Group | None, event: CommitOffsets, offsets: Offsets) -> int:
    """Checks a commit; offsets whose metadata is too long are left out, as in Kafka."""
    if group is not None:
        return group.validate_offset_commit(event, offsets)
    if event.generation_id < 0:
        return 0
    if event.unknown_group_is_illegal_generation:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.GROUP_ID_NOT_FOUND


def _store(
    group: Group,
    event: CommitOffsets,
    wanted: Offsets,
    now: float,
    *,
    is_new: bool,
) -> tuple[CommitRecords, GroupChange]:
    """Changes the group's offsets, column by column: most commits have several."""
    now_ms = int(now * 1000)
    retention_ms = event.retention_ms
    expire_ms = -1 if retention_ms == -1 else now_ms + retention_ms
    texts: Iterable[str] = repeat("", len(wanted))
    has_texts = any(wanted.metadata)
    if has_texts:
        texts = [text or "" for text in wanted.metadata]
    offsets, expire = group.offsets, group.expire_ms
    keys = keys_of(wanted)
    change = GroupChange(
        group,
        keys,
        [*map(offsets.get, keys)],
        [*map(expire.get, keys)] if expire else (),
        pending.supersede(group, keys) if group.pending else (),
        is_new,
    )
    times = repeat(now_ms, len(keys))
    entries = zip(wanted.offsets, wanted.leader_epochs, texts, times, strict=True)
    offsets.update(zip(keys, entries, strict=True))
    if expire_ms != -1:
        expire.update(dict.fromkeys(keys, expire_ms))
    elif expire:
        for key in keys:
            expire.pop(key, None)
    records = CommitRecords(
        group.group_id,
        wanted,
        now_ms,
        expire_ms,
        is_plain=not has_texts and expire_ms == -1,
    )
    return records, change


def keys_of(offsets: Offsets) -> tuple[OffsetKey, ...]:
    """The keys of these offsets, the same objects for all groups that commit them."""
    columns = offsets.topics, offsets.partitions
    keys = _KEYS.get(columns)
    if keys is None:
        keys = _KEYS.keep(columns, (*zip(*columns, strict=True),), len(offsets))
    return keys


def without_too_long(
    settings: GroupSettings, wanted: Offsets
) -> tuple[Offsets, CommitResult]:
    """Leaves out offsets whose metadata is too long; each of them gets an error."""
    longest, texts = settings.offset_metadata_max_bytes, wanted.metadata
    if not any(texts):
        return wanted, COMMITTED
    refused = [text is not None and is_too_long(text, longest) for text in texts]
    if not any(refused):
        return wanted, COMMITTED
    stored = wanted.only([not each for each in refused])
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    codes = [too_large if each else 0 for each in refused]
    return stored, CommitResult(ErrorCode.NONE, codes)


def is_too_long(metadata: str, longest: int) -> bool:
    """Returns whether Kafka refuses metadata this long: Java counts UTF-16 units."""
    return 2 * len(metadata) > longest and java_length(metadata) > longest


# -- fetch


def fetch(
    appends: GroupAppends, groups: dict[str, Group], event: FetchOffsets
) -> FetchOffsetsResult:
    """Returns committed offsets; unknown groups, topics and partitions have none.

    A partition that has only a pending offset is missing if all topics are wanted.
    """
    group = committed_group(appends, groups, event.group_id)
    error = 0 if group is None else group.validate_offset_fetch(event)
    if error:
        return FetchOffsetsResult(error)
    offsets = committed_offsets(appends, groups, event.group_id)
    unstable: Container[OffsetKey] = ()
    if event.require_stable:
        unstable = unstable_offsets(appends, groups, event.group_id)

    rows: list[tuple[str, list[FetchedOffset]]] = []
    if event.topics is None:
        by_topic: dict[str, list[FetchedOffset]] = {}
        for key, entry in offsets.items():
            row = _UNSTABLE if key in unstable else entry
            by_topic.setdefault(key[0], []).append(_row(key[1], row))
        rows.extend(by_topic.items())
    elif unstable:
        for topic, partitions in event.topics:
            keys = [(topic, p) for p in partitions]
            found = [_UNSTABLE if k in unstable else offsets.get(k) for k in keys]
            rows.append((topic, [*map(_row, partitions, found)]))
    else:
        for topic, partitions in event.topics:
            rows.append((topic, [_row(p, offsets.get((topic, p))) for p in partitions]))
    return FetchOffsetsResult(ErrorCode.NONE, rows)


_UNSTABLE: Final[OffsetEntry] = (-1, -1, "", -1)
"""Stands for an offset that an open transaction may change."""


def _row(partition: int, entry: OffsetEntry | None) -> FetchedOffset:
    if entry is None:
        return partition, -1, -1, "", 0
    if entry is _UNSTABLE:
        return partition, -1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT
    return partition, entry[0], entry[1], entry[2], 0


# -- delete (KIP-496)


def delete(turn: Turn, groups: dict[str, Group], event: DeleteOffsets) -> None:
    """Deletes offsets of topics that no member subscribes to."""
    group = groups.get(event.group_id)
    error: int = ErrorCode.NONE
    if not event.group_id:
        error = ErrorCode.INVALID_GROUP_ID
    elif group is None:
        error = ErrorCode.GROUP_ID_NOT_FOUND
    else:
        error = group.validate_offset_delete()
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
    deleted = removal.committed()
    if deleted:
        notices.offsets_deleted(turn, group, deleted, "admin")
    removal.append(turn, is_atomic=True)
    turn.reply_after_appends(event.token, DeleteOffsetsResult(ErrorCode.NONE, topics))


def topics_deleted(turn: Turn, groups: dict[str, Group], event: TopicsDeleted) -> None:
    """Deletes committed offsets of deleted topics."""
    gone = frozenset(event.topics)
    removal = _Removal()
    for group in groups.values():
        deleted = [key for key in group.offsets if key[0] in gone]
        waiting = [key for key in group.pending if key[0] in gone]
        removal.remove(group, [*deleted, *waiting])
        if deleted:
            notices.offsets_deleted(turn, group, deleted, "topic_deleted")
    removal.append(turn, is_atomic=False)


class _Removal:
    """Offsets and groups that one turn removes.

    Attributes:
        records: the records that remove them.
        changes: the groups as they were.
    """

    __slots__ = ("changes", "records")

    def __init__(self) -> None:
        self.records: list[Written] = []
        self.changes: list[GroupChange] = []

    def committed(self) -> list[OffsetKey]:
        """The removed offsets, without those that only were pending."""
        return [
            key
            for change in self.changes
            for key, entry in zip(change.keys, change.entries, strict=True)
            if entry is not None
        ]

    def remove(self, group: Group, keys: Iterable[OffsetKey]) -> None:
        """Removes these offsets, if the group has them, and their pending ones."""
        change = self._remove(group, keys)
        if change.keys:
            self.changes.append(change)

    def _remove(
        self, group: Group, keys: Iterable[OffsetKey], *, was_deleted: bool = False
    ) -> GroupChange:
        offsets, waiting = group.offsets, group.pending
        gone = [key for key in dict.fromkeys(keys) if key in offsets or key in waiting]
        entries = [offsets.pop(key, None) for key in gone]
        expire_before = [group.expire_ms.pop(key, None) for key in gone]
        pending_before = [waiting.pop(key, None) for key in gone] if waiting else ()
        group_id = group.group_id
        self.records += (OffsetRecord(group_id, *key, None) for key in gone)
        return GroupChange(
            group,
            gone,
            entries,
            expire_before,
            pending_before,
            was_deleted=was_deleted,
        )

    def bury(self, turn: Turn, groups: dict[str, Group], group: Group) -> None:
        """Removes a group without members, with its offsets."""
        keys = [*group.offsets, *group.pending]
        change = self._remove(group, keys, was_deleted=True)
        for timer in group.stop_timers():
            turn.disarm(timer)
        del groups[group.group_id]
        self.records += group.tombstones()
        self.changes.append(change)

    def append(self, turn: Turn, *, is_atomic: bool) -> None:
        """Writes the records; the notices of this turn wait for them.

        As in Kafka, the offsets that an admin deletes have to fit into one batch
        (`is_atomic`).
        """
        if self.records:
            changed = Changed(self.changes)
            turn.append_changes(self.records, changed, is_atomic=is_atomic)


def buried(turn: Turn, _: dict[str, Group], changed: Changed) -> None:
    """The log has these changes: marks the deleted groups as Dead."""
    for change in changed.changes:
        if change.was_deleted and not change.was_replaced:
            change.group.transition(DEAD, turn.now)
            notices.group_state(turn, change.group)
            turn.lasting.rebalances.pop(change.group.group_id, None)


# -- expire


CHECKED_AT_ONCE = 1000
"""Groups, weighted by `COST_OF_GROUP`, and offsets per part of a check: 0.5 ms if all
of them expire."""
COST_OF_GROUP = 5
"""Offsets that cost as much as a group."""


def expire(
    turn: Turn, groups: dict[str, Group], group_ids: list[str]
) -> tuple[list[str], float]:
    """Removes expired offsets, and groups that have nothing left.

    Args:
        turn: the turn of the check.
        groups: all groups.
        group_ids: the groups to check; some may no longer exist.

    Returns:
        The ids left for other turns; and the time, in ms since the epoch, before which
        no offset of the groups checked expires unless its group changes.
    """
    removal = _Removal()
    next_ms = math.inf
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
        expired, group_ms = _expired(turn, group)
        next_ms = min(next_ms, group_ms)
        if expired:
            removal.remove(group, expired)
            notices.offsets_expired(turn, group, expired)
        if group.state is EMPTY and not group.offsets and not group.pending:
            removal.bury(turn, groups, group)
    removal.append(turn, is_atomic=False)
    return group_ids[checked:], next_ms


def _expired(turn: Turn, group: Group) -> tuple[list[OffsetKey], float]:
    """The offsets of one group that have expired, and when the next one may, in ms."""
    since_ms = group.retention_since_ms()
    if since_ms == math.inf:
        return [], math.inf
    now_ms = int(turn.now * 1000)
    retention_ms = turn.settings.offsets_retention_ms
    expired: list[OffsetKey] = []
    next_ms = math.inf
    for key, entry in group.offsets.items():
        if key in group.expire_ms:
            over_ms: float = group.expire_ms[key]
        else:
            over_ms = (entry[3] if since_ms is None else since_ms) + retention_ms
        if now_ms < over_ms:
            next_ms = min(next_ms, over_ms)
        elif key not in group.pending and not group.is_subscribed_to(key[0]):
            expired.append(key)
    return expired, next_ms


def bury(turn: Turn, groups: dict[str, Group], group: Group) -> None:
    """Removes a group without members, with its offsets."""
    removal = _Removal()
    removal.bury(turn, groups, group)
    removal.append(turn, is_atomic=True)
