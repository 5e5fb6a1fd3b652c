"""One member of each group of a soak, in one process.

    python -m tests.soak.worker BOOTSTRAP GROUPS JOURNAL

Consumes and commits until SIGTERM, and leaves then. A commit is appended to the journal
once it is acknowledged: "GROUP PARTITION OFFSET" a line.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import TextIO

from kohort.client import Consumer, TopicPartition
from kohort.client.errors import CommitFailedError, KohortError

TOPIC = "soak"
SESSION_MS = 10_000
COMMIT_EVERY_MS = 2_000


async def _consume(bootstrap: str, group: str, journal: TextIO) -> None:
    consumer = Consumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=2_000,
        fetch_max_wait_ms=5_000,
    )
    async with consumer:
        while True:
            positions: dict[TopicPartition, int] = {}
            deadline = asyncio.get_running_loop().time() + COMMIT_EVERY_MS / 1000
            while (left := deadline - asyncio.get_running_loop().time()) > 0:
                found = await consumer.getmany(timeout_ms=int(left * 1000) + 1)
                for place, records in found.items():
                    positions[place] = records[-1].offset + 1
            owned = {p: o for p, o in positions.items() if p in consumer.assignment()}
            if not owned:
                continue
            # The group has moved on: the next poll joins again.
            with contextlib.suppress(CommitFailedError):
                await consumer.commit(owned)
                for place, offset in owned.items():
                    journal.write(f"{group} {place.partition} {offset}\n")


async def _stay(bootstrap: str, group: str, journal: TextIO) -> None:
    """Restarts the consumer after an error that ends it."""
    while True:
        try:
            await _consume(bootstrap, group, journal)
        except KohortError as error:
            print(f"{group}: {error!r}", file=sys.stderr)
            await asyncio.sleep(1)  # paces a load: no test waits for it


async def _main(bootstrap: str, groups: int, journal: TextIO) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    tasks = [
        asyncio.create_task(_stay(bootstrap, f"group-{number}", journal))
        for number in range(groups)
    ]
    await stopping.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    # Line by line: a killed worker has written all acknowledged commits, except one.
    with Path(sys.argv[3]).open("a", buffering=1) as file:
        asyncio.run(_main(sys.argv[1], int(sys.argv[2]), file))
