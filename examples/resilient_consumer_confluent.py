"""The consumer of `resilient_consumer.py` with confluent-kafka; you write `process`.

    python resilient_consumer_confluent.py --bootstrap localhost:9092 \
        --topic orders --group billing --instance-id billing-1

It is a static member (KIP-345): after a restart within 15 seconds, with the same
instance id, it gets its partitions back without a rebalance. Rebalances are
cooperative (KIP-429): only partitions that move stop for a moment.

Every record is processed at least once. Records are committed after `process` has
returned: every 100 records, and before partitions are revoked. After a crash, up to
100 records are processed again, so `process` must tolerate repetition.

Exit codes: 0 after SIGTERM or SIGINT; 75 if the group is full (EX_TEMPFAIL: start
again when there is room); 1 for other errors that are not retriable.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

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
POLL_S = 0.5
"""Time limit of a poll; signals are handled between polls."""
ANSWER_S = 10.0
"""Time limit for fetching committed offsets."""
STOPPED = 0
FAILED = 1
GROUP_IS_FULL = 75
FULL_TEXT = "Consumer group is already at its full capacity."
"""KIP-389's message; librdkafka's is different."""

FULL = {
    KafkaError.GROUP_MAX_SIZE_REACHED,  # 81, as Apache Kafka sends it
    KafkaError.STALE_BROKER_EPOCH,  # 77, as in KIP-389; no other error of consumers
}
DO_NOT_PASS = FULL | {
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    KafkaError.INVALID_SESSION_TIMEOUT,
    KafkaError._AUTHENTICATION,  # noqa: SLF001 - librdkafka's own codes look so
}
"""Errors that end the program, though librdkafka would retry them; it reports others
as fatal itself."""

log = logging.getLogger("consumer")


def process(record: Message) -> None:
    """Replace this: process a record, within max.poll.interval.ms.

    An exception ends the program, and the next owner of the partition processes the
    record again.
    """
    print(f"{record.topic()}-{record.partition()}@{record.offset()}", flush=True)


class ResilientConsumer:
    """Reads a topic as a member of a group, until it is stopped or fails.

    Args:
        topic: the topic.
        settings: settings of the consumer; they override `SETTINGS`.
        process: called with each record.
    """

    def __init__(
        self,
        topic: str,
        settings: Mapping[str, Any],
        process: Callable[[Message], None] = process,
    ) -> None:
        own = {"error_cb": self.on_error, "logger": log}
        settings = {**SETTINGS, **settings, **own}
        self.consumer = Consumer(settings)
        strategies = str(settings["partition.assignment.strategy"])
        self._is_cooperative = strategies == "cooperative-sticky"
        self._topic = topic
        self._process = process
        # The next offsets of processed, uncommitted records.
        self._done: dict[tuple[str, int], TopicPartition] = {}
        self._count = 0
        self._failure: KafkaError | None = None
        self._is_stopping = False

    def stop(self) -> None:
        """Makes `run` return soon; for signal handlers."""
        self._is_stopping = True

    def run(self) -> None:
        """Consumes until stopped or failed; then commits, leaves and closes.

        Raises:
            KafkaException: an error that is not retriable, such as a full group.
        """
        self.consumer.subscribe(
            [self._topic],
            on_assign=self.on_assign,
            on_revoke=self.on_revoke,
            on_lost=self.on_lost,
        )
        try:
            while not self._is_stopping:
                record = self.consumer.poll(POLL_S)
                if record is not None:
                    self._take(record)
                if self._failure is not None:
                    raise KafkaException(self._failure)
        finally:
            self.consumer.close()

    def _take(self, record: Message) -> None:
        error = record.error()
        if error is not None:
            self.on_error(error)
            return
        self._process(record)
        place = (str(record.topic()), int(record.partition() or 0))
        self._done[place] = TopicPartition(*place, int(record.offset() or 0) + 1)
        self._count += 1
        if self._count >= COMMIT_EVERY:
            self._count = 0
            if self._commit([*self._done.values()]):
                self._done.clear()

    def _commit(self, offsets: list[TopicPartition]) -> bool:
        """Commits, and waits: a commit at a revocation cannot overtake this one."""
        try:
            rows = self.consumer.commit(offsets=offsets, asynchronous=False) or []
        except KafkaException as error:
            self._refused(error.args[0])
            return False
        for row in rows:
            if row.error is not None:
                self._refused(row.error)
        return all(row.error is None for row in rows)

    def _refused(self, error: KafkaError) -> None:
        # A final error ends the loop. Otherwise the next commit includes the records,
        # or they are processed again.
        log.error("not committed: %s", error)
        if _is_final(error):
            self._failure = error

    # -- handlers, called by `poll` or `close`

    def on_error(self, error: KafkaError) -> None:
        """Stores a final error; librdkafka retries all others itself."""
        log.warning("%s", error)
        if self._failure is None and _is_final(error):
            self._failure = error

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Logs the new partitions; cooperative members keep their earlier ones."""
        log.info("partitions assigned: %s", _names(partitions))
        # Without a committed offset, librdkafka asks for the first offset. If the
        # partition is revoked before the response, and assigned again, librdkafka
        # (2.16) returns records from the beginning, even if offsets have been committed
        # since. With a start at 0 it need not ask, unless record 0 has been deleted.
        try:
            known = consumer.committed(partitions, ANSWER_S) if partitions else []
        except KafkaException as error:
            log.warning("committed offsets unknown: %s", error)
            return  # librdkafka looks them up again itself
        new = {(each.topic, each.partition) for each in known if each.offset < 0}
        for each in partitions:
            if (each.topic, each.partition) in new:
                each.offset = 0
        if self._is_cooperative:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)

    def on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Commits the processed records: the next owner starts there."""
        log.info("partitions revoked: %s", _names(partitions))
        places = [(each.topic, each.partition) for each in partitions]
        done = [self._done.pop(place) for place in places if place in self._done]
        if done:
            # If it is refused, some records are processed again.
            self._commit(done)

    def on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Drops their offsets: other members may own the partitions by now."""
        log.warning("partitions lost: %s", _names(partitions))
        for each in partitions:
            self._done.pop((each.topic, each.partition), None)


def _is_final(error: KafkaError) -> bool:
    return error.fatal() or error.code() in DO_NOT_PASS


def _names(partitions: Iterable[TopicPartition]) -> str:
    places = sorted((each.topic, each.partition) for each in partitions)
    return ", ".join(f"{topic}-{partition}" for topic, partition in places) or "none"


def run(topic: str, settings: Mapping[str, Any]) -> int:
    """Runs until SIGTERM, SIGINT or an error; returns the exit code."""
    consumer = ResilientConsumer(topic, settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: consumer.stop())
    try:
        consumer.run()
    except KafkaException as failure:
        error = failure.args[0]
        if error.code() in FULL:
            log.critical("%s (%s)", FULL_TEXT, error.name())
            return GROUP_IS_FULL
        log.critical("%s", error)
        return FAILED
    log.info("stopped by a signal")
    return STOPPED


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
        "--instance-id", required=True, help="unique in the group, kept over restarts"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        type=lambda text: tuple(text.split("=", 1)),
        help="a setting of the consumer, by Kafka's name",
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
    return run(given.topic, settings)


if __name__ == "__main__":
    sys.exit(main())
