"""Pods: processes with one consumer, and the application that polls it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from functools import partial
from random import Random
from typing import Any, Final, Literal, Protocol

from kohort.client.config import ConsumerConfig
from kohort.client.consuming.commits import Commits
from kohort.client.consuming.consumer_group import (
    ConsumerGroup,
    ConsumerRebalanceListener,
)
from kohort.client.errors import KohortError
from kohort.client.group.events import CommitRefused
from kohort.client.network.cluster import Cluster
from kohort.client.offsets import TopicPartition
from kohort.protocol.slotted import slotted
from kohort.simulation.world.brokers import Brokers
from kohort.simulation.world.network import Network
from kohort.simulation.world.randomness import Distribution, constant
from kohort.simulation.world.records import Flow, Rows
from kohort.simulation.world.scheduler import Process, Scheduler

CommitMode = Literal["auto", "sync", "async"]

_STABLE: Final = "stable"
"""The state of a settled member, in either protocol."""


class PodState(StrEnum):
    """Life of a pod's process."""

    WAITING = "waiting"
    """Not started yet."""
    RUNNING = "running"
    """Its consumer runs."""
    STOPPING = "stopping"
    """It was asked to stop, and closes its consumer."""
    STOPPED = "stopped"
    """It has ended on its own."""
    FAILED = "failed"
    """Its consumer has failed, and the process has ended."""
    CRASHED = "crashed"
    """It was killed."""


@slotted
class Application:
    """The application of a pod: what it does with records, and its misfortunes.

    Attributes:
        record_s: seconds of processing for each record.
        commits: "auto": ``enable.auto.commit``; "sync": after each poll, and it waits;
            "async": after each poll, without waiting. Both commit in the same way when
            partitions are revoked.
        start_s: seconds from the start of the process to its first poll.
        pause_every_s: seconds between two pauses of the process; None: no pauses.
        pause_s: seconds of such a pause.
    """

    record_s: Distribution = constant(0.0)
    commits: CommitMode = "auto"
    start_s: Distribution = constant(0.0)
    pause_every_s: Distribution | None = None
    pause_s: Distribution = constant(0.0)


class Watch(Protocol):
    """Looks at what pods do; see `kohort.simulation.checking`."""

    def assigned(self, pod: Pod, places: Collection[TopicPartition]) -> None:
        """Its consumer gets partitions."""

    def taken(self, pod: Pod, rows: Rows) -> None:
        """A poll has returned records."""

    def handled(self, pod: Pod, rows: Rows) -> None:
        """They were processed."""


