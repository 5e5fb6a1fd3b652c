"""Members come and go: one function for each kind of event about a member."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.broker.events.account import reasons
from kohort.broker.events.account.group import GroupAccounts
from kohort.broker.events.account.rebalance import Leadership
from kohort.broker.events.account.values import (
    Event,
    Gone,
    RefusedJoin,
)


def id_given(group: GroupAccounts, event: Event) -> None:
    """A pending member got an id to join with (KIP-394)."""
    member_id = event["member_id"]
    group.membership.pending[member_id] = None
    rebalance = group.joining()
    if rebalance is not None and not rebalance.is_initial:
        rebalance.missing[member_id] = None


def pending_expired(group: GroupAccounts, event: Event) -> None:
    """A pending member did not join."""
    member_id = event["member_id"]
    if member_id in group.membership.pending:
        del group.membership.pending[member_id]
        rebalance = group.joining()
        if rebalance is not None:
            rebalance.went(member_id, group.now, None)


def joined(group: GroupAccounts, event: Event) -> None:
    """A JoinGroup was accepted."""
    member_id = event["member_id"]
    group.membership.pending.pop(member_id, None)
    group.disconnected.pop(member_id, None)
    if member_id not in group.membership:
        is_first = bool(event.get("is_first"))
        group.membership.begin(member_id, group.now if is_first else None)
        if is_first:
            group.ownership.owned[member_id] = set()
            member = group.membership.members[member_id]
            before = group.membership.gone.get(member.previous_id or "")
            if (
                before is not None
                and before.how is Gone.LEFT
                and not before.reason
                and not group.membership.lives[-1].has_other_offer
            ):
                # As librdkafka, which gives no reason: it never stopped.
                group.add_unprocessed(before.unpolled_ns)
            group.is_back(group.processes.came(member, group.now, before))
    if event.get("cause") == "repeated":
        return
    pause_readers(group, member_id)
    rebalance = group.joining()
    if rebalance is not None:
        rebalance.came(member_id, group.now, group.ownership.count(member_id))


def pause_readers(group: GroupAccounts, member_id: str) -> None:
    """Pauses an eager member, which has revoked all its partitions to join."""
    if group.membership.is_eager(member_id, group.protocol) is not False:
        group.readers.stop(member_id, group.now, "paused")


def refused(group: GroupAccounts, event: Event) -> None:
    """A JoinGroup was refused."""
    rebalance = group.joining()
    if rebalance is not None:
        names = ("member_id", "instance_id", "client_id")
        who = next((event[name] for name in names if event.get(name)), "")
        rebalance.refused.append(RefusedJoin(who, str(event.get("cause"))))


def replaced(group: GroupAccounts, event: Event) -> None:
    """A static member came back under a new id (KIP-345)."""
    old, new = str(event.get("replaced_member_id")), event["member_id"]
    group.seal()
    silent_ns = event.get("silent_ns")
    group.membership.inherit(new, old)
    group.membership.end(event, old, Gone.REPLACED, group.now, silent_ns)
    group.membership.begin(new, group.now)
    group.readers.leave(old, group.now, _stopped_ns(group, old, silent_ns), "replaced")
    group.ownership.rename(old, new)
    if group.last is not None:
        group.last.pauses.end(old, group.now, "gone")
        group.last.replace(old, new)
    rebalance = group.joining()
    if rebalance is not None:
        rebalance.came(new, group.now, group.ownership.count(new))


def disconnected(group: GroupAccounts, event: Event) -> None:
    """A member's connection was closed, or the broker stops before it is back."""
    member_id = event["member_id"]
    if event.get("cause") == "closed":
        group.disconnected[member_id] = group.now
        return
    group.away.add(member_id)
    at_ns = group.disconnected.get(member_id, group.now)
    group.readers.stop(member_id, at_ns, "disconnected")


def _stopped_ns(group: GroupAccounts, member_id: str, silent_ns: int | None) -> int:
    """When a member that is gone stopped reading.

    That is its last request, or the end of its connection, which its process closes
    when it ends; a client that goes on has another connection, and sends requests.
    """
    closed_ns = group.disconnected.pop(member_id, None)
    heard_ns = group.now - (silent_ns or 0)
    return heard_ns if closed_ns is None else max(heard_ns, closed_ns)


