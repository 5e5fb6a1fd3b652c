"""A rolling restart of three members: the same script in each protocol.

The script keeps a stopwatch of its own: who reads which partition, from which moment.
Accounts, `kohort why` and metrics have the same partition-seconds, so they rank the
three ways as the stopwatch does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Final

import pytest
from tests.coordinator.consumer.context import Scene
from tests.coordinator.consumer.member import Consumer
from tests.coordinator.context import Context
from tests.coordinator.member import Member
from tests.events.build import SECOND, accounted, recorded
from tests.events.consumers import COOPERATIVE, EAGER, consumer, divide
from tests.events.test_metrics_agree import counted

from kohort.broker.events.account.values import Event
from kohort.broker.notice import Notice
from kohort.control.why import history

AWAY_S: Final = 1.5
"""How long a process needs to restart."""
NOTICED_S: Final = 0.5
"""How long the others need to notice a rebalance: their next heartbeat."""
DIVIDED_S: Final = 0.1
"""How long the leader needs for an assignment."""
APART_S: Final = 6.0
SHARES: Final = {"a": (0, 1), "b": (2, 3), "c": (4, 5)}


class Watched(Context):
    """A coordinator, and a stopwatch of its members' partitions.

    Attributes:
        unread_s: partition-seconds without a reader.
    """

    def __init__(self, way: str) -> None:
        super().__init__()
        self.unread_s = 0.0
        self._way = way
        self._readers: dict[int, str] = {}
        self._since: dict[int, float] = {}
        self._running: dict[str, Member] = {}

    # -- the stopwatch

    def reads(self, name: str, partitions: Collection[int]) -> None:
        """A member reads these, and nothing else."""
        self.stops(p for p, who in [*self._readers.items()] if who == name)
        for partition in partitions:
            self._readers[partition] = name
            self.unread_s += self.now - self._since.pop(partition, self.now)

    def stops(self, partitions: Iterable[int]) -> None:
        """These have no reader from now on."""
        for partition in partitions:
            del self._readers[partition]
            self._since[partition] = self.now

    def _of(self, name: str) -> list[int]:
        return [p for p, who in self._readers.items() if who == name]

    # -- the members

    def passes(self, seconds: float) -> None:
        """Time passes, with a heartbeat of each member every half a second."""
        for _ in range(round(seconds / 0.5)):
            self.sleep(500)
            for member in self._running.values():
                member.heartbeat()

    def start(self, name: str) -> Member:
        """A process begins."""
        protocol = COOPERATIVE if self._way == "cooperative" else EAGER
        instance = f"i-{name}" if self._way == "static" else None
        member = consumer(self, name, protocol, instance=instance)
        self._running[name] = member
        member.enter()
        return member

    def stop(self, name: str) -> None:
        """A process ends: it leaves, or closes its connection if it is static."""
        member = self._running.pop(name)
        if self._way != "static":
            member.leave()
        else:
            identity = self.groups["g"].members[member.member_id].identity
            fields = {"cause": "closed"}
            notice = Notice("member_disconnected", "g", 1, identity, fields)
            self.notices.append(notice)
            self._noticed_at.append(self.now)
        self.stops(self._of(name))

    def rebalance(self, shares: Mapping[str, Sequence[int]]) -> None:
        """All running members join and sync: the assignment takes a while."""
        for name, member in self._running.items():
            member.join()
            if self._way == "eager":
                self.stops(self._of(name))
        self.sleep(round(DIVIDED_S * 1000))
        leader = self.groups["g"].leader
        pairs = [(self._running[name], share) for name, share in shares.items()]
        divide(*sorted(pairs, key=lambda pair: pair[0].member_id != leader))
        for name, share in shares.items():
            self.reads(name, [p for p in share if self._readers.get(p) in {None, name}])

    def bounce(self, name: str) -> None:
        """A process ends, and begins again."""
        first, second = (other for other in SHARES if other != name)
        shares = {first: SHARES[first], second: SHARES[second]}
        self.stop(name)
        if self._way == "static":
            self.passes(AWAY_S)
            self.start(name).sync()
            self.reads(name, SHARES[name])
            return
        mine = SHARES[name]
        self.passes(NOTICED_S)
        self.rebalance({o: (*shares[o], p) for o, p in zip(shares, mine, strict=True)})
        self.passes(AWAY_S - NOTICED_S)
        self.start(name)
        self.passes(NOTICED_S)
        if self._way == "cooperative":
            self.rebalance({**shares, name: ()})
            self.passes(NOTICED_S)
        self.rebalance({**shares, name: mine})

    def play(self) -> list[Event]:
        """The whole script; returns its events."""
        for name in SHARES:
            self.start(name)
        self._running["a"].join()
        divide(*((self._running[name], SHARES[name]) for name in SHARES))
        for name, share in SHARES.items():
            self.reads(name, share)
        for name in SHARES:
            self.passes(APART_S)
            self.bounce(name)
        self.passes(APART_S)
        for name in [*self._running]:
            self.stop(name)
        self.sleep(60_000)
        return stopped(self)


class WatchedConsumers(Scene):
    """The same script in a consumer group: members learn of all by their heartbeats.

    The stopwatch goes by the answers to heartbeats: a member reads the partitions of
    its latest assignment, from the moment it gets it.

    Attributes:
        unread_s: partition-seconds without a reader.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unread_s = 0.0
        self._reads: dict[str, set[int]] = {}
        self._since: dict[int, float] = {}
        self._running: dict[str, Consumer] = {}

    def _looks(self) -> None:
        """Compares the members' assignments with those of the last look."""
        for name, member in self._running.items():
            now = {*member.assigned.get("t", ())}
            before = self._reads.get(name, set())
            self._since.update(dict.fromkeys(before - now, self.now))
            for partition in now - before:
                self.unread_s += self.now - self._since.pop(partition, self.now)
            self._reads[name] = now

    def passes(self, seconds: float) -> None:
        """Time passes, with a heartbeat of each member every half a second."""
        for _ in range(round(seconds / NOTICED_S)):
            self.sleep(round(NOTICED_S * 1000))
            for member in self._running.values():
                member.settle()
                self._looks()

    def stop(self, name: str) -> None:
        """A process ends: it leaves."""
        self._running.pop(name).leave()
        self._since.update(dict.fromkeys(self._reads.pop(name), self.now))

    def start(self, name: str) -> None:
        """A process begins."""
        self._running[name] = self.consumer(name, "t")
        self._running[name].join()
        self._looks()

    def play(self) -> list[Event]:
        """The whole script; returns its events."""
        self.topic(partitions=6)
        for name in SHARES:
            self.start(name)
        for name in SHARES:
            self.passes(APART_S)
            self.stop(name)
            self.passes(AWAY_S)
            self.start(name)
        self.passes(APART_S)
        for name in [*self._running]:
            self.stop(name)
        self.sleep(60_000)
        return stopped(self)


