"""Whatever happens, and in whatever order, some things hold.

`Context` checks after every event that counters count right, that each request
is answered once or waits for something with a timer that ends the wait, that
members that are not waited for have a session timer, that a generation has one
leader and keeps within group.max.size, that generations never go down, and that
the log knows every offset, and every group as of its last record. Here clients,
an admin, the network and the coordinator's own process do anything.

A sequence that fails is printed as a script. To play it, put it below
``from tests.coordinator.test_machine import Clients``.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)
from tests.coordinator.context import Context, Member, Pending, R, subscribed

from kohort.broker.coordinator.effects import Append
from kohort.broker.coordinator.events import Event, Join, Sync, TopicsDeleted
from kohort.protocol.consumer import (
    Assignment,
    TopicPartitions,
    decode_assignment,
    encode,
)

LONGEST_REBALANCE_MS = 8_000
LONGEST_DELAY_MS = 2_000
PARTITIONS = 5
FACTOR = 27 if settings().max_examples > 50 else 10
"""More sequences than other tests have examples: over 2,000 in the profile "ci"."""

INSTANCES = {"A": None, "B": None, "C": "i-0", "D": "i-0", "E": "i-1", "F": None}
"""Six clients; three of them share two instance ids."""

clients = st.sampled_from(sorted(INSTANCES))
sessions_ms = st.sampled_from([1_000, 5_000, 20_000])
# Not -1: that is found again as the session's timeout, see test_load.py.
rebalances_ms = st.sampled_from([0, 500, 3_000, LONGEST_REBALANCE_MS])
delays_ms = st.sampled_from([0, 500, LONGEST_DELAY_MS])
some = st.sampled_from([6, 6, 6, 2, 1])
"""How many members a leader deals out to: all, or it forgets some."""
sizes = st.sampled_from([1, 2, 3, 3, 4, 6])


def share(members: list[str]) -> list[tuple[str, bytes]]:
    """Deals out the partitions, each to one member."""
    return [
        (member_id, dealt(*range(i, PARTITIONS, len(members))))
        for i, member_id in enumerate(members)
    ]


def dealt(*partitions: int) -> bytes:
    """An assignment of these partitions of one topic."""
    parts = [TopicPartitions("t", partitions)] if partitions else []
    return encode(Assignment(parts), 0)


class Clients(RuleBasedStateMachine):
    """Six clients, an admin, a network that is late, and a broker that restarts."""

    make: type[Context] = Context

    @initialize(
        delay_ms=delays_ms,
        max_size=sizes,
        is_helpful=st.booleans(),
        names=st.sets(clients, max_size=5),
    )
    def begin(
        self, delay_ms: int, max_size: int, is_helpful: bool, names: set[str]
    ) -> None:
        """A coordinator with some delay and some limit, and perhaps a group."""
        self.context = self.make(
            initial_rebalance_delay_ms=delay_ms,
            min_session_timeout_ms=100,
            max_size=max_size,
            is_helpful=is_helpful,
            offsets_retention_ms=60_000,
            offsets_retention_check_interval_ms=10_000,
        )
        self.members = {name: self._member(name) for name in INSTANCES}
        self.late: list[Callable[[], object]] = []
        # Who owns what, by generation; and how much of `assigned` is in it.
        self.owners: dict[int, dict[int, str]] = {}
        self.seen = 0
        self.rebalance(names, "all sync", len(names))

    def _member(self, name: str) -> Member:
        return self.context.member(
            name,
            instance=INSTANCES[name],
            rebalance_ms=LONGEST_REBALANCE_MS,
            requires_id=name != "B",
            skips=name != "D",
            protocols=subscribed("t"),
        )

    # -- clients

    @rule(
        client=clients,
        topic=st.sampled_from(["t", "u"]),
        session_ms=sessions_ms,
        rebalance_ms=rebalances_ms,
    )
    def join(self, client: str, topic: str, session_ms: int, rebalance_ms: int) -> None:
        """Joins under the id that it knows, perhaps with news."""
        self.members[client].join(
            protocols=subscribed(topic),
            session_ms=session_ms,
            rebalance_ms=rebalance_ms,
        )

    @rule(client=clients)
    def enter(self, client: str) -> None:
        """Joins, and joins again if it has to."""
        self.members[client].enter()

    @rule(client=clients, order=st.permutations(["range", "sticky", "own"]))
    def join_with_other_protocols(self, client: str, order: list[str]) -> None:
        """Joins with some protocols in some order."""
        names = order[: 1 + order.index("own")]
        self.members[client].join(
            protocols=[subscribed("t", protocol=n)[0] for n in names]
        )

    @rule(client=clients)
    def crash(self, client: str) -> None:
        """Its process is gone, with all that it knew; another one starts."""
        self.members[client] = self._member(client)

    @rule(client=clients, only=some)
    def sync(self, client: str, only: int) -> None:
        """Syncs; who leads deals out to all that it was told of, or to some only."""
        self._sync(self.members[client], only)

    @rule(
        names=st.sets(clients, max_size=3),
        until=st.sampled_from(["they join", "followers sync", "all sync"]),
        only=some,
    )
    def rebalance(self, names: set[str], until: str, only: int) -> None:
        """Newcomers enter, and who is in does what clients do, up to some point."""
        for name in sorted(names):
            self.members[name].enter()
        if until != "they join":
            self.context.sleep(2 * self.context.settings.initial_rebalance_delay_ms)
        for member in self._current():
            if member.name not in names:
                member.join(protocols=subscribed("t"))
        if until != "they join":
            self.all_sync(until.removesuffix(" sync"), only)

    @rule(who=st.sampled_from(["all", "followers"]), only=some)
    def all_sync(self, who: str, only: int) -> None:
        """Everybody who is in syncs, or everybody but the leader."""
        current = self._current()
        leader = self.context.coordinator.groups["g"].leader if current else None
        for member in current:
            if who == "all" or member.member_id != leader:
                self._sync(member, only)

    @rule(client=clients)
    def heartbeat(self, client: str) -> None:
        """Shows that it is alive."""
        self.members[client].heartbeat()

    @rule(client=clients, as_member=st.booleans(), offset=st.integers(0, 9))
    def commit(self, client: str, offset: int, *, as_member: bool) -> None:
        """Commits, as a member or as a simple consumer."""
        if as_member:
            self.members[client].commit("t", offset)
        else:
            self.context.commit([("u", 0, offset, -1, "")])

    @rule(retention_ms=st.sampled_from([0, 30_000, 90_000]))
    def commit_for_some_time(self, retention_ms: int) -> None:
        """An old client says how long its offset is to be kept."""
        self.context.commit([("v", 0, 1, -1, "")], retention_ms=retention_ms)

    @rule(client=clients)
    def leave(self, client: str) -> None:
        """Leaves, and forgets its id if that worked."""
        member = self.members[client]
        if member.leave() == 0:
            member.member_id = ""

    # -- the network

    @rule(
        client=clients,
        request=st.sampled_from(["join", "sync", "heartbeat", "commit", "leave"]),
    )
    def send_late(self, client: str, request: str) -> None:
        """A request that is under way for long: others come before it."""
        member = self.members[client]
        known: dict[str, object] = {"member_id": member.member_id}
        shares = share([row[0] for row in member.told])
        if request not in {"join", "leave"}:
            known["generation_id"] = member.generation_id
        send: dict[str, Callable[[], object]] = {
            "join": lambda: member.join(**known),
            "sync": lambda: member.sync(shares, **known),
            "heartbeat": lambda: member.heartbeat(**known),
            "commit": lambda: member.commit("t", 5, **known),
            "leave": lambda: member.leave(**known),
        }
        self.late.append(send[request])

    @rule(which=st.integers(0, 9), again=st.booleans())
    def arrive(self, which: int, *, again: bool) -> None:
        """One of those arrives, if any; perhaps it will do so once more."""
        if self.late:
            which %= len(self.late)
            self.late[which]()
            if not again:
                del self.late[which]

    # -- admins, and time

    @rule(
        what=st.sampled_from(
            ["delete group", "delete offsets", "delete topic", "remove i-0"]
        )
    )
    def administer(self, what: str) -> None:
        """An admin does something, if the group's state allows it."""
        if what == "delete group":
            self.context.delete()
        elif what == "delete offsets":
            self.context.delete_offsets(("t", [0]), ("u", [0]))
        elif what == "delete topic":
            self.context.submit(TopicsDeleted(["t"]))
        else:
            self.context.leave(("", "i-0"))

    @rule(ms=st.sampled_from([1, 250, 500, 1_000, 3_000, 20_000, 70_000]))
    def sleep(self, ms: int) -> None:
        """Nobody does anything for some time: members that are away expire."""
        self.context.sleep(ms)

    @rule(max_size=sizes, delay_ms=delays_ms)
    def configure(self, max_size: int, delay_ms: int) -> None:
        """Limits are changed while the coordinator runs."""
        self.context.configure(max_size=max_size, initial_rebalance_delay_ms=delay_ms)

    @rule(max_size=sizes, away_ms=st.sampled_from([0, 30_000]))
    def restart(self, max_size: int, away_ms: int) -> None:
        """The coordinator is started again on its log, perhaps after some time."""
        self.context.now += away_ms / 1000
        self.context.restart(max_size=max_size)

    @rule()
    def move(self) -> None:
        """Another node takes the groups over."""
        self.context.move()

    # -- what a client does by itself

    def _current(self) -> list[Member]:
        group = self.context.coordinator.groups.get("g")
        known = group.members if group is not None else {}
        return [m for m in self.members.values() if m.member_id in known]

    def _sync(self, member: Member, only: int) -> None:
        member.sync(share([row[0] for row in member.told[:only]]))

    # -- what has to hold

    @invariant()
    def nobody_waits_too_long(self) -> None:
        """A request waits for its group's initial windows and rebalance at most."""
        longest = (LONGEST_DELAY_MS + LONGEST_REBALANCE_MS) / 1000
        for pending, since in self.context.waiting.items():
            assert self.context.now - since <= longest, pending

    @invariant()
    def every_partition_has_one_owner(self) -> None:
        """Within a generation, as leaders give each to one; over restarts, too.

        An instance id is one owner, whichever process it is.
        """
        if "g" not in self.context.coordinator.groups:
            self.owners.clear()  # deleted: its generations start over
        for _, generation_id, owner, assignment in self.context.assigned[self.seen :]:
            if not assignment:
                continue
            owners = self.owners.setdefault(generation_id, {})
            parts = decode_assignment(assignment).assigned_partitions
            for partition in (p for part in parts for p in part.partitions):
                assert owners.setdefault(partition, owner) == owner
        self.seen = len(self.context.assigned)

    def teardown(self) -> None:
        """In the end everybody has been answered, and the log tells all."""
        if hasattr(self, "context"):
            self.context.sleep(40_000)
            assert not self.context.waiting
            self.context.restart()


