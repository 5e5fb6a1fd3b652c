"""Kafka Streams counts words in two instances, of which one is killed."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.interop.scene import LIMIT_S, THREE_NODES
from tests.interop.transactions import (
    END,
    OUT_PARTITIONS,
    make_out,
    until_shared,
    write_ends,
)
from tests.librdkafka import row_of
from tests.workers.libraries import CONFLUENT, WORD_COUNT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.interop.scene import Member, Scene

pytestmark = [
    pytest.mark.interop,
    # The killed instance's transaction times out after 3 s, not after up to 13.
    pytest.mark.parametrize(
        "here",
        [{"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500}],
        indirect=True,
        ids=[""],
    ),
]

PARTITIONS = 2
Row = tuple[str, int, str]
"""A word, its count, and the instance that has counted."""


class Counts:
    """The counts that a reader of the output has seen."""

    def __init__(self, scene: Scene, out: str, isolation: str) -> None:
        self.rows: list[Row] = []
        self.ends = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": scene.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": isolation,
            }
        )
        places = [TopicPartition(out, each, 0) for each in range(OUT_PARTITIONS)]
        self._consumer.assign(places)

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Reads until `holds`."""
        deadline = time.monotonic() + LIMIT_S
        while not holds():
            assert time.monotonic() < deadline, f"waiting until {what}: {self.rows}"
            for message in self._consumer.consume(100, 0.1):
                _partition, _offset, key, value = row_of(message)
                if key == END:
                    self.ends += 1
                else:
                    count, client = value.decode().split()
                    self.rows.append((key.decode(), int(count), client))

    def of(self, word: str) -> list[int]:
        """All counts of a word, in order."""
        return [count for each, count, _client in self.rows if each == word]

    def clients(self, since: int = 0) -> set[str]:
        """The instances of all rows from a number on."""
        return {client for _word, _count, client in self.rows[since:]}

    def close(self) -> None:
        """Ends its connections."""
        self._consumer.close()


def counted(
    scene: Scene, guarantee: str, folder: Path, *, repeats: bool
) -> tuple[Counts, Counter[str]]:
    """All counts of a finished application, and how often each word came.

    They are counts as a reader of committed records has them. With `repeats` the
    application goes on until it has written more counts than there are words.
    """
    out = make_out(scene)
    first, second = (
        _instance(scene, name, out, guarantee, folder) for name in ("first", "second")
    )
    scene.produce(100)
    until_shared(scene)
    seen = Counts(scene, out, "read_uncommitted")
    scene.produce(100)
    seen.until("both have counted", lambda: seen.clients() == {"first", "second"})
    before = len(seen.rows)
    scene.produce(100)
    seen.until("it has counted more", lambda: "second" in seen.clients(before))
    seen.close()
    scene.kill(second)

    words = Counter("".join(f"value-{number}" for number in range(scene.sent)))
    counts = Counts(scene, out, "read_committed")
    counts.until(
        f"{words} are counted",
        lambda: (
            all(max(counts.of(each), default=0) >= words[each] for each in words)
            and len(counts.rows) >= words.total() + repeats
        ),
    )
    scene.close(first)
    write_ends(scene, out)
    counts.until("all is read", lambda: counts.ends == OUT_PARTITIONS)
    counts.close()
    return counts, words


def _instance(
    scene: Scene, name: str, out: str, guarantee: str, folder: Path
) -> Member:
    member = scene.prepare(name, WORD_COUNT)
    member.client = f"{name}-StreamThread-1-consumer"
    member.send(
        "count",
        bootstrap=scene.bootstrap,
        topic=scene.topic,
        out=out,
        application=scene.group,
        client=name,
        guarantee=guarantee,
        dir=folder / name,
    )
    scene.members.append(member)
    return member


@THREE_NODES
def test_exactly_once(play: Callable[..., None], nodes: int, tmp_path: Path) -> None:
    """Each committed count is the one before it plus one, up to the exact count."""

    def told(scene: Scene) -> None:
        counts, words = counted(scene, "exactly_once_v2", tmp_path, repeats=False)
        for word, count in words.items():
            assert counts.of(word) == [*range(1, count + 1)]

    play(CONFLUENT, "streams", told, partitions=PARTITIONS)


def test_at_least_once(play: Callable[..., None], tmp_path: Path) -> None:
    """Without transactions, words that the killed instance has counted come again."""

    def told(scene: Scene) -> None:
        counts, words = counted(scene, "at_least_once", tmp_path, repeats=True)
        assert len(counts.rows) > words.total()
        assert all(max(counts.of(word)) >= count for word, count in words.items())

    play(CONFLUENT, "streams", told, partitions=PARTITIONS)
