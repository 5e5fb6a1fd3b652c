"""A partition in files, through its stops and crashes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.log.storage import opened, segments_of

from kohort.broker.log.directory import DataDir
from kohort.broker.log.partition import Partition
from kohort.broker.log.settings import LogConfig
from kohort.protocol import records
from kohort.protocol.records import Record, build_batch

NOW = 1_700_000_000_000
DAY = 86_400_000
EVERYTHING = 10**9
LOG = "00000000000000000000.log"


class Life:
    """A partition in files, through its stops and crashes."""

    def __init__(self, root: Path, **config: Any) -> None:
        self.config = LogConfig(**{"retention_ms": -1, **config})
        self._root = root
        self._number = 0
        self.data: DataDir
        self.partition: Partition
        self.start()

    @property
    def path(self) -> Path:
        """The partition's folder."""
        return self._root / str(self._number) / "t-0"

    def start(self, now_ms: int = NOW) -> None:
        """Opens the directory."""
        opening = opened(self.path.parent, self.config, now_ms=now_ms)
        self.data, self.partition = opening

    def stop(self) -> None:
        """A clean stop."""
        self.data.close()

    def crash(self) -> None:
        """Continues with the files as they are now."""
        before = self.path.parent
        self._number += 1
        shutil.copytree(before, self.path.parent)
        self.data.close()

    def send(self, time: int = 0, size: int = 10, **fields: Any) -> int:
        """Sends one record at NOW + `time`; returns the error."""
        batch = build_batch([Record(0, NOW + time, b"k", bytes(size))], **fields)
        return self.partition.append(batch, now_ms=NOW + time).error_code

    def produce(self, sequence: int) -> tuple[int, int, bool]:
        """(Error, offset, whether nothing was appended) for a record of producer 5."""
        batch = build_batch(
            [Record(0, NOW, b"k", b"v")],
            producer_id=5,
            producer_epoch=0,
            base_sequence=sequence,
        )
        end = self.partition.log_end_offset
        result = self.partition.append(batch, now_ms=NOW)
        is_repeated = self.partition.log_end_offset == end
        return result.error_code, result.base_offset, is_repeated

    def bases(self) -> list[int]:
        """The base offsets of the segments, in memory and on the disk."""
        names = sorted(file.stem for file in self.path.glob("*.log"))
        found = [
            segment.base_offset for segment in segments_of(self.partition).segments
        ]
        assert found == [int(name) for name in names]
        return found

    def offsets(self, start: int = 0) -> list[int]:
        """The base offset of every batch from `start` on."""
        return [
            records.read_header(batch).base_offset
            for batch in self.partition.batches(start)
        ]