class Lingering(Context):
    """Writes what opens a window only when an answer has to come, or time passes.

    So joins and syncs of any number of clients come between a leader's SyncGroup and
    its record, as they do where they arrive together. Now and then the log refuses it.
    """

    _windows = 0

    def _holds(self, append: Append) -> bool:
        return append.opens_window or bool(self.held)

    def _ask(self, event: Event, pending: Pending[R]) -> Pending[R]:
        if isinstance(event, Sync) and event.assignments:
            # Of two assignments in one window the first one counts, and the log has
            # the second one, in Kafka, too.
            self._end_window()
        super()._ask(event, pending)
        if not isinstance(event, Join | Sync) and not pending.answered:
            self._end_window()
        return pending

    def _end_window(self) -> None:
        if not self.held:
            return
        self._windows += 1
        if self._windows % 5 == 0:
            self.refuse()
        if self.held:
            self.flush()

    def sleep(self, ms: float) -> None:
        """Lets time pass; the window ends with it."""
        super().sleep(ms)
        self._end_window()

    def restart(self, **settings: int) -> None:
        """The coordinator goes; what it has not written is lost."""
        self.held.clear()
        super().restart(**settings)


class LingeringClients(Clients):
    """The same, where requests come before the records of others are written."""

    make = Lingering


TestLingeringClients = LingeringClients.TestCase
TestLingeringClients.settings = settings(
    max_examples=settings().max_examples * FACTOR // 3,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)

TestClients = Clients.TestCase
TestClients.settings = settings(
    max_examples=settings().max_examples * FACTOR,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_printed_script() -> None:
    """What is printed of a failing sequence can be played as it is."""
    script = """
state = Clients()
state.begin(delay_ms=0, is_helpful=True, max_size=2, names={'A'})
state.enter(client='B')
state.all_sync(only=6, who='followers')
state.send_late(client='A', request='heartbeat')
state.restart(away_ms=0, max_size=1)
state.arrive(again=False, which=0)
state.nobody_waits_too_long()
state.every_partition_has_one_owner()
state.teardown()
"""
    played: dict[str, Clients] = {}
    exec(script, {"Clients": Clients}, played)
    state = played["state"]
    assert state.context.assigned[0] == ("g", 1, "A-1", dealt(*range(PARTITIONS)))
