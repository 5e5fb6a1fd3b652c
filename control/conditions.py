"""Conditions of a group that a test awaits.

1. A condition is checked at once, and again with each event of its group that may
   change it (`kohort.broker.events.bus.Events.listen`). Nothing is polled, so the
   condition sees a state that lasts for a single turn of the event loop.
2. A check reads the cheapest facts first: assignments only after all members have
   synced, and the partition that lagged last time before the others. So a test can
   await a group of 1,000 members while all of them join.
3. The timeout is real time, whatever the broker's clock does.
"""

from __future__ import annotations

import asyncio
import functools
import operator
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final, Protocol

from kohort.broker.coordinator.state import STABLE, GroupState
from kohort.control import group_views
from kohort.control.group_members import MemberName, listed, rows_of
from kohort.control.states import state_named

if TYPE_CHECKING:
    from kohort.broker.events.delivery.values import Open
    from kohort.broker.events.seen import Seen
    from kohort.broker.notice import Notice
    from kohort.broker.server import Broker
    from kohort.control.group_views import AnyGroup, AnyMember
    from kohort.control.why import History

PATIENCE_S: Final = 10.0
"""Default timeout: rebalances of real clients take milliseconds, and some clients wait
seconds between two attempts to join."""
MOST_TOLD: Final = 5
"""Number of rebalances (the latest), and of findings, in an error."""

_OF_OFFSETS: Final = frozenset(
    {"offsets_committed", "offsets_deleted", "offsets_expired"}
)
_NEVER: Final = frozenset(
    {"heartbeat", "commit_refused", "rebalance_account", "finding"}
)
"""Kinds that change no condition."""


def all_but(*kinds: str) -> AbstractSet[str]:
    """The kinds of events without these."""
    # Loaded by the first use: brokers start sooner.
    from kohort.broker.events.schema import BY_NAME

    return BY_NAME.keys() - {*kinds}


class ConditionTimeout(TimeoutError):  # noqa: N818 - asyncio's own name
    """A condition was not met in time.

    Attributes:
        subject: the group, or the transactional id, in words.
        awaited: the condition, in words.
        now: the state of the group at the timeout, in words.
        story: the recent history of the group, as `kohort why` prints it.
    """

    def __init__(self, seconds: float, condition: Awaited) -> None:
        self.subject = condition.subject
        self.awaited = condition.words
        self.now = condition.now()
        self.story = condition.story()
        message = f"timed out after {seconds:g} s waiting until {self.subject}"
        text = f"{message} {self.awaited}; {self.now}\n{self.story}"
        super().__init__(text.rstrip())


class BrokerStoppedError(RuntimeError):
    """The broker has stopped, so the condition will never be met."""


class Awaited(Protocol):
    """A condition of a group, or of a transactional id.

    Attributes:
        words: the condition, as in "is Stable".
    """

    words: str

    @property
    def unheard(self) -> AbstractSet[str]:
        """Kinds of events that cannot change it."""

    @property
    def broker(self) -> Broker:
        """The broker that has the subject."""

    @property
    def subject(self) -> str:
        """The group, or the transactional id, in words."""

    def concerns(self, notice: Notice) -> bool:
        """Returns whether an event is one of the subject."""

    def is_met(self) -> bool:
        """True if the condition holds now."""

    def now(self) -> str:
        """The current state of the subject, in words."""

    def story(self) -> str:
        """Its recent history; "" if it has none."""


class Handle(Protocol):
    """The part of a group that conditions use."""

    broker: Broker
    group_id: str

    @property
    def rebalances(self) -> int:
        """The number of rebalances started since the broker started."""

    def history(self) -> History:
        """Its rebalances in words."""


