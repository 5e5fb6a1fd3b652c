"""Invariants of members, under random sequences of events.

`World` checks after every event that no partition has two owners, and that calls of a
listener are in order and about partitions that it knows. Here processes start, stop
and crash, the network loses messages, and the coordinator restarts. Afterwards the
group settles: its members agree, and each partition has an owner. At the end every
membership ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.group.member_world import COOPERATIVE, EAGER, Client, World

from kohort.client.group.events import MetadataChanged, RebalanceEnforced, Unsubscribed

MODES: dict[str, list[tuple[str, ...]]] = {
    "first step": [(EAGER,), (COOPERATIVE, EAGER)],
    "second step": [(COOPERATIVE, EAGER), (COOPERATIVE,)],
}
"""The assignors of members during a migration to cooperative. The swarm has groups of
one assignor."""

MOST = 6
EXAMPLES = 150 if settings().max_examples >= 50 else 5
"""Sequences of each mode, which take a fifth of a second each; more with profile ci."""

CALM_MS = 420_000
"""By then crashed members have expired, a new member's first join included."""
QUIET_MS = 40_000
"""A group without a rebalance for this time, and without crashed members, has settled.
It is longer than any session, any request and the time between two polls."""

TOPICS: list[list[str]] = [["t"], ["t", "u"], ["t"], ["u"], []]
INSTANCES: list[str | None] = [None, None, None, "i-0", "i-1"]


class Storm:
    """Members, their network, and a coordinator that restarts.

    An action takes two numbers: one chooses the member, the other a variant.
    """

    def __init__(self, seed: int, mode: str, delay_ms: int, latency_ms: int) -> None:
        self.world = World(seed, initial_rebalance_delay_ms=delay_ms)
        self.world.latency_ms = latency_ms
        self.offered = MODES[mode]
        self.started = 0
        self.actions: dict[str, Callable[[int, int], None]] = {
            "start": self.start,
            "end": self.end,
            "resubscribe": self.resubscribe,
            "slow down": self.slow_down,
            "stall": self.stall,
            "poll": lambda which, _: self.one(which).poll(),
            "enforce": self.enforce,
            "repartition": self.repartition,
            "network": self.network,
            "cut off": self.cut_off,
            "coordinator": self.coordinator,
            "run": self.run,
        }

    def living(self) -> list[Client]:
        """The running processes."""
        return [c for c in self.world.clients if not c.is_dead and not c.has_ended]

    def one(self, which: int) -> Client:
        """One of them; there always is one."""
        if not self.living():
            self.start(which, 0)
        living = self.living()
        return living[which % len(living)]

    def start(self, which: int, choice: int) -> None:
        """Starts a process, perhaps in place of another one."""
        if len(self.living()) < MOST:
            self.started += 1
            client = self.world.client(
                f"c{self.started}",
                *self.offered[which % len(self.offered)],
                instance=INSTANCES[which % len(INSTANCES)],
            )
            client.subscribe(*TOPICS[choice % len(TOPICS)])

    def end(self, which: int, choice: int) -> None:
        """Crashes a process, or closes a consumer."""
        if choice % 3 == 0:
            self.one(which).crash()
        else:
            self.one(which).close(leaves=[None, None, True, False][choice % 4])

    def resubscribe(self, which: int, choice: int) -> None:
        """Changes a subscription, perhaps to nothing."""
        if choice % 4 == 0:
            self.one(which).submit(Unsubscribed())
        else:
            self.one(which).subscribe(*TOPICS[choice % len(TOPICS)])

    def slow_down(self, which: int, choice: int) -> None:
        """Delays a listener and an assignor."""
        client = self.one(which)
        client.listener_ms = client.assigning_ms = [0, 20, 400][choice % 3]

    def stall(self, which: int, choice: int) -> None:
        """Stops an application's polls, or pauses them."""
        client = self.one(which)
        client.stall()
        if choice % 2:
            self.world.after(choice * 700, client.poll)

    def enforce(self, which: int, _: int) -> None:
        """Asks for a rebalance."""
        self.one(which).submit(RebalanceEnforced("the application asked for it"))

    def repartition(self, which: int, choice: int) -> None:
        """Creates, grows or deletes a topic."""
        self.world.set_partitions(**{"tu"[which % 2]: choice % 8})

    def network(self, which: int, choice: int) -> None:
        """Breaks connections from now on, or stops doing so."""
        self.world.is_down = which % 5 == 0
        self.world.loss = [0.0, 0.1, 0.5][choice % 3]

    def cut_off(self, which: int, choice: int) -> None:
        """Partitions one process from the network; another may take its place."""
        client = self.one(which)
        client.is_cut_off = choice % 3 > 0

    def coordinator(self, which: int, _: int) -> None:
        """Restarts the coordinator, or moves it: pending requests are answered."""
        if which % 2:
            self.world.restart()
        else:
            self.world.context.move()

    def run(self, _: int, choice: int) -> None:
        """Advances the time."""
        self.world.run([100, 600, 3_000, 3_000, 12_000, 40_000][choice % 6])

    def settle(self) -> None:
        """Advances the time until only heartbeats are sent."""
        world = self.world
        for _ in range(CALM_MS // QUIET_MS):
            before = world.context.invariants.generations.get("g")
            world.run(QUIET_MS)
            group = world.context.coordinator.groups.get("g")
            living = {c.member.member_id for c in self.living()}
            if group is None or (
                group.state in {"Stable", "Empty"}
                and group.generation_id == before
                and group.members.keys() <= living
            ):
                return

    def calm_down(self) -> None:
        """Ends the storm: the group settles, then all processes end."""
        world = self.world
        world.loss = 0.0
        world.is_down = False
        for client in self.living():
            client.is_cut_off = False
            client.poll()
            # Partitioned members learn of changes now.
            client.submit(MetadataChanged(world.partitions))
        self.settle()
        if any(c.member.config.group_instance_id for c in world.clients):
            # As in Kafka, the new subscription of a returning static member, and
            # changes that it missed as the leader, count from the next rebalance.
            for client in self.living():
                client.submit(RebalanceEnforced("for returned members"))
            self.settle()
        assert not [c for c in self.living() if c.failure], "failed members end"
        world.check_settled()
        for client in self.living():
            client.close()
        world.run(5_000)
        for client in world.clients:
            assert client.is_dead or client.has_ended


numbers = st.integers(0, 23)
NAMES = sorted(Storm(0, "first step", 0, 0).actions)
# More weight for passing time and starting processes.
actions = st.sampled_from([*NAMES, "start", "run", "run", "run"])


@pytest.mark.parametrize("mode", MODES)
@given(
    seed=st.integers(0, 2**16),
    delay_ms=st.sampled_from([0, 500]),
    latency_ms=st.sampled_from([0, 5, 200]),
    script=st.lists(st.tuples(actions, numbers, numbers), min_size=30, max_size=60),
)
@settings(max_examples=EXAMPLES)
def test_storm(
    mode: str,
    seed: int,
    delay_ms: int,
    latency_ms: int,
    script: Sequence[tuple[str, int, int]],
) -> None:
    """After any storm the group settles, and its members' sessions end."""
    storm = Storm(seed, mode, delay_ms, latency_ms)
    for name, which, choice in script:
        storm.actions[name](which, choice)
    storm.calm_down()
