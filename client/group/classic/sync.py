"""SyncGroup: the leader assigns, and every member gets its assignment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kohort.client.assignors.contract import TopicPartition
from kohort.client.assignors.serialization import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from kohort.client.group import application
from kohort.client.group.classic import heartbeat, leave
from kohort.client.group.classic.assignment import AssignmentMade, MakeAssignment
from kohort.client.group.classic.member import ClassicMember
from kohort.client.group.classic.state import STABLE, UNJOINED
from kohort.client.group.effects import Compute
from kohort.client.group.turn import COORDINATOR_AWAY, Turn
from kohort.protocol.apis.k11_join_group import JoinGroupResponse
from kohort.protocol.apis.k14_sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kohort.protocol.consumer import PROTOCOL_TYPE
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import WireError

# -- the leader


def lead(turn: Turn, member: ClassicMember, response: JoinGroupResponse) -> None:
    """Asks for an assignment to all members of the generation."""
    subscriptions = {}
    topics = set(member.subscription or ())
    for row in response.members:
        try:
            subscription = decode_subscription(row.metadata, row.group_instance_id)
        except WireError:
            continue
        topics.update(subscription.topics)
        subscriptions[row.member_id] = subscription
    member.is_leader = True
    member.topics = frozenset(topics)
    # Later metadata may be newer than that of the assignment.
    member.partitions = {}
    token = member.token()
    member.pending[token] = "MakeAssignment"
    name = response.protocol_name or ""
    is_skipped = response.skip_assignment
    task = MakeAssignment(name, subscriptions, sorted(topics), is_skipped)
    turn.effects.append(Compute(token, task))


def assignment_made(turn: Turn, member: ClassicMember, made: AssignmentMade) -> None:
    """Sends the assignment to the group."""
    member.assigned_by = dict(made.partitions)
    member.partitions = member.assigned_by | member.partitions
    send(turn, member, made.assignments.items())


def changed_partitions(member: ClassicMember) -> str | None:
    """The leader's reason to assign again; None if no topic has changed."""
    known, assigned_by = member.partitions, member.assigned_by or {}
    if known == assigned_by:
        return None
    changed = [t for t, n in assigned_by.items() if known.get(t, n) != n]
    if not changed:
        return None
    return f"the partitions of {', '.join(sorted(changed))} have changed"


# -- every member


def send(
    turn: Turn,
    member: ClassicMember,
    assignments: Iterable[tuple[str, Sequence[TopicPartition]]] = (),
) -> None:
    """Sends SyncGroup; the leader's has the assignments by member id."""
    request = SyncGroupRequest(
        member.group_id,
        member.generation_id,
        member.member_id,
        member.config.group_instance_id,
        PROTOCOL_TYPE,
        member.protocol_name,
        [
            SyncGroupRequestAssignment(member_id, encode_assignment(partitions))
            for member_id, partitions in assignments
        ],
    )
    turn.send(member, "SyncGroup", request, member.rebalance_wait_ms)


def answered(turn: Turn, member: ClassicMember, response: SyncGroupResponse) -> None:
    """Handles the response to SyncGroup."""
    code = response.error_code
    if code == ErrorCode.NONE:
        _synced(turn, member, response)
    elif code == ErrorCode.REBALANCE_IN_PROGRESS:
        member.transition(UNJOINED)
        member.rejoin_for("the group rebalances")
        turn.retry(member, at_once=True)
    elif code in COORDINATOR_AWAY:
        member.transition(UNJOINED)
        member.rejoin_for("the coordinator has moved")
        heartbeat.keep_alive(turn, member, turn.now)
        turn.forget_coordinator()
        turn.retry(member)
    else:
        leave.expelled(turn, member, "SyncGroup", code)


def failed(turn: Turn, member: ClassicMember) -> None:
    """Joins again after a SyncGroup without a response."""
    member.transition(UNJOINED)
    member.rejoin_for(member.join_reason)
    turn.forget_coordinator()
    turn.retry(member)


def _synced(turn: Turn, member: ClassicMember, response: SyncGroupResponse) -> None:
    name = response.protocol_name
    if response.protocol_type not in (None, PROTOCOL_TYPE) or (
        name is not None and name != member.protocol_name
    ):
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        leave.fail(turn, member, "SyncGroup", code)
        return
    try:
        target = frozenset(decode_assignment(response.assignment))
    except WireError as error:
        leave.fail(turn, member, "SyncGroup", 0, error)
        return
    member.transition(STABLE)
    heartbeat.keep_alive(turn, member, turn.now)
    if member.unwanted(target):
        # The leader assigned by an earlier subscription. The join claimed the owned
        # partitions, so no other member has got them.
        member.rejoin_for("the assignment has topics that are not subscribed to")
        turn.retry(member)
        return
    member.target = target
    member.last_assignment = tuple(sorted(target)), member.generation_id


def take_assignment(
    turn: Turn, member: ClassicMember, target: frozenset[TopicPartition]
) -> None:
    """Takes the assignment, and joins again after a revocation (KIP-429).

    So others get the revoked partitions.
    """
    if not application.take_assignment(turn, member, target):
        member.rejoin_for("it has given up partitions")
