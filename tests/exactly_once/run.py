"""One run: clients with transactions, kills and moves, and violations."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests import long_runs
from tests.exactly_once import program
from tests.exactly_once.actors import (
    SOURCE_PARTITIONS,
    TARGET_PARTITIONS,
    Observer,
    Scene,
    Worker,
    Writer,
    observe_offsets,
)
from tests.exactly_once.checker import check
from tests.exactly_once.history import History, Log, Outcome, Place, Polled
from tests.exactly_once.member import committed_offsets
from tests.exactly_once.reader import Reader
from tests.long_runs import play
from tests.long_runs.cluster import Cluster
from tests.long_runs.cluster_queries import create, end_of
from tests.long_runs.wire import Address, GaveUpError
from tests.patience import PATIENCE_S

PROGRAM = Path(__file__).with_name("program.py")
NODES = 3
LOG_PARTITIONS = 4
"""Partitions of `__transaction_state` and `__consumer_offsets`."""
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": str(LOG_PARTITIONS),
    "transaction.state.log.num.partitions": str(LOG_PARTITIONS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    # Small and often, so that logs roll and are compacted meanwhile.
    "log.segment.bytes": "1048576",
    "offsets.topic.segment.bytes": "1048576",
    "transaction.state.log.segment.bytes": "1048576",
    "log.cleaner.backoff.ms": "1000",
}
MOMENTS = {
    signal.SIGKILL: "at any time",
    program.BEFORE: "before markers",
    program.BEHIND: "behind a marker",
}
AGAIN_S = 0.02
"""Pause between two looks at something that is not announced."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a run.

    Attributes:
        transactions: number of transactions to begin.
        kills: number of kills with SIGKILL; the last one is at the end of the load.
        moves: number of moves of coordinators and partitions.
        seed: of all random choices.
        folder: for data, log and history; stays.
        writers: number of them.
        workers: number of members of the group.
        bootstrap: a broker that runs, for a run without kills and moves.
        bug: its name in `program`; "" for none.
    """

    transactions: int
    kills: int
    moves: int
    seed: int
    folder: Path
    writers: int = 10
    workers: int = 3
    bootstrap: Address | None = None
    bug: str = ""


@dataclass(slots=True)
class Report(long_runs.Report):
    """Result of a run.

    Attributes:
        ended: transactions by outcome.
        done: kills by moment, and moves by topic.
        refused: refusals by API and error.
        joins: of each worker, at rebalances.
        polled: records that readers got.
    """

    ended: Mapping[Outcome, int] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    joins: Counter[str] = field(default_factory=Counter)
    polled: int = 0


class Run:
    """The harness.

    Args:
        settings: of the run.
        progress: called with a line now and then.
    """

    def __init__(self, settings: Settings, progress: Callable[[str], None]) -> None:
        self._settings = settings
        self._progress = progress
        self._draw = random.Random(settings.seed)
        self.report = Report()
        self._history = History()
        self._cluster: Cluster | None = None
        if settings.bootstrap is None:
            self._cluster = Cluster(
                settings.folder,
                random.Random(settings.seed),
                CONFIG,
                arguments=[f"--data-dir={settings.folder / 'data'}"],
                # Without -P, modules beside the program could be taken for others.
                program=["-P", str(PROGRAM), *filter(None, [settings.bug])],
            )

    def play(self) -> Report:
        """Runs everything; violations are in the report."""
        report = self.report
        play(report, self._start_and_play, self._close)
        report.ended = self._history.ended
        report.polled = sum(
            len(event.records)
            for event in self._history.events
            if isinstance(event, Polled)
        )
        if report.violations:
            self._history.save(self._settings.folder / "history")
        return report

    def _start_and_play(self) -> None:
        if self._cluster is not None:
            self._cluster.start()
        asyncio.run(self._play())

    def _close(self) -> None:
        if self._cluster is not None:
            self._cluster.served.close()

    # -- the load

    async def _play(self) -> None:
        settings = self._settings
        scene = self._scene = Scene(
            self._addresses(),
            self._history,
            self._draw,
            f"source-{settings.seed}",
            f"target-{settings.seed}",
            f"workers-{settings.seed}",
        )
        self.report.refused, self.report.joins = scene.refused, scene.joins
        self._wire = scene.wire("harness")
        try:
            logs = await self._load(scene)
        finally:
            await scene.close()
        self._progress(f"{len(self._history.events)} events to check")
        found = check(self._history.events, logs, scene.source, scene.target)
        self.report.violations += found
        if self._cluster is not None:
            self.report.violations += self._cluster.served.faults()

    async def _load(self, scene: Scene) -> dict[Place, Log]:
        """Runs all clients; returns the logs at the end."""
        await self._create(scene.source, SOURCE_PARTITIONS)
        await self._create(scene.target, TARGET_PARTITIONS)
        observers = [Observer(scene, is_committed=each) for each in (True, False)]
        async with asyncio.TaskGroup() as others:
            for observer in observers:
                others.create_task(observer.run())
            others.create_task(observe_offsets(scene))
            for number in range(self._settings.workers):
                others.create_task(Worker(scene, number).run())
            await self._write(scene)
            source = await self._logs(scene.source_places)
            await self._until_processed(source)
            scene.is_over = True
            logs = source | await self._logs(scene.target_places)
            ends = await self._until_stable([*logs])
            for observer in observers:
                observer.ends = ends
        return logs

    def _addresses(self) -> list[Address]:
        if self._cluster is None:
            assert self._settings.bootstrap is not None
            return [self._settings.bootstrap]
        return [("127.0.0.1", port) for port in self._cluster.served.ports]

    async def _create(self, topic: str, partitions: int) -> None:
        replicas = 1 if self._cluster is None else NODES
        await self._wire.until(
            f"{topic} is created",
            lambda: create(self._wire, topic, partitions, replicas),
        )

    async def _write(self, scene: Scene) -> None:
        """Runs the writers, and disturbs them, until there are enough transactions."""
        async with asyncio.TaskGroup() as writers:
            for number in range(self._settings.writers):
                writers.create_task(Writer(scene, number).run())
            await self._disturb()
            await self._until_begun(self._settings.transactions)
            if self._settings.kills:
                # The last transactions of a producer: none that follows ends them, too.
                await self._kill(program.BEFORE, and_then=self._stop_writing)
            self._stop_writing()

    def _stop_writing(self) -> None:
        self._scene.is_writing = False

    # -- kills and moves

    async def _disturb(self) -> None:
        settings = self._settings
        acts: list[Callable[[], Awaitable[None]]] = [self._kill] * (settings.kills - 1)
        acts += [self._move] * settings.moves
        self._draw.shuffle(acts)
        lap = settings.transactions / (len(acts) + 1)
        tenth = max(1, len(acts) // 10)
        for number, act in enumerate(acts, 1):
            await self._until_begun(int(lap * (number - self._draw.random() * 0.5)))
            await act()
            if number % tenth == 0:
                self._progress(f"{number} kills and moves, {self._state()}")

    def _state(self) -> str:
        ended = ", ".join(f"{n} {o.value}" for o, n in self._history.ended.items())
        return f"{self._history.begun} transactions: {ended}"

    async def _until_begun(self, transactions: int) -> None:
        """Waits for a number of transactions.

        Raises:
            BrokerError: the broker has ended by itself.
        """
        while self._history.begun < transactions:
            if self._cluster is not None:
                self._cluster.served.runs_for(0)
            await asyncio.sleep(AGAIN_S)

    async def _kill(
        self,
        moment: signal.Signals | None = None,
        and_then: Callable[[], None] = lambda: None,
    ) -> None:
        """Kills the broker and starts it again.

        Args:
            moment: one of MOMENTS; None for any.
            and_then: called before the start.
        """
        assert self._cluster is not None
        served = self._cluster.served
        moment = moment or self._draw.choice([*MOMENTS])
        os.kill(served.pid, moment)
        await asyncio.to_thread(served.until_killed)
        and_then()
        await asyncio.to_thread(self._cluster.start)
        self.report.done[f"kills {MOMENTS[moment]}"] += 1
        self.report.violations += served.faults()

    async def _move(self) -> None:
        """Moves a coordinator's log, or a partition of records."""
        assert self._cluster is not None
        topics = {
            "__transaction_state": LOG_PARTITIONS,
            "__consumer_offsets": LOG_PARTITIONS,
            self._scene.source: SOURCE_PARTITIONS,
            self._scene.target: TARGET_PARTITIONS,
        }
        (topic,) = self._draw.choices([*topics], [4, 2, 2, 1])
        partition = self._draw.randrange(topics[topic])
        node = self._draw.randint(1, NODES)
        if self._draw.random() < 0.5:
            # The next coordinators find prepared transactions.
            os.kill(self._cluster.served.pid, program.HOLD)
            await asyncio.sleep(program.WITHOUT_MARKERS_S / 2)
        await asyncio.to_thread(self._cluster.move_partition, topic, partition, node)
        self.report.done[f"moves of {topic.partition('-')[0]}"] += 1

    # -- the end

    async def _until_stable(self, places: Sequence[Place]) -> dict[Place, int]:
        """Waits until no transaction is open there; returns the ends."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = {}
            open_at = {}
            for place in places:
                stable, end = [
                    await self._wire.until(
                        f"the end of {place} is known",
                        partial(end_of, self._wire, *place, is_stable=each),
                    )
                    for each in (True, False)
                ]
                found[place] = end
                if stable != end:
                    open_at[place] = stable, end
            if not open_at:
                return found
            if time.monotonic() > deadline:
                raise GaveUpError(
                    f"transactions stay open: last stable offset and end {open_at}"
                )
            await asyncio.sleep(AGAIN_S)

    async def _logs(self, places: Sequence[Place]) -> dict[Place, Log]:
        """All records of partitions in which no transaction is open."""
        ends = await self._until_stable(places)
        both = [await self._read(ends, is_committed=each) for each in (True, False)]
        return {place: Log(both[0][place], both[1][place]) for place in places}

    async def _read(
        self, ends: Mapping[Place, int], *, is_committed: bool
    ) -> dict[Place, list[tuple[int, bytes]]]:
        reader = Reader("log", self._wire, None, is_committed=is_committed)
        found: dict[Place, list[tuple[int, bytes]]] = {place: [] for place in ends}
        for place in ends:
            reader.seek(place, 0)
        deadline = time.monotonic() + PATIENCE_S
        before: dict[Place, int] = {}
        while reader.positions != ends:
            for place, rows in (await reader.poll()).items():
                found[place] += rows
            if reader.positions != before:
                before, deadline = dict(reader.positions), time.monotonic() + PATIENCE_S
            elif time.monotonic() > deadline:
                raise GaveUpError(f"read up to {reader.positions}, and not to {ends}")
        return found

    async def _until_processed(self, source: Mapping[Place, Log]) -> None:
        """Waits until the group has committed all committed records."""
        scene = self._scene
        wanted = {
            place[1]: log.committed[-1][0]
            for place, log in source.items()
            if log.committed
        }
        deadline = time.monotonic() + PATIENCE_S
        before: dict[int, int] = {}
        while True:
            found = await committed_offsets(
                self._wire, scene.group, scene.source, [*wanted]
            )
            if all(found[partition] > last for partition, last in wanted.items()):
                return
            if found != before:
                before, deadline = found, time.monotonic() + PATIENCE_S
            elif time.monotonic() > deadline:
                raise GaveUpError(f"the group stays at {found}, records go to {wanted}")
            await asyncio.sleep(AGAIN_S)
