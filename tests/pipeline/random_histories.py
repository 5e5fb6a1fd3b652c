"""Random histories of a group: the events of the real coordinator.

Clients, an admin, the network and the coordinator's process do anything, as in
tests/coordinator/test_machine.py; a seed decides.
"""

from __future__ import annotations

import random
from typing import Any

from tests.coordinator.member import Member, subscribed
from tests.coordinator.test_machine import INSTANCES, Clients
from tests.events.build import recorded

Event = dict[str, Any]
ASSIGNORS = ("range", "range", "cooperative-sticky")
STEPS = 45
HASTY = "BEF"
"""Their sessions are over soon, and those of others are not."""


class _Play(Clients):
    """The same clients, of one assignor, and commits of several partitions."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.dice = random.Random(seed)
        self.assignor = self.dice.choice(ASSIGNORS)

    def _member(self, name: str) -> Member:
        member = super()._member(name)
        member.protocols = subscribed("t", protocol=self.assignor)
        if name in HASTY:
            member.session_ms = 2_000
        return member

    def step(self) -> None:
        """One random action."""
        what = self.dice.choice(
            [
                *("enter", "rebalance", "rebalance", "rebalance", "sync", "all_sync"),
                *("commit",) * 6,
                *("leave", "crash", "news"),
                *("sleep", "sleep", "late", "arrive", "move", "administer"),
                *("heartbeat", "configure", "restart", "restart"),
            ]
        )
        client = self.dice.choice(sorted(INSTANCES))
        if what in {"enter", "heartbeat", "leave", "crash"}:
            getattr(self, what)(client)
        elif what in {"sleep", "late", "arrive", "move", "administer", "configure"}:
            self._around(self.dice, what, client)
        else:
            self._work(self.dice, what, client)

    def _around(self, dice: random.Random, what: str, client: str) -> None:
        """Time, the network, an admin, or another coordinator."""
        if what == "sleep":
            self.sleep(dice.choice([1, 250, 500, 3_000, 20_000]))
        elif what == "late":
            self.send_late(client, dice.choice(["join", "sync", "commit", "leave"]))
        elif what == "arrive":
            self.arrive(which=dice.randrange(9), again=dice.random() < 0.3)
        elif what == "move":
            # It takes some time: nodes have no order within one moment.
            self.sleep(1)
            self.move()
            self.sleep(1)
        elif what == "administer":
            self.administer(dice.choice(["delete offsets", "remove i-0"]))
        else:
            self.configure(max_size=dice.choice([2, 4, 6]), delay_ms=0)

    def _work(self, dice: random.Random, what: str, client: str) -> None:
        """Actions of clients."""
        member = self.members[client]
        if what == "rebalance":
            self._rebalance(dice)
        elif what == "commit":
            self._commit(dice, member)
        elif what == "news":
            protocols = subscribed(dice.choice("tu"), protocol=self.assignor)
            member.join(protocols=protocols, rebalance_ms=dice.choice([0, 500, 3_000]))
        elif what == "restart":
            name = dice.choice([n for n, instance in INSTANCES.items() if instance])
            self.crash(name)
            self.enter(name)
        elif what == "sync":
            self.sync(client, 6)
        else:
            self.all_sync(dice.choice(["all", "followers"]), dice.choice([6, 6, 2]))

    def _rebalance(self, dice: random.Random) -> None:
        """New members join and present ones act, in some time."""
        for name in dice.sample(sorted(INSTANCES), dice.randrange(3)):
            self.members[name].enter()
        for member in self._current():
            if dice.random() < 0.9:
                self.sleep(dice.choice([0, 0, 10, 700]))
                member.join()
        if dice.random() < 0.2:
            return
        self.all_sync("followers", 6)
        self.sleep(dice.choice([0, 40]))
        self.all_sync("all", dice.choice([6, 6, 6, 2]))

    def _commit(self, dice: random.Random, member: Member) -> None:
        """Some commits of some partitions, by a member or by an admin."""
        who: dict[str, Any] = {
            "generation_id": member.generation_id,
            "member_id": member.member_id,
            "instance": member.instance,
        }
        for _ in range(dice.choice([1, 2, 5])):
            offsets = [
                (dice.choice("tu"), partition, dice.randrange(40), -1, "")
                for partition in dice.sample(range(3), dice.randrange(1, 4))
            ]
            self.context.commit(offsets, **({} if dice.random() < 0.1 else who))
            self.sleep(dice.choice([0, 0, 20]))


def history(seed: int) -> list[Event]:
    """The events of group g, from one coordinator or from several in turn.

    Each move is to another node. Most commits have the end of the log.
    """
    play = _Play(seed)
    play.begin(
        delay_ms=play.dice.choice([0, 0, 500]),
        is_helpful=True,
        max_size=6,
        names={"A", "C"},
    )
    for _ in range(STEPS):
        play.step()
    if seed % 2:
        play.context.sleep(40_000)
    return _told(play.dice, recorded(play.context, run=f"history-{seed}"))


def _told(dice: random.Random, events: list[Any]) -> list[Event]:
    node, numbers, told = 0, [0, 0], []
    for event in events:
        if event["kind"] == "group_loaded":
            node = 1 - node
        numbers[node] += 1
        told.append({**event, "node": node, "sequence": numbers[node]})
        if event["kind"] in {"offsets_committed", "commit_refused"}:
            told[-1]["offsets"] = [
                {**row, "end_offset": _end(dice, row["offset"])}
                for row in (event["offsets"] if dice.random() < 0.95 else ())
            ]
    return told


def _end(dice: random.Random, offset: int) -> int | None:
    return None if dice.random() < 0.1 else offset + dice.randrange(-2, 9)
