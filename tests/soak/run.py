"""A soak: many groups, churn and faults for a long time, and the leftovers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import long_runs
from tests.soak.worker import SESSION_MS, TOPIC

from kohort.broker.events.remembered import REMEMBERED
from kohort.client import Admin, Consumer, NewTopic, Producer, TopicPartition

GROUPS = 30
WORKERS = 10
"""Processes, each with one member of each group: 300 members."""
PARTITIONS = 20
RECORDS_S = 50
"""Records a second, each of which every group gets."""
FAULT_S = 12.0
"""Seconds between two faults: a rebalance of all groups takes a session timeout."""
REST_S = 20.0
"""Seconds between the last fault and a look: sessions end, groups settle."""
NODES = 3
BATCH = 50
GROWTH = 1.25
"""Memory at the end, relative to that after the warm-up; the same for each kind of
object, except those that the log and the groups keep."""
DRAIN_S = 120.0


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
class Report(long_runs.Report):
    """Result of a soak.

    Attributes:
        looks: before the first client, after the warm-up, each at rest, at the end at
            rest, and after the last client.
        faults: number of each kind.
        records: acknowledged ones.
        commits: acknowledged ones, each of one partition.
    """

    looks: list[Look] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    records: int = 0
    commits: int = 0


class _Host:
    """The broker's process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._asking = asyncio.Lock()
        self.bootstrap = ""
        self.nodes: list[int] = []

    async def hear(self) -> Any:
        """The next line of its output."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line, "the broker has died"
        return json.loads(line)

    async def tell(self, **command: object) -> Any:
        """Sends a command, and waits for its answer."""
        assert self._process.stdin is not None
        async with self._asking:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            return await self.hear()

    async def look(self) -> Look:
        """Looks into it."""
        found = await self.tell(look=True)
        return Look(**found)


@contextlib.asynccontextmanager
async def _hosted(folder: Path) -> AsyncIterator[_Host]:
    with (folder / "broker.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.soak.host"),
            *(str(folder / "data"), str(NODES)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            limit=1 << 24,
        )
    host = _Host(process)
    try:
        hello = await host.hear()
        host.bootstrap, host.nodes = hello["bootstrap"], hello["nodes"]
        yield host
    finally:
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), DRAIN_S)
        with contextlib.suppress(ProcessLookupError):
            process.kill()


class Soak:
    """The harness.

    Args:
        folder: for data, journals and logs.
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
        self._workers: list[asyncio.subprocess.Process] = []
        self._numbers = itertools.count()
        self._acknowledged: dict[tuple[int, int], bytes] = {}
        self.report = Report()

    async def play(self) -> Report:
        """Plays all of it."""
        async with _hosted(self._folder) as host:
            async with Admin(bootstrap_servers=host.bootstrap) as admin:
                made = await admin.create_topics(
                    [NewTopic(TOPIC, PARTITIONS, replication_factor=NODES)]
                )
                made.check()
            await self._look(host, "no client yet")
            producing = asyncio.create_task(self._produce(host.bootstrap))
            try:
                for _ in range(WORKERS):
                    await self._hire(host)
                await self._trouble(host, self._seconds / 4)
                await self._look(host, "after the warm-up")
                for _ in range(3):
                    await self._trouble(host, self._seconds / 4)
                    await self._look(host, "at rest")
            finally:
                producing.cancel()
                await asyncio.gather(producing, return_exceptions=True)
                await self._dismiss_all()
            await asyncio.sleep(SESSION_MS / 1000)
            await self._check_acknowledged(host)
            await asyncio.sleep(REST_S)
            await self._look(host, "all clients gone")
        self._check_looks()
        self._check_log()
        return self.report

    # -- clients

    async def _produce(self, bootstrap: str) -> None:
        """Sends some records each second, in batches, and keeps those acknowledged."""
        async with Producer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
            for number in itertools.count():
                value = b"%d" % number
                partition = number % PARTITIONS
                delivery = await producer.send(TOPIC, value, partition=partition)
                delivery.add_done_callback(self._delivered(value))
                await asyncio.sleep(1 / RECORDS_S)  # the rate of the load

    def _delivered(self, value: bytes) -> Callable[[asyncio.Future[Any]], None]:
        def note(delivery: asyncio.Future[Any]) -> None:
            if not delivery.cancelled() and delivery.exception() is None:
                where = delivery.result()
                self._acknowledged[where.partition, where.offset] = value

        return note

    async def _hire(self, host: _Host) -> None:
        number = next(self._numbers)
        with (self._folder / f"worker-{number}.log").open("wb") as log:
            worker = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.soak.worker"),
                *(host.bootstrap, str(GROUPS)),
                str(self._folder / f"journal-{number}"),
                stdin=asyncio.subprocess.DEVNULL,
                stderr=log,
            )
        self._workers.append(worker)

    async def _dismiss(self, worker: asyncio.subprocess.Process, number: int) -> None:
        worker.send_signal(number)
        try:
            await asyncio.wait_for(worker.wait(), DRAIN_S)
        except TimeoutError:
            worker.kill()
            self.report.violations.append("a worker does not end")

    async def _dismiss_all(self) -> None:
        await asyncio.gather(
            *(self._dismiss(each, signal.SIGTERM) for each in self._workers)
        )

    # -- faults

    async def _trouble(self, host: _Host, seconds: float) -> None:
        """Causes faults for some seconds, then rests."""
        deadline = time.monotonic() + seconds - REST_S
        faults = (self._vanish, self._replace, self._restart, self._move)
        while time.monotonic() < deadline:
            await asyncio.sleep(FAULT_S)
            fault = self._draw.choice(faults)
            self.report.faults[fault.__name__.strip("_")] += 1
            await fault(host)
        await asyncio.sleep(REST_S)

    async def _vanish(self, host: _Host) -> None:
        """One member of each group is killed, and another one joins."""
        await self._part(signal.SIGKILL)
        await self._hire(host)

    async def _replace(self, host: _Host) -> None:
        """One member of each group leaves, and another one joins."""
        await self._part(signal.SIGTERM)
        await self._hire(host)

    async def _part(self, number: int) -> None:
        worker = self._workers.pop(self._draw.randrange(len(self._workers)))
        await self._dismiss(worker, number)

    async def _restart(self, host: _Host) -> None:
        """A node stops, and starts again."""
        node = self._draw.choice(host.nodes)
        await host.tell(stop=node)
        await asyncio.sleep(self._draw.uniform(0.5, 3.0))
        await host.tell(start=node)

    async def _move(self, host: _Host) -> None:
        """Coordinators of some groups move."""
        for group in self._draw.sample(range(GROUPS), 10):
            await host.tell(move=f"group-{group}", to=self._draw.choice(host.nodes))

    # -- checks

    async def _look(self, host: _Host, when: str) -> None:
        look = await host.look()
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
            if name in HISTORY:
                before = max(before, 2 * REMEMBERED)
            if count > before * GROWTH + FEW:
                self.report.violations.append(
                    f"{name}: {before} after the warm-up, {count} at the end"
                )

    def _check_log(self) -> None:
        """Logged defects of the broker."""
        log = (self._folder / "broker.log").read_text(errors="replace")
        found = [each for each in log.splitlines() if "Traceback (most" in each]
        self.report.violations += found

    async def _check_acknowledged(self, host: _Host) -> None:
        self.report.records = len(self._acknowledged)
        found = await _read_all(host.bootstrap)
        lost = {
            place: value
            for place, value in self._acknowledged.items()
            if found.get(place) != value
        }
        self.report.violations += [f"record lost: {each}" for each in lost.items()]
        commits = self._commits()
        async with Admin(bootstrap_servers=host.bootstrap) as admin:
            names = {f"group-{number}": None for number in range(GROUPS)}
            held = await admin.list_consumer_group_offsets(names)
            for (group, partition), offset in commits.items():
                place = TopicPartition(TOPIC, partition)
                kept = held[group].get(place)
                if kept is None or kept.offset < offset:
                    self.report.violations.append(
                        f"commit lost: {group} {place} {offset}, there is {kept}"
                    )

    def _commits(self) -> dict[tuple[str, int], int]:
        """The largest offset of each group and partition that was acknowledged."""
        found: dict[tuple[str, int], int] = {}
        for journal in self._folder.glob("journal-*"):
            for line in journal.read_text().splitlines(keepends=True):
                if not line.endswith("\n"):
                    continue  # killed amid the line
                group, partition, offset = line.split()
                place = group, int(partition)
                found[place] = max(found.get(place, 0), int(offset))
                self.report.commits += 1
        return found


FEW = 200
TIMERS = {"<TimerHandle Timers._fire>": 50, "<TimerHandle>": 1}
"""Each coordinator checks for expired offsets, so each of the 50 has one; and a timer
that is firing has no name."""
HISTORY = {"broker.events.seen.Seen", "broker.notice.Notice"}
"""The events that a broker keeps for `kohort why`: REMEMBERED of them, and as many of
groups."""


async def _read_all(bootstrap: str) -> dict[tuple[int, int], bytes]:
    """Reads every record."""
    found: dict[tuple[int, int], bytes] = {}
    async with Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        left = {place for place in places if ends[place]}
        while left:
            for place, records in (await consumer.getmany(timeout_ms=1_000)).items():
                for each in records:
                    found[each.partition, each.offset] = each.value or b""
                if records[-1].offset + 1 >= ends[place]:
                    left.discard(place)
    return found
