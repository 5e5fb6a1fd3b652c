"""The verbs on a group, declared once; `kohort.control.group.Group` performs them."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    TypedDict,
    Unpack,
)

from kohort.control.power import PowerError
from kohort.control.states import state_named
from kohort.control.verbs import (
    PATIENCE_S,
    CoordinatedVerbs,
    Count,
    Later,
    Name,
    NodeId,
    Patience,
    Reason,
    condition,
    verb,
)

if TYPE_CHECKING:
    from kohort.broker.coordinator import events
    from kohort.broker.coordinator import state as states
    from kohort.broker.server import Broker
    from kohort.control import conditions
    from kohort.control.group_members import MemberName, MemberRow
    from kohort.control.why import History
else:
    events = Later("kohort.broker.coordinator.events")
    states = Later("kohort.broker.coordinator.state")
    conditions = Later("kohort.control.conditions")
    MemberName = Name  # HTTP and the command line know names only


HeldState = Annotated[
    str, ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
]
State = Annotated[
    str,
    (
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Assigning",
        "Reconciling",
        "Stable",
        "Dead",
    ),
]
MaxSize = Annotated[int, range(1, 2**31)]


class Named(TypedDict, total=False):
    """A member by one kind of name.

    Attributes:
        member_id: its member id.
        instance_id: its group.instance.id.
        client_id: its client.id.
    """

    member_id: Name
    instance_id: Name
    client_id: Name


def _held(known: Mapping[str, Any]) -> str:
    is_held = "is" if known["state"] == known["held"] else "will be"
    return "group {group} {is_held} held in {held}; {now}".format(
        is_held=is_held, **known
    )


def _limited(known: Mapping[str, Any]) -> str:
    most = known["max_size"]
    has = "no limit but group.max.size"
    if most is not None:
        has = f"a limit of {most} member{'' if most == 1 else 's'}"
    return "group {group} has {has}; {now}".format(has=has, **known)


class GroupVerbs(CoordinatedVerbs):
    """Verbs on a group."""

    what = "group"
    path = "groups/{group}"
    names: ClassVar = {"group": Name}
    key = "group_id"

    def _member(self, member: MemberName | None, named: Named) -> MemberRow:
        """The one member with a name."""
        raise NotImplementedError

    broker: Broker
    group_id: str

    @property
    def rebalances(self) -> int:
        """The number of rebalances started since the broker started."""
        raise NotImplementedError

    def history(self) -> History:
        """Its rebalances in words."""
        raise NotImplementedError

    def _existing(self) -> object:
        """The group; raises `UnknownGroupError` if the broker does not have it."""
        raise NotImplementedError

    # -- power over members

    @verb("{member} is removed from group {group}")
    def kick(
        self,
        /,
        member: MemberName | None = None,
        reason: Reason = "",
        **named: Unpack[Named],
    ) -> MemberRow:
        """Removes a member, or a pending member; the group rebalances.

        Its waiting request is answered UNKNOWN_MEMBER_ID, so a live client rejoins as a
        new member.

        Args:
            member: its member id, group.instance.id or client.id, tried in this order.
            reason: the reason, for the events and `kohort why`.
            named: ``member_id``, ``instance_id`` or ``client_id`` in place of `member`,
                which may also be a row of `members`, or a function that is true for
                one of them.

        Returns:
            The member as it was.

        Raises:
            UnknownGroupError: the broker does not have the group.
            UnknownMemberError: no member or several members match.
            PowerError: the group's coordinator is loading.
        """
        row = self._member(member, named)
        self._perform(events.Kick, row.member_id, reason or None)
        return row

    @verb("the session of {member} in group {group} has ended")
    def expire(
        self, /, member: MemberName | None = None, **named: Unpack[Named]
    ) -> MemberRow:
        """Ends the session of a member now, whatever its timeout is.

        Args:
            member: its member id, group.instance.id or client.id, tried in this order.
            named: as for `kick`, and so are the result and the errors.
        """
        row = self._member(member, named)
        self._perform(events.Expire, row.member_id)
        return row

    @verb("{member} is muted in group {group}")
    def mute(
        self, /, member: MemberName | None = None, **named: Unpack[Named]
    ) -> MemberRow:
        """Stops a member's requests from renewing its session.

        The broker answers its requests as before, but its session runs towards its end.
        A waiting join or sync of the member does not count: the group waits for it as
        if the process were gone.

        Args:
            member: its member id, group.instance.id or client.id, tried in this order.
            named: as for `kick`, and so are the result and the errors; a pending member
                is a `PowerError`.
        """
        row = self._member(member, named)
        self._perform(events.Mute, row.member_id)
        return row

    @verb("{member} is no longer muted in group {group}")
    def unmute(
        self, /, member: MemberName | None = None, **named: Unpack[Named]
    ) -> MemberRow:
        """Ends the mute of a member; its session starts anew.

        Args:
            member: its member id, group.instance.id or client.id, tried in this order.
            named: as for `kick`, and so are the result and the errors.
        """
        row = self._member(member, named)
        self._perform(events.Unmute, row.member_id)
        return row

    # -- power over members of consumer groups

    @verb("{member} is fenced in group {group}")
    def fence(
        self, /, member: MemberName | None = None, **named: Unpack[Named]
    ) -> MemberRow:
        """Fences a member of a consumer group (KIP-848).

        Its next heartbeat fails with FENCED_MEMBER_EPOCH. A client then gives up its
        partitions and joins again under the same member id.

        Args:
            member: its member id, group.instance.id or client.id, tried in this order.
            named: as for `kick`, and so are the result and the errors; a member of a
                classic group is a `PowerError`.
        """
        row = self._member(member, named)
        self._perform(events.Fence, row.member_id)
        return row

    @verb("{member} is held in group {group}")
    def hold_member(
        self, /, member: MemberName | None = None, **named: Unpack[Named]
    ) -> MemberRow:
        """Holds a member of a consumer group at its partitions.

        It keeps its partitions and its epoch, and its heartbeats are answered. Other
        members wait for the partitions that it would give up. A member that left, or
        was removed, is no longer held.

        Args:
            member: its member id, group.instance.id or client.id, tried in this order.
            named: as for `fence`, and so are the result and the errors.
        """
        row = self._member(member, named)
        self._perform(events.HoldMember, row.member_id)
        return row

    @verb("{member} goes on in group {group}")
    def release_member(
        self, /, member: MemberName | None = None, **named: Unpack[Named]
    ) -> MemberRow:
        """Lets a held member go on, with its next heartbeat.

        Args:
            member: its member id, group.instance.id or client.id, tried in this order.
            named: as for `fence`, and so are the result and the errors; a member that
                is not held is a `PowerError`.
        """
        row = self._member(member, named)
        self._perform(events.ReleaseMember, row.member_id)
        return row

    # -- power over the group

    @verb("group {group} rebalances; {now}")
    def rebalance(self, reason: Reason = "") -> None:
        """Starts a rebalance.

        Args:
            reason: the reason, for the events and `kohort why`.

        Raises:
            UnknownGroupError: the broker does not have the group.
            PowerError: it has no members, or is in PreparingRebalance already; or its
                coordinator is loading.
        """
        self._existing()
        self._perform(events.TriggerRebalance, reason or None)

    @verb(_held)
    def hold(self, state: HeldState | None = None) -> None:
        """Holds a group in a state: now, or as soon as it enters it.

        Its requests wait for their answers, its timers stand still, and sessions of
        members whose requests wait do not expire. Another hold replaces this one. The
        group need not exist yet.

        Args:
            state: PreparingRebalance (joins wait) or CompletingRebalance (syncs wait);
                in a consumer group Assigning (no target assignment is computed) or
                Reconciling (members keep their partitions), and its heartbeats are
                answered. By default the one of them that the group is in, else the
                first.

        Raises:
            PowerError: a group cannot be held in that state.
        """
        known = None
        if state is not None:
            known = state_named(state, states.GroupState, error=PowerError)
        self._perform(events.HoldGroup, known)

    @verb("group {group} is released; {now}")
    def release(self) -> None:
        """Releases a held group.

        It goes on at once if nothing is missing; otherwise its timers run for the time
        that was left when the hold began.

        Raises:
            PowerError: it is not held.
        """
        self._perform(events.ReleaseGroup)

    @verb("node {coordinator} coordinates group {group}")
    def move(self, node: NodeId | None = None) -> int:
        """Makes another node the coordinator of a group.

        All groups in the same partition of __consumer_offsets move with it.

        Args:
            node: the id of the node; by default the next running node.

        Returns:
            The node's id.

        Raises:
            PowerError: the node is unknown or stopped, or no other node is running.
        """
        return self._move(node)

    @verb(_limited)
    def limit(self, max_size: MaxSize | None) -> None:
        """Limits the members of a group, in place of group.max.size.

        A group with more members rebalances at once; the next generation keeps within
        the limit (KIP-389).

        Args:
            max_size: the number of members; None, null or none: group.max.size applies
                again.

        Raises:
            PowerError: the limit is less than 1.
        """
        self._perform(events.LimitGroup, max_size)

    # -- conditions

    @condition
    def until(
        self,
        *,
        state: State | None = None,
        members: Count | None = None,
        generation: Count | None = None,
        rebalances: Count | None = None,
        assigned: bool = False,
        member: MemberName | None = None,
        partitions: Count | None = None,
        topic: Name | None = None,
        partition: Count | None = None,
        offset: Count | None = None,
        lag: Count | None = None,
        timeout: Patience | None = PATIENCE_S,
    ) -> Coroutine[Any, Any, None]:
        """Waits until conditions are met; by default, until it exists.

        They have to be met at the same time. They are checked at once, and then with
        each event of the group, which need not exist yet. If they are not met in time,
        the error has the recent history of the group.

        Args:
            state: the group is in this state.
            members: it has this many members.
            generation: it is in this generation or a later one.
            rebalances: it has had this many rebalances since the broker started, and
                the last one is over.
            assigned: it is Stable, and each member, or `member`, has partitions.
            member: with `assigned`: the member id, group.instance.id or client.id of a
                member.
            partitions: with `assigned`: the number of partitions, of `member` or of all
                members together.
            topic: with `partition` and `offset`.
            partition: with `topic` and `offset`.
            offset: this offset, or a later one, is committed for `partition` of
                `topic`.
            lag: at most this many records are behind the committed offsets.
            timeout: seconds of real time to wait.

        Raises:
            ConditionTimeout: has the group's state and its recent history.
            BrokerStoppedError: the broker has stopped, or stops meanwhile.
            ValueError: the state is unknown, or fields that go together are not.
        """
        found: list[conditions.Condition] = []
        if rebalances is not None:
            found.append(conditions.HasRebalanced(self, rebalances))
        if assigned:
            found.append(conditions.IsAssigned(self, member, partitions))
        elif member is not None or partitions is not None:
            raise ValueError("member and partitions go with assigned=true")
        if topic is not None and partition is not None and offset is not None:
            found.append(conditions.HasCommitted(self, topic, partition, offset))
        elif {topic, partition, offset} != {None}:
            raise ValueError("topic, partition and offset go together")
        if lag is not None:
            found.append(conditions.HasLag(self, lag))
        if not found or {state, members, generation} != {None}:
            found.insert(0, conditions.HasState(self, state, members, generation))
        return conditions.wait(conditions.AllOf(self, found), timeout)