class Condition:
    """A condition of a group.

    Attributes:
        group: the group.
        words: the condition, as in "is Stable".
        unheard: kinds of events that cannot change it.
    """

    words: str
    unheard: AbstractSet[str] = _NEVER | _OF_OFFSETS

    def __init__(self, group: Handle) -> None:
        self.group = group

    @property
    def broker(self) -> Broker:
        """The broker of the group."""
        return self.group.broker

    @property
    def subject(self) -> str:
        """The group, in words."""
        return f"group {self.group.group_id!r}"

    @property
    def found(self) -> AnyGroup | None:
        """The group, if it exists."""
        return group_views.found(self.group.broker, self.group.group_id)

    def concerns(self, notice: Notice) -> bool:
        """Returns whether an event is one of the group."""
        return notice.group_id == self.group.group_id

    def is_met(self) -> bool:
        """True if the condition holds now."""
        raise NotImplementedError

    def now(self) -> str:
        """The current state of the group, in words."""
        group = self.found
        if group is None:
            return "the group does not exist"
        text = f"it is {group.state} in generation {group.generation_id}, with "
        text += _many(len(group.members), "member")
        names = [_called(member) for member in group_views.members_of(group)]
        return f"{text}: {listed(names)}" if names else text

    def story(self) -> str:
        """The recent history of the group, as `kohort why` prints it."""
        try:
            history = self.group.history()
        except LookupError as error:
            return str(error)
        latest = history.rebalances[-MOST_TOLD:]
        lines = [history.summary(), *map(history.explain, latest)]
        findings = history.findings[:MOST_TOLD]
        lines += [f"{each.title}: {each.advice}" for each in findings]
        return "\n".join(lines)


async def wait(condition: Awaited, seconds: float | None) -> None:
    """Waits until a condition is met.

    Args:
        condition: see above.
        seconds: of real time; None: without end.

    Raises:
        ConditionTimeout: it was not met in time.
        BrokerStoppedError: the broker has stopped, or stops meanwhile.
    """
    broker = condition.broker
    if not broker.is_running:
        raise BrokerStoppedError(_stopped(condition))
    wait = _Wait(condition)
    wait.check()
    broker.events.listen(wait.hear, condition.unheard)
    # What clients fetch is no event.
    accounting = broker.events.accounting
    if accounting is not None:
        accounting.listen(wait.check)
    broker.at_stop.append(wait.stop)
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            await wait.met
    except TimeoutError:
        if seconds is None or not limit.expired():
            raise
        raise ConditionTimeout(seconds, condition) from None
    finally:
        broker.events.unlisten(wait.hear)
        if accounting is not None:
            accounting.unlisten(wait.check)
        broker.at_stop.remove(wait.stop)


class _Wait:
    """One wait for a condition.

    Attributes:
        met: done when the wait is over.
    """

    def __init__(self, condition: Awaited) -> None:
        self._condition = condition
        self.met: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def hear(self, seen: Seen) -> None:
        """Takes an event of the stream."""
        if not self.met.done() and self._condition.concerns(seen.notice):
            self.check()

    def check(self) -> None:
        """Ends the wait if the condition is met."""
        if self.met.done():
            return
        try:
            if self._condition.is_met():
                self.met.set_result(None)
        except Exception as error:  # noqa: BLE001 - a test's own predicate
            # An error of the test's predicate must not reach the broker's event.
            self.met.set_exception(error)

    def stop(self) -> None:
        """The broker stops."""
        if not self.met.done():
            self.met.set_exception(BrokerStoppedError(_stopped(self._condition)))


def _stopped(condition: Awaited) -> str:
    until = f"{condition.subject} {condition.words}"
    return f"the broker stopped while waiting until {until}"


class HasState(Condition):
    """A state, a number of members, a generation.

    Args:
        group: the group.
        state: Kafka's name of a state, in any case; None: any.
        members: their number; None: any.
        generation: the lowest one; None: any.

    Raises:
        ValueError: the state is unknown.
    """

    def __init__(
        self,
        group: Handle,
        state: str | None = None,
        members: int | None = None,
        generation: int | None = None,
    ) -> None:
        super().__init__(group)
        self._state = (
            None if state is None else state_named(state, GroupState, "group state")
        )
        self._members = members
        self._generation = generation
        words = "exists" if state is None else f"is {self._state}"
        if members is not None:
            has = "has" if state is None else f"{words} with"
            words = f"{has} {_many(members, 'member')}"
        if generation is not None:
            words += f" in generation {generation} or later"
        self.words = words

    def is_met(self) -> bool:
        """True if the condition holds now."""
        group = self.found
        if group is None:
            return self._state is GroupState.DEAD
        return (
            (self._state is None or group.state is self._state)
            and (self._members is None or len(group.members) == self._members)
            and (self._generation is None or group.generation_id >= self._generation)
        )


