"""The clients of a run, and their misbehaviour."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.exactly_once.history import Complaint, History, OffsetRead, Place
from tests.exactly_once.member import Member, committed_offsets
from tests.exactly_once.producer import Generation, Producer
from tests.exactly_once.reader import Reader
from tests.long_runs.wire import Address, RefusedError, Wire

from kohort.protocol.errors import ErrorCode

SOURCE_PARTITIONS = 4
TARGET_PARTITIONS = 3
LONG_MS = 60_000
"""Transaction timeout of producers that are never late."""
SHORT_MS = 1_500
"""That of others, which are late now and then."""
LATE_S = 3.0
"""Longer than SHORT_MS and the broker's interval of looking for late transactions."""
OBSERVED_S = 0.05
MOST_INPUTS = 20
"""Records that a worker processes in one transaction."""
FENCED = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
}
"""Refusals of a producer whose transaction another one, or the coordinator, ended."""
NOT_A_MEMBER = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
}


@dataclass(slots=True)
class Scene:
    """Everything that the clients of a run share.

    Attributes:
        bootstrap: addresses of nodes.
        history: of the run.
        draw: all random choices.
        source: topic of the writers.
        target: topic of the workers' output.
        group: of the workers.
        refused: number of refusals by API and error.
        joins: number of times that each worker joined.
        wires: the connections of all clients.
        is_writing: False when the writers are to stop.
        is_over: True when all others are to stop.
    """

    bootstrap: Sequence[Address]
    history: History
    draw: random.Random
    source: str
    target: str
    group: str
    refused: Counter[str] = field(default_factory=Counter)
    joins: Counter[str] = field(default_factory=Counter)
    wires: list[Wire] = field(default_factory=list)
    is_writing: bool = True
    is_over: bool = False

    @property
    def source_places(self) -> list[Place]:
        """All partitions of the source."""
        return [(self.source, number) for number in range(SOURCE_PARTITIONS)]

    @property
    def target_places(self) -> list[Place]:
        """All partitions of the target."""
        return [(self.target, number) for number in range(TARGET_PARTITIONS)]

    def wire(self, name: str) -> Wire:
        """New connections; `close` closes them."""
        self.wires.append(Wire(name, self.bootstrap))
        return self.wires[-1]

    async def close(self) -> None:
        """Closes all connections."""
        for wire in self.wires:
            await wire.close()

    def refuse(
        self, error: RefusedError, producer: Producer, expected: set[ErrorCode]
    ) -> None:
        """Counts a refusal; one without a reason is a complaint."""
        self.refused[str(error)] += 1
        if error.code not in expected:
            self.history.add(
                Complaint(
                    f"{producer.transactional_id}, transaction {producer.transaction}, "
                    f"got {error}"
                )
            )


