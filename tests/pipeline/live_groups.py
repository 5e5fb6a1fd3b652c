"""Three groups of real clients, with a broker that serves while Spark works."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiokafka import TopicPartition
from confluent_kafka import TopicPartition as LibrdkafkaPartition
from tests.events.causes.clients import (
    POLL_S,
    AiokafkaClient,
    Client,
    KohortClient,
    LibrdkafkaClient,
    OnAThread,
)
from tests.events.causes.scene import CONFIG, Scene
from tests.pipeline.broker_thread import _written

from kohort.broker.events.bus import Reader
from kohort.broker.events.views.jsonl import EventsFile
from kohort.broker.server import Broker

PATIENCE_S = 600.0
"""Timeout of waits for a client; none takes this long."""
MAX_SIZE = 3
SESSION_MS = 6_000
"""Session timeout of members that crash: long enough with Spark at work beside them."""
AIOKAFKA_COMMITS = 5
LIBRDKAFKA_COMMITS = 7
AFTERWARDS = (5, 2)
"""Offsets committed after a rebalance; the second goes back."""


@dataclass(frozen=True, slots=True)
class Known:
    """The events that a script causes in its group.

    Attributes:
        causes: rebalances per cause.
        culprits: rebalances per cause and culprit's name.
        crashes: members that vanish without LeaveGroup.
        refused: names of clients that a full group refused.
        refusals: the number of these refusals.
        commits: number of accepted commits; None: the clients use auto-commit.
        went_back: commits that went back.
    """

    culprits: Mapping[tuple[str, str], int]
    crashes: int = 0
    refused: tuple[str, ...] = ()
    refusals: int = 0
    commits: int | None = None
    went_back: int = 0

    @property
    def causes(self) -> Mapping[str, int]:
        """The number of rebalances per cause."""
        found: Counter[str] = Counter()
        for (cause, _), count in self.culprits.items():
            found[cause] += count
        return found


async def crash(scene: Scene, halfway: Callable[[], Awaitable[None]]) -> None:
    """Ben crashes without a LeaveGroup; ana continues."""
    await scene.comes("ana", AiokafkaClient, topics=(scene.group,))
    await halfway()
    brief = {"topics": (scene.group,), "session_ms": SESSION_MS}
    ben = await scene.comes("ben", KohortClient, **brief)
    scene.misses("ben")
    await ben.crash()
    await scene.until_event("member_expired", "ben")
    await scene.until_at_rest(3)
    await scene.misses("ana").close()


CRASH = Known(
    {
        ("member_joined", "ana"): 1,
        ("member_joined", "ben"): 1,
        ("session_expired", "ben"): 1,
        ("member_left", "ana"): 1,
    },
    crashes=1,
)


async def rolling(scene: Scene, halfway: Callable[[], Awaitable[None]]) -> None:
    """Three members restart one after another, then leave."""
    # Not kafka-python: as the leader, it sometimes rebalances without a cause.
    crew = {"ana": AiokafkaClient, "ben": LibrdkafkaClient, "cleo": KohortClient}
    for name, library in crew.items():
        await scene.comes(name, library, topics=(scene.group,))
    await halfway()
    for name, library in crew.items():
        await scene.misses(name).close()
        await scene.until_at_rest()
        await scene.comes(name, library, topics=(scene.group,))
    for name in crew:
        await scene.misses(name).close()
        await scene.until_at_rest()


ROLLING = Known(
    {
        (cause, name): 2
        for cause in ("member_joined", "member_left")
        for name in ("ana", "ben", "cleo")
    },
)


async def full(scene: Scene, halfway: Callable[[], Awaitable[None]]) -> None:
    """Two of three members commit, one goes back; a fourth finds the group full."""
    where = {"topics": (scene.group,)}
    ana = await scene.comes("ana", AiokafkaClient, **where)
    ben = await scene.comes("ben", LibrdkafkaClient, **where)
    await scene.comes("cleo", LibrdkafkaClient, **where)
    for _ in range(AIOKAFKA_COMMITS):
        await ana.consumer.commit({TopicPartition(scene.group, 0): 1})  # type: ignore[attr-defined]
    await halfway()
    for _ in range(LIBRDKAFKA_COMMITS):
        await _commit(ben, scene.group)
    dora = await scene.start("dora", KohortClient, **where)
    scene.misses("dora")
    await scene.until_event("member_refused", "dora", cause="full")
    await dora.end()
    await scene.misses("ana").close()
    await scene.until_at_rest()
    for offset in AFTERWARDS:
        await _commit(ben, scene.group, offset)
    for name in ("ben", "cleo"):
        await scene.misses(name).close()
        await scene.until_at_rest()


async def _commit(client: Client, topic: str, offset: int = 1) -> None:
    """Commits an offset of the client's first assigned partition."""
    assert isinstance(client, OnAThread)
    consumer = client.consumer

    def act() -> None:
        # All on its thread: librdkafka holds the GIL in `assignment`. A poll has
        # to give it the assignment; heartbeats, at which the scene looks, need none.
        while not (assigned := consumer.assignment()):
            consumer.poll(POLL_S)
        offsets = [LibrdkafkaPartition(topic, assigned[0].partition, offset)]
        consumer.commit(offsets=offsets, asynchronous=False)

    await client._do(act)  # noqa: SLF001 - no public method does this


