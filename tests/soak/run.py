"""A soak: many groups, churn and faults for a long time, and the leftovers."""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.long_runs import play
from tests.long_runs.cluster import Cluster
from tests.long_runs.harness import Harness, LoadReport
from tests.long_runs.load import Worker
from tests.soak import host
from tests.workers.libraries import KOHORT

from kohort.broker.events.remembered import ROWS_PER_EVENT

TOPIC = "soak"
GROUPS = [f"group-{number}" for number in range(30)]
WORKERS = 10
"""Processes, each with one member of each group: 300 members."""
PARTITIONS = 20
WINDOW = 3
"""Records that wait for their acknowledgement: about 50 a second, each of which every
group gets."""
MEMBER = {"session": 10_000, "heartbeat": 2_000, "wait": 5_000, "pace": 2_000}
"""Words of each member's `join`: it polls and commits every 2 s."""
FAULT_S = 12.0
"""Seconds between two faults: a rebalance of all groups takes a session timeout."""
REST_S = 20.0
"""Seconds between the last fault and a look: sessions end, groups settle."""
NODES = 3
GROWTH = 1.25
"""Memory at the end, relative to that after the warm-up; the same for each kind of
object, except those that the log and the groups keep."""
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    # Small, so that logs roll and are cleaned meanwhile.
    "log.segment.bytes": "1048576",
    "offsets.topic.segment.bytes": "1048576",
    "log.cleaner.backoff.ms": "1000",
}
FEW = 200
TIMERS = {
    "<TimerHandle Timers._fire>": 50,
    "<TimerHandle>": 1,
    "<TimerHandle Accounting._begin_round>": 1,
}
"""Each coordinator checks for expired offsets, so each of the 50 has one; a timer that
fires has no name; accounts are made once in a while."""
HISTORY = ("broker.events.", "broker.notice.")
ROWS = 2 * host.REMEMBERED * ROWS_PER_EVENT
"""The objects of one class that a broker may keep for the events that it remembers: the
latest ones, and as many of groups."""
DELIVERY = "broker.events.delivery."
"""The account of delivery: it keeps up to 1,000 rows of each partition of a group."""


@dataclass(slots=True)
class Look:
    """A look into the broker.

    Attributes:
        memory_mb: resident.
        tasks: of the loop, by coroutine.
        timers: pending ones of the loop.
        descriptors: by kind.
        connections: of all nodes.
        objects: of kohort's classes, by name.
    """

    memory_mb: float
    tasks: dict[str, int]
    timers: dict[str, int]
    descriptors: dict[str, int]
    connections: int
    objects: dict[str, int]

    def __str__(self) -> str:
        return (
            f"{self.memory_mb:.0f} MB, {sum(self.tasks.values())} tasks, "
            f"{sum(self.timers.values())} timers, {self.connections} connections, "
            f"descriptors {dict(sorted(self.descriptors.items()))}"
        )


@dataclass(slots=True)
class Report(LoadReport):
    """Result of a soak.

    Attributes:
        looks: before the first client, after the warm-up, each at rest, at the end at
            rest, and after the last client.
        faults: number of each kind.
    """

    looks: list[Look] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)