class Writer:
    """Writes to the source, in one transaction after the other.

    Args:
        scene: of the run.
        number: of the writer. Even ones speak the first generation of the protocol,
            every third one has a short transaction timeout.
    """

    def __init__(self, scene: Scene, number: int) -> None:
        self._scene = scene
        self._id = f"writer-{number}"
        self._wire = scene.wire(self._id)
        self._generation = [Generation.FIRST, Generation.SECOND][number % 2]
        self._timeout_ms = SHORT_MS if number % 3 == 2 else LONG_MS
        self._producer = self._instance()
        acts: dict[Callable[[], object], float] = {
            self._commit: 74,
            self._abort: 12,
            self._vanish: 6,
            self._overlap: 8,
        }
        if self._timeout_ms == SHORT_MS:
            acts[self._be_late] = 0.5
        self._acts = acts

    def _instance(self) -> Producer:
        return Producer(
            self._wire,
            self._scene.history,
            self._id,
            self._timeout_ms,
            self._generation,
        )

    async def run(self) -> None:
        """Writes until the run has enough transactions; leaves none open."""
        await self._producer.initialize()
        while self._scene.is_writing:
            (act,) = self._scene.draw.choices([*self._acts], [*self._acts.values()])
            await self._attempt(act)
        await self._producer.initialize()

    async def _attempt(self, act: Callable[[], object]) -> None:
        try:
            done = act()
            assert asyncio.iscoroutine(done)
            await done
        except RefusedError as error:
            producer = self._producer
            expected = FENCED if producer.may_have_timed_out else set()
            self._scene.refuse(error, producer, expected)
            producer.vanish()
            await producer.initialize()

    async def _write(self, producer: Producer) -> None:
        """Sends one or two rounds of batches."""
        draw = self._scene.draw
        for _ in range(draw.choice((1, 1, 2))):
            places = draw.sample(self._scene.source_places, draw.choice((1, 1, 2, 3)))
            batches = [(place, [None] * draw.randint(1, 3)) for place in places]
            await producer.send(*batches)

    async def _commit(self) -> None:
        self._producer.begin()
        await self._write(self._producer)
        await self._producer.commit()

    async def _abort(self) -> None:
        self._producer.begin()
        await self._write(self._producer)
        await self._producer.abort()

    async def _vanish(self) -> None:
        """Another instance comes, whose start aborts the transaction."""
        self._producer.begin()
        await self._write(self._producer)
        self._producer.vanish()
        self._producer = self._instance()
        await self._producer.initialize()

    async def _overlap(self) -> None:
        """Another instance comes, and the first one goes on."""
        old, new = self._producer, self._instance()
        old.begin()
        await self._write(old)
        await new.initialize()
        self._producer = new
        if self._scene.draw.random() < 0.5:
            await self._go_on(old)
            await self._commit()
        else:
            await asyncio.gather(self._commit(), self._go_on(old))

    async def _go_on(self, fenced: Producer) -> None:
        """Writes and commits without knowing that it is fenced."""
        try:
            if self._scene.draw.random() < 0.5:
                await self._write(fenced)
            await fenced.commit()
        except RefusedError as error:
            self._scene.refuse(error, fenced, FENCED)
        fenced.vanish()

    async def _be_late(self) -> None:
        """Asks for its commit after the transaction has timed out."""
        self._producer.begin()
        await self._write(self._producer)
        await asyncio.sleep(LATE_S)  # the broker's clock is that of the run
        await self._producer.commit()