class HasRebalanced(Condition):
    """A number of rebalances since the broker's start; the last one is over."""

    def __init__(self, group: Handle, count: int) -> None:
        super().__init__(group)
        self.unheard = all_but("rebalance_started", "group_state", "group_loaded")
        self._count = count
        self.words = f"has had {_many(count, 'rebalance')}"

    @property
    def _begun(self) -> int:
        return self.group.rebalances

    def is_met(self) -> bool:
        """True if the condition holds now."""
        if self._begun < self._count:
            return False
        group = self.found
        return group is not None and group.state in (STABLE, GroupState.EMPTY)

    def now(self) -> str:
        """The number of rebalances, and the group."""
        return f"it has had {_many(self._begun, 'rebalance')}; {super().now()}"


class IsAssigned(Condition):
    """Members have their partitions, in a Stable group.

    Args:
        group: the group.
        member: names one or more members, as verbs do; None: all members.
        partitions: the number of partitions of this member, or of all members together;
            None: at least one each.
    """

    def __init__(
        self,
        group: Handle,
        member: MemberName | None = None,
        partitions: int | None = None,
    ) -> None:
        super().__init__(group)
        self._member = member
        self._partitions = partitions
        count = "partitions"
        if partitions is not None:
            count = _many(partitions, "partition")
        self.words = f"has assigned {count} to {_whose(member)}"
        if member is None and partitions is None:
            self.words = "has assigned partitions to each member"

    def is_met(self) -> bool:
        """True if the condition holds now."""
        group = self.found
        if group is None or group.state is not STABLE:
            return False
        if self._member is not None:
            members = _named(group, self._member)
            return any(self._is_right(group, member) for member in members)
        if group_views.unsynced(group):
            return False
        counts = map(group_views.count_of, group.members.values())
        if self._partitions is not None:
            return sum(counts) == self._partitions
        return bool(group.members) and all(counts)

    def _is_right(self, group: AnyGroup, member: AnyMember) -> bool:
        if member.member_id in group_views.unsynced(group):
            return False
        count = group_views.count_of(member)
        return count > 0 if self._partitions is None else count == self._partitions

    def now(self) -> str:
        """The group, and the partitions of its members."""
        broker, group_id = self.group.broker, self.group.group_id
        rows = group_views.assignment(broker, group_id).items()
        counts = [f"{name} {sum(map(len, topics.values()))}" for name, topics in rows]
        text = super().now()
        return f"{text}; partitions: {listed(counts)}" if counts else text


class HasCommitted(Condition):
    """A committed offset, or a later one."""

    def __init__(self, group: Handle, topic: str, partition: int, offset: int) -> None:
        super().__init__(group)
        self.unheard = all_but("offsets_committed", "group_loaded")
        self._partition = topic, partition
        self._offset = offset
        self.words = f"has committed offset {offset} of {topic}-{partition}"

    @property
    def _committed(self) -> int | None:
        broker, group_id = self.group.broker, self.group.group_id
        return group_views.committed_offset(broker, group_id, self._partition)

    def is_met(self) -> bool:
        """True if the condition holds now."""
        offset = self._committed
        return offset is not None and offset >= self._offset

    def now(self) -> str:
        """The offset, and the group."""
        offset = self._committed
        is_at = "no offset is committed"
        if offset is not None:
            is_at = f"the committed offset is {offset}"
        return f"{is_at}; {super().now()}"