class Soak:
    """The harness: one cluster, one load.

    Args:
        folder: for data and logs.
        seconds: from the end of the warm-up to the last rest.
        seed: of the faults.
        progress: called with a line now and then.
    """

    def __init__(
        self, folder: Path, seconds: float, seed: int, progress: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._seconds = seconds
        self._draw = random.Random(seed)
        self._progress = progress
        self._cluster = Cluster(
            folder,
            self._draw,
            CONFIG,
            arguments=[f"--data-dir={folder / 'data'}"],
            # Without -P, modules beside the program could be taken for others.
            program=["-P", str(host.__file__), str(folder)],
        )
        self._served = self._cluster.served
        self._harness = Harness(self._served, folder, TOPIC, PARTITIONS)
        self._load = self._harness.load
        self._numbers = itertools.count()
        self.report = Report()

    def play(self) -> Report:
        """Plays all of it; violations are in the report."""
        play(self.report, self._play, self._harness.close)
        return self.report

    def _play(self) -> None:
        self._cluster.start()
        self._harness.queries.create_topic(TOPIC, PARTITIONS, NODES)
        self._harness.queries.forget()
        self._served.runs_for(REST_S)
        self._look("no client yet")
        self._load.produce(KOHORT, soak={"window": WINDOW})
        self._load.names += GROUPS
        for _ in range(WORKERS):
            self._hire()
        self._harness.begin()
        self._trouble(self._seconds / 4)
        self._look("after the warm-up")
        for _ in range(3):
            self._trouble(self._seconds / 4)
            self._look("at rest")
        sent = self._harness.stop_producers()
        self._harness.stop_members()
        self._harness.queries.forget()
        self._served.runs_for(MEMBER["session"] / 1000 + REST_S)
        self._look("all clients gone")
        self._check_looks()
        self.report.violations += self._harness.lost_commits()
        self._harness.end(sent, self.report)

    # -- clients

    def _hire(self) -> Worker:
        """A process with a member of each group."""
        worker = self._load.start(KOHORT.command(), f"worker-{next(self._numbers)}")
        self._load.members.append(worker)
        for group in GROUPS:
            self._load.join(worker, group, group=group, assignor="range", **MEMBER)
        return worker

    def _part(self) -> Worker:
        """The process to end."""
        members = self._load.members
        return members.pop(self._draw.randrange(len(members)))

    # -- faults

    def _trouble(self, seconds: float) -> None:
        """Causes faults for some seconds, then rests."""
        deadline = time.monotonic() + seconds - REST_S
        faults = (self._vanish, self._replace, self._restart, self._move)
        while time.monotonic() < deadline:
            self._served.runs_for(FAULT_S)
            for worker in self._load.workers:
                worker.check()
            fault = self._draw.choice(faults)
            self.report.faults[fault.__name__.strip("_")] += 1
            fault()
        self._served.runs_for(REST_S)

    def _vanish(self) -> None:
        """One member of each group is killed, and another one joins."""
        self._part().stop()
        self._hire()

    def _replace(self) -> None:
        """One member of each group leaves, and another one joins."""
        self._part().finish(together=True)
        self._hire()

    def _restart(self) -> None:
        """A node stops, and starts again."""
        node = self._draw.randint(1, NODES)
        self._cluster.stop_node(node)
        self._served.runs_for(self._draw.uniform(0.5, 3.0))
        self._cluster.start_node(node)

    def _move(self) -> None:
        """Coordinators of some groups move."""
        for group in self._draw.sample(GROUPS, 10):
            self._cluster.move_group(group, self._draw.randint(1, NODES))

    # -- checks

    def _look(self, when: str) -> None:
        path = self._folder / f"look-{len(self.report.looks)}"
        os.kill(self._served.pid, host.LOOK)
        self._harness.queries.until(f"{path} is there", lambda: path.exists() or None)
        look = Look(**json.loads(path.read_text()))
        self.report.looks.append(look)
        self._progress(f"{when}: {look}")

    def _check_looks(self) -> None:
        empty, warm, *_, rest, gone = self.report.looks
        say = self.report.violations.append
        if rest.memory_mb > warm.memory_mb * GROWTH:
            say(f"memory grew from {warm.memory_mb:.0f} to {rest.memory_mb:.0f} MB")
        if gone.connections:
            say(f"{gone.connections} connections stay")
        if gone.tasks != empty.tasks:
            say(f"tasks: {empty.tasks} before, {gone.tasks} after")
        for name, count in gone.timers.items():
            if count > empty.timers.get(name, TIMERS.get(name, 0)):
                say(f"{count} timers stay: {name}")
        if gone.descriptors.get("socket", 0) > empty.descriptors.get("socket", 0):
            say(f"descriptors: {empty.descriptors} before, {gone.descriptors} after")
        self._check_objects(empty, warm, rest, gone)

    def _check_objects(self, empty: Look, warm: Look, rest: Look, gone: Look) -> None:
        """Finds kinds of objects that grow and stay when all clients have gone."""
        for name, count in rest.objects.items():
            if gone.objects.get(name, 0) <= empty.objects.get(name, 0) + FEW:
                # They belong to clients: on a busy machine fewer of them wait.
                continue
            before = warm.objects.get(name, 0)
            if name.startswith(HISTORY):
                before = max(before, ROWS)
            is_bounded = not name.startswith(DELIVERY)
            if is_bounded and count > before * GROWTH + FEW:
                self.report.violations.append(
                    f"{name}: {before} after the warm-up, {count} at the end"
                )
