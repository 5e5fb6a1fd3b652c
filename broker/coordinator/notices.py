"""Notices of the coordinator's decisions: one function for each kind of event.

A notice is raw: it holds objects that the decision had at hand, and `events.render`
computes the event's fields when it is read. Without a listener, functions that take a
`Turn` do nothing. Those without one return notices; commits and heartbeats, which have
no turn, call them only if there are listeners.

Some state is kept only for notices: a group's `rows`, `started`, `completed` and
`waits`, a member's `owned` and `told_at`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kohort.broker.coordinator.classic.group import Group
from kohort.broker.coordinator.classic.member import Member
from kohort.broker.coordinator.classic.state import DEAD, EMPTY, PREPARING_REBALANCE
from kohort.broker.coordinator.effects import (
    Append,
    Effect,
    MemberRows,
    OffsetRecord,
    PendingOffset,
)
from kohort.broker.coordinator.events import (
    NO_OFFSETS,
    AppendFailed,
    Command,
    CommitInTransaction,
    CommitOffsets,
    Heartbeat,
    Join,
    LeavingMember,
    Offsets,
)
from kohort.broker.coordinator.pending import OpenCommit
from kohort.broker.coordinator.turn import Cause, Turn
from kohort.broker.notice import Notice, Who, make
from kohort.protocol.consumer import PROTOCOL_TYPE
from kohort.protocol.errors import ErrorCode

_BYTES_PER_ROW = 100
"""Bytes that count as a row: a topic's name and some partitions."""
_NO_WAIT = (0.0, False)
_OFFSETS = (OffsetRecord, PendingOffset)


