"""A state machine of clients, an admin, the network and the coordinator's process.

After every event `Context` checks the invariants: counters are right; each request is
answered once, or waits with a timer that ends the wait; members that are not waited for
have a session timer; a generation has one leader and keeps within group.max.size;
generations never go down; the log has every offset, pending ones included, and every
group as of its last record.

A failing sequence is printed as a script. To play it, put it below ``from
tests.coordinator.test_machine import Clients``.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.coordinator.context import Context
from tests.coordinator.driver import Pending, R
from tests.coordinator.member import Member, dealt, subscribed

from kohort.broker.coordinator.events import Event, Join, Sync, TopicsDeleted
from kohort.broker.runtime.effects import Append
from kohort.protocol.consumer import decode_assignment

LONGEST_REBALANCE_MS = 8_000
LONGEST_DELAY_MS = 2_000
PARTITIONS = 5
FACTOR = 27 if settings().max_examples >= 50 else 10
"""More sequences than examples of other tests: over 2,000 in the profile "ci"."""

INSTANCES = {"A": None, "B": None, "C": "i-0", "D": "i-0", "E": "i-1", "F": None}
"""Six clients; three of them share two instance ids."""

clients = st.sampled_from(sorted(INSTANCES))
sessions_ms = st.sampled_from([1_000, 5_000, 20_000])
# Not -1: it is restored as the session's timeout, see test_load.py.
rebalances_ms = st.sampled_from([0, 500, 3_000, LONGEST_REBALANCE_MS])
delays_ms = st.sampled_from([0, 500, LONGEST_DELAY_MS])
some = st.sampled_from([6, 6, 6, 2, 1])
"""Number of members that a leader assigns to: all, or only some."""
producers = st.sampled_from([1, 2])
sizes = st.sampled_from([1, 2, 3, 3, 4, 6])


def share(members: list[str]) -> list[tuple[str, bytes]]:
    """Assigns each partition to one member."""
    return [
        (member_id, dealt(*range(i, PARTITIONS, len(members))))
        for i, member_id in enumerate(members)
    ]


class Clients(RuleBasedStateMachine):
    """Six clients, an admin, a slow network, and a broker that restarts."""

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
        """Begins with some delay and limit, and perhaps a group."""
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
        # Owners by generation; and how much of `assigned` is in it.
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
        """Joins under the id that it knows, perhaps with changes."""
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
        """Its process is gone, with all its state; another one starts."""
        self.members[client] = self._member(client)

    @rule(client=clients, only=some)
    def sync(self, client: str, only: int) -> None:
        """Syncs; the leader assigns to all members, or only to some."""
        self._sync(self.members[client], only)

    @rule(
        names=st.sets(clients, max_size=3),
        until=st.sampled_from(["they join", "followers sync", "all sync"]),
        only=some,
    )
    def rebalance(self, names: set[str], until: str, only: int) -> None:
        """Newcomers join, and members act as clients do, up to some step."""
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
        """All members sync, or all except the leader."""
        current = self._current()
        leader = self.context.groups["g"].leader if current else None
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
        """An old client sets the retention time of its offset."""
        self.context.commit([("v", 0, 1, -1, "")], retention_ms=retention_ms)

    @rule(
        client=clients,
        producer_id=producers,
        topics=st.sets(st.sampled_from(["t", "u"]), min_size=1),
        offset=st.integers(10, 19),
        as_member=st.booleans(),
    )
    def commit_in_transaction(
        self,
        client: str,
        producer_id: int,
        topics: set[str],
        offset: int,
        *,
        as_member: bool,
    ) -> None:
        """A producer commits for a member, or as old producers do, for the group."""
        member = self.members[client]
        known = {
            "generation_id": member.generation_id,
            "member_id": member.member_id,
            "instance": member.instance,
        }
        offsets = [(topic, offset) for topic in sorted(topics)]
        self.context.commit_pending(
            producer_id, *offsets, **(known if as_member else {})
        )

    @rule(producer_id=producers, is_commit=st.booleans())
    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """A marker ends a producer's transaction, if it has one."""
        self.context.end_transaction(producer_id, is_commit=is_commit)

    @rule(client=clients)
    def leave(self, client: str) -> None:
        """Leaves, and forgets its id if that succeeded."""
        member = self.members[client]
        if member.leave() == 0:
            member.member_id = ""

    # -- the network

    @rule(
        client=clients,
        request=st.sampled_from(["join", "sync", "heartbeat", "commit", "leave"]),
    )
    def send_late(self, client: str, request: str) -> None:
        """Sends a request that takes long: others arrive before it."""
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
        """One of those requests arrives, perhaps not for the last time."""
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
        """An admin acts, if the group's state allows it."""
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
        """Time passes without requests: absent members expire."""
        self.context.sleep(ms)

    @rule(max_size=sizes, delay_ms=delays_ms)
    def configure(self, max_size: int, delay_ms: int) -> None:
        """Changes limits at run time."""
        self.context.configure(max_size=max_size, initial_rebalance_delay_ms=delay_ms)

    @rule(max_size=sizes, away_ms=st.sampled_from([0, 30_000]))
    def restart(self, max_size: int, away_ms: int) -> None:
        """Restarts the coordinator on its log, perhaps after some time."""
        self.context.restart(away_ms, max_size=max_size)

    @rule()
    def move(self) -> None:
        """Moves the groups to another node."""
        self.context.move()

    # -- power over the group

    @rule(client=clients, verb=st.sampled_from(["kick", "expire", "mute", "unmute"]))
    def command_member(self, client: str, verb: str) -> None:
        """A test commands something about a client's member, if it is one."""
        member_id = self.members[client].member_id
        known: dict[str, Callable[[str], object]] = {
            "kick": self.context.kick,
            "expire": self.context.expire,
            "mute": self.context.mute,
            "unmute": self.context.unmute,
        }
        known[verb](member_id)
        self._wait_anew()

    @rule()
    def trigger(self) -> None:
        """A test triggers a rebalance."""
        self.context.trigger()

    @rule(max_size=st.none() | sizes)
    def limit(self, max_size: int | None) -> None:
        """A test limits the group."""
        self.context.limit(max_size)

    @rule(
        state=st.sampled_from([None, "PreparingRebalance", "CompletingRebalance"]),
        ms=st.sampled_from([0, 0, 500, 20_000]),
    )
    def hold(self, state: str | None, ms: int) -> None:
        """A test holds the group, perhaps for some time without requests."""
        self.context.hold(state)
        self.context.sleep(ms)
        self._wait_anew()

    @rule()
    def release(self) -> None:
        """A test releases the group."""
        self.context.release()
        self._wait_anew()

    def _wait_anew(self) -> None:
        """Restarts the measured waits of requests."""
        for pending in self.context.waiting:
            self.context.waiting[pending] = self.context.now

    # -- clients' usual behaviour

    def _current(self) -> list[Member]:
        group = self.context.groups.get("g")
        known = group.members if group is not None else {}
        return [m for m in self.members.values() if m.member_id in known]

    def _sync(self, member: Member, only: int) -> None:
        member.sync(share([row[0] for row in member.told[:only]]))

    # -- invariants

    @invariant()
    def nobody_waits_too_long(self) -> None:
        """A request waits at most for its group's initial windows and rebalance.

        Except in a group that is held, and for members that count as gone.
        """
        longest = (LONGEST_DELAY_MS + LONGEST_REBALANCE_MS) / 1000
        group = self.context.groups.get("g")
        if group is None or self.context.lasting.holds.get("g") is group.state:
            return
        muted = [member for member in group.members.values() if member.is_muted]
        unheard = {member.join_token for member in muted}
        for pending, since in self.context.waiting.items():
            if pending not in unheard:
                assert self.context.now - since <= longest, pending

    @invariant()
    def every_partition_has_one_owner(self) -> None:
        """Each partition has one owner within a generation, also over restarts.

        An instance id is one owner, whichever process has it.
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
        """In the end all requests are answered, and the log is complete."""
        if hasattr(self, "context"):
            self.context.release()
            for member in self.members.values():
                self.context.unmute(member.member_id)
            self.context.sleep(40_000)
            assert not self.context.waiting
            self.context.restart()


class Lingering(Context):
    """Writes an append that opens a window only before an answer, or when time passes.

    So joins and syncs of any number of clients arrive between a leader's SyncGroup and
    its record, as they do when they arrive together. Sometimes the log refuses it.
    """

    _windows = 0

    def _holds(self, append: Append) -> bool:
        return append.opens_window or bool(self.held)

    def ask(self, event: Event, pending: Pending[R]) -> Pending[R]:
        """Submits a request; ends the window of appends if the reply waits for it."""
        if isinstance(event, Sync) and event.assignments:
            # As in Kafka, of two assignments in one window the first counts, and the
            # log has the second.
            self._end_window()
        super().ask(event, pending)
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

    def restart(self, away_ms: int = 0, **settings: int) -> None:
        """Replaces the coordinator; its unwritten records are lost."""
        self.held.clear()
        super().restart(away_ms, **settings)


class LingeringClients(Clients):
    """The same, with requests that arrive before the records of others are written."""

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
    """The script of a failing sequence can be played as printed."""
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
