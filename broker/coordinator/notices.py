"""Notices of the coordinator's decisions: one function for each kind of event.

A notice is raw: it holds objects that the decision had at hand, and `events.render`
computes the event's fields when it is read. Without a listener, functions that take a
`Turn` do nothing. Those without one return notices; commits and heartbeats, which may
have no turn, call them only if there are listeners.

Here are the notices of groups of any protocol; each room has those of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kohort.broker.coordinator.effects import Effect, OffsetRecord, PendingOffset
from kohort.broker.coordinator.events import (
    NO_OFFSETS,
    Command,
    CommitInTransaction,
    CommitOffsets,
    Offsets,
)
from kohort.broker.coordinator.group import Group
from kohort.broker.coordinator.pending import OpenCommit
from kohort.broker.coordinator.state import DEAD, EMPTY
from kohort.broker.coordinator.turn import Turn
from kohort.broker.notice import Notice, Who, make
from kohort.broker.runtime.effects import Append
from kohort.broker.runtime.events import AppendFailed
from kohort.protocol.errors import ErrorCode

_OFFSETS = (OffsetRecord, PendingOffset)


def add(
    turn: Turn,
    kind: str,
    group: Group,
    who: Who | None = None,
    rows: int = 0,
    /,
    **fields: object,
) -> None:
    """Adds a notice that keeps this many rows in memory, if there is a listener."""
    if turn.listening:
        notice = kind, group.group_id, group.generation_id, who, fields, 1 + rows
        turn.notices.append(make(Notice, notice))


# -- the log


def append_failed(turn: Turn, append: Append, event: AppendFailed) -> None:
    """The log refused records of a group, as they are too large."""
    if turn.listening:
        record = append.records[0]
        fields = {
            "cause": "offsets" if isinstance(record, _OFFSETS) else "group",
            "error": ErrorCode(event.error_code).name,
            "size_bytes": event.size_in_bytes,
            "max_bytes": event.max_size_in_bytes,
        }
        notice = Notice("append_failed", record.group_id, None, None, fields)
        turn.notices.append(notice)


# -- groups


def group_state(turn: Turn, group: Group) -> None:
    """The group's state changed."""
    add(
        turn,
        "group_state",
        group,
        state=group.state.value,
        previous_state=group.previous_state.value,
    )


def group_converted(turn: Turn, group: Group, who: Who | None, cause: str) -> None:
    """The group takes the place of one of another protocol."""
    add(turn, "group_converted", group, who, cause=cause, group_type=group.type)


# -- commands


def commanded(
    turn: Turn,
    groups: dict[str, Group],
    event: Command,
    verb: str,
    who: Who | None = None,
    **fields: object,
) -> None:
    """A test or an operator gave a command; the group need not exist."""
    if turn.listening:
        group = groups.get(event.group_id)
        generation = None if group is None else group.generation_id
        made = {"cause": verb, "held_in": None, "max_size": None, **fields}
        notice = Notice("commanded", event.group_id, generation, who, made)
        turn.notices.append(notice)


# -- offsets


def offsets_committed(group: Group, who: Who, offsets: Offsets) -> Notice:
    """Offsets of a commit were stored."""
    fields = {"offsets": _shown(offsets)}
    rows = 1 + len(offsets.partitions)
    kind, generation = "offsets_committed", group.generation_id
    return make(Notice, (kind, group.group_id, generation, who, fields, rows))


def offsets_committed_in_transaction(
    turn: Turn,
    group: Group,
    producer_id: int,
    keys: Sequence[tuple[str, int]],
    commit: OpenCommit,
) -> None:
    """A transaction was committed; its offsets count from now on."""
    if turn.listening:
        rows = [(*key, *group.offsets[key][:3], commit.log_ends[key]) for key in keys]
        fields = {"offsets": _shown(Offsets.of(rows)), "producer_id": producer_id}
        add(turn, "offsets_committed", group, commit.who, len(keys), **fields)


def commit_refused(
    group: Group | None,
    event: CommitOffsets | CommitInTransaction,
    offsets: Offsets,
    code: int,
) -> Notice:
    """Offsets of a commit were refused; its group need not exist."""
    error = ErrorCode(code).name
    fields: dict[str, object] = {"offsets": _shown(offsets), "error": error}
    if type(event) is CommitInTransaction:
        fields["producer_id"] = event.producer_id
    return _commit("commit_refused", group, event, fields, len(offsets))


def commit_handled(
    group: Group, event: CommitOffsets, codes: Sequence[int] | None, *, is_new: bool
) -> list[Effect]:
    """Offsets of a commit that created its group, or that was refused in part."""
    notices = _made(group) if is_new else []
    stored = event.offsets
    if codes is not None:
        stored = event.offsets.only([not code for code in codes])
    if stored:
        notices.append(offsets_committed(group, sender(group, event), stored))
    return notices + _refused_in_part(group, event, codes)


def pending_stored(
    group: Group,
    event: CommitInTransaction,
    codes: Sequence[int] | None,
    *,
    is_new: bool,
) -> list[Effect]:
    """Pending offsets were stored; they are no event before they count.

    Unless the sender named no member, although the group has some: it is unchecked.
    """
    made = _made(group) if is_new else []
    if group.members and event.generation_id < 0 and not event.member_id:
        fields: dict[str, object] = {"producer_id": event.producer_id}
        made.append(_commit("offsets_unchecked", group, event, fields, 0))
    return made + _refused_in_part(group, event, codes)


def _made(group: Group) -> list[Effect]:
    """A commit created its group."""
    fields = {"state": EMPTY.value, "previous_state": DEAD.value}
    return [Notice("group_state", group.group_id, 0, None, fields)]


def _refused_in_part(
    group: Group,
    event: CommitOffsets | CommitInTransaction,
    codes: Sequence[int] | None,
) -> list[Effect]:
    """Offsets of a commit with metadata that is too long."""
    refused = NO_OFFSETS if codes is None else event.offsets.only(codes)
    if not refused:
        return []
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    return [commit_refused(group, event, refused, too_large)]


def _shown(offsets: Offsets) -> tuple[Sequence[object], ...]:
    """The columns that events show; see `render`. Metadata may be long."""
    return offsets.topics, offsets.partitions, offsets.offsets, offsets.log_ends


def _commit(
    kind: str,
    group: Group | None,
    event: CommitOffsets | CommitInTransaction,
    fields: dict[str, object],
    rows: int,
) -> Notice:
    """A notice of a commit."""
    generation = None if group is None else group.generation_id
    who = sender(group, event)
    return make(Notice, (kind, event.group_id, generation, who, fields, 1 + rows))


def sender(group: Group | None, event: CommitOffsets | CommitInTransaction) -> Who:
    """Returns the member that commits, or the client if it is none."""
    member = None if group is None else group.members.get(event.member_id)
    if member is not None:
        return member.identity
    who = event.member_id or None, event.group_instance_id, event.client
    return make(Who, who)


def offsets_deleted(
    turn: Turn, group: Group, deleted: Collection[tuple[str, int]], cause: str
) -> None:
    """Offsets were deleted."""
    rows = len(deleted)
    add(turn, "offsets_deleted", group, None, rows, cause=cause, deleted=deleted)


def offsets_expired(
    turn: Turn, group: Group, expired: Collection[tuple[str, int]]
) -> None:
    """Offsets expired: their retention is over."""
    add(turn, "offsets_expired", group, None, len(expired), expired=expired)