class HasLag(Condition):
    """At most a number of records behind the committed offsets: `group_views.lag`.

    Not met while the group has neither commits nor partitions to read.

    Args:
        group: the group.
        most: records of all partitions together.
        topics: the topics that count; None: all, but for those that are read to their
            ends without any commit, while others have one (changelogs).
    """

    unheard = _NEVER

    def __init__(
        self, group: Handle, most: int = 0, topics: Iterable[str] | None = None
    ) -> None:
        super().__init__(group)
        self._most = most
        self._topics = None if topics is None else {*topics}
        self._amiss: group_views.Partition | None = None
        self._committed: set[str] = set()
        self.words = f"has a lag of {most}" + (" or less" if most else "")
        if self._topics is not None:
            self.words += f" in {listed(sorted(self._topics))}"

    def _counts(self, topic: str) -> bool:
        """Returns whether all partitions of a topic count, as far as was seen."""
        return self._topics is not None or topic in self._committed

    def _lags(self) -> Iterator[tuple[group_views.Partition, group_views.Lag]]:
        """The partitions that count."""
        broker, group_id = self.group.broker, self.group.group_id
        committed = {topic for topic, _ in group_views.committed(broker, group_id)}
        self._committed = committed
        for partition, end, lag in group_views.lags(broker, group_id):
            topic = partition[0]
            if self._topics is not None:
                if topic in self._topics:
                    yield partition, lag
            elif (
                topic in committed
                or not committed
                or not group_views.is_only_read(broker, group_id, partition, end)
            ):
                yield partition, lag

    def is_met(self) -> bool:
        """True if the condition holds now."""
        broker, group_id = self.group.broker, self.group.group_id
        if self._amiss is not None:
            lag = group_views.lag_of(broker, group_id, self._amiss)
            if lag > self._most and self._counts(self._amiss[0]):
                return False
        total, is_any = 0, False
        for partition, lag in self._lags():
            total, is_any = total + lag, True
            if total > self._most:
                self._amiss = partition
                return False
        return is_any

    def now(self) -> str:
        """The lag, and the group."""
        lag = dict(self._lags())
        if not lag:
            return f"it has no partitions; {super().now()}"
        rows = [_behind(partition, n) for partition, n in lag.items() if n]
        text = f"its lag is {sum(lag.values())}"
        return f"{text}: {listed(rows)}; {super().now()}"


def _behind(partition: group_views.Partition, lag: group_views.Lag) -> str:
    name = "{}-{}".format(*partition)
    if lag.committed is None:
        return f"{name} {lag} (no commit yet)"
    return f"{name} {lag} (committed {lag.committed})"


class IsSettled(Condition):
    """No partition waits for its new owner, so the account of delivery is final."""

    words = "has fetched from each partition that moved"

    def concerns(self, notice: Notice) -> bool:  # noqa: ARG002 - as a condition has it
        """False: the account of delivery takes an event later, and says so."""
        return False

    def is_met(self) -> bool:
        """True if the condition holds now."""
        return not self._open

    @property
    def _open(self) -> tuple[Open, ...]:
        accounting = self.broker.events.accounting
        if accounting is None:
            return ()
        return accounting.open_partitions(self.group.group_id)

    def now(self) -> str:
        """The partitions whose owner has not fetched, and the group."""
        rows = [f"{row.topic}-{row.partition} ({row.owner})" for row in self._open]
        return f"not yet fetched: {listed(rows)}; {super().now()}"


class AllOf(Condition):
    """Several conditions at the same time.

    Args:
        group: the group.
        conditions: at least one.
    """

    def __init__(self, group: Handle, conditions: Iterable[Condition]) -> None:
        super().__init__(group)
        self._conditions = list(conditions)
        self.words = " and ".join(each.words for each in self._conditions)
        heard = (each.unheard for each in self._conditions)
        self.unheard = functools.reduce(operator.and_, heard)

    def is_met(self) -> bool:
        """True if the condition holds now."""
        return all(each.is_met() for each in self._conditions)

    def now(self) -> str:
        """The state of the group, from the first condition that is not met."""
        amiss = (each for each in self._conditions if not each.is_met())
        return next(amiss, self._conditions[0]).now()


def _whose(name: MemberName | None) -> str:
    if name is None:
        return "members"
    if callable(name):
        return "a member that matches the function"
    return repr(name if isinstance(name, str) else name.member_id)


def _named(group: AnyGroup, name: MemberName) -> list[AnyMember]:
    """The members that match a name; a function is called after all have synced."""
    if callable(name):
        rows = [] if group_views.unsynced(group) else rows_of(group)
        return [group.members[row.member_id] for row in rows if name(row)]
    if not isinstance(name, str):
        name = name.member_id
    member_id = name if name in group.members else group.static_members.get(name)
    if member_id is not None:
        return [group.members[member_id]]
    return [each for each in group.members.values() if each.client.id == name]


def _called(member: AnyMember) -> str:
    name = member.group_instance_id or member.client.id or member.member_id
    return name if name == member.member_id else f"{name} ({member.member_id})"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
