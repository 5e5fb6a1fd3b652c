"""A group of the broker for tests: verbs, conditions, views.

Verbs (`kick`, `hold`, `move`, ...) and views (`members`, `lag`, `history`, ...) are
plain calls in async and in blocking tests: those of `kohort.control.group.Group`, made
in the broker's thread. Conditions (`until`, `stable`, `caught_up`, ...) wait, and
return the group: see `kohort.testing.waiting`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from kohort.control.group import Group as BrokerGroup
from kohort.control.group import MemberName, MemberRow
from kohort.control.verbs import PATIENCE_S
from kohort.testing.proxy import Proxy, call, wait
from kohort.testing.waiting import Handle, Waits

if TYPE_CHECKING:
    from kohort.broker.events.delivery import Delivery
    from kohort.control.group_moves import Move
    from kohort.testing.thread import BrokerThread


def _stable(
    group: BrokerGroup, members: int | None = None, timeout: float = PATIENCE_S
) -> Coroutine[Any, Any, object]:
    """Waits until the group is Stable, with this number of members.

    Raises:
        ConditionTimeout: the message has the group's recent history.
    """
    return group.until(state="Stable", members=members, timeout=timeout)


def _caught_up(
    group: BrokerGroup,
    *,
    topics: Iterable[str] | None = None,
    timeout: float = PATIENCE_S,
) -> Coroutine[Any, Any, object]:
    """Waits until the group has committed all records of its topics: lag 0.

    Args:
        group: the group.
        topics: the topics that count; see `BrokerGroup.until_lag`.
        timeout: seconds of real time.

    Raises:
        ConditionTimeout: names the partitions that are behind; has the group's recent
            history.
    """
    return group.until_lag(0, topics=topics, timeout=timeout)


class Delivered(Handle):
    """The account of delivery of a group: has the attributes of `Delivery`."""

    def __init__(self) -> None:
        self._found: list[Delivery] = []

    @property
    def value(self) -> Delivery:
        """The account.

        Raises:
            RuntimeError: it was not awaited.
        """
        if not self._found:
            raise RuntimeError("await group.delivery() before you read it")
        return self._found[0]

    def __getattr__(self, name: str) -> Any:
        """An attribute of the account."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.value, name)

    def __str__(self) -> str:
        """One sentence, and a line for each row."""
        return str(self.value)


class Group(Proxy[BrokerGroup]):
    """A group; it can be used before it has members.

    Attributes:
        group_id: the group's id.
    """

    def __init__(self, thread: BrokerThread, waits: Waits, group_id: str) -> None:
        super().__init__(thread, waits, BrokerGroup(thread.broker, group_id))
        self.group_id = group_id

    def __repr__(self) -> str:
        """Its id."""
        return f"Group({self.group_id!r})"

    # -- conditions

    until = wait(BrokerGroup.until)
    until_assigned = wait(BrokerGroup.until_assigned)
    until_rebalances = wait(BrokerGroup.until_rebalances)
    until_committed = wait(BrokerGroup.until_committed)
    until_lag = wait(BrokerGroup.until_lag)

    stable = wait(_stable)
    caught_up = wait(_caught_up)

    # -- verbs

    kick = call(BrokerGroup.kick)
    expire = call(BrokerGroup.expire)
    mute = call(BrokerGroup.mute)
    unmute = call(BrokerGroup.unmute)
    fence = call(BrokerGroup.fence)
    hold_member = call(BrokerGroup.hold_member)
    release_member = call(BrokerGroup.release_member)
    rebalance = call(BrokerGroup.rebalance)
    hold = call(BrokerGroup.hold)
    release = call(BrokerGroup.release)
    limit = call(BrokerGroup.limit)
    move = call(BrokerGroup.move)

    def member(self, member: MemberName) -> GroupMember:
        """A handle of a member, for verbs; the member need not exist yet."""
        return GroupMember(self, member)

    def delivery(self, timeout: float = PATIENCE_S) -> Delivered:
        """The account of delivery: what became of the records that members were sent.

        Waits until each partition that moved was fetched by its new owner, so that no
        number depends on when it is read.

            delivery = await group.delivery()
            assert not delivery.again and not delivery.skipped, delivery

        Raises:
            ConditionTimeout: names the partitions that were not fetched.
        """
        __tracebackhide__ = True
        made = Delivered()

        async def work() -> None:
            made._found.append(await self._subject.delivery(timeout_s=timeout))  # noqa: SLF001 - of this module

        return self._waits.begin(made, work(), "group.delivery(...)")

    # -- views

    peek_delivery = call(BrokerGroup.peek_delivery)
    committed = call(BrokerGroup.committed)
    lag = call(BrokerGroup.lag)
    assignment = call(BrokerGroup.assignment)
    describe = call(BrokerGroup.describe)
    history = call(BrokerGroup.history)

    @property
    def state(self) -> str:
        """Kafka's name of its state; "Dead" for an unknown group."""
        return self._thread.call(lambda: self._subject.state)

    @property
    def generation(self) -> int:
        """The number of its generation; -1 for an unknown group."""
        return self._thread.call(lambda: self._subject.generation)

    @property
    def members(self) -> list[MemberRow]:
        """Its members, in Kafka's order; without pending members."""
        return self._thread.call(lambda: self._subject.members)

    @property
    def coordinator(self) -> int:
        """The node id of its coordinator; -1 if it has none."""
        return self._thread.call(lambda: self._subject.coordinator)

    @property
    def moves(self) -> list[Move]:
        """Partitions that moved from one member to another, the oldest first."""
        return self._thread.call(lambda: self._subject.moves)

    @property
    def redelivered(self) -> int:
        """The number of records that the group was sent again, or will be.

        Those that were handled, and those that were received and not committed; not
        those that a member gave back with a commit. See `delivery` for each of them.
        """
        return self._thread.call(lambda: self._subject.redelivered)


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

    def fence(self) -> MemberRow:
        """See `Group.fence`."""
        return self._group.fence(self._name)

    def hold_member(self) -> MemberRow:
        """See `Group.hold_member`."""
        return self._group.hold_member(self._name)

    def release_member(self) -> MemberRow:
        """See `Group.release_member`."""
        return self._group.release_member(self._name)
