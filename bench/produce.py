"""What producing costs: this client next to aiokafka and confluent-kafka.

Each client sends the same records to the same broker, one client after the other and
several rounds; the broker is a process of its own. Printed are the best round's
megabytes a second (of values, until the last is acknowledged), and CPU time per
record, the client's and the broker's:

    python -m bench.produce

Linux only: CPU time is read from /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]
from confluent_kafka import Producer as ConfluentProducer
from tests.crash.served import Served

from kohort.client.producer import Producer

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
LINGER_MS = 5
BATCH_SIZE = 16_384

Values = list[bytes]
Send = Callable[[str, str, str, Values], Coroutine[None, None, None]]
"""Sends values to a topic: (bootstrap servers, topic, codec, values)."""


def key_of(number: int) -> bytes:
    """One of 1,000 keys."""
    return b"customer-%06d" % (number % 1_000)


async def send_kohort(servers: str, topic: str, codec: str, values: Values) -> None:
    """This client; acks=all and idempotence, as all three here."""
    async with Producer(
        bootstrap_servers=servers,
        linger_ms=LINGER_MS,
        batch_size=BATCH_SIZE,
        compression_type=codec,
    ) as producer:
        deliveries = [
            await producer.send(topic, value, key_of(number))
            for number, value in enumerate(values)
        ]
        await producer.flush()
        for delivery in deliveries:
            delivery.result()


async def send_aiokafka(servers: str, topic: str, codec: str, values: Values) -> None:
    """aiokafka, as its documentation has it for many records."""
    producer = AIOKafkaProducer(
        bootstrap_servers=servers,
        linger_ms=LINGER_MS,
        max_batch_size=BATCH_SIZE,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=True,
    )
    await producer.start()
    try:
        deliveries = [
            await producer.send(topic, value, key_of(number))
            for number, value in enumerate(values)
        ]
        await producer.flush()
        for delivery in deliveries:
            delivery.result()
    finally:
        await producer.stop()


async def send_confluent(servers: str, topic: str, codec: str, values: Values) -> None:
    """confluent-kafka: librdkafka's threads, with a callback per record."""
    producer = ConfluentProducer(
        {
            "bootstrap.servers": servers,
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_SIZE,
            "compression.type": codec,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
            "queue.buffering.max.messages": len(values) + 1,
        }
    )
    failed = []

    def told(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    for number, value in enumerate(values):
        producer.produce(topic, value, key_of(number), on_delivery=told)
        if number % 1_000 == 0:
            producer.poll(0)
    producer.flush()
    if failed:
        raise RuntimeError(failed[0])


CLIENTS: dict[str, Send] = {
    "kohort": send_kohort,
    "aiokafka": send_aiokafka,
    "confluent-kafka": send_confluent,
}


def broker_cpu_s(pid: int) -> float:
    """CPU time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def report(served: Served, codec: str, size: int, count: int, rounds: int) -> None:
    """Plays all clients, and prints a row for each."""
    # Text-like values: half of it repeats, so that codecs have something to do.
    values = [os.urandom(size // 2) + b"kohort " * size for _ in range(256)]
    values = [values[n % 256][:size] for n in range(count)]
    servers = served.bootstrap
    best: dict[str, tuple[float, float, float]] = {}
    for turn in range(rounds):
        for name, send in CLIENTS.items():
            topic = f"{name}-{codec}-{size}-{turn}"
            asyncio.run(send(servers, topic, codec, values[:100]))
            before = time.monotonic(), time.process_time(), broker_cpu_s(served.pid)
            asyncio.run(send(servers, topic, codec, values))
            took_s = time.monotonic() - before[0]
            row = (
                count * size / took_s / 1e6,
                (time.process_time() - before[1]) / count * 1e6,
                (broker_cpu_s(served.pid) - before[2]) / count * 1e6,
            )
            best[name] = max(best.get(name, row), row)
    for name, (speed, cpu_us, broker_us) in best.items():
        print(
            f"| {name} | {codec} | {size} | {speed:.1f} | "
            f"{cpu_us:.2f} | {broker_us:.2f} |",
            flush=True,
        )


def main() -> None:
    """Starts a broker and has all clients produce to it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000])
    parser.add_argument("--codecs", nargs="+", default=["none", "lz4"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=6)
    asked = parser.parse_args()
    print(
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, {platform.machine()}; {asked.records} records, "
        f"{asked.partitions} partitions, the best of {asked.rounds} rounds\n"
    )
    print("| client | codec | bytes | MB/s | client CPU us | broker CPU us |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        served = Served(
            Path(folder), 1, ["--set", f"num.partitions={asked.partitions}"]
        )
        served.start()
        try:
            served.until_ready()
            for codec in asked.codecs:
                for size in asked.sizes:
                    report(served, codec, size, asked.records, asked.rounds)
        finally:
            served.close()


if __name__ == "__main__":
    main()