def leader_chosen(group: GroupAccounts, event: Event) -> None:
    """The group has a new leader."""
    group.leadership = Leadership(
        event["member_id"], event.get("cause"), event.get("previous_leader")
    )


def left(group: GroupAccounts, event: Event) -> None:
    """A member sent LeaveGroup, or an admin removed it."""
    if event.get("was_pending"):
        pending_expired(group, event)
        return
    # An admin may name a member by its id, as the member itself does.
    is_removed = event.get("cause") == "removed" or reasons.is_removed(
        event.get("reason")
    )
    how = Gone.REMOVED if is_removed else Gone.LEFT
    goes(group, event, event["member_id"], how)


def expired(group: GroupAccounts, event: Event) -> None:
    """A session expired."""
    member_id = event["member_id"]
    if event.get("cause") == "commanded":
        goes(group, event, member_id, Gone.COMMANDED)
        return
    silent_ns = event.get("silent_ns")
    timeout_ms = group.membership.members[member_id].session_timeout_ms
    if silent_ns is None and timeout_ms is not None:
        silent_ns = timeout_ms * 1_000_000
    goes(group, event, member_id, Gone.EXPIRED, silent_ns)


def kicked(group: GroupAccounts, event: Event) -> None:
    """The broker removed a member."""
    member_id = event["member_id"]
    if event.get("was_pending"):
        pending_expired(group, event)
        return
    rebalance = group.joining()
    if rebalance is not None and event.get("cause") == "did_not_join_in_time":
        # The wait may continue: a generation needs a leader that has joined.
        rebalance.timed_out(member_id, group.now)
        rebalance.held_back(group.now, group.ownership.count(member_id))
    if event.get("cause") == "commanded":
        goes(group, event, member_id, Gone.COMMANDED)
        return
    goes(group, event, member_id, Gone.KICKED, event.get("silent_ns"))


def goes(
    group: GroupAccounts,
    event: Event,
    member_id: str,
    how: Gone,
    silent_ns: int | None = None,
) -> None:
    """A member is gone."""
    group.seal()
    unpolled_ns = _unpolled_ns(group, member_id, event.get("software"))
    group.membership.end(event, member_id, how, group.now, silent_ns, unpolled_ns)
    if how is Gone.LEFT and reasons.is_poll_interval(event.get("reason")):
        group.add_unprocessed(unpolled_ns)
    member, life = group.membership.members[member_id], group.membership.gone[member_id]
    group.is_back(group.processes.went(member, life))
    stopped_ns = _stopped_ns(group, member_id, silent_ns)
    group.readers.leave(member_id, group.now, stopped_ns, how.value)
    group.ownership.owned.pop(member_id, None)
    group.revoking.pop(member_id, None)
    group.gaps.pop(member_id, None)
    if group.last is not None:
        group.last.went(member_id, group.now, how)


def _unpolled_ns(group: GroupAccounts, member_id: str, software: str | None) -> int:
    """Partition-time without a poll, if a member left because of that; else 0.

    Consumers send max.poll.interval.ms as their rebalance timeout. One that has had its
    assignment for a shorter time cannot have missed it.
    """
    member = group.membership.members.get(member_id)
    timeout_ms = None if member is None else member.rebalance_timeout_ms
    reads = group.readers.reads_since(member_id)
    if member is None or timeout_ms is None or reads is None:
        return 0
    if reasons.WITHOUT_LIMIT & {*(member.protocols or ()), software}:
        return 0
    since_ns, count = reads
    missed_ns = timeout_ms * 1_000_000
    return missed_ns * count if group.now - since_ns >= missed_ns else 0


def forget_others(
    group: GroupAccounts, event: Event, members: Iterable[str | None]
) -> None:
    """Removes members that are not in this list: they left unseen."""
    here = {*members}
    for member_id in group.membership.present:
        if member_id not in here:
            goes(group, {"sequence": event["sequence"]}, member_id, Gone.UNSEEN)
