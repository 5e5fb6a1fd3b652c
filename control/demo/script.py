"""The scenes: members that join, crash and leave.

Each step waits for its effect on the broker and the members. The pauses only give the
reader time.
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
"""Two more than ``--members`` allows: one replaces the crashed member, one is
refused."""
BEFORE_S = 1.5
"""Time to read about the next step."""
AFTER_S = 1.8
"""Time to look at the result."""
PATIENCE_S = 60.0
"""Timeout of each step; none takes this long."""


class DemoError(Exception):
    """The demo cannot continue; one line of text."""


async def perform(seen: Seen, show: Callable[[Seen], Awaitable[None]]) -> None:
    """Plays the demo from start to end, and leaves nothing behind.

    Args:
        seen: the state, which it keeps up to date.
        show: shows the state until it is cancelled.

    Raises:
        DemoError: the demo cannot continue.
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
        taken = "--port 0 picks a free one"
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
    """Creates the topic, and the group by committing its start offsets."""
    setup = seen.setup
    topic = NewTopic(setup.topic, setup.partitions)
    (await admin.create_topics([topic])).check()
    begin = {TopicPartition(setup.topic, p): 0 for p in range(setup.partitions)}
    (await admin.alter_consumer_group_offsets(setup.group, begin)).check()


async def _during(main: Awaitable[None], *others: asyncio.Future[None]) -> None:
    """Runs the others until `main` ends; raises the first error of any of them."""
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
        producing: ends when `enough` is set and all records are delivered.
        enough: tells the producer to stop.
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
            DemoError: a step does not have its effect in time.
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
        await self._until("the group exists", lambda: self.seen.state == EMPTY)
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
            f"once more if some joined), so that members that start together need "
            f"only one rebalance.",
        )
        for _ in range(first):
            self._join()
        await self._settled()

    async def _one_more_joins(self) -> None:
        text = (
            f"With {self.setup.assignor}, all members revoke all partitions first: "
            f"none consumes until it has its new assignment."
        )
        if self.setup.is_cooperative:
            text = (
                "With cooperative-sticky, only the partitions that move are revoked in "
                "one generation and assigned in the next (KIP-429); consumption of "
                "the others goes on."
            )
        await self._scene(2, "One more member joins", text)
        self._join()
        await self._settled()

    async def _one_crashes(self) -> None:
        victim = self._live()[-2:][0]
        timeout_s = self.setup.session_timeout_ms / 1000
        name = victim.member.name
        await self._scene(
            3,
            "A member crashes",
            f"{name} disconnects without LeaveGroup. The broker still considers "
            f"{name} a member until its session expires ({timeout_s:g} s). Until then "
            f"no member reads its partitions.",
        )
        await victim.crash()
        await self._until(
            f"the session of {name} expires",
            lambda: not victim.member.in_group,
        )
        await self._settled()

    async def _newcomers_fill_it(self) -> None:
        most = self.setup.members
        await self._scene(
            4,
            "New members fill the group",
            f"Now it has {most} members, the broker's group.max.size.",
        )
        for _ in range(2):
            if self.seen.guests:
                # While a group rebalances, new members take the places of members
                # that rejoin late (KIP-389): with guests, only one joins at a time.
                await self._settled()
            if len(self.seen.live) + self.seen.guests < most:
                self._join()
        await self._settled()

    async def _one_too_many(self) -> None:
        await self._scene(
            5,
            "One too many",
            "The group is full: the broker refuses the next member (KIP-389). Its "
            "consumer fails with GroupMaxSizeReachedError; the others go on.",
        )
        newcomer = self._join()
        await self._until(
            f"{newcomer.member.name} gets an answer",
            lambda: newcomer.member.standing is not Standing.JOINING,
        )

    async def _one_leaves(self) -> None:
        goer = self._live()[0]
        await self._scene(
            6,
            "A member leaves",
            f"{goer.member.name} closes its consumer, which sends LeaveGroup: the "
            f"group reassigns its partitions at once, without waiting for a timeout.",
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
            f"Join with your own client: bootstrap {self.seen.address}, topic "
            f"{setup.topic}, group {setup.group}, assignor {setup.assignor}; "
            f"at most {setup.members} members. Ctrl-C ends it.",
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
        """Live members, in the order in which they joined."""
        live = [a for a in self.actors.values() if a.member.standing in LIVE]
        if not live:
            raise DemoError("guests have taken all places of the group")
        return live

    async def _settled(self) -> None:
        await self._until("all partitions are assigned", lambda: self.seen.is_settled)

    async def _until(self, what: str, condition: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.seen.until(lambda: condition() or self._has_failed())
        except TimeoutError:
            raise DemoError(
                f"timed out after {PATIENCE_S:g} s waiting until {what}; "
                f"the group is {self.seen.state}"
            ) from None
        self._check()

    def _has_failed(self) -> bool:
        return any(a.member.standing is Standing.FAILED for a in self.actors.values())

    def _check(self) -> None:
        for actor in self.actors.values():
            if actor.member.standing is Standing.FAILED:
                raise DemoError(f"{actor.member.name} failed: {actor.member.note}")
