"""Notices of the classic protocol; see `kohort.broker.coordinator.notices`.

Some state is kept only for notices: a group's `rows`, `started`, `completed` and
`waits`, a member's `owned` and `told_at`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.coordinator.classic import sessions
from kohort.broker.coordinator.classic.cause import Cause
from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.classic.member import Member
from kohort.broker.coordinator.effects import MemberRows
from kohort.broker.coordinator.events import Heartbeat, Join, LeavingMember
from kohort.broker.coordinator.notices import add, group_state
from kohort.broker.coordinator.state import EMPTY, PREPARING_REBALANCE
from kohort.broker.coordinator.turn import Turn
from kohort.broker.notice import Notice, Who, make
from kohort.protocol.consumer import PROTOCOL_TYPE
from kohort.protocol.errors import ErrorCode

_BYTES_PER_ROW = 100
"""Bytes that count as a row: a topic's name and some partitions."""
_NO_WAIT = (0.0, False)

# -- members


def member_id_given(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """A newcomer becomes a pending member (KIP-394)."""
    if turn.listening:
        who = group.pending_members[member_id].identity
        if group.state is PREPARING_REBALANCE and group.previous_state is not EMPTY:
            group.waits[member_id] = None
        add(turn, "member_id_given", group, who)


def pending_member_expired(turn: Turn, group: ClassicGroup, who: Who) -> None:
    """A pending member did not join in time."""
    add(turn, "pending_member_expired", group, who)


def member_joined(
    turn: Turn, group: ClassicGroup, member: Member, event: Join, cause: str
) -> None:
    """A JoinGroup was accepted."""
    if turn.listening:
        turn.notices.append(joined(group, member, event, cause))


def joined(group: ClassicGroup, member: Member, event: Join, cause: str) -> Notice:
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


def member_refused(
    turn: Turn, group: ClassicGroup | None, event: Join, code: int
) -> None:
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
    turn: Turn,
    group: ClassicGroup,
    event: Join,
    old: Member,
    member: Member,
    heard: float,
) -> None:
    """A static member came back under a new id, with the old one's partitions.

    `heard` is when the broker last heard of the old one, in seconds since the epoch.
    """
    if not turn.listening:
        return
    if old.member_id in group.waits:
        group.waits[member.member_id] = group.waits.pop(old.member_id)
    add(
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
    turn: Turn,
    group: ClassicGroup,
    who: Who,
    leaving: LeavingMember,
    *,
    was_pending: bool,
) -> None:
    """A member, or a pending member, left or was removed by an admin."""
    add(
        turn,
        "member_left",
        group,
        who,
        cause="left" if leaving.member_id else "removed",
        reason=leaving.reason,
        was_pending=was_pending,
    )


def member_expired(turn: Turn, group: ClassicGroup, member: Member, cause: str) -> None:
    """A member's session ended."""
    heard = sessions.last_heard(turn, member)
    add(turn, "member_expired", group, member.identity, cause=cause, heard=heard)


def member_kicked(
    turn: Turn,
    group: ClassicGroup,
    who: Who,
    cause: str,
    heard: float,
    *,
    was_pending: bool = False,
) -> None:
    """The coordinator removed a member, or a pending member, last `heard` of then."""
    add(
        turn,
        "member_kicked",
        group,
        who,
        cause=cause,
        was_pending=was_pending,
        heard=heard,
    )


def leader_chosen(
    turn: Turn, group: ClassicGroup, cause: str, previous: str | None
) -> None:
    """The group has a leader, and it is not the previous one."""
    leader = group.leader
    if leader is not None and leader != previous:
        who = group.members[leader].identity
        add(turn, "leader_chosen", group, who, cause=cause, previous_leader=previous)


def member_fenced(turn: Turn, group: ClassicGroup, event: Heartbeat) -> None:
    """A heartbeat was refused: another process has the member's instance id."""
    who = Who(event.member_id, event.group_instance_id, event.client)
    add(turn, "member_fenced", group, who, error=ErrorCode.FENCED_INSTANCE_ID.name)


