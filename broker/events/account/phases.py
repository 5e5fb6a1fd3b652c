"""The phases of a rebalance: one function for each kind of event about a group."""

from __future__ import annotations

from typing import Final

from kohort.broker.events.account import reasons
from kohort.broker.events.account.group import GroupAccounts
from kohort.broker.events.account.members import forget_others, pause_readers
from kohort.broker.events.account.ownership import Ownership
from kohort.broker.events.account.readers import Readers
from kohort.broker.events.account.rebalance import Opening, Phase, Rebalance, waits
from kohort.broker.events.account.values import (
    Event,
    Gone,
    Outcome,
    partitions,
)
from kohort.broker.events.words import UNSEEN

JOINED_BY_CAUSE: Final = frozenset(
    {
        "member_joined",
        "metadata_changed",
        "leader_rejoined",
        "static_member_replaced",
    }
)
"""Causes that are a JoinGroup: the culprits have already joined."""


def started(group: GroupAccounts, event: Event) -> None:
    """A rebalance begins."""
    last = group.last
    is_consumer = event.get("group_type") == "consumer"
    if (
        last is not None
        and last.is_joining
        and last.opening.is_consumer
        and is_consumer
    ):
        # Its members get their target for this epoch, too.
        last.opening.bumps += 1
        return
    group.seal()
    generation = event.get("generation")
    if last is not None and not last.has_ended:
        if last.is_joining or generation not in {None, last.generation}:
            group.end_unseen(last)
        last.end(group.now, Outcome.INTERRUPTED)
    expected = tuple(event.get("members") or ())
    if event.get("previous_state") == "Empty":
        group.readers.resume()
        forget_others(group, event, (*expected, event.get("member_id")))
    group.membership.meet(expected)
    rebalance = Rebalance(_opening(group, event, expected))
    if last is not None:
        _hand_over(group, last, rebalance)
        group.settle(last)
    opening = rebalance.opening
    if opening.cause in JOINED_BY_CAUSE:
        for member_id in () if opening.is_consumer else opening.culprits:
            rebalance.missing.pop(member_id, None)
            owned = group.ownership.count(member_id)
            rebalance.pauses.begin(member_id, group.now, owned)
            pause_readers(group, member_id)
    if event.get("previous_state") != "Empty":
        rebalance.missing |= group.membership.pending
    group.begin(rebalance)


def _opening(group: GroupAccounts, event: Event, expected: tuple[str, ...]) -> Opening:
    culprits = tuple(event.get("culprits") or ())
    if not culprits and event.get("member_id"):
        culprits = (event["member_id"],)
    opening = Opening(
        event,
        group.now,
        expected=expected,
        culprits=culprits,
        cause=event.get("cause") or UNSEEN,
        reason=event.get("reason"),
    )
    for member_id in culprits:
        # It went in the same turn.
        life = group.membership.gone.get(member_id)
        if life is None or life.how is None or life.until_ns != group.now:
            continue
        opening.departures[member_id] = life.how
        opening.reason = opening.reason or life.reason
        if life.how is Gone.EXPIRED:
            opening.silent_ns = life.silent_ns
    opening.is_second_half = _is_second_half(group, opening)
    opening.is_same_offer = _is_same_offer(group, opening)
    return opening


def _is_second_half(group: GroupAccounts, opening: Opening) -> bool:
    """Returns whether a member rejoins because the last rebalance took partitions away.

    Newer clients give that as their reason. Otherwise a follower that has revoked
    partitions sends a different subscription, as its owned partitions have changed; for
    a leader the cause says it.
    """
    if opening.cause not in {"metadata_changed", "leader_rejoined"}:
        return False
    if reasons.is_second_half(opening.reason):
        return True
    return group.last is not None and any(
        group.last.shares.losses.get(member_id)
        and group.membership.is_eager(member_id, group.protocol) is False
        for member_id in opening.culprits
    )


