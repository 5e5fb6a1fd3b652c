"""The example consumers in processes of their own, and what they have to say."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from tests.client.stage import PATIENCE
from tests.commands import environment

from kohort.broker.server import Broker
from kohort.client.admin import Admin
from kohort.client.offsets import TopicPartition

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICK = {"heartbeat.interval.ms": "100"}
"""A member hears of a rebalance soon."""
DEAF = {"heartbeat.interval.ms": "14000"}
"""A member hears nothing of the group for as long as a scene takes."""


class Example:
    """A process of an example.

    Attributes:
        records: its stdout: a line per record, as in ``t-0@17``.
        log: its stderr, by line.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.records: list[str] = []
        self.log: list[str] = []
        self._news = asyncio.Event()
        assert process.stdout is not None
        assert process.stderr is not None
        self._readers = [
            asyncio.create_task(self._read(process.stdout, self.records)),
            asyncio.create_task(self._read(process.stderr, self.log)),
        ]
        for reader in self._readers:
            reader.add_done_callback(lambda _: self._news.set())

    async def _read(self, stream: asyncio.StreamReader, lines: list[str]) -> None:
        async for line in stream:
            lines.append(line.decode().rstrip("\n"))
            self._news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Returns when what it said so far is so."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not condition() and not self._is_read_out():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass
        said = "\n".join([f"{len(self.records)} records", *self.log])
        assert condition(), said

    def _is_read_out(self) -> bool:
        return all(reader.done() for reader in self._readers)

    async def has_read(self, count: int) -> None:
        """Returns when it has processed so many records."""
        await self.until(lambda: len(self.records) >= count)

    async def has_logged(self, text: str) -> None:
        """Returns when a line of its log has this in it."""
        await self.until(lambda: self.count(text) > 0)

    def count(self, text: str) -> int:
        """How many lines of its log have this in them."""
        return sum(text in line for line in self.log)

    async def ended(self) -> int:
        """Its exit code, when it has ended and all is read."""
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*self._readers)
            return await self.process.wait()

    async def end(self, number: int = signal.SIGTERM) -> int:
        """Its exit code after a signal."""
        self.process.send_signal(number)
        return await self.ended()


async def until(condition: Callable[[], bool], *examples: Example) -> None:
    """Returns when what they said so far is so, whoever says the last of it."""
    waits = [asyncio.create_task(each.until(condition)) for each in examples]
    done, others = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in others:
        wait.cancel()
    await asyncio.wait(waits)
    for wait in done:
        wait.result()


@contextlib.asynccontextmanager
async def running(
    name: str, broker: Broker, instance_id: str = "a", **settings: str
) -> AsyncIterator[Example]:
    """An example that reads "t" in the group "g"; it is gone afterwards.

    Args:
        name: the file's, without its suffix.
        broker: that it is to use.
        instance_id: its own.
        settings: by Kafka's names, in place of the example's.
    """
    options = {
        "--bootstrap": broker.bootstrap_servers,
        "--topic": "t",
        "--group": "g",
        "--instance-id": instance_id,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLES / f"{name}.py"),
        *(word for option in options.items() for word in option),
        *(f"--set={key}={value}" for key, value in settings.items()),
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    example = Example(process)
    try:
        yield example
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await example.ended()


async def committed(broker: Broker, group: str = "g") -> dict[int, int]:
    """What a group has committed of "t", by partition."""
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        found = (await admin.list_consumer_group_offsets({group: None}))[group]
    return {place.partition: row.offset for place, row in found.items()}


def all_of(*counts: int) -> list[str]:
    """The lines of all records of a topic with so many in each partition."""
    return sorted(f"t-{p}@{n}" for p, count in enumerate(counts) for n in range(count))


def is_shared(count: int, *examples: Example) -> bool:
    """Whether each of so many partitions has exactly one of them."""
    shares = [owned(example) for example in examples]
    return all(shares) and sorted(place for share in shares for place in share) == [
        TopicPartition("t", number) for number in range(count)
    ]


def owned(example: Example) -> frozenset[TopicPartition]:
    """The partitions that it has, as its log tells."""
    found: set[TopicPartition] = set()
    for line in example.log:
        what, _, names = line.rpartition(": ")
        if "partitions " not in what or names == "none":
            continue
        rows = (name.rpartition("-") for name in names.split(", "))
        places = {TopicPartition(topic, int(number)) for topic, _, number in rows}
        found = found | places if "assigned" in what else found - places
    return frozenset(found)
