"""Whatever clients do, and in whatever order, some things hold.

`Context` checks after every event that counters count right, that requests
only wait while a timer runs that ends the wait, that members that are not
waited for have a session timer, that each request is answered once, that a
generation has one leader and keeps within group.max.size, and that generations
never go down. Here clients do anything, and the log is checked, too.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.coordinator.context import Context, Member, assign, subscribed

from kohort.broker.coordinator.effects import GroupRecord, GroupTombstone, Record

MAX_SIZE = 3
LONGEST_REBALANCE_MS = 8_000
LONGEST_DELAY_MS = 2_000
CLIENTS = 6

clients = st.integers(0, CLIENTS - 1)
sessions_ms = st.sampled_from([1_000, 5_000, 20_000])
rebalances_ms = st.sampled_from([-1, 500, 3_000, LONGEST_REBALANCE_MS])


class Log:
    """What is found again by reading the records."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupRecord | None] = {}
        self.offsets: dict[tuple[str, str, int], object] = {}
        self.read = 0

    def replay(self, records: list[Record]) -> None:
        """Reads on."""
        for record in records[self.read :]:
            if isinstance(record, GroupRecord):
                self.groups[record.group_id] = record
            elif isinstance(record, GroupTombstone):
                del self.groups[record.group_id]
            elif record.entry is None:
                del self.offsets[record.group_id, record.topic, record.partition]
            else:
                self.groups.setdefault(record.group_id, None)
                key = record.group_id, record.topic, record.partition
                self.offsets[key] = record.entry
        self.read = len(records)


class Clients(RuleBasedStateMachine):
    """Six clients that share two instance ids, and an admin."""

    def __init__(self) -> None:
        super().__init__()
        self.log = Log()

    @initialize(delay_ms=st.sampled_from([0, 500, LONGEST_DELAY_MS]))
    def begin(self, delay_ms: int) -> None:
        """A coordinator with some delay."""
        self.context = Context(
            initial_rebalance_delay_ms=delay_ms,
            min_session_timeout_ms=100,
            max_size=MAX_SIZE,
            offsets_retention_ms=60_000,
            offsets_retention_check_interval_ms=10_000,
        )
        self.members = [
            self.context.member(
                f"C{i}",
                instance=(None, None, "i-0", "i-0", "i-1", None)[i],
                requires_id=i != 1,
                skips=i != 3,
                protocols=subscribed("t"),
            )
            for i in range(CLIENTS)
        ]

    @rule(
        client=clients,
        metadata=st.sampled_from(["t", "u"]),
        session_ms=sessions_ms,
        rebalance_ms=rebalances_ms,
    )
    def join(
        self, client: int, metadata: str, session_ms: int, rebalance_ms: int
    ) -> None:
        """Joins under the id that it knows, perhaps with news."""
        self.members[client].join(
            protocols=subscribed(metadata),
            session_ms=session_ms,
            rebalance_ms=rebalance_ms,
        )

    @rule(client=clients)
    def enter(self, client: int) -> None:
        """Joins, and joins again if it has to."""
        self.members[client].enter()

    @rule(client=clients, order=st.permutations(["range", "sticky", "own"]))
    def join_with_other_protocols(self, client: int, order: list[str]) -> None:
        """Joins with some protocols in some order."""
        names = order[: 1 + order.index("own")]
        self.members[client].join(
            protocols=[subscribed("t", protocol=n)[0] for n in names]
        )

    @rule(client=clients)
    def restart(self, client: int) -> None:
        """Forgets its id, as a process does that is started again."""
        self.members[client].member_id = ""

    @rule(client=clients)
    def sync(self, client: int) -> None:
        """Syncs; who leads brings assignments for all that it knows of."""
        member = self.members[client]
        member.sync(assign(*self._current()))

    @rule(ms=st.sampled_from([0, 2 * LONGEST_DELAY_MS]))
    def all_join(self, ms: int) -> None:
        """Everybody who is in joins, as on a rebalance; perhaps until it is over."""
        for member in self._current():
            member.join(protocols=subscribed("t"))
        self.context.sleep(ms)

    @rule(leader_too=st.booleans())
    def all_sync(self, *, leader_too: bool) -> None:
        """Everybody who is in syncs, or everybody but the leader."""
        current = self._current()
        leader = self.context.coordinator.groups["g"].leader if current else None
        for member in current:
            if leader_too or member.member_id != leader:
                member.sync(assign(*current))

    @rule(client=clients)
    def heartbeat(self, client: int) -> None:
        """Shows that it is alive."""
        self.members[client].heartbeat()

    @rule(client=clients, generation_known=st.booleans(), offset=st.integers(0, 9))
    def commit(self, client: int, offset: int, *, generation_known: bool) -> None:
        """Commits, as a member or as a simple consumer."""
        member = self.members[client]
        if generation_known:
            member.commit("t", offset)
        else:
            self.context.commit([("u", 0, offset, -1, "")])

    @rule(client=clients)
    def leave(self, client: int) -> None:
        """Leaves, and forgets its id if that worked."""
        member = self.members[client]
        if member.leave() == 0:
            member.member_id = ""

    @rule()
    def delete(self) -> None:
        """An admin deletes the group, if nobody is in."""
        self.context.delete()

    @rule()
    def delete_offsets(self) -> None:
        """An admin deletes offsets of what nobody consumes."""
        self.context.delete_offsets(("t", [0]), ("u", [0]))

    @rule(ms=st.sampled_from([1, 250, 1_000, 3_000, 20_000, 70_000]))
    def sleep(self, ms: int) -> None:
        """Nobody does anything for some time."""
        self.context.sleep(ms)

    def _current(self) -> list[Member]:
        group = self.context.coordinator.groups.get("g")
        known = group.members if group is not None else {}
        return [m for m in self.members if m.member_id in known]

    @invariant()
    def nobody_waits_too_long(self) -> None:
        """A request waits for its group's initial windows and rebalance at most."""
        longest = (LONGEST_DELAY_MS + LONGEST_REBALANCE_MS) / 1000
        # Unless told otherwise a client of `Context` has 30 s for a rebalance.
        longest = max(longest, 30.0 + LONGEST_DELAY_MS / 1000)
        for pending, since in self.context.waiting.items():
            assert self.context.now - since <= longest, pending

    @invariant()
    def the_log_knows_what_counts(self) -> None:
        """Offsets, groups, and what Stable or Empty ones are, can be read there."""
        self.log.replay(self.context.records)
        groups = self.context.coordinator.groups
        assert self.log.groups.keys() == groups.keys()
        assert self.log.offsets == {
            (group_id, *key): entry
            for group_id, group in groups.items()
            for key, entry in group.offsets.items()
        }
        for group_id, group in groups.items():
            written = self.log.groups[group_id]
            if written is not None and group.state in ("Stable", "Empty"):
                # A follower's answer to an unchanged join changes nothing.
                assert written.generation_id == group.generation_id
                assert written.leader == group.leader
                assert [m[0] for m in written.members] == list(group.members)
                assert [m[7] for m in written.members] == [
                    m.assignment for m in group.members.values()
                ]

    def teardown(self) -> None:
        """In the end everybody has been answered."""
        if hasattr(self, "context"):
            self.context.sleep(40_000)
            assert not self.context.waiting


TestClients = Clients.TestCase
TestClients.settings = settings(
    max_examples=500,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