class _Listener(ConsumerRebalanceListener):
    """Commits what was processed when partitions are revoked."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod

    async def on_partitions_revoked(self, revoked: AbstractSet[TopicPartition]) -> None:
        """Commits, unless the client does so itself."""
        await self._pod.commit(revoked)

    async def on_partitions_lost(self, lost: AbstractSet[TopicPartition]) -> None:
        """Does nothing: commits would fail."""


class Pod:
    """A process with a consumer.

    Args:
        name: its name, and the consumer's client id unless `settings` has another.
        host: its host on the network.
        scheduler: the time and the seed.
        network: connects it.
        brokers: the cluster.
        topics: the topics that it subscribes to.
        settings: of the consumer, as in `ConsumerConfig`.
        application: see `Application`.

    Attributes:
        name, host: see above.
        state: see `PodState`.
        process: the process; of a pod that waits, one that has not begun.
        failure: the error that ended it, if it is FAILED.
        commits_failed: the number of commits that failed.
        handled: the number of records that were processed.
        watch: see `Watch`; None without one.
        stalled_until: the end of its last stall, unless something else delays it.
    """

    def __init__(
        self,
        name: str,
        host: str,
        scheduler: Scheduler,
        network: Network,
        brokers: Brokers,
        topics: Sequence[str],
        settings: Mapping[str, Any],
        application: Application,
    ) -> None:
        self.name = name
        self.host = host
        self.state = PodState.WAITING
        self.process = Process(scheduler, name)
        self.failure: KohortError | Exception | None = None
        self.commits_failed = 0
        self.handled = 0
        self.watch: Watch | None = None
        self.stalled_until = 0.0
        self._scheduler = scheduler
        self._network = network
        self._brokers = brokers
        self._topics = topics
        self._application = application
        self.config = ConsumerConfig.choose(
            None,
            {
                "bootstrap_servers": brokers.bootstrap_servers,
                "client_id": name,
                "enable_auto_commit": application.commits == "auto",
                **settings,
            },
        )
        self._random: Random = scheduler.random(f"pod/{name}")
        self._stall_s = 0.0
        self._waiter: asyncio.Future[None] | None = None
        self._leaves: bool | None = None
        self._has_ended = False
        # Futures of other processes.
        self._waiting: list[asyncio.Future[None]] = []
        self._cluster: Cluster
        self._flow: Flow
        self._group: ConsumerGroup | None = None

    # -- its life

    def start(self) -> None:
        """Starts the process."""
        self.state = PodState.RUNNING
        self.process.spawn(self._run())
        if self._application.pause_every_s is not None:
            self._pause_later(self._application.pause_every_s)

    def stop(self, *, leaves: bool | None = None) -> None:
        """Asks the process to end: it closes its consumer.

        Args:
            leaves: whether the member leaves the group; None for dynamic ones only.
        """
        if self.state is PodState.RUNNING:
            self.state = PodState.STOPPING
            self._leaves = leaves
            self.process.call_soon(self._wake)

    def crash(self) -> None:
        """Kills the process: its connections are reset."""
        if self.state in {PodState.RUNNING, PodState.STOPPING}:
            self._end(PodState.CRASHED)

    def pause(self, seconds: float) -> None:
        """Stops the process for some time: no polls, no heartbeats."""
        self.process.pause(seconds)

    def stall(self, seconds: float) -> None:
        """Makes the processing of the next records, or of none, take so much longer."""
        self._stall_s += seconds
        now = self._scheduler.now
        self.stalled_until = max(now, self.stalled_until) + seconds
        self.process.call_soon(self._wake)

    async def ended(self) -> None:
        """Returns when the process has ended. In any other process."""
        done = asyncio.get_running_loop().create_future()
        if not self._has_ended:
            self._waiting.append(done)
            await done

    @property
    def is_alive(self) -> bool:
        """True from its start to its end."""
        return self.state in {PodState.RUNNING, PodState.STOPPING}

    @property
    def member_id(self) -> str:
        """The id of its member; "" without one."""
        return "" if self._group is None else self._group.member.member_id

    @property
    def generation_id(self) -> int:
        """The generation, or epoch, of its member; -1 without one."""
        return -1 if self._group is None else self._group.member.generation_id

    @property
    def is_disturbed(self) -> bool:
        """True while it starts, is paused, or stalls."""
        now = self._scheduler.now
        return self.is_alive and (
            self._group is None
            or max(self.process.resumes_at, self.stalled_until) > now
        )

    @property
    def is_idle(self) -> bool:
        """True while its poll waits for records."""
        return self.is_alive and self._waiter is not None

    @property
    def owned(self) -> frozenset[tuple[str, int]]:
        """The partitions that its consumer owns."""
        is_alive = self._group is not None and self.is_alive
        return self._group.member.owned if is_alive and self._group else frozenset()

    @property
    def is_settled(self) -> bool:
        """True if its consumer has taken its assignment, and does not join again."""
        if self._group is None or not self.is_alive:
            return False
        member = self._group.member
        return member.state == _STABLE and member.target is None is member.call

    def _end(self, state: PodState) -> None:
        if self._group is not None and state is PodState.CRASHED:
            self._flow.disconnect(was_reset=True)
        self.state = state
        self.process.kill()
        self._network.died(self.process)
        self._has_ended = True
        for done in self._waiting:
            if not done.done():
                done.set_result(None)

    def _pause_later(self, every: Distribution) -> None:
        def pause() -> None:
            self.pause(self._application.pause_s.draw(self._random))
            self._pause_later(every)

        self.process.call_later(every.draw(self._random), pause)

    # -- the process

    async def _run(self) -> None:
        await asyncio.sleep(self._application.start_s.draw(self._random))
        cluster = self._cluster = Cluster(
            self.config, random=self._random, connect=self._connect
        )
        try:
            await cluster.start()
        except KohortError as error:
            self.failure = error
            self._end(PodState.FAILED)
            return
        commits = Commits(cluster, self.config, self._refused)
        flow = self._flow = Flow(
            cluster,
            self.config,
            commits,
            self._changed,
            self._brokers.cluster,
            self._brokers.process,
            self.host,
        )
        if self.watch is not None:
            flow.on_assigned = partial(self.watch.assigned, self)
        group = ConsumerGroup(cluster, self.config, flow, commits, self._changed)
        self._group = group
        group.start()
        listener = None if self.config.enable_auto_commit else _Listener(self)
        group.subscribe(self._topics, None, listener)
        while self.state is PodState.RUNNING:
            group.commit_in_time()
            with group.driver.polling:
                count = await self._poll(group)
            if group.driver.failure is not None:
                self.failure = group.driver.failure
                break
            await self._process(count)
        await group.close(self._leaves)
        flow.stop()
        group.stop()
        await cluster.close()
        self._end(PodState.FAILED if self.failure else PodState.STOPPED)

    async def _connect(
        self, protocol: asyncio.BufferedProtocol, host: str, *_: object
    ) -> None:
        await self._network.connect(self.process, self.host, protocol, host)

    async def _poll(self, group: ConsumerGroup) -> int:
        """Waits for records, or for another reason to end the poll."""
        while not self._is_over(group):
            if not group.driver.is_calling and self._flow.is_due():
                count = self._flow.take(self.config.max_poll_records)
                if count:
                    if self.watch is not None:
                        self.watch.taken(self, self._flow.taken)
                    return count
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return 0

    def _is_over(self, group: ConsumerGroup) -> bool:
        return (
            self.state is not PodState.RUNNING
            or self._stall_s > 0
            or group.driver.failure is not None
        )

    def _changed(self) -> None:
        """Wakes the poll if it has anything to do."""
        group = self._group
        if self._waiter is None or group is None:
            return
        driver = group.driver
        if (
            self._flow.is_due() and not driver.is_calling
        ) or driver.failure is not None:
            self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def _process(self, count: int) -> None:
        """Processes records, then commits their offsets."""
        stall_s, self._stall_s = self._stall_s, 0.0
        seconds = stall_s
        if count:
            seconds += count * self._application.record_s.draw(self._random)
        if seconds > 0:
            await asyncio.sleep(seconds)
        self.handled += count
        if count:
            if self.watch is not None:
                self.watch.handled(self, self._flow.taken)
            await self.commit(self._flow.partitions)

    async def commit(self, places: Iterable[TopicPartition]) -> None:
        """Commits the positions of partitions, in the application's way."""
        group = self._group
        if self._application.commits == "auto" or group is None:
            return
        rows = self._flow.positions(sorted(places))
        if not rows:
            return
        task = group.commits.post(rows)
        task.add_done_callback(self._committed)
        if self._application.commits == "sync":
            await asyncio.wait([task])

    def _committed(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.commits_failed += 1

    def _refused(self, generation_id: int, code: int) -> None:
        if self._group is not None:
            self._group.driver.submit(CommitRefused(generation_id, code))
