"""The accounts of one group: its events in, an account per rebalance out.

The flow, step by step:

1. Members. ``member_joined``, ``member_left`` and so on change `Membership`. An eager
   member that joins has revoked its partitions: it pauses (`Rebalance.pauses`), and
   they have no reader (`Readers`). A member that is gone has stopped reading, too: at
   its LeaveGroup, or when the broker last heard of it. Its process may come back as
   another member (`Processes`), in the rebalance in which this is noticed.
2. ``rebalance_started`` opens a `Rebalance`, in the phase JOINING. Events about members
   come before the rebalance that they cause, in the same turn of the coordinator, so
   its cause is known. The previous rebalance is settled now, if it was not.
3. ``join_completed`` starts the generation: SYNCING. ``assignment_made`` ends the
   rebalance: SETTLING. ``partitions_changed`` has the owners (`Ownership`).
4. ``member_synced``: the member reads its partitions; its pause is over. After the last
   one the rebalance is OVER: its account is made, with all the time that partitions
   were unread since the previous account. Time without a reader that ends while no
   rebalance is in progress (a static member is back), or with the broker, has an
   account of its own: `GroupAccounts.take_unread`.
5. In a consumer group (KIP-848) members send no JoinGroup: JOINING lasts until the
   coordinator has computed the target assignment, SYNCING until all members have it. On
   its way, a member reads what ``member_reconciled`` and ``partitions_changed`` leave.
6. Events may be missing. The account of a rebalance that began before a gap says so
   (``unseen``); after a gap, nothing is inferred from the events before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kohort.broker.events.account import commands, members, phases
from kohort.broker.events.account.group import GroupAccounts
from kohort.broker.events.account.values import (
    Account,
    Event,
    UnreadAccount,
)

_MAY_NAME_NOBODY: Final = frozenset(
    {
        "rebalance_started",
        "window_opened",
        "join_completed",
        "assignment_made",
        "member_refused",
        "commit_refused",
        "offsets_unchecked",
        "append_failed",
        "group_loaded",
        "group_state",
        "commanded",
    }
)
"""Kinds that may have no member_id. An event of another kind without one is ignored."""


def take(group: GroupAccounts, event: Event) -> list[Account]:
    """Handles an event of the group or of a node, or an ``events_lost``.

    Returns:
        The accounts that are now settled, oldest first.
    """
    if event["kind"] in DERIVED:
        return []
    if event["kind"] == "events_lost":
        group.events_lost()
        return group.told()
    if group.run is not None and event["run"] != group.run:
        group.began_anew()
    group.run = event["run"]
    if event.get("group") is None:
        is_running = event["kind"] == "node_started"
        group.node_is(event["node"], int(event["time_ns"]), is_running=is_running)
        return group.told()
    group.note_time(event)
    group.notice_missing(event)
    if event.get("member_id"):
        group.membership.introduce(event)
    elif event["kind"] not in _MAY_NAME_NOBODY:
        return group.told()
    handle = HANDLERS.get(event["kind"])
    if handle is not None:
        handle(group, event)
    return group.told()


HANDLERS: Final[Mapping[str, Callable[[GroupAccounts, Event], None]]] = {
    "member_id_given": members.id_given,
    "pending_member_expired": members.pending_expired,
    "member_joined": members.joined,
    "member_refused": members.refused,
    "member_left": members.left,
    "member_expired": members.expired,
    "member_kicked": members.kicked,
    "member_replaced": members.replaced,
    "member_disconnected": members.disconnected,
    "leader_chosen": members.leader_chosen,
    "rebalance_started": phases.started,
    "window_opened": phases.window_opened,
    "join_completed": phases.join_completed,
    "assignment_made": phases.assignment_made,
    "member_synced": phases.synced,
    "member_reconciled": phases.reconciled,
    "partitions_changed": phases.partitions_changed,
    "group_loaded": phases.loaded,
    "group_state": phases.state_changed,
    "commanded": commands.commanded,
}
ACCOUNTS: Final = frozenset({Account.kind, UnreadAccount.kind})
"""Kinds that are accounts themselves."""
DERIVED: Final = ACCOUNTS | {"delivery_account", "finding", "offsets_went_back"}
"""Kinds that are computed from others."""
KINDS: Final = frozenset(HANDLERS)
"""Kinds of group events that accounts need."""
