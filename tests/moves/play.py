"""One move test: three groups consume while their coordinators and nodes move."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash import oracle
from tests.crash.cluster_queries import ClusterQueries
from tests.crash.load import Group, Load
from tests.crash.observations import (
    all_committed,
    read_all,
    snapshot,
    unsettle,
    until_at_the_ends,
    until_members_commit,
)
from tests.crash.totals import Totals, ViolationError, hold, stop_cleanly, until_commits
from tests.crash.witness import Witness
from tests.moves.cluster import Cluster

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
CONFIG = {"group.initial.rebalance.delay.ms": "0"}


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a play.

    Attributes:
        moves: number of moves of coordinators and stops of nodes.
        seed: of all random choices.
        folder: for journals and logs; stays.
    """

    moves: int
    seed: int
    folder: Path


@dataclass(slots=True)
class Report(Totals):
    """Result of a play.

    Attributes:
        done: by kind: moves of coordinators and partitions, stops, starts.
        ways: number of commands each way.
        generations: by group, the first and the last one.
    """

    done: Counter[str] = field(default_factory=Counter)
    ways: dict[str, int] = field(default_factory=dict)
    generations: dict[str, tuple[int, int]] = field(default_factory=dict)


def start_load(folder: Path, queries: ClusterQueries, bootstrap: str) -> Load:
    """Two producers, and three groups of five members of one library each."""
    common = {
        "topic": TOPIC,
        "partitions": PARTITIONS,
        "bootstrap": bootstrap,
        "linger_ms": 5,
    }
    load = Load(folder, queries, common)
    librdkafka = {"compression.type": "lz4"}
    load.produce("confluent", {"name": "c", "window": 24, "librdkafka": librdkafka})
    load.produce("aiokafka", {"name": "a", "window": 12, "aiokafka": {}})
    for library, assignor in (
        ("confluent", "cooperative-sticky"),
        ("aiokafka", "sticky"),
        ("kafka-python", "range"),
    ):
        name = f"group-{library}"
        load.consume(name, *(_member(library, assignor, i) for i in range(MEMBERS)))
    return load


def _member(library: str, assignor: str, number: int) -> dict[str, Any]:
    return {
        "library": library,
        "client": f"{library}-{number}",
        "assignor": assignor,
        "instance": f"instance-{number}" if number < STATIC else None,
        "session_ms": SESSION_MS,
    }


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
        self._queries = ClusterQueries(self._cluster.served)
        self._stopped: list[int] = []
        self._load: Load | None = None

    def play(self) -> Report:
        """Runs the whole test; violations are in the report."""
        began = time.monotonic()
        try:
            self._play()
        except ViolationError as error:
            self.report.violations += error.found
        finally:
            self._queries.forget()
            if self._load is not None:
                self._load.close()
            self._cluster.served.close()
        self.report.ways = self._cluster.ways
        self.report.seconds = time.monotonic() - began
        return self.report

    def _play(self) -> None:
        self._cluster.start()
        self._queries.create_topic(TOPIC, PARTITIONS, REPLICAS)
        bootstrap = self._cluster.served.bootstrap
        load = self._load = start_load(self._settings.folder, self._queries, bootstrap)
        witness = load.until_ready()
        first = self._settle(load)
        moves = self._settings.moves
        for done in range(1, moves + 1):
            names = [group.name for group in load.groups]
            until_commits(names, load, witness, self._queries)
            self._move(load)
            self._check_commits(load, witness)
            if done % max(1, moves // 10) == 0:
                self._progress(f"{done} moves: {sum(witness.commits.values())} commits")
        while self._stopped:
            self._start_one()
        last = self._settle(load)
        until_members_commit(load.groups, self._queries)
        self.report.generations = {name: (first[name], last[name]) for name in first}
        self._finish(load, witness)

    # -- moves

    def _move(self, load: Load) -> None:
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
        chosen = self._draw.choice(load.groups)
        group = chosen.name
        if self._draw.random() < 0.25:
            self._unsettle(chosen)
        now = self._queries.coordinator(group)
        others = [node for node in running if node != now]
        self._cluster.move_group(group, self._draw.choice(others))
        self.report.done["coordinator moved"] += 1

    def _unsettle(self, group: Group) -> None:
        """Makes a member leave and rejoin: the next move happens during a rebalance."""
        unsettle(group, self._draw.randrange(STATIC, MEMBERS), self._queries)
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

    # -- waits and checks

    def _settle(self, load: Load) -> dict[str, int]:
        """Waits until all groups are Stable with all partitions owned once.

        Returns:
            The generation of each.
        """
        found = {}
        for group in load.groups:
            group.worker.until_bounced()

            def settled(group: Group = group) -> int | None:
                seen = snapshot(group, self._queries, PARTITIONS)
                return None if seen is None else seen.generation

            found[group.name] = self._queries.until(f"{group.name} settles", settled)
        return found

    def _check_commits(self, load: Load, witness: Witness) -> None:
        """Checks that commits acknowledged before the move are still there."""
        witness.read()
        acked = witness.acked.copy()
        names = [group.name for group in load.groups]
        committed = all_committed(names, self._queries, TOPIC, PARTITIONS)
        found = oracle.offsets(acked, committed)
        hold([*found, *self._cluster.served.faults()])

    def _finish(self, load: Load, witness: Witness) -> None:
        sent = load.stop_producers()
        names = [group.name for group in load.groups]
        until_at_the_ends(names, self._queries, TOPIC, PARTITIONS)
        self._check_commits(load, witness)
        self._settle(load)
        log = read_all(self._cluster.served.bootstrap, TOPIC, self._queries.ends(TOPIC))
        self.report.count(witness)
        for group in load.groups:
            group.worker.stop()
        found = oracle.producers(witness, log, sent)
        hold([*found, *oracle.members(witness, log, names)])
        stop_cleanly(self._cluster.served)
