"""Simple consumers that commit: OffsetCommit without a generation.

Each commits ascending offsets of some partitions at a time, with a text for each
offset. It writes down the offsets before it sends them, and again when they are
acknowledged.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition
from kafka.errors import KafkaError as PythonError
from kafka.structs import OffsetAndMetadata
from tests.crash.journal import Journal, text_of
from tests.crash.workers.lines import PACE_S, Client, arguments, serve

RETRY_MS = 20


class Committer(ABC):
    """Commits for one group; `_commit` is the library's part.

    Args:
        wanted: the worker's arguments.
        settings: `group`, and `seed` of the choice of partitions.
        journal: for sent and acknowledged offsets.
        offsets: by partition, the last ones sent.
    """

    def __init__(
        self,
        wanted: dict[str, Any],
        settings: dict[str, Any],
        journal: Journal,
        offsets: list[int],
    ) -> None:
        self.topic = wanted["topic"]
        self.bootstrap = wanted["bootstrap"]
        self.group = settings["group"]
        self._random = random.Random(settings["seed"])
        self._journal = journal
        self._offsets = offsets

    @abstractmethod
    def _commit(self, offsets: dict[int, int]) -> list[int]:
        """Commits; returns the partitions with acknowledged commits."""

    def work(self) -> None:
        """One commit."""
        count = self._random.randint(1, len(self._offsets))
        wanted: dict[int, int] = {}
        for place in self._random.sample(range(len(self._offsets)), count):
            self._offsets[place] += self._random.randint(1, 3)
            wanted[place] = self._offsets[place]
            self._journal.write("sent", self.group, place, wanted[place])
        for place in self._commit(wanted):
            self._journal.write("acked", self.group, place, wanted[place])
        time.sleep(PACE_S)

    def tell(self) -> object:
        """Returns nothing: the journal has everything."""
        return self.group


class ConfluentCommitter(Committer):
    """Uses librdkafka's synchronous commit."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "client.id": self.group,
                "group.id": self.group,
                "enable.auto.commit": False,
                "reconnect.backoff.ms": RETRY_MS,
                "reconnect.backoff.max.ms": RETRY_MS * 10,
                "log_level": 0,
            }
        )

    def _commit(self, offsets: dict[int, int]) -> list[int]:
        wanted = [
            TopicPartition(self.topic, place, offset, text_of(self.group, offset))
            for place, offset in offsets.items()
        ]
        try:
            done = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException:
            return []
        return [each.partition for each in done if each.error is None]

    def close(self) -> None:
        """Closes the consumer."""
        self._consumer.close()


class PythonCommitter(Committer):
    """Uses kafka-python's synchronous commit."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._consumer = self._connected()
        self._consumer.assign([PythonPartition(self.topic, 0)])

    def _connected(self) -> Any:
        while True:
            try:
                return KafkaConsumer(
                    bootstrap_servers=self.bootstrap,
                    client_id=self.group,
                    group_id=self.group,
                    enable_auto_commit=False,
                    reconnect_backoff_ms=RETRY_MS,
                    reconnect_backoff_max_ms=RETRY_MS * 10,
                    retry_backoff_ms=RETRY_MS,
                )
            except PythonError:  # the broker is away
                time.sleep(PACE_S)

    def _commit(self, offsets: dict[int, int]) -> list[int]:
        wanted = {
            PythonPartition(self.topic, place): OffsetAndMetadata(
                offset, text_of(self.group, offset), -1
            )
            for place, offset in offsets.items()
        }
        try:
            self._consumer.commit(wanted)
        except PythonError:
            return []
        return list(offsets)

    def close(self) -> None:
        """Closes the consumer."""
        self._consumer.close()


KINDS: dict[str, type[ConfluentCommitter | PythonCommitter]] = {
    "confluent": ConfluentCommitter,
    "kafka-python": PythonCommitter,
}


def main() -> None:
    """Commits until the command `stop`."""
    wanted, journal = arguments()
    make: list[Callable[[], Client]] = []
    sent: dict[str, list[int]] = {}
    for settings in wanted["committers"]:
        offsets = sent[settings["group"]] = [0] * wanted["partitions"]
        kind = KINDS[settings["library"]]
        make.append(partial(kind, wanted, settings, journal, offsets))
    serve(make, lambda: sent)


if __name__ == "__main__":
    main()
