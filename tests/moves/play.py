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
from tests.crash.asking import Asking
from tests.crash.load import Group, Load
from tests.crash.observed import (
    all_committed,
    read_all,
    snapshot,
    unsettle,
    until_at_the_ends,
    until_members_commit,
)
from tests.crash.run import ViolationError
from tests.crash.witness import Witness
from tests.moves.cluster import Cluster

TOPIC = "moves"
PARTITIONS = 12
REPLICAS = 3
MEMBERS = 5
NODES = (1, 2, 3)
STATIC = 2
"""How many members of each group are static (KIP-345)."""
SESSION_MS = 10_000
"""A coordinator that goes before a rebalance is over takes along that somebody left:
the next one waits for that member as long as this."""
CONFIG = {"group.initial.rebalance.delay.ms": "0"}


@dataclass(frozen=True, slots=True)
class Settings:
    """What is to be played.

    Attributes:
        moves: how many moves of coordinators and stops of nodes.
        seed: of which, whereto, and when.
        folder: for journals and logs; stays.
    """

    moves: int
    seed: int
    folder: Path


@dataclass(slots=True)
class Report:
    """What happened.

    Attributes:
        violations: one sentence each; none is what is wanted.
        done: by kind: moves of coordinators and partitions, stops, starts.
        ways: by which way the cluster was told.
        generations: by group, the first and the last one.
        records: acknowledged ones.
        commits: acknowledged ones, each of one partition.
        consumed: records that members got.
        seconds: all of it.
    """

    violations: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    ways: dict[str, int] = field(default_factory=dict)
    generations: dict[str, tuple[int, int]] = field(default_factory=dict)
    records: int = 0
    commits: int = 0
    consumed: int = 0
    seconds: float = 0.0


def start_load(folder: Path, asking: Asking, bootstrap: str) -> Load:
    """Two producers, and three groups of five members of one library each."""
    common = {
        "topic": TOPIC,
        "partitions": PARTITIONS,
        "bootstrap": bootstrap,
        "linger_ms": 5,
    }
    load = Load(folder, asking, common)
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
        progress: is told a line now and then.
    """

    def __init__(self, settings: Settings, progress: Callable[[str], None]) -> None:
        self._settings = settings
        self._progress = progress
        self._draw = random.Random(settings.seed)
        self.report = Report()
        self._cluster = Cluster(settings.folder, self._draw, CONFIG)
        self._asking = Asking(self._cluster.served)
        self._stopped: list[int] = []
        self._load: Load | None = None

    def play(self) -> Report:
        """All of it; violations are in the report."""
        began = time.monotonic()
        try:
            self._play()
        except ViolationError as error:
            self.report.violations += error.found
        finally:
            self._asking.forget()
            if self._load is not None:
                self._load.close()
            self._cluster.served.close()
        self.report.ways = self._cluster.ways
        self.report.seconds = time.monotonic() - began
        return self.report

    def _play(self) -> None:
        self._cluster.start()
        self._asking.create_topic(TOPIC, PARTITIONS, REPLICAS)
        bootstrap = self._cluster.served.bootstrap
        load = self._load = start_load(self._settings.folder, self._asking, bootstrap)
        witness = load.until_ready()
        first = self._settle(load)
        moves = self._settings.moves
        for done in range(1, moves + 1):
            self._progressed(load, witness)
            self._move(load)
            self._check_commits(load, witness)
            if done % max(1, moves // 10) == 0:
                self._progress(f"{done} moves: {sum(witness.commits.values())} commits")
        while self._stopped:
            self._start_one()
        last = self._settle(load)
        until_members_commit(load.groups, self._asking)
        self.report.generations = {name: (first[name], last[name]) for name in first}
        self._finish(load, witness)

    # -- moves

    def _move(self, load: Load) -> None:
        """One that counts, and perhaps some that do not, before it.

        One node is stopped at a time: a client that has no way back to its bootstrap
        servers (KIP-899), as aiokafka, is lost when all nodes that it knows are gone,
        and those that were stopped when it last asked it does not know.
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
        now = self._asking.coordinator(group)
        others = [node for node in running if node != now]
        self._cluster.move_group(group, self._draw.choice(others))
        self.report.done["coordinator moved"] += 1

    def _unsettle(self, group: Group) -> None:
        """Has a member leave and come back: the move is to find a rebalance."""
        unsettle(group, self._draw.randrange(STATIC, MEMBERS), self._asking)
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
                seen = snapshot(group, self._asking, PARTITIONS)
                return None if seen is None else seen.generation

            found[group.name] = self._asking.until(f"{group.name} settles", settled)
        return found

    def _progressed(self, load: Load, witness: Witness) -> None:
        """Waits until each group has committed something since the last move."""
        witness.read()
        before = witness.commits.copy()

        def committed() -> bool | None:
            witness.read()
            for worker in load.workers:
                worker.check()
            names = [group.name for group in load.groups]
            return True if all(witness.commits[n] > before[n] for n in names) else None

        self._asking.until("each group commits", committed)

    def _check_commits(self, load: Load, witness: Witness) -> None:
        """What was acknowledged before the move is committed after it."""
        witness.read()
        acked = witness.acked.copy()
        names = [group.name for group in load.groups]
        committed = all_committed(names, self._asking, TOPIC, PARTITIONS)
        found = oracle.offsets(acked, committed)
        found += self._cluster.served.faults()
        if found:
            raise ViolationError(found)

    def _finish(self, load: Load, witness: Witness) -> None:
        sent: dict[str, list[int]] = {}
        for worker in load.producers:
            sent |= worker.stop()
        names = [group.name for group in load.groups]
        until_at_the_ends(names, self._asking, TOPIC, PARTITIONS)
        self._check_commits(load, witness)
        self._settle(load)
        log = read_all(self._cluster.served.bootstrap, TOPIC, self._asking.ends(TOPIC))
        self.report.records = len(witness.produced) + len(witness.unplaced)
        self.report.commits = sum(witness.commits.values())
        self.report.consumed = sum(
            poll.count for polls in witness.consumed.values() for poll in polls
        )
        found = oracle.producers(witness, log, sent)
        found += oracle.members(witness, log, names)
        for group in load.groups:
            group.worker.stop()
        code = self._cluster.served.stop()
        if code:
            found.append(f"the broker exited {code} on SIGTERM")
        found += self._cluster.served.faults()
        if found:
            raise ViolationError(found)