def heartbeat(
    turn: Turn, group: ClassicGroup | None, event: Heartbeat, code: int
) -> None:
    """A heartbeat was answered with an error code."""
    if not turn.listening:
        return
    who = Who(event.member_id or None, event.group_instance_id)
    generation = None
    if group is not None:
        generation = group.generation_id
        member = group.members.get(event.member_id)
        if member is not None:
            who = member.identity
    fields = {"error": ErrorCode(code).name}
    notice = Notice("heartbeat", event.group_id, generation, who, fields)
    turn.notices.append(notice)


# -- rebalances


def rebalance_started(turn: Turn, group: ClassicGroup, cause: Cause) -> None:
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
    add(
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


def wait_ended(turn: Turn, group: ClassicGroup, member_id: str, *, came: bool) -> None:
    """The join phase no longer waits for a member; `join_completed` has the wait."""
    if group.waits and group.waits.get(member_id, _NO_WAIT) is None:
        group.waits[member_id] = (turn.now, came)


def note_arrival(group: ClassicGroup, member_id: str, now: float) -> None:
    """The same for a member that has come."""
    if group.waits.get(member_id, _NO_WAIT) is None:
        group.waits[member_id] = (now, True)


def note_told(group: ClassicGroup, member_id: str, now: float) -> None:
    """A member that the join phase waits for learns of the rebalance by a heartbeat."""
    if group.waits.get(member_id, _NO_WAIT) is None:
        group.told.setdefault(member_id, now)


def window_opened(turn: Turn, group: ClassicGroup, cause: str) -> None:
    """An initial window opened; a window of no length makes no notice."""
    if group.window_ms:
        add(
            turn,
            "window_opened",
            group,
            cause=cause,
            delay_ms=group.window_ms,
            remaining_ms=group.remaining_ms,
        )


def join_completed(
    turn: Turn,
    group: ClassicGroup,
    cause: str,
    before: MemberRows,
) -> None:
    """The join phase is over; `before` lists the previous generation's members."""
    if not turn.listening:
        return
    waits, group.waits = group.waits, {}
    told, group.told = group.told, {}
    after = group.rows
    add(
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
    turn: Turn, group: ClassicGroup, size: int, synced: Sequence[Member]
) -> None:
    """The leader sent `size` bytes of assignments, for which `synced` had waited."""
    if not turn.listening:
        return
    leader = group.leader or ""
    add(
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
    group_id, generation = group.group_id, group.generation_id
    fields: dict[str, object] = {"since": None}
    for member in synced:
        if member.told_at != fields["since"]:
            # One object for all members whose joins were answered together.
            fields = {"since": member.told_at}
        notice = "member_synced", group_id, generation, member.identity, fields, 1
        turn.notices.append(make(Notice, notice))


def member_synced(turn: Turn, group: ClassicGroup, member: Member) -> None:
    """A member was given its assignment, which was there already."""
    add(turn, "member_synced", group, member.identity, since=member.told_at)


def partitions_gone(turn: Turn, group: ClassicGroup, member: Member) -> None:
    """A removed member no longer owns partitions."""
    if member.owned:
        _partitions_changed(turn, group, member, member.owned, b"", "gone")


def _partitions_changed(
    turn: Turn,
    group: ClassicGroup,
    member: Member,
    before: bytes,
    after: bytes,
    cause: str,
) -> None:
    add(
        turn,
        "partitions_changed",
        group,
        member.identity,
        (len(before) + len(after)) // _BYTES_PER_ROW,
        cause=cause,
        before=before,
        after=after,
    )


def group_loaded(turn: Turn, group: ClassicGroup) -> None:
    """A group was read from the log, with its leader and assignments."""
    if not turn.listening:
        return
    members = [member.member_id for member in group.ordered()]
    add(
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
