"""Batches with the same keys as an earlier one, as the commits of a member are.

Their records differ in values only. Compaction has to find all keys of the first two;
for each further one it compares the bytes, which takes a quarter of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kohort.protocol.messages import WireError
from kohort.protocol.rebuilding import key_end, scan_records
from kohort.protocol.records import HEADER_SIZE
from kohort.protocol.varints import varint_at

MOST_BYTES: Final = 2 * 1024
"""Size of the largest batch that is looked for: a commit of some 25 partitions."""
_MOST: Final = 8 * 1024
"""Batches that are remembered: usually 8 MB, at most 32."""


class Repeated:
    """The keys that batches have in common.

    Args:
        keys: of the records, which have consecutive offsets.
        spans: where each record begins and its key ends.
        heads: the bytes there: a batch of the same size with these has the same keys.
        size: of the batches.
    """

    __slots__ = ("_heads", "_size", "_spans", "_superseded_below", "keys")

    def __init__(
        self,
        keys: list[bytes],
        spans: list[tuple[int, int]],
        heads: list[bytes],
        size: int,
    ) -> None:
        self.keys = keys
        self._spans = spans
        self._heads = heads
        self._size = size
        # Batches with a lower base offset have no newest record.
        self._superseded_below: int | None = None

    def are_of(self, batch: bytes, count: int) -> bool:
        """Returns whether a batch has these keys."""
        if len(batch) != self._size or count != len(self.keys):
            return False
        return [batch[start:stop] for start, stop in self._spans] == self._heads

    def is_superseded(self, base_offset: int, latest: dict[bytes, int]) -> bool:
        """Returns whether each record of a batch has a newer one.

        Args:
            base_offset: of the batch.
            latest: the newest offset of each key; it may not change any more.
        """
        if self._superseded_below is None:
            get = latest.get
            found = (get(key, -1) - index for index, key in enumerate(self.keys))
            self._superseded_below = min(found)
        return base_offset < self._superseded_below


class RepeatedKeys:
    """Finds batches whose keys were seen before.

    Args:
        name: returns what stands for a key.
    """

    def __init__(self, name: Callable[[bytes], bytes]) -> None:
        self._name = name
        # By size, number of records, and head of the first record. None: seen once.
        self._known: dict[tuple[int, int, bytes], Repeated | None] = {}
        self._latest: Repeated | None = None

    def find(self, batch: bytes, count: int) -> Repeated | None:
        """The keys of a batch, if an earlier one had the same; None if not known.

        Args:
            batch: not compressed.
            count: its records, at least 1.
        """
        latest = self._latest
        if latest is not None and latest.are_of(batch, count):
            return latest
        if len(batch) > MOST_BYTES:
            return None
        try:
            end = key_end(batch, varint_at(batch, HEADER_SIZE)[1])
            place = len(batch), count, batch[HEADER_SIZE:end]
            known = self._known.get(place)
            if known is None:
                known = self._note(place, batch, count)
        except (IndexError, WireError):
            # The batch is damaged: the scan of all its records raises the error.
            return None
        if known is None or not known.are_of(batch, count):
            return None
        self._latest = known
        return known

    def _note(
        self, place: tuple[int, int, bytes], batch: bytes, count: int
    ) -> Repeated | None:
        """Notes a batch; the second of its kind is taken apart."""
        if place not in self._known:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[place] = None
            return None
        known = self._known[place] = self._taken_apart(batch, count)
        return known

    def _taken_apart(self, batch: bytes, count: int) -> Repeated | None:
        keys: list[bytes] = []
        spans: list[tuple[int, int]] = []
        before = HEADER_SIZE
        for delta, key, _, start, stop in scan_records(batch, HEADER_SIZE, count, 0):
            if key is None or delta != len(keys):
                return None
            keys.append(self._name(key))
            end = key_end(batch, start)
            spans.append((before, end))
            before = stop
        heads = [batch[start:stop] for start, stop in spans]
        return Repeated(keys, spans, heads, len(batch))
