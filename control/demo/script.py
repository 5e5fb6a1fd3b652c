"""The scenes: members that join, crash and leave.

Each step waits for its effect on the broker and the members; pauses are for the
reader alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kohort.broker.server import Broker
from kohort.client.admin import Admin
from kohort.client.administering.values import NewTopic
from kohort.client.offsets import TopicPartition
from kohort.control.demo.actors import Actor, produce, watch
from kohort.control.demo.state import EMPTY, LIVE, Seen, Standing
from kohort.control.terminal import why_not

NAMES = ("ana", "ben", "cleo", "dan", "eve", "finn", "gia", "hugo", "ida", "jon")
"""Two more than a group may have members (``--members``): one takes the crashed
one's place, and one is refused."""
BEFORE_S = 1.5
"""Time to read about the next step."""
AFTER_S = 1.8
"""Time to look at the result."""
PATIENCE_S = 60.0
"""Nothing that is waited for takes as long."""


class DemoError(Exception):
    """Why the demo cannot go on; one line of text."""


async def perform(seen: Seen, show: Callable[[Seen], Awaitable[None]]) -> None:
    """Plays it from start to end, and leaves nothing behind.

    Args:
        seen: is kept up to date.
        show: shows that until it is cancelled.

    Raises:
        DemoError: it cannot go on.
    """
    setup = seen.setup
    broker = Broker(
        {
            "group.max.size": setup.members,
            "group.initial.rebalance.delay.ms": setup.initial_delay_ms,
            "group.min.session.timeout.ms": setup.session_timeout_ms,
        },
        port=setup.port,
    )
    try:
        await broker.start()
    except OSError as error:
        taken = "--port 0 takes a free one"
        raise DemoError(why_not(broker.host, setup.port, error, taken)) from None
    seen.address = broker.bootstrap_servers
    actors: dict[str, Actor] = {}
    try:
        async with Admin(bootstrap_servers=seen.address) as admin:
            await _prepare(seen, admin)
            enough = asyncio.Event()
            producing = asyncio.create_task(produce(seen, enough))
            await _during(
                Script(seen, actors, producing, enough).play(),
                producing,
                asyncio.create_task(watch(seen, admin, actors)),
                asyncio.ensure_future(show(seen)),
            )
    finally:
        await asyncio.gather(*(actor.cut_off() for actor in actors.values()))
        await broker.stop()


async def _prepare(seen: Seen, admin: Admin) -> None:
    """Makes the topic, and the group: by committing where it is to begin."""
    setup = seen.setup
    topic = NewTopic(setup.topic, setup.partitions)
    (await admin.create_topics([topic])).check()
    begin = {TopicPartition(setup.topic, p): 0 for p in range(setup.partitions)}
    (await admin.alter_consumer_group_offsets(setup.group, begin)).check()


