"""A group of the broker for tests: verbs, conditions, views.

Verbs (`kick`, `hold`, `move`, ...) and views (`members`, `lag`, `history`, ...) are
plain calls in async and in blocking tests: those of `kohort.control.group.Group`, made
in the broker's thread. Conditions (`until`, `stable`, `caught_up`, ...) wait, and
return the group: see `kohort.testing.waiting`.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from kohort.control.conditions import PATIENCE_S
from kohort.control.group import Group as BrokerGroup
from kohort.control.group import MemberName, MemberRow
from kohort.testing.waiting import Handle, Waits

if TYPE_CHECKING:
    from kohort.control.group_moves import Move
    from kohort.testing.thread import BrokerThread

P = ParamSpec("P")
T = TypeVar("T")


def _call(
    method: Callable[Concatenate[BrokerGroup, P], T],
) -> Callable[Concatenate[Group, P], T]:
    """A method that calls another one in the broker's thread."""

    @functools.wraps(method)
    def call(self: Group, /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        return self._thread.call(method, self._group, *args, **kwargs)

    return call


def _wait(
    method: Callable[Concatenate[BrokerGroup, P], Coroutine[Any, Any, object]],
) -> Callable[Concatenate[Group, P], Group]:
    """A method that waits for another one, which runs on the broker's loop."""

    @functools.wraps(method)
    def wait(self: Group, /, *args: P.args, **kwargs: P.kwargs) -> Group:
        __tracebackhide__ = True

        async def work() -> None:
            await method(self._group, *args, **kwargs)

        words = f"group.{method.__name__.lstrip('_')}(...)"
        return self._waits.begin(copy.copy(self), work(), words)

    return wait


def _stable(
    group: BrokerGroup, members: int | None = None, timeout: float = PATIENCE_S
) -> Coroutine[Any, Any, object]:
    """Waits until the group is Stable, with this number of members.

    Raises:
        ConditionTimeout: the message has the group's recent history.
    """
    return group.until(state="Stable", members=members, timeout=timeout)


def _caught_up(
    group: BrokerGroup, timeout: float = PATIENCE_S
) -> Coroutine[Any, Any, object]:
    """Waits until the group has committed all records of its topics: lag 0.

    Raises:
        ConditionTimeout: the message has the group's recent history.
    """
    return group.until_lag(0, timeout=timeout)


class Group(Handle):
    """A group; it can be used before it has members.

    Attributes:
        group_id: the group's id.
    """

    def __init__(self, thread: BrokerThread, waits: Waits, group_id: str) -> None:
        self.group_id = group_id
        self._thread = thread
        self._waits = waits
        self._group = BrokerGroup(thread.broker, group_id)

    def __repr__(self) -> str:
        """Its id."""
        return f"Group({self.group_id!r})"

    # -- conditions

    until = _wait(BrokerGroup.until)
    until_assigned = _wait(BrokerGroup.until_assigned)
    until_rebalances = _wait(BrokerGroup.until_rebalances)
    until_committed = _wait(BrokerGroup.until_committed)
    until_lag = _wait(BrokerGroup.until_lag)

    stable = _wait(_stable)
    caught_up = _wait(_caught_up)

    # -- verbs

    kick = _call(BrokerGroup.kick)
    expire = _call(BrokerGroup.expire)
    mute = _call(BrokerGroup.mute)
    unmute = _call(BrokerGroup.unmute)
    rebalance = _call(BrokerGroup.rebalance)
    hold = _call(BrokerGroup.hold)
    release = _call(BrokerGroup.release)
    limit = _call(BrokerGroup.limit)
    move = _call(BrokerGroup.move)

    def member(self, member: MemberName) -> GroupMember:
        """A handle of a member, for verbs; the member need not exist yet."""
        return GroupMember(self, member)

    # -- views

    committed = _call(BrokerGroup.committed)
    lag = _call(BrokerGroup.lag)
    assignment = _call(BrokerGroup.assignment)
    describe = _call(BrokerGroup.describe)
    history = _call(BrokerGroup.history)

    @property
    def state(self) -> str:
        """Kafka's name of its state; "Dead" for an unknown group."""
        return self._thread.call(lambda: self._group.state)

    @property
    def generation(self) -> int:
        """The number of its generation; -1 for an unknown group."""
        return self._thread.call(lambda: self._group.generation)

    @property
    def members(self) -> list[MemberRow]:
        """Its members, in Kafka's order; without pending members."""
        return self._thread.call(lambda: self._group.members)

    @property
    def coordinator(self) -> int:
        """The node id of its coordinator; -1 if it has none."""
        return self._thread.call(lambda: self._group.coordinator)

    @property
    def moves(self) -> list[Move]:
        """Partitions that moved from one member to another, the oldest first."""
        return self._thread.call(lambda: self._group.moves)

    @property
    def redelivered(self) -> int:
        """The number of records sent again after their partition had moved.

        A new owner's first Fetch began below the last record that the previous owner
        was sent, as the committed offset was behind.
        """
        return self._thread.call(lambda: self._group.redelivered)


class GroupMember:
    """A member of a group; each verb looks it up again.

    Args:
        group: its group.
        name: its member id, group.instance.id or client.id, or a function that is true
            for one row of `Group.members`.
    """

    def __init__(self, group: Group, name: MemberName) -> None:
        self._group = group
        self._name = name

    def __repr__(self) -> str:
        """As it is made."""
        return f"{self._group!r}.member({self._name!r})"

    def kick(self, reason: str = "") -> MemberRow:
        """See `Group.kick`."""
        return self._group.kick(self._name, reason)

    def expire(self) -> MemberRow:
        """See `Group.expire`."""
        return self._group.expire(self._name)

    def mute(self) -> MemberRow:
        """See `Group.mute`."""
        return self._group.mute(self._name)

    def unmute(self) -> MemberRow:
        """See `Group.unmute`."""
        return self._group.unmute(self._name)
