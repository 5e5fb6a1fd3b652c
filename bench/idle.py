"""The cost of consumers that have nothing to do: this client next to aiokafka.

Each consumer is alone in its group and waits for records of an empty topic; all of
them are tasks of one process:

    python -m bench.idle

Printed is the CPU time that they take in a second, and that of the broker.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer
from bench.measured import Cost, Meter, Target, create, target_of

from kohort.client.consumer import Consumer

TOPIC = "idle"
SETTLE_S = 8.0
"""For the groups' first rebalance, before it counts."""


@asynccontextmanager
async def _kohort(target: Target, group: str) -> AsyncIterator[Consumer]:
    async with Consumer(
        TOPIC, bootstrap_servers=target.servers, group_id=group
    ) as consumer:
        yield consumer


@asynccontextmanager
async def _aiokafka(target: Target, group: str) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(TOPIC, bootstrap_servers=target.servers, group_id=group)
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def _wait(opened: Any, target: Target, group: str) -> None:
    """Waits for records until it is cancelled."""
    async with opened(target, group) as consumer:
        await anext(aiter(consumer))


async def _measured(opened: Any, target: Target, count: int, seconds: float) -> Cost:
    waiting = [
        asyncio.create_task(_wait(opened, target, f"{time.time_ns()}-{number}"))
        for number in range(count)
    ]
    await asyncio.sleep(SETTLE_S)
    meter = Meter(target)
    await asyncio.sleep(seconds)
    cost = meter.read()
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    return cost


def main() -> None:
    """Has both clients wait, several times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--consumers", type=int, default=100, help="(%(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--partitions", type=int, default=6, help="(%(default)s)")
    parser.add_argument("--bootstrap", help="a Kafka that runs, in place of kohort")
    asked = parser.parse_args()
    clients = {"kohort": _kohort, "aiokafka": _aiokafka}
    print("| client | client CPU ms/s | broker CPU ms/s |\n| --- | ---: | ---: |")
    with target_of(asked) as target:
        asyncio.run(create(target, TOPIC, asked.partitions))
        measure = partial(_measured, count=asked.consumers, seconds=asked.seconds)
        for name, opened in clients.items():
            best = min(
                asyncio.run(measure(opened, target)) for _ in range(asked.rounds)
            )
            broker = (
                "-"
                if best.broker_s is None
                else f"{best.broker_s / best.wall_s * 1e3:.0f}"
            )
            print(f"| {name} | {best.client_s / best.wall_s * 1e3:.0f} | {broker} |")


if __name__ == "__main__":
    main()