class Worker:
    """A member of the group: reads the source, and writes the target.

    Args:
        scene: of the run.
        number: of the worker, as in `Writer`.
    """

    def __init__(self, scene: Scene, number: int) -> None:
        self._scene = scene
        self._name = f"worker-{number}"
        self._wire = scene.wire(self._name)
        self._fetching = scene.wire(self._name)
        self._member = Member(self._wire, scene.group, scene.source, SOURCE_PARTITIONS)
        timeout_ms = SHORT_MS if number % 3 == 2 else LONG_MS
        generation = [Generation.FIRST, Generation.SECOND][number % 2]
        self._producer = Producer(
            self._wire, scene.history, self._name, timeout_ms, generation
        )
        self._reader = Reader(
            self._name, self._fetching, scene.history, is_committed=True
        )
        self._is_first = True

    async def run(self) -> None:
        """Works until the run is over; leaves no transaction open."""
        await self._producer.initialize()
        while not self._scene.is_over:
            assigned = await self._member.join()
            self._scene.joins[self._name] += 1
            await self._start_at_committed(assigned)
            await self._work()
        await self._member.leave()
        await self._producer.initialize()

    async def _start_at_committed(self, assigned: list[int]) -> None:
        """Continues at the committed offsets, once no transaction may change them."""
        self._reader.positions.clear()
        if not assigned:
            return
        scene = self._scene
        found = await committed_offsets(self._wire, scene.group, scene.source, assigned)
        for partition, offset in found.items():
            scene.history.add(OffsetRead(self._name, partition, offset))
            self._reader.seek((scene.source, partition), max(offset, 0))

    async def _work(self) -> None:
        """Processes records until the group rebalances, or the member leaves."""
        scene = self._scene
        while self._member.is_current and not scene.is_over:
            if not self._reader.positions:
                await asyncio.sleep(OBSERVED_S)  # until heartbeats tell of a rebalance
                continue
            polled = await self._reader.poll()
            if not polled:
                continue
            if not await self._process(polled):
                await self._start_at_committed(
                    [partition for _, partition in self._reader.positions]
                )
            if scene.is_writing and scene.draw.random() < 0.03:
                await self._member.leave()

    async def _process(self, polled: Mapping[Place, list[tuple[int, bytes]]]) -> bool:
        """One transaction, or several; returns False if one is not committed."""
        inputs = [
            (partition, offset)
            for (_, partition), rows in polled.items()
            for offset, _ in rows
        ]
        for start in range(0, len(inputs), MOST_INPUTS):
            some = inputs[start : start + MOST_INPUTS]
            offsets = {partition: offset + 1 for partition, offset in some}
            if start + MOST_INPUTS >= len(inputs):
                # Markers and aborted records at the end count as processed, too.
                for (_, partition), after in self._reader.positions.items():
                    if partition in offsets:
                        offsets[partition] = after
            if not await self._transact(some, offsets):
                return False
        return True

    async def _transact(
        self, inputs: list[tuple[int, int]], offsets: Mapping[int, int]
    ) -> bool:
        scene = self._scene
        producer = self._producer
        try:
            producer.begin()
            await self._send(inputs)
            await producer.send_offsets(self._member.membership, scene.source, offsets)
            chance = scene.draw.random() if scene.is_writing else 1.0
            if self._is_first or chance < 0.08:
                # So that each run, a short one too, has offsets that must not count.
                self._is_first = False
                await producer.abort()
                return False
            if chance < 0.11:
                # The transaction stays open, and its offsets are pending.
                producer.vanish()
                await self._member.leave()
                await producer.initialize()
                return False
            if chance < 0.13:
                # The next owners of the partitions must wait for this commit.
                await self._member.leave()
            await producer.commit()
        except RefusedError as error:
            expected = FENCED if producer.may_have_timed_out else set()
            scene.refuse(error, producer, expected | NOT_A_MEMBER)
            producer.vanish()
            await producer.initialize()
            return False
        return True

    async def _send(self, inputs: list[tuple[int, int]]) -> None:
        draw = self._scene.draw
        places = draw.sample(self._scene.target_places, draw.choice((1, 2)))
        batches = [
            (place, inputs[number :: len(places)])
            for number, place in enumerate(places)
        ]
        await self._producer.send(*((place, some) for place, some in batches if some))


class Observer:
    """Reads both topics from the start to the end.

    Args:
        scene: of the run.
        is_committed: the isolation level.
    """

    def __init__(self, scene: Scene, *, is_committed: bool) -> None:
        self._scene = scene
        name = "committed-reader" if is_committed else "uncommitted-reader"
        self._wire = scene.wire(name)
        self._reader = Reader(
            name, self._wire, scene.history, is_committed=is_committed
        )
        for place in (*scene.source_places, *scene.target_places):
            self._reader.seek(place, 0)
        self.ends: dict[Place, int] | None = None

    @property
    def is_at_the_ends(self) -> bool:
        """True if it has read everything up to `ends`."""
        return self._reader.positions == self.ends

    async def run(self) -> None:
        """Reads until it has got to `ends`, once those are known."""
        while not self.is_at_the_ends:
            await self._reader.poll()


async def observe_offsets(scene: Scene) -> None:
    """Reads the group's offsets again and again, pending ones or not."""
    wire = scene.wire("offset-reader")
    partitions = list(range(SOURCE_PARTITIONS))
    while not scene.is_over:
        found = await committed_offsets(
            wire, scene.group, scene.source, partitions, is_stable=False
        )
        for partition, offset in found.items():
            scene.history.add(OffsetRead(wire.name, partition, offset))
        await asyncio.sleep(OBSERVED_S)  # a rhythm, without a meaning
