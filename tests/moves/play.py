"""One move test: three groups consume while their coordinators and nodes move."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.long_runs import hold, play
from tests.long_runs.cluster import Cluster
from tests.long_runs.harness import Harness, LoadReport
from tests.long_runs.load import Group, Load, consumer_config
from tests.workers.libraries import AIOKAFKA, CONFLUENT, KAFKA_PYTHON

TOPIC = "moves"
PARTITIONS = 12
REPLICAS = 3
MEMBERS = 5
NODES = (1, 2, 3)
STATIC = 2
"""Static members of each group (KIP-345)."""
SESSION_MS = 10_000
"""If a coordinator stops during a rebalance, the fact that a member left is lost: the
next one waits for that member this long."""
CONFIG = {"group.initial.rebalance.delay.ms": "0", **consumer_config(SESSION_MS)}


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a play.

    Attributes:
        moves: number of moves of coordinators and stops of nodes.
        seed: of all random choices.
        folder: for logs; stays.
    """

    moves: int
    seed: int
    folder: Path


@dataclass(slots=True)
class Report(LoadReport):
    """Result of a play.

    Attributes:
        done: by kind: moves of coordinators and partitions, stops, starts.
        ways: number of commands each way.
        generations: by group, the first and the last one.
    """

    done: Counter[str] = field(default_factory=Counter)
    ways: dict[str, int] = field(default_factory=dict)
    generations: dict[str, tuple[int, int]] = field(default_factory=dict)


def start_load(load: Load) -> None:
    """Two producers, and three groups of five members of one library each.

    One is a consumer group, two are classic ones.
    """
    load.produce(CONFLUENT, c={"window": 24, "compression.type": "lz4"})
    load.produce(AIOKAFKA, a={"window": 12})
    for library, assignor in (
        (CONFLUENT, "uniform"),
        (AIOKAFKA, "sticky"),
        (KAFKA_PYTHON, "range"),
    ):
        members: dict[str, dict[str, Any]] = {
            f"{library.name}-{number}": {"session": SESSION_MS}
            for number in range(MEMBERS)
        }
        for number, words in enumerate([*members.values()][:STATIC]):
            words["instance"] = f"instance-{number}"
        load.consume(
            library,
            f"group-{library.name}",
            assignor,
            is_consumer=assignor == "uniform",
            **members,
        )


class Play:
    """The harness: one cluster, one load.

    Args:
        settings: of the play.
        progress: called with a line now and then.
    """

    def __init__(self, settings: Settings, progress: Callable[[str], None]) -> None:
        self._settings = settings
        self._progress = progress
        self._draw = random.Random(settings.seed)
        self.report = Report()
        self._cluster = Cluster(settings.folder, self._draw, CONFIG)
        served = self._cluster.served
        self._harness = Harness(served, settings.folder, TOPIC, PARTITIONS)
        self._stopped: list[int] = []

    def play(self) -> Report:
        """Runs the whole test; violations are in the report."""
        play(self.report, self._play, self._harness.close)
        self.report.ways = self._cluster.ways
        return self.report

    def _play(self) -> None:
        harness = self._harness
        self._cluster.start()
        harness.queries.create_topic(TOPIC, PARTITIONS, REPLICAS)
        start_load(harness.load)
        harness.begin()
        first = harness.settle()
        moves = self._settings.moves
        for done in range(1, moves + 1):
            harness.until_commits(harness.names)
            self._move()
            self._check()
            if done % max(1, moves // 10) == 0:
                commits = harness.witness.now_committed().total()
                self._progress(f"{done} moves: {commits} commits")
        while self._stopped:
            self._start_one()
        last = harness.settle()
        harness.until_members_commit()
        self.report.generations = {
            name: (first[name].generation, last[name].generation) for name in first
        }
        sent = harness.stop_producers()
        self._check()
        harness.settle()
        harness.stop_members()
        harness.end(sent, self.report)

    def _check(self) -> None:
        """Checks that commits acknowledged before the move are still there."""
        hold([*self._harness.lost_commits(), *self._cluster.served.faults()])

    # -- moves

    def _move(self) -> None:
        """Makes one move that counts, sometimes after others that do not.

        One node is stopped at a time: a client that cannot go back to its bootstrap
        servers (KIP-899), such as aiokafka, is lost when all its known nodes are
        stopped, and it does not know nodes that were stopped at its last Metadata.
        """
        if self._stopped and self._draw.random() < 0.6:
            self._start_one()
        if self._draw.random() < 0.3:
            self._move_partition()
        running = [node for node in NODES if node not in self._stopped]
        if not self._stopped and self._draw.random() < 0.4:
            node = self._draw.choice(running)
            self._cluster.stop_node(node)
            self._stopped.append(node)
            self.report.done["node stopped"] += 1
            return
        chosen = self._draw.choice(self._harness.load.groups)
        group = chosen.name
        if self._draw.random() < 0.25:
            self._unsettle(chosen)
        now = self._harness.queries.coordinator(group)
        others = [node for node in running if node != now]
        self._cluster.move_group(group, self._draw.choice(others))
        self.report.done["coordinator moved"] += 1

    def _unsettle(self, group: Group) -> None:
        """Makes a member leave and rejoin: the next move happens during a rebalance."""
        self._harness.unsettle(group, self._draw.randrange(STATIC, MEMBERS))
        self.report.done["member replaced"] += 1

    def _start_one(self) -> None:
        node = self._draw.choice(self._stopped)
        self._cluster.start_node(node)
        self._stopped.remove(node)
        self.report.done["node started"] += 1

    def _move_partition(self) -> None:
        running = [node for node in NODES if node not in self._stopped]
        place = self._draw.randrange(PARTITIONS)
        self._cluster.move_partition(TOPIC, place, self._draw.choice(running))
        self.report.done["partition moved"] += 1