def stopped(context: Context) -> list[Event]:
    """The events of a context, and the stop of its broker."""
    events = recorded(context)
    stop = {"kind": "node_stopped", "group": None, "member_id": None}
    return [*events, {**events[-1], **stop, "sequence": len(events) + 1}]


WAYS: Final = ("eager", "cooperative", "static", "consumer")


@cache
def played(way: str) -> tuple[float, list[Event], Context]:
    """The stopwatch's partition-seconds, the events, and the coordinator."""
    context = WatchedConsumers() if way == "consumer" else Watched(way)
    events = context.play()
    return context.unread_s, events, context


@pytest.mark.parametrize("way", WAYS)
def test_downtime_is_that_of_the_stopwatch(way: str) -> None:
    """In `why`, from accounts in the stream or computed anew, and in metrics."""
    unread_s, events, context = played(way)
    for stream in (events, accounted(events)):
        found = history(stream, "g")
        assert found.unread_ns / SECOND == pytest.approx(unread_s, abs=1e-3)
        assert f"for {unread_s:.1f} partition-seconds" in found.summary()
    seconds = counted(context).of("g").unread_seconds
    assert sum(seconds.values()) == pytest.approx(unread_s, abs=1e-3)


def test_the_ways_rank_as_the_stopwatch_ranks_them() -> None:
    """By the script: a member's 2 partitions, the others' 4, all 6 in a pause."""
    ways = WAYS[:-1]
    times = {way: played(way)[0] for way in ways}
    pause_s = (4 + 6) * DIVIDED_S
    given_s = 2 * (NOTICED_S + DIVIDED_S)
    assert times == pytest.approx(
        {
            "eager": 3 * (given_s + pause_s),
            "cooperative": 3 * 2 * given_s,
            "static": 3 * 2 * AWAY_S,
        }
    )
    assert sorted(ways, key=lambda way: times[way]) == [*ways]