async def _during(main: Awaitable[None], *others: asyncio.Future[None]) -> None:
    """Lets others run until the main thing ends; raises what any of them raises."""
    tasks = [asyncio.ensure_future(main), *others]
    pending = set(tasks)
    try:
        while tasks[0] in pending:
            done, pending = await asyncio.wait(
                pending, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Script:
    """The scenes, one after the other.

    Args:
        seen: the state that the scenes wait for.
        actors: by name; started members are added.
        producing: ends when all records are delivered after
        enough: is set.
    """

    def __init__(
        self,
        seen: Seen,
        actors: dict[str, Actor],
        producing: asyncio.Future[None],
        enough: asyncio.Event,
    ) -> None:
        self.seen = seen
        self.setup = seen.setup
        self.actors = actors
        self._producing = producing
        self._enough = enough
        self._names = iter(NAMES)

    async def play(self) -> None:
        """From the empty group to the end.

        Raises:
            DemoError: something that has to happen does not.
        """
        scenes = [
            self._first_join,
            self._one_more_joins,
            self._one_crashes,
            self._newcomers_fill_it,
            self._one_too_many,
            self._one_leaves,
        ]
        self.seen.scenes = len(scenes)
        await self._until("the group is there", lambda: self.seen.state == EMPTY)
        for scene in scenes:
            await scene()
            await self._pause(AFTER_S)
        if self.setup.stays:
            await self._stay()
        self._enough.set()
        await asyncio.wait([self._producing])
        await self._until("all records are consumed", lambda: not self.seen.waiting)

    # -- the scenes

    async def _first_join(self) -> None:
        first = max(1, self.setup.members - 2)
        delay_s = self.setup.initial_delay_ms / 1000
        await self._scene(
            1,
            "The first members join",
            f"An empty group waits for more members (KIP-134; here {delay_s:g} s, and "
            f"once more if some came), so that one rebalance serves all who start "
            f"together.",
        )
        for _ in range(first):
            self._join()
        await self._settled()

    async def _one_more_joins(self) -> None:
        text = (
            f"With {self.setup.assignor} all members give up all partitions first: "
            f"none consumes until the new assignment is there."
        )
        if self.setup.is_cooperative:
            text = (
                "With cooperative-sticky only partitions that have to move are given "
                "up, in one generation, and assigned in the next (KIP-429); the rest "
                "is consumed all the while."
            )
        await self._scene(2, "One more joins", text)
        self._join()
        await self._settled()

    async def _one_crashes(self) -> None:
        victim = self._live()[-2:][0]
        timeout_s = self.setup.session_timeout_ms / 1000
        name = victim.member.name
        await self._scene(
            3,
            "A member crashes",
            f"{name} is cut off without a goodbye. The broker considers {name} a "
            f"member until the session timeout ({timeout_s:g} s) is over: till then "
            f"no member reads its partitions.",
        )
        await victim.crash()
        await self._until(
            f"{name} is given up",
            lambda: not victim.member.in_group,
        )
        await self._settled()

    async def _newcomers_fill_it(self) -> None:
        most = self.setup.members
        await self._scene(
            4,
            "Newcomers fill the group",
            f"They make it {most}, as many as this broker's group.max.size allows.",
        )
        for _ in range(2):
            if self.seen.guests:
                # While a group rebalances newcomers go before members that are late
                # to rejoin (KIP-389): with guests about, only one comes at a time.
                await self._settled()
            if len(self.seen.live) + self.seen.guests < most:
                self._join()
        await self._settled()

    async def _one_too_many(self) -> None:
        await self._scene(
            5,
            "One too many",
            "The group is full: the broker refuses the next one (KIP-389). Its "
            "consumer ends with GroupMaxSizeReachedError; the others notice nothing.",
        )
        newcomer = self._join()
        await self._until(
            f"{newcomer.member.name} has an answer",
            lambda: newcomer.member.standing is not Standing.JOINING,
        )

    async def _one_leaves(self) -> None:
        goer = self._live()[0]
        await self._scene(
            6,
            "A member leaves",
            f"{goer.member.name} closes its consumer, which sends LeaveGroup: its "
            f"partitions go to others at once, without waiting for a timeout.",
        )
        await goer.leave()
        await self._until(
            f"{goer.member.name} is gone", lambda: not goer.member.in_group
        )
        await self._settled()

    async def _stay(self) -> None:
        setup = self.setup
        self.seen.begin(
            0,
            "Your turn",
            f"Join with a client of your own: bootstrap {self.seen.address}, topic "
            f"{setup.topic}, group {setup.group}, assignor {setup.assignor}; "
            f"{setup.members} members at most. Ctrl-C ends it.",
        )
        await self.seen.until(self._has_failed)
        self._check()

    # -- steps

    async def _scene(self, number: int, title: str, text: str) -> None:
        self.seen.begin(number, title, text)
        await self._pause(BEFORE_S)

    async def _pause(self, seconds: float) -> None:
        if self.setup.pace:
            await asyncio.sleep(seconds * self.setup.pace)

    def _join(self) -> Actor:
        name = next(self._names)
        actor = self.actors[name] = Actor(self.seen, name)
        return actor

    def _live(self) -> list[Actor]:
        """Members at work, in the order of their coming."""
        live = [a for a in self.actors.values() if a.member.standing in LIVE]
        if not live:
            raise DemoError("guests have taken all places of the group")
        return live

    async def _settled(self) -> None:
        await self._until("all partitions are given out", lambda: self.seen.is_settled)

    async def _until(self, what: str, condition: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.seen.until(lambda: condition() or self._has_failed())
        except TimeoutError:
            raise DemoError(
                f"waited {PATIENCE_S:g} s in vain until {what}; "
                f"the group is {self.seen.state}"
            ) from None
        self._check()

    def _has_failed(self) -> bool:
        return any(a.member.standing is Standing.FAILED for a in self.actors.values())

    def _check(self) -> None:
        for actor in self.actors.values():
            if actor.member.standing is Standing.FAILED:
                raise DemoError(f"{actor.member.name} has failed: {actor.member.note}")
