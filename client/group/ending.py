"""The end of a membership in any protocol: lost, failed, or left."""

from __future__ import annotations

from kohort.client.group.effects import CallKind, Ended, Fail
from kohort.client.group.member import NOTHING, Member
from kohort.client.group.turn import Turn


def lose(turn: Turn, member: Member, reason: str) -> None:
    """Loses all partitions, since other members may own them."""
    revoking: set[tuple[str, int]] = set()
    if member.call is not None and member.call.kind is CallKind.REVOKED:
        revoking = set(member.call.partitions)
    turn.notice(member, "membership_lost", reason=reason, partitions=len(member.owned))
    member.lost |= member.owned - revoking
    member.owned = NOTHING
    member.target = None
    member.generation_id = -1
    turn.cancel(member)


def fail(
    turn: Turn,
    member: Member,
    api: str,
    code: int,
    error: Exception | None = None,
    message: str | None = None,
) -> None:
    """Fails the membership: with an error code, or 0 and an exception.

    `message`: the coordinator's, if it sent one.
    """
    if not member.has_failed:
        turn.effects.append(Fail(api, code, error, message))
    member.has_failed = True


def revokes_all(turn: Turn, member: Member) -> bool:
    """Revokes all partitions before the member leaves; False if it has none."""
    if member.owned:
        turn.call_listener(member, CallKind.REVOKED, member.owned)
        return True
    return False


def wishes_to_leave(member: Member) -> bool | None:
    """The application's wish about the group's other members; see `Closed.leaves`."""
    return member.closed.leaves if member.closed is not None else None


def left(turn: Turn, member: Member) -> bool:
    """Forgets the membership; returns whether it is the last one.

    Even if the request to leave was refused: a coordinator that refuses does not know
    the member, or removes it when its session times out.
    """
    member.generation_id = -1
    member.target = None
    member.unsubscribed = False
    if member.closed is None and not member.has_failed:
        return False
    turn.effects.append(Ended())
    return True
