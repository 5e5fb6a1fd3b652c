"""A consumer to copy, built to run for months; you write `process`.

    python resilient_consumer.py --bootstrap localhost:9092 --topic orders \
        --group billing --instance-id billing-1

It is a static member (KIP-345): after a restart within 15 seconds, with the same
instance id, it gets its partitions back without a rebalance. Rebalances are
cooperative (KIP-429): only partitions that move stop for a moment.

Every record is processed at least once. Records are committed after `process` has
returned: every 100 records, and before partitions are revoked. After a crash, up to
100 records are processed again, so `process` must tolerate repetition.

Exit codes: 0 after SIGTERM or SIGINT; 75 if the group is full (EX_TEMPFAIL: start
again when there is room); 1 for other errors that are not retriable.

`resilient_consumer_confluent.py` is the same with confluent-kafka.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from kohort.client import (
    Consumer,
    ConsumerRebalanceListener,
    ConsumerRecord,
    GroupMaxSizeReachedError,
    KohortError,
    OffsetAndMetadata,
    TopicPartition,
)
from kohort.client.errors import CommitFailedError, RebalanceInProgressError

SETTINGS: Mapping[str, Any] = {
    "partition.assignment.strategy": "cooperative-sticky",
    "session.timeout.ms": 15_000,
    "heartbeat.interval.ms": 3_000,
    "max.poll.interval.ms": 300_000,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
}
COMMIT_EVERY = 100
"""Records."""
PAUSE_S = 1.0
"""The wait after a retriable error."""
STOPPED = 0
FAILED = 1
GROUP_IS_FULL = 75

log = logging.getLogger("consumer")


async def process(record: ConsumerRecord) -> None:
    """Replace this: process a record, within max.poll.interval.ms.

    An exception ends the program, and the next owner of the partition processes the
    record again. It may be cancelled at an await; the record then is not committed.
    """
    print(f"{record.topic}-{record.partition}@{record.offset}", flush=True)


class ResilientConsumer(ConsumerRebalanceListener):
    """Reads a topic as a member of a group, until it is cancelled or fails.

    Args:
        topic: the topic.
        settings: settings of the consumer; they override `SETTINGS`.
        process: called with each record.
    """

    def __init__(
        self,
        topic: str,
        settings: Mapping[str, Any],
        process: Callable[[ConsumerRecord], Awaitable[None]] = process,
    ) -> None:
        self.consumer = Consumer(**{**SETTINGS, **settings})
        self._topic = topic
        self._process = process
        # The next offsets of processed, uncommitted records.
        self._done: dict[TopicPartition, OffsetAndMetadata] = {}
        self._count = 0

    async def run(self) -> None:
        """Consumes until cancelled or failed; then commits, leaves and closes.

        Raises:
            GroupMaxSizeReachedError: the group is full.
            KohortError: another error that is not retriable.
        """
        async with self.consumer:
            self.consumer.subscribe([self._topic], listener=self)
            while True:
                try:
                    record = await self.consumer.getone()
                except KohortError as error:
                    await self.on_error(error)
                    continue
                await self._process(record)
                await self._processed(record)

    async def _processed(self, record: ConsumerRecord) -> None:
        place = TopicPartition(record.topic, record.partition)
        self._done[place] = OffsetAndMetadata(
            record.offset + 1, leader_epoch=record.leader_epoch
        )
        self._count += 1
        if self._count >= COMMIT_EVERY:
            await self._commit()

    async def _commit(self) -> None:
        self._count = 0
        try:
            await self.consumer.commit(self._done)
        except (CommitFailedError, RebalanceInProgressError) as error:
            # The group has rebalanced. The next polls report lost or revoked
            # partitions; their new owners start at the last commit.
            log.warning("not committed, the group has rebalanced: %s", error)
        except KohortError as error:
            if not error.retriable:
                raise
            log.warning("not committed, retried with the next commit: %s", error)
        else:
            self._done.clear()

    # -- handlers, called while `getone` or `close` is awaited

    async def on_error(self, error: KohortError) -> None:
        """Continues after a retriable error, which the client has already retried.

        Raises:
            KohortError: an error that is not retriable.
        """
        if not error.retriable:
            raise error
        log.warning("continuing in %s s: %s", PAUSE_S, error)
        await asyncio.sleep(PAUSE_S)

    async def on_partitions_assigned(
        self, assigned: AbstractSet[TopicPartition]
    ) -> None:
        """Logs the new partitions; cooperative members keep their earlier ones."""
        log.info("partitions assigned: %s", _names(assigned))

    async def on_partitions_revoked(self, revoked: AbstractSet[TopicPartition]) -> None:
        """Commits the processed records: the next owner starts there."""
        log.info("partitions revoked: %s", _names(revoked))
        done = {p: self._done.pop(p) for p in revoked if p in self._done}
        if not done:
            return
        try:
            await self.consumer.commit(done)
        except KohortError as error:
            # Not raised, as it would stop the consumer: instead some records are
            # processed again.
            log.error("not committed at the revocation: %s", error)

    async def on_partitions_lost(self, lost: AbstractSet[TopicPartition]) -> None:
        """Drops their offsets: other members may own the partitions by now."""
        log.warning("partitions lost: %s", _names(lost))
        for place in lost:
            self._done.pop(place, None)


def _names(places: Iterable[TopicPartition]) -> str:
    names = (f"{topic}-{partition}" for topic, partition in sorted(places))
    return ", ".join(names) or "none"


async def run(topic: str, settings: Mapping[str, Any]) -> int:
    """Runs until SIGTERM, SIGINT or an error; returns the exit code."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(ResilientConsumer(topic, settings).run())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        log.info("stopped by a signal")
        return STOPPED
    except GroupMaxSizeReachedError as error:
        log.critical("%s", error)
        return GROUP_IS_FULL
    except KohortError as error:
        log.critical("%s", error)
    return FAILED


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the command line, and runs."""
    description, _, epilog = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,...")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument(
        "--instance-id",
        required=True,
        help="unique in the group, the same after a restart",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        type=lambda text: tuple(text.split("=", 1)),
        help="a consumer setting, with Kafka's name",
    )
    given = parser.parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    settings = {
        "bootstrap.servers": given.bootstrap,
        "group.id": given.group,
        "group.instance.id": given.instance_id,
        **dict(given.set),
    }
    return asyncio.run(run(given.topic, settings))


if __name__ == "__main__":
    sys.exit(main())