def _is_same_offer(group: GroupAccounts, opening: Opening) -> bool | None:
    """Returns whether rejoined members offer the same as before; None if unknown.

    The offer is assignors and topics. Metadata also has owned partitions, their
    generation, and the rack, which may differ for the same offer.
    """
    if opening.cause != "metadata_changed" or not opening.culprits:
        return None
    changed = [group.membership.changed.get(m) for m in opening.culprits]
    return None if None in changed else not any(changed)


def _hand_over(group: GroupAccounts, last: Rebalance, rebalance: Rebalance) -> None:
    """Members that paused for the last rebalance now pause for this one."""
    start_ns = rebalance.opening.started_ns
    for member_id, (since_ns, owned) in [*last.pauses.open.items()]:
        if since_ns < start_ns:
            last.pauses.end(member_id, start_ns, "rebalance")
        else:
            del last.pauses.open[member_id]
        if member_id in group.membership:
            since = max(since_ns, start_ns)
            rebalance.pauses.open[member_id] = (since, owned)


def window_opened(group: GroupAccounts, event: Event) -> None:
    """A window of the initial delay began."""
    rebalance = group.joining()
    if rebalance is not None:
        rebalance.is_initial = True
        if event.get("cause") == "extended":
            rebalance.extended(group.now)


def join_completed(group: GroupAccounts, event: Event) -> None:
    """The join phase is over."""
    rebalance = group.joining()
    if rebalance is not None and not rebalance.is_mine(event):
        group.end_unseen(rebalance)
        rebalance = None
    if rebalance is None:
        rebalance = _began_before(group, event)
    members = event.get("members") or ()
    group.protocol = event.get("protocol") or group.protocol
    rebalance.join_completed(event, group.now)
    rebalance.leadership = group.leadership
    group.membership.meet(members)
    forget_others(group, event, members)
    group.settle_if_done()


def _began_before(group: GroupAccounts, event: Event) -> Rebalance:
    """A rebalance with a missing start; the coordinator timed its joins."""
    group.seal()
    last = group.last
    start_ns = group.now - int(event.get("duration_ns") or 0)
    if last is not None:
        if not last.has_ended:
            group.end_unseen(last, start_ns)
        start_ns = max(start_ns, last.pieces.at_ns)
    before = int(event.get("generation") or 1) - 1
    opening = Opening(
        {"run": event["run"], "node": event["node"], "generation": before}
        | {"sequence": event["sequence"]},
        start_ns,
    )
    rebalance = Rebalance(opening)
    rebalance.is_whole = False
    rebalance.is_initial = event.get("cause") == "initial_delay"
    if last is not None:
        _hand_over(group, last, rebalance)
        group.settle(last)
    for row in sorted(waits(event), key=lambda row: row.waited_ns):
        rebalance.missing[row.member_id] = None
        if row.came:
            at_ns = min(start_ns + row.waited_ns, group.now)
            owned = group.ownership.count(row.member_id)
            rebalance.came(row.member_id, at_ns, owned)
    group.begin(rebalance)
    return rebalance


def assignment_made(group: GroupAccounts, event: Event) -> None:
    """The leader has sent the assignment."""
    rebalance = group.last
    if rebalance is None or rebalance.has_ended:
        return
    if not rebalance.is_mine(event):
        group.end_unseen(rebalance)
        return
    if rebalance.is_joining:
        rebalance.join_ended_unseen(event, group.now)
        rebalance.unsynced = {*group.membership.present}
    rebalance.assignment_made(event, group.now)


def synced(group: GroupAccounts, event: Event) -> None:
    """A member was given its assignment."""
    member_id, last = event["member_id"], group.last
    owned = group.ownership.owned.get(member_id)
    unread_ns = group.gaps.pop(member_id, {})
    if owned is not None:
        unread_ns |= group.readers.start(member_id, owned, group.now)
    if last is None:
        return
    last.synced(member_id, group.now)
    if owned is not None and last.is_mine(event) and last.joined_ns is not None:
        last.shares.synced(member_id, owned, unread_ns)
    if last.phase is not Phase.OVER and last.is_settled:
        group.drop_unassigned(last)
        group.settle(last)


