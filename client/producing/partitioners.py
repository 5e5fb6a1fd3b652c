"""Partitioners: choose the partition of a record, as in the Java client.

A record with a key goes to the murmur2 hash of the key modulo the partitions, so that
all producers agree. Records without a key stick to one partition until a batch is full
(KIP-480), which makes fewer and larger batches than round robin. An application may
pass any callable like `Partitioner`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

Partitioner = Callable[[str, bytes | None, Sequence[int], Sequence[int]], int]
"""(topic, key, all partitions, those with a leader) -> partition.

The key is serialized. There is at least one partition, perhaps none with a leader."""

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFF_FFFF
_POSITIVE = 0x7FFF_FFFF


def murmur2(data: bytes) -> int:
    """The Java client's 32-bit hash, as an unsigned number."""
    size = len(data)
    h = _SEED ^ size
    words = size >> 2
    for k in struct.unpack_from(f"<{words}I", data):
        k = k * _M & _MASK  # noqa: PLW2901 - it is mixed in place
        h = h * _M & _MASK ^ (k ^ k >> 24) * _M & _MASK
    tail = data[words << 2 :]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, count: int) -> int:
    """The partition of a key."""
    return (murmur2(key) & _POSITIVE) % count


class RoundRobinPartitioner:
    """Round robin for each topic; ignores keys."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}

    def __call__(
        self,
        topic: str,
        _key: bytes | None,
        partitions: Sequence[int],
        available: Sequence[int],
    ) -> int:
        """The next partition with a leader, if there is one."""
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + 1
        choice = available or partitions
        return choice[turn % len(choice)]


class StickyPartitioner:
    """One partition per topic at a time, for records without a key.

    Changes after ``batch.size`` bytes, when a batch is full, so that all partitions
    get the same amount, however fast their leaders are (KIP-794).

    Args:
        batch_size: in bytes.
        fits: whether a record of `size` bytes fits into the open batch of a
            partition: (topic, partition, size).
        random: source of random choices.
    """

    def __init__(
        self, batch_size: int, fits: Callable[[str, int, int], bool], random: Random
    ) -> None:
        self._batch_size = batch_size
        self._fits = fits
        self._random = random
        self._stuck: dict[str, _Stuck] = {}

    def partition(
        self, topic: str, size: int, partitions: Sequence[int], available: Sequence[int]
    ) -> int:
        """The partition of a record without a key, by its size in bytes."""
        choice = available or partitions
        stuck = self._stuck.get(topic)
        if stuck is None or (
            stuck.choice is not choice and stuck.partition not in choice
        ):
            stuck = self._stuck[topic] = _Stuck(self._random.choice(choice))
        elif stuck.bytes + size > self._batch_size and not self._fits(
            topic, stuck.partition, size
        ):
            others = [p for p in choice if p != stuck.partition] or choice
            stuck = self._stuck[topic] = _Stuck(self._random.choice(others))
        stuck.choice = choice
        stuck.bytes += size
        return stuck.partition


@dataclass(slots=True)
class _Stuck:
    """A topic's current partition, the partitions to choose from, and bytes since."""

    partition: int
    choice: Sequence[int] = ()
    bytes: int = 0
