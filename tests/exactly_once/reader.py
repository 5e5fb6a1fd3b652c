"""A reader of either isolation level, which drops aborted records as consumers do."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tests.exactly_once.history import History, Place, Polled, Sought
from tests.long_runs.wire import Address, LaterError, Wire

from kohort.protocol import records
from kohort.protocol.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.markers import read_marker

WAIT_MS = 100
PARTITION_BYTES = 65_536
RESPONSE_BYTES = 1 << 20


class Reader:
    """Reads partitions from their positions on.

    Args:
        name: in the history.
        wire: its connections.
        history: of the run; None for a reader that is not part of it.
        is_committed: the isolation level.

    Attributes:
        positions: by place, the next offset; change them with `seek`.
    """

    def __init__(
        self, name: str, wire: Wire, history: History | None, *, is_committed: bool
    ) -> None:
        self.positions: dict[Place, int] = {}
        self._name = name
        self._wire = wire
        self._history = history
        self._is_committed = is_committed

    def seek(self, place: Place, offset: int) -> None:
        """Continues at an offset."""
        self.positions[place] = offset
        if self._history is not None:
            self._history.add(Sought(self._name, place, offset))

    async def poll(self) -> dict[Place, list[tuple[int, bytes]]]:
        """One Fetch to each leader: the records by place, those with none left out.

        Raises:
            RefusedError: a partition is answered with an error.
        """
        by_leader: defaultdict[Address, list[Place]] = defaultdict(list)
        for place in self.positions:
            leader = await self._wire.until(
                f"{place} has a leader",
                lambda at=place: self._wire.leader(*at),  # type: ignore[misc]  # mypy does not infer such a default
            )
            by_leader[leader].append(place)
        fetched = await asyncio.gather(
            *(self._fetch(leader, places) for leader, places in by_leader.items())
        )
        return {place: rows for some in fetched for place, rows in some.items() if rows}

    async def _fetch(
        self, leader: Address, places: Iterable[Place]
    ) -> dict[Place, list[tuple[int, bytes]]]:
        by_topic: defaultdict[str, list[FetchPartition]] = defaultdict(list)
        for topic, partition in places:
            position = self.positions[topic, partition]
            by_topic[topic].append(
                FetchPartition(
                    partition,
                    fetch_offset=position,
                    partition_max_bytes=PARTITION_BYTES,
                )
            )
        request = FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=RESPONSE_BYTES,
            isolation_level=int(self._is_committed),
            topics=[
                FetchTopic(name, partitions=rows) for name, rows in by_topic.items()
            ],
        )
        try:
            answer = await self._wire.call(leader, "Fetch", 11, request)
        except LaterError:
            await asyncio.sleep(WAIT_MS / 1000)  # the broker starts
            return {}
        found = {}
        for about in answer.responses:
            for each in about.partitions:
                place = about.topic, each.partition_index
                try:
                    self._wire.check("Fetch", each.error_code)
                except LaterError:
                    continue
                found[place] = self._take(place, each)
        return found

    def _take(self, place: Place, answer: Any) -> list[tuple[int, bytes]]:
        position = self.positions[place]
        aborted = answer.aborted_transactions if self._is_committed else ()
        rows, after = readable(answer.records or b"", position, aborted or ())
        if after > position:
            self.positions[place] = after
            if self._history is not None:
                self._history.add(
                    Polled(self._name, self._is_committed, place, position, after, rows)
                )
        return rows


def readable(
    data: bytes, position: int, aborted: Iterable[Any]
) -> tuple[list[tuple[int, bytes]], int]:
    """The records that a consumer returns, and its next position.

    Args:
        data: the records of a partition in a Fetch response.
        position: that was asked for.
        aborted: producer ids and first offsets of aborted transactions.
    """
    waiting = sorted(aborted, key=lambda each: -each.first_offset)
    open_aborted: set[int] = set()
    rows = []
    after = position
    for header, start in records.read_headers(data):
        while waiting and waiting[-1].first_offset <= header.last_offset:
            open_aborted.add(waiting.pop().producer_id)
        after = header.last_offset + 1
        if header.is_control:
            marker = read_marker(memoryview(data)[start : start + header.size])
            if marker is not None and not marker.is_commit:
                open_aborted.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in open_aborted:
            continue
        rows += [
            (each.offset, bytes(each.value or b""))
            for each in records.read_records(data, start)
            if each.offset >= position
        ]
    return rows, max(after, position)