def reconciled(group: GroupAccounts, event: Event) -> None:
    """A member of a consumer group takes a step to its target.

    From now on it does not read the partitions that it has to give up: the answer to
    its heartbeat is without them.
    """
    member_id, last = event["member_id"], group.last
    revoking = set(partitions(event["revoking"]))
    group.revoking[member_id] = revoking
    _read(group, member_id)
    if last is not None and not last.has_ended:
        state = str(event.get("cause"))
        count = len(revoking) or len(partitions(event["awaited"]))
        last.steps.take(member_id, state, group.now, count, event["holders"])


def _read(group: GroupAccounts, member_id: str) -> None:
    """A member of a consumer group reads its partitions but those it has to give up."""
    owned = group.ownership.owned.get(member_id)
    if owned is not None:
        reads = owned - group.revoking.get(member_id, set())
        gaps = group.readers.start(member_id, reads, group.now)
        group.gaps.setdefault(member_id, {}).update(gaps)


def partitions_changed(group: GroupAccounts, event: Event) -> None:
    """A member got other partitions, or an event lists those that it has."""
    member_id, cause = event["member_id"], event.get("cause")
    group.ownership.is_known = True
    if cause == "assigned":
        _assigned(group, event, member_id)
    elif cause == "gone":
        group.seal()
        group.ownership.owned.pop(member_id, None)
        group.ownership.lose(event)
    elif cause in {"loaded", "replaced"}:
        group.seal()
        process = group.membership.members[member_id].process
        group.ownership.know(event, member_id, process)
        if cause == "loaded":
            owned = group.ownership.owned[member_id]
            group.readers.assume(member_id, owned, group.now)


def _assigned(group: GroupAccounts, event: Event, member_id: str) -> None:
    new, lost = group.ownership.change(event)
    if group.membership.is_eager(member_id, group.protocol) is False:
        # A member from before the first event has read the partitions it loses or
        # keeps.
        before = {*group.ownership.owned[member_id], *lost}
        group.readers.assume(member_id, before.difference(new), group.now)
    last = group.last
    shares = last.shares if last is not None and last.is_mine(event) else None
    process = group.membership.members[member_id].process
    take = group.ownership.take
    gained = {partition: take(partition, member_id, process) for partition in new}
    if member_id in group.revoking:
        _read(group, member_id)
    if shares is not None:
        shares.changed(member_id, gained, lost)


def state_changed(group: GroupAccounts, event: Event) -> None:
    """A Dead group has nothing; a new group may get the same id.

    An Empty consumer group gets no target assignment.
    """
    last = group.last
    if event.get("state") == "Empty" and last is not None and last.opening.is_consumer:
        last.end(group.now, Outcome.EMPTIED)
        group.settle_if_done()
    if event.get("state") == "Dead":
        group.seal()
        group.membership.pending.clear()
        group.ownership = Ownership()
        group.readers = Readers()
        group.revoking.clear()
        group.gaps.clear()


def loaded(group: GroupAccounts, event: Event) -> None:
    """Another coordinator loaded the group, or the same one did again.

    A consumer group that waits for its target assignment goes on waiting there.
    """
    group.seal()
    last = group.last
    goes_on = last is not None and last.is_joining and last.opening.is_consumer
    if last is not None and not (goes_on and event.get("state") == "Assigning"):
        last.end(group.now, Outcome.MOVED)
    members = event.get("members") or ()
    group.protocol = event.get("protocol") or group.protocol
    group.membership.pending.clear()
    group.membership.meet(members)
    forget_others(group, event, members)
    # The events right after it have each member's assignment, if it has one.
    group.ownership.owned.update((member_id, set()) for member_id in members)
    group.settle_if_done()