def _add(
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


# -- members


def member_id_given(turn: Turn, group: Group, member_id: str) -> None:
    """A newcomer becomes a pending member (KIP-394)."""
    if turn.listening:
        who = group.pending_members[member_id].identity
        if group.state is PREPARING_REBALANCE and group.previous_state is not EMPTY:
            group.waits[member_id] = None
        _add(turn, "member_id_given", group, who)


def pending_member_expired(turn: Turn, group: Group, who: Who) -> None:
    """A pending member did not join in time."""
    _add(turn, "pending_member_expired", group, who)


def member_joined(
    turn: Turn, group: Group, member: Member, event: Join, cause: str
) -> None:
    """A JoinGroup was accepted."""
    if turn.listening:
        turn.notices.append(joined(group, member, event, cause))


def joined(group: Group, member: Member, event: Join, cause: str) -> Notice:
    """A JoinGroup was accepted."""
    protocols, fields = member.protocols, group.join_fields
    timeouts_ms = event.session_timeout_ms, event.rebalance_timeout_ms
    if (
        fields.get("protocols") is not protocols
        or fields["cause"] != cause
        or fields["reason"] != event.reason
        or fields["timeouts_ms"] != timeouts_ms
        or fields["protocol_type"] != event.protocol_type
    ):
        # Else one object for all members that join alike: it is kept for readers. Five
        # fields at most: a dict of six is twice as large.
        fields = group.join_fields = {
            "cause": cause,
            "reason": event.reason,
            "timeouts_ms": timeouts_ms,
            "protocol_type": event.protocol_type,
            "protocols": protocols,
        }
    notice = (
        "member_joined",
        group.group_id,
        group.generation_id,
        member.identity,
        fields,
        1 + len(protocols),
    )
    return make(Notice, notice)


_REFUSALS = {
    ErrorCode.GROUP_MAX_SIZE_REACHED: "full",
    ErrorCode.FENCED_INSTANCE_ID: "fenced",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "inconsistent",
    ErrorCode.UNKNOWN_MEMBER_ID: "unknown",
}


def member_refused(turn: Turn, group: Group | None, event: Join, code: int) -> None:
    """A JoinGroup was refused; its group need not exist."""
    if turn.listening:
        error = ErrorCode(code)
        generation = None if group is None else group.generation_id
        who = Who(event.member_id or None, event.group_instance_id, event.client)
        fields = {
            "cause": _REFUSALS.get(error, "invalid"),
            "reason": event.reason,
            "error": error.name,
        }
        notice = Notice("member_refused", event.group_id, generation, who, fields)
        turn.notices.append(notice)


def member_replaced(
    turn: Turn, group: Group, event: Join, old: Member, member: Member, heard: float
) -> None:
    """A static member came back under a new id, with the old one's partitions.

    `heard` is when the broker last heard of the old one, in seconds since the epoch.
    """
    if not turn.listening:
        return
    if old.member_id in group.waits:
        group.waits[member.member_id] = group.waits.pop(old.member_id)
    _add(
        turn,
        "member_replaced",
        group,
        # Client id and host stay those of the old process, as in Kafka.
        member.identity,
        len(event.protocols),
        reason=event.reason,
        replaced_member_id=old.member_id,
        heard=heard,
        timeouts_ms=(event.session_timeout_ms, event.rebalance_timeout_ms),
        protocol_type=event.protocol_type,
        protocols=event.protocols,
    )
    if old.owned:
        _partitions_changed(turn, group, old, old.owned, b"", "replaced")
        _partitions_changed(turn, group, member, b"", old.owned, "replaced")


def member_left(
    turn: Turn, group: Group, who: Who, leaving: LeavingMember, *, was_pending: bool
) -> None:
    """A member, or a pending member, left or was removed by an admin."""
    _add(
        turn,
        "member_left",
        group,
        who,
        cause="left" if leaving.member_id else "removed",
        reason=leaving.reason,
        was_pending=was_pending,
    )


def member_expired(turn: Turn, group: Group, member: Member, cause: str) -> None:
    """A member's session ended."""
    heard = turn.last_heard(member)
    _add(turn, "member_expired", group, member.identity, cause=cause, heard=heard)


def member_kicked(
    turn: Turn,
    group: Group,
    who: Who,
    cause: str,
    heard: float,
    *,
    was_pending: bool = False,
) -> None:
    """The coordinator removed a member, or a pending member, last `heard` of then."""
    _add(
        turn,
        "member_kicked",
        group,
        who,
        cause=cause,
        was_pending=was_pending,
        heard=heard,
    )


def leader_chosen(turn: Turn, group: Group, cause: str, previous: str | None) -> None:
    """The group has a leader, and it is not the previous one."""
    leader = group.leader
    if leader is not None and leader != previous:
        who = group.members[leader].identity
        _add(turn, "leader_chosen", group, who, cause=cause, previous_leader=previous)


def member_fenced(group: Group, event: Heartbeat) -> Notice:
    """A heartbeat was refused: another process has the member's instance id."""
    who = Who(event.member_id, event.group_instance_id, event.client)
    fields = {"error": ErrorCode.FENCED_INSTANCE_ID.name}
    return Notice("member_fenced", group.group_id, group.generation_id, who, fields)


def heartbeat(group: Group | None, event: Heartbeat, code: int) -> Notice:
    """A heartbeat was answered with an error code."""
    who = Who(event.member_id or None, event.group_instance_id)
    generation = None
    if group is not None:
        generation = group.generation_id
        member = group.members.get(event.member_id)
        if member is not None:
            who = member.identity
    fields = {"error": ErrorCode(code).name}
    return Notice("heartbeat", event.group_id, generation, who, fields)


# -- rebalances


def group_state(turn: Turn, group: Group) -> None:
    """The group's state changed."""
    _add(
        turn,
        "group_state",
        group,
        state=group.state.value,
        previous_state=group.previous_state.value,
    )


def rebalance_started(turn: Turn, group: Group, cause: Cause) -> None:
    """The join phase began, and with it the waits for members that have not joined."""
    if not turn.listening:
        return
    members = [member.member_id for member in group.ordered()]
    group.started = turn.now
    group.waits = {}
    group.told = {}
    if group.state is not EMPTY:
        for member in group.ordered():
            if member.join_token is None:
                group.waits[member.member_id] = None
        for member_id in group.pending_members:
            group.waits[member_id] = None
    culprits = cause.culprits
    if not culprits and cause.who is not None:
        culprits = (cause.who.member_id,)
    _add(
        turn,
        "rebalance_started",
        group,
        cause.who,
        len(members) + len(culprits),
        cause=cause.kind,
        reason=cause.reason,
        culprits=culprits,
        previous_state=group.state.value,
        members=members,
    )


def wait_ended(turn: Turn, group: Group, member_id: str, *, came: bool) -> None:
    """The join phase no longer waits for a member; `join_completed` has the wait."""
    if group.waits and group.waits.get(member_id, _NO_WAIT) is None:
        group.waits[member_id] = (turn.now, came)


def note_arrival(group: Group, member_id: str, now: float) -> None:
    """The same for a member that has come."""
    if group.waits.get(member_id, _NO_WAIT) is None:
        group.waits[member_id] = (now, True)


def note_told(group: Group, member_id: str, now: float) -> None:
    """A member that the join phase waits for learns of the rebalance by a heartbeat."""
    if group.waits.get(member_id, _NO_WAIT) is None:
        group.told.setdefault(member_id, now)


def window_opened(turn: Turn, group: Group, cause: str) -> None:
    """An initial window opened; a window of no length makes no notice."""
    if group.window_ms:
        _add(
            turn,
            "window_opened",
            group,
            cause=cause,
            delay_ms=group.window_ms,
            remaining_ms=group.remaining_ms,
        )


def join_completed(
    turn: Turn,
    group: Group,
    cause: str,
    before: MemberRows,
) -> None:
    """The join phase is over; `before` lists the previous generation's members."""
    if not turn.listening:
        return
    waits, group.waits = group.waits, {}
    told, group.told = group.told, {}
    after = group.rows
    _add(
        turn,
        "join_completed",
        group,
        None,
        len(before) + len(after) + len(waits),
        cause=cause,
        before=before,
        after=after,
        started=group.started,
        waits=waits,
        told=told,
        protocol=group.protocol_name,
        leader=group.leader if after else None,
    )


def assignment_made(
    turn: Turn, group: Group, size: int, synced: Sequence[Member]
) -> None:
    """The leader sent `size` bytes of assignments, for which `synced` had waited."""
    if not turn.listening:
        return
    leader = group.leader or ""
    _add(
        turn,
        "assignment_made",
        group,
        group.members[leader].identity,
        protocol=group.protocol_name,
        leader=leader,
        bytes=size,
        members=group.rows,
        since=group.completed,
    )
    group_state(turn, group)
    if group.protocol_type == PROTOCOL_TYPE:
        for member in group.ordered():
            before, after = member.owned, member.assignment
            if before != after:
                member.owned = after
                _partitions_changed(turn, group, member, before, after, "assigned")
    group_id, generation, add = group.group_id, group.generation_id, turn.notices.append
    fields: dict[str, object] = {"since": None}
    for member in synced:
        if member.told_at != fields["since"]:
            # One object for all members whose joins were answered together.
            fields = {"since": member.told_at}
        notice = "member_synced", group_id, generation, member.identity, fields, 1
        add(make(Notice, notice))


def member_synced(turn: Turn, group: Group, member: Member) -> None:
    """A member was given its assignment, which was there already."""
    _add(turn, "member_synced", group, member.identity, since=member.told_at)


def partitions_gone(turn: Turn, group: Group, member: Member) -> None:
    """A removed member no longer owns partitions."""
    if member.owned:
        _partitions_changed(turn, group, member, member.owned, b"", "gone")


def _partitions_changed(
    turn: Turn, group: Group, member: Member, before: bytes, after: bytes, cause: str
) -> None:
    _add(
        turn,
        "partitions_changed",
        group,
        member.identity,
        (len(before) + len(after)) // _BYTES_PER_ROW,
        cause=cause,
        before=before,
        after=after,
    )


def group_loaded(turn: Turn, group: Group) -> None:
    """A group was read from the log, with its leader and assignments."""
    if not turn.listening:
        return
    members = [member.member_id for member in group.ordered()]
    _add(
        turn,
        "group_loaded",
        group,
        None,
        len(members),
        state=group.state.value,
        members=members,
        protocol=group.protocol_name,
        leader=group.leader,
    )
    leader_chosen(turn, group, "loaded", None)
    if group.protocol_type == PROTOCOL_TYPE:
        for member in group.ordered():
            owned = member.owned = member.assignment
            if owned:
                # It has its previous partitions: none gained, none lost.
                _partitions_changed(turn, group, member, owned, owned, "loaded")


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
        _add(turn, "offsets_committed", group, commit.who, len(keys), **fields)


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
    _add(turn, "offsets_deleted", group, None, rows, cause=cause, deleted=deleted)


def offsets_expired(
    turn: Turn, group: Group, expired: Collection[tuple[str, int]]
) -> None:
    """Offsets expired: their retention is over."""
    _add(turn, "offsets_expired", group, None, len(expired), expired=expired)
