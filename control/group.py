"""A group of a broker in this process, with the history of its rebalances.

    async with Broker({"group.max.size": 3}) as broker:
        billing = Group(broker, "billing")
        billing.hold()  # it stays in PreparingRebalance; joins wait
        ...
        billing.release()
        billing.kick("billing-1")
        print(billing.history().text())

Use it on the broker's event loop. `kohort.control.why.history` makes a history from
events of any source.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from kohort.broker.clock import ns
from kohort.broker.cluster.cluster import ClusterError
from kohort.broker.coordinator.state import GroupState
from kohort.broker.topics.topic import NO_NODE
from kohort.control import conditions, group_moves, group_views
from kohort.control.conditions import PATIENCE_S
from kohort.control.group_members import (
    GroupShown,
    MemberName,
    MemberRow,
    UnknownMemberError,
    find,
    listed,
    pending_rows_of,
    rows_of,
)
from kohort.control.group_moves import Move
from kohort.control.group_verbs import GroupVerbs, Named
from kohort.control.held_back import waiting
from kohort.control.power import PowerError, UnknownGroupError, next_node

if TYPE_CHECKING:
    from kohort.broker.coordinator.events import Command
    from kohort.broker.events.delivery.values import Delivery
    from kohort.broker.server import Broker
    from kohort.broker.shards.group_shard import GroupShard
    from kohort.control.group_views import AnyGroup
    from kohort.control.why import History


__all__ = [
    "Group",
    "GroupShown",
    "MemberName",
    "MemberRow",
    "Move",
    "PowerError",
    "UnknownGroupError",
    "UnknownMemberError",
    "no_group",
]


def no_group(group_id: str, there_are: Iterable[str], what: str = "group") -> str:
    """Returns a sentence about an unknown group; it lists the existing ones."""
    from difflib import get_close_matches

    names = sorted(there_are)
    sentence = f"there is no {what} {group_id!r}"
    if not names:
        return f"{sentence}; there are no groups yet"
    near = get_close_matches(group_id, names, 3)
    if near:
        return f"{sentence}; did you mean {' or '.join(map(repr, near))}?"
    return f"{sentence}; the groups are: {listed(map(repr, names))}"


class Group(GroupVerbs):
    """A handle of a group; it can be made before the group exists.

    Args:
        broker: the broker; must be started before methods are called.
        group_id: the id of the group.
    """

    def __init__(self, broker: Broker, group_id: str) -> None:
        self.broker = broker
        self.group_id = group_id

    def __repr__(self) -> str:
        """As it is made."""
        return f"Group({self.broker!r}, {self.group_id!r})"

    # -- views

    @property
    def _shard(self) -> GroupShard | None:
        """Its shard; None before ``__consumer_offsets`` is created."""
        shards = self.broker.cluster.shards
        return shards.for_id(self.group_id) if len(shards) else None

    @property
    def _found(self) -> AnyGroup | None:
        return group_views.found(self.broker, self.group_id)

    @property
    def state(self) -> str:
        """The name of its state; "Dead" for an unknown group, as in Kafka."""
        group = self._found
        return (GroupState.DEAD if group is None else group.state).value

    @property
    def generation(self) -> int:
        """The number of its generation; -1 for an unknown group."""
        group = self._found
        return -1 if group is None else group.generation_id

    @property
    def members(self) -> list[MemberRow]:
        """Its members, in Kafka's order; without pending members."""
        group = self._found
        return [] if group is None else rows_of(group)

    @property
    def coordinator(self) -> int:
        """The node id of its coordinator; -1 if it has none."""
        shard = self._shard
        return NO_NODE if shard is None else shard.node_id

    @property
    def held(self) -> str | None:
        """The state in which a hold keeps it; None: it is not held."""
        state = self.broker.cluster.shards.lasting.holds.get(self.group_id)
        return None if state is None else state.value

    @property
    def max_size(self) -> int | None:
        """Its limit in members; None: that of ``group.max.size``."""
        return self.broker.cluster.shards.lasting.max_sizes.get(self.group_id)

    @property
    def rebalances(self) -> int:
        """The number of rebalances started since the broker started."""
        return self.broker.cluster.shards.lasting.rebalances.get(self.group_id, 0)

    def describe(self) -> dict[str, Any]:
        """`GroupShown` as JSON's types."""
        return asdict(self.show())

    def show(self) -> GroupShown:
        """These properties, with the leader and the protocol."""
        group = self._found
        return GroupShown(
            group=self.group_id,
            state=self.state,
            generation=self.generation,
            protocol_type=None if group is None else group.protocol_type,
            protocol=None if group is None else group.protocol_name,
            leader=getattr(group, "leader", None),
            coordinator=self.coordinator,
            held=cast(Any, self.held),  # as `hold` checks
            max_size=self.max_size,
            rebalances=self.rebalances,
            members=self.members,
            pending_members=[] if group is None else pending_rows_of(group),
        )

    # -- power: see `GroupVerbs`

    def _member(self, member: MemberName | None, named: Named) -> MemberRow:
        return find(self._existing(), member, **named)

    def _existing(self) -> AnyGroup:
        group = self._found
        if group is not None:
            return group
        shard = self._shard
        if shard is not None and shard.refusal is not None:
            raise self._refused(shard.refusal)
        raise UnknownGroupError(no_group(self.group_id, self._known()))

    def _move(self, node: int | None) -> int:
        current = self.broker.coordinator_of(self.group_id)
        target = next_node(self.broker, current) if node is None else node
        try:
            self.broker.move_coordinator(self.group_id, target)
        except ClusterError as error:
            raise PowerError(str(error)) from error
        return target

    def _submit(self, command: Command) -> None:
        self.broker.cluster.shards.command(command)

    def _known(self) -> set[str]:
        return {group.group_id for group in self.broker.cluster.shards.groups()}

    # -- its past

    def history(self) -> History:
        """The rebalances of the group in plain words, and findings with advice.

        It covers the events that the broker remembers
        (`kohort.broker.events.remembered.REMEMBERED`); a rebalance in progress lasts
        until now.

        Raises:
            UnknownGroupError: the broker has neither the group nor events of it.
        """
        # Slow to load, and rarely used.
        from kohort.control.why.history import history

        accounting = self.broker.events.accounting
        if accounting is not None:
            accounting.tell()
        events = self.broker.events.recent(self.group_id, transactions=True)
        if all(event["group"] != self.group_id for event in events):
            known = self._known()
            if self.group_id not in known:
                raise UnknownGroupError(no_group(self.group_id, known))
        now_ns = ns(self.broker.cluster.clock.now())
        return history(events, self.group_id, now_ns, waiting(self.broker))

    # -- conditions

    def until(
        self,
        *,
        state: str | None = None,
        members: int | None = None,
        generation: int | None = None,
        timeout: float | None = PATIENCE_S,
    ) -> Coroutine[Any, Any, None]:
        """Waits until the group has a state, a number of members, and a generation.

        Like all conditions, it is checked at once and then with each event of the
        group. The group need not exist yet.

        Args:
            state: Kafka's name, for example "Stable"; None for any.
            members: the number of members; None for any.
            generation: the lowest generation; None for any.
            timeout: seconds of real time; None: no timeout.

        Raises:
            ConditionTimeout: has the group's state and its recent history.
            BrokerStoppedError: the broker has stopped, or stops meanwhile.
            ValueError: the state is unknown.
        """
        condition = conditions.HasState(self, state, members, generation)
        return conditions.wait(condition, timeout)

    def until_assigned(
        self,
        member: MemberName | None = None,
        partitions: int | None = None,
        *,
        timeout: float | None = PATIENCE_S,
    ) -> Coroutine[Any, Any, None]:
        """Waits until members have their partitions, in a Stable group.

        Args:
            member: see `MemberName`, which may match several; None: all members.
            partitions: the number for one of those, or for all members together; None:
                at least one each.
            timeout: as for `until`, and so are the errors.
        """
        condition = conditions.IsAssigned(self, member, partitions)
        return conditions.wait(condition, timeout)

    def until_rebalances(
        self, count: int, *, timeout: float | None = PATIENCE_S
    ) -> Coroutine[Any, Any, None]:
        """Waits until the group has had rebalances, and the last one is over.

        Args:
            count: their number since the broker started.
            timeout: as for `until`, and so are the errors.
        """
        return conditions.wait(conditions.HasRebalanced(self, count), timeout)

    def until_committed(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        timeout: float | None = PATIENCE_S,
    ) -> Coroutine[Any, Any, None]:
        """Waits until an offset of a partition, or a later one, is committed.

        Args:
            topic: the topic.
            partition: of it.
            offset: the offset of the next record to consume.
            timeout: as for `until`, and so are the errors.
        """
        condition = conditions.HasCommitted(self, topic, partition, offset)
        return conditions.wait(condition, timeout)

    def until_lag(
        self,
        lag: int = 0,
        *,
        topics: Iterable[str] | None = None,
        timeout: float | None = PATIENCE_S,
    ) -> Coroutine[Any, Any, None]:
        """Waits until at most this many records are behind the commits: see `lag`.

        Args:
            lag: records of all partitions together.
            topics: the topics that count. None: all that the group reads, but for those
                that it reads to their ends without any commit while others have one.
            timeout: as for `until`, and so are the errors.
        """
        return conditions.wait(conditions.HasLag(self, lag, topics), timeout)

    async def delivery(self, *, timeout_s: float | None = PATIENCE_S) -> Delivery:
        """The account of delivery, once each partition that moved was fetched.

        Args:
            timeout_s: the timeout of `until`; the errors are the same.

        Raises:
            RuntimeError: the broker does not keep the account.
        """
        self.peek_delivery()
        await conditions.wait(conditions.IsSettled(self), timeout_s)
        return self.peek_delivery()

    def peek_delivery(self) -> Delivery:
        """The account of delivery as of now: `Delivery.open` may change it.

        Raises:
            RuntimeError: the broker does not keep the account.
        """
        accounting = self.broker.events.accounting
        if accounting is None:
            raise RuntimeError(
                "the broker does not keep the account of delivery; make it with"
                " Broker(watch_fetches=True)"
            )
        return accounting.delivery(self.group_id)

    # -- offsets and partitions

    def committed(self) -> dict[tuple[str, int], int]:
        """The committed offsets by (topic, partition)."""
        return group_views.committed(self.broker, self.group_id)

    def lag(self) -> dict[tuple[str, int], group_views.Lag]:
        """Records behind the committed offset, by (topic, partition).

        Each is a number of records, with `offsets`, the difference of offsets. It
        covers the partitions with a committed offset, and all partitions of the
        topics that the last generation subscribes to; a partition without a committed
        offset counts from its first record.
        """
        return group_views.lag(self.broker, self.group_id)

    def assignment(self) -> dict[str, dict[str, list[int]]]:
        """Partitions by topic, by member.

        A member's name is its group.instance.id, else its client.id, else (if another
        member has the same name) its member id.
        """
        return group_views.assignment(self.broker, self.group_id)

    @property
    def moves(self) -> list[Move]:
        """Partitions that moved from one member to another, the oldest first.

        It covers the events that the broker remembers.
        """
        return group_moves.moves(self.broker, self.group_id)

    @property
    def redelivered(self) -> int:
        """The number of records that the group was sent again, or will be.

        It counts a record that was handled (committed) and sent again, and one that was
        received, not committed, and sent again: see `Again`. It does not count what a
        member gave back: it committed as it released the partition, or left after a
        commit, and had fetched these records ahead. Between a move and the new owner's
        first Fetch it counts what that owner will be sent again.

        Raises:
            RuntimeError: the broker was made without ``watch_fetches=True``.
        """
        found = self.peek_delivery()
        return found.again_certain + found.again_possible
