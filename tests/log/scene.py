"""A partition and the requests of its scenes."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.log.storage import Keeper

from kohort.broker.log.lookup import find_offset
from kohort.broker.log.results import AppendResult
from kohort.broker.log.settings import LogConfig
from kohort.broker.long_work import finish
from kohort.protocol import records
from kohort.protocol.records import Record, build_batch

NOW = 1_700_000_000_000
EVERYTHING = 10**9


class Scene:
    """One partition, and the time."""

    keeper: ClassVar[Keeper]

    def __init__(self, **config: Any) -> None:
        self.partition = self.keeper.partition(LogConfig(**config))
        self.now_ms = NOW

    def send(self, *times: int, **fields: Any) -> AppendResult:
        """Appends one batch with a record at each of these times after NOW."""
        some = [Record(0, NOW + time, b"k", b"v" * 5) for time in times]
        return self.partition.append(build_batch(some, **fields), now_ms=self.now_ms)

    def bytes_from(self, offset: int) -> bytes:
        """All bytes of a read without a limit."""
        found = self.partition.read(offset, EVERYTHING, minimum_one=True)
        assert not found.error_code
        data = b"".join(found.buffers)
        assert len(data) == found.size_in_bytes
        return data

    def offsets_from(self, offset: int) -> list[int]:
        """The base offsets of the batches in a read without a limit."""
        data = self.bytes_from(offset)
        return [header.base_offset for header, _ in records.read_headers(data)]

    def found(self, timestamp: int) -> tuple[int, int, int]:
        """(time after NOW, offset, leader epoch); -1 if not found."""
        answer = finish(find_offset(self.partition, timestamp))
        assert not answer.error_code
        time = answer.timestamp_ms
        return (time if time < 0 else time - NOW), answer.offset, answer.leader_epoch


def timed() -> Scene:
    """Five batches, with times that neither ascend nor are all different."""
    scene = Scene()
    scene.send(0, 50, 20)
    scene.send(-100, -90)
    scene.send(10, 60, 50)
    scene.send(500)
    scene.send(200, 500)
    return scene
