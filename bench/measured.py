"""Shared by the benchmarks of clients: a broker, records, and their costs.

Clients take turns, round after round, so that other work of the machine slows all of
them; of each the round with the least CPU time counts, and the clients are compared
with each other within a round: the median of those ratios is printed.

Linux only: the broker's CPU time is read from /proc.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.long_runs.broker_process import BrokerProcess

from kohort.client.admin import Admin
from kohort.client.administering.values import NewTopic

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_DISTINCT = 256


class Cost(NamedTuple):
    """Cost of one round.

    Attributes:
        client_s: CPU time of this process, threads of libraries included.
        wall_s: time that has passed.
        broker_s: CPU time of the broker; None for one that was not started here.
    """

    client_s: float
    wall_s: float
    broker_s: float | None


class Target(NamedTuple):
    """The broker that is measured against.

    Attributes:
        servers: its address.
        pid: of its process; None for one that was not started here.
    """

    servers: str
    pid: int | None

    def cpu_s(self) -> float | None:
        """CPU time that it has taken."""
        if self.pid is None:
            return None
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


class Meter:
    """Measures from when it is made until `read`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._broker = target.cpu_s()
        self._wall = time.monotonic()
        self._client = time.process_time()

    def read(self) -> Cost:
        """The cost so far."""
        client = time.process_time() - self._client
        wall = time.monotonic() - self._wall
        broker = self._target.cpu_s()
        if broker is not None and self._broker is not None:
            broker -= self._broker
        return Cost(client, wall, broker)


def key_of(number: int) -> bytes:
    """One of 1,000 keys."""
    return b"customer-%06d" % (number % 1_000)


def values_of(count: int, size: int) -> list[bytes]:
    """Values of `size` bytes: half of each repeats, so that codecs have work."""
    some = [os.urandom(size // 2) + b"kohort " * size for _ in range(_DISTINCT)]
    cut = [value[:size] for value in some]
    return [cut[number % _DISTINCT] for number in range(count)]


def parser_for(
    doc: str | None, *, records: int, codecs: list[str]
) -> argparse.ArgumentParser:
    """The arguments that all benchmarks of clients have."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument(
        "--bootstrap", help="a Kafka that runs; without it a kohort is started"
    )
    parser.add_argument(
        "--records", type=int, default=records, help="a round (%(default)s)"
    )
    parser.add_argument(
        "--sizes",
        type=int,
        nargs="+",
        default=[100, 1_000],
        help="bytes of a value (%(default)s)",
    )
    parser.add_argument(
        "--codecs", nargs="+", choices=CODECS, default=codecs, help="(%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--partitions", type=int, default=6, help="(%(default)s)")
    return parser


@contextlib.contextmanager
def target_of(asked: argparse.Namespace) -> Iterator[Target]:
    """The broker of ``--bootstrap``, or one in a separate process."""
    if asked.bootstrap:
        yield Target(asked.bootstrap, None)
        return
    with tempfile.TemporaryDirectory() as folder:
        settings = ["--set", f"num.partitions={asked.partitions}"]
        served = BrokerProcess(Path(folder), 1, settings)
        served.start()
        try:
            served.until_ready()
            yield Target(served.bootstrap, served.pid)
        finally:
            served.close()


async def create(target: Target, topic: str, partitions: int) -> None:
    """Makes a topic."""
    async with Admin(bootstrap_servers=target.servers) as admin:
        new = NewTopic(topic, num_partitions=partitions)
        (await admin.create_topics([new])).check()


def heading(asked: argparse.Namespace) -> str:
    """Date, machine, broker and size of the measurement."""
    against = asked.bootstrap or "kohort"
    return (
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, {platform.machine()}; broker: {against}; "
        f"{asked.records} records, {asked.partitions} partitions, "
        f"{asked.rounds} rounds\n"
    )


def table_head(first: str) -> str:
    """The head of the table whose rows `rows_of` makes."""
    return (
        f"| {first} | codec | bytes | MB/s | CPU us/record | CPU ms/MB | "
        "of aiokafka's | broker CPU us/record |\n"
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    )


def rows_of(
    rounds: dict[str, list[Cost]],
    peers: dict[str, str],
    codec: str,
    size: int,
    count: int,
) -> Iterator[str]:
    """A row for each client.

    Args:
        rounds: by client, the cost of each round.
        peers: by client, the one whose CPU time is 1.
        codec: of the batches.
        size: bytes of a value.
        count: records of a round.
    """
    megabytes = count * size / 1e6
    for name, costs in rounds.items():
        best = min(costs)
        ratio = statistics.median(
            mine.client_s / theirs.client_s
            for mine, theirs in zip(costs, rounds[peers[name]], strict=True)
        )
        fastest_s = min(cost.wall_s for cost in costs)
        broker = "-" if best.broker_s is None else f"{best.broker_s / count * 1e6:.2f}"
        yield (
            f"| {name} | {codec} | {size} | {megabytes / fastest_s:.1f} | "
            f"{best.client_s / count * 1e6:.2f} | "
            f"{best.client_s / megabytes * 1e3:.2f} | {ratio:.2f} | {broker} |"
        )