FULL = Known(
    {
        (cause, name): 1
        for cause in ("member_joined", "member_left")
        for name in ("ana", "ben", "cleo")
    },
    refused=("dora",),
    refusals=1,
    commits=AIOKAFKA_COMMITS + LIBRDKAFKA_COMMITS + len(AFTERWARDS),
    went_back=1,
)

SCRIPTS = {"crash": crash, "rolling": rolling, "full": full}
KNOWN = {"crash": CRASH, "rolling": ROLLING, "full": FULL}


@dataclass(slots=True)
class Play:
    """Progress of the play, shared with the test's thread.

    Attributes:
        file: all events, as ``--events`` writes them; complete once `calm` is set.
        address: the broker's address.
        ready: a group is halfway: its rebalances are in the topic.
        go_on: set by the test; until then all groups wait halfway.
        calm: all clients have left, and all events are in the topic and the file.
        over: set by the test: the broker may stop.
        failed: the error that ended the play early.
    """

    file: Path
    address: str = ""
    ready: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    calm: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    failed: list[BaseException] = field(default_factory=list)

    def wait(self, event: threading.Event) -> None:
        """Waits for an event, or raises the play's error."""
        assert event.wait(PATIENCE_S)
        if self.failed:
            raise self.failed[0]

    def run(self) -> None:
        """Plays all scripts; runs on a thread."""
        try:
            asyncio.run(self._play())
        except BaseException as error:  # noqa: BLE001 - the waiting test gets it
            self.failed.append(error)
        finally:
            self.ready.set()
            self.calm.set()

    async def _play(self) -> None:
        config = {
            **CONFIG,
            "events.topic.enable": True,
            "group.max.size": MAX_SIZE,
        }
        labels = {"scenario": "end-to-end", "seed": "1"}
        broker = Broker(config, labels=labels, events_heartbeats=True)
        view = EventsFile(self.file, broker.events)
        view.start()
        with broker.events.subscribe() as reader:
            async with broker:
                self.address = broker.bootstrap_servers
                await self._groups(broker)
                await view.close()
                await _written(broker, _last(reader))
                self.calm.set()
                await asyncio.to_thread(self.over.wait)

    async def _groups(self, broker: Broker) -> None:
        async def halfway() -> None:
            await _written(broker, broker.events.recent()[-1]["sequence"])
            self.ready.set()
            assert await asyncio.to_thread(self.go_on.wait, PATIENCE_S)

        async def play(name: str) -> None:
            async with _scene(broker, name, self.file.parent) as scene:
                await SCRIPTS[name](scene, halfway)

        async with asyncio.TaskGroup() as group:
            for name in SCRIPTS:
                group.create_task(play(name))


def _last(reader: Reader) -> int:
    last: int = reader.take()[-1]["sequence"]
    return last


@contextlib.asynccontextmanager
async def _scene(broker: Broker, name: str, folder: Path) -> AsyncIterator[Scene]:
    """Creates a group with a topic of the same name."""

    def make(*_: Any) -> Broker:
        return broker

    scene = Scene(make, folder, group=name)
    scene.broker = broker
    scene.listen()
    await scene.make_topic(name)
    try:
        yield scene
    finally:
        for each in scene.everybody:
            await each.end()


@contextlib.contextmanager
def playing(file: Path) -> Iterator[Play]:
    """Runs the play on a thread that ends with the block."""
    play = Play(file)
    thread = threading.Thread(target=play.run)
    thread.start()
    try:
        play.wait(play.ready)
        yield play
    finally:
        play.go_on.set()
        play.over.set()
        thread.join()
