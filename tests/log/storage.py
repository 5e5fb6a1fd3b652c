"""Where the partition of a scene keeps its batches: in memory or in files."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Final

from hypothesis.stateful import RuleBasedStateMachine

from kohort.broker.log.directory import DataDir
from kohort.broker.log.partition import Partition
from kohort.broker.log.segments import SegmentStore
from kohort.broker.log.settings import DEFAULTS, LogConfig

MEMORY: Final = "memory"
FILES: Final = "files"
SEGMENTS: Final = "a segment for each batch"
EVERYWHERE: Final = (MEMORY, FILES, SEGMENTS)
BATCH_BY_BATCH: Final = (MEMORY, SEGMENTS)
"""Where each batch may go alone: files go by whole segments."""

CLUSTER: Final = "YWJjZGVmZ2hpamtsbW5vcA"
TOPIC_ID: Final = bytes(range(16))
NODE: Final = 1


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """In memory if there is such a place: many flushes take long on a disk."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)


class InFolder(RuleBasedStateMachine):
    """A machine with a folder of its own.

    Hypothesis also takes down machines for which it ran out of choices before they
    had begun: whatever is opened says then how it is closed, to `closing`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.closing = contextlib.ExitStack()
        self.root = Path(self.closing.enter_context(temporary_folder()))

    def teardown(self) -> None:
        """Nothing is left open, and no file."""
        self.closing.close()


def segments_of(partition: Partition) -> SegmentStore:
    """The store of a partition that is in files."""
    assert isinstance(partition.store, SegmentStore)
    return partition.store


def opened(
    path: Path,
    config: LogConfig = DEFAULTS,
    leader_epoch: int = 0,
    *,
    now_ms: int = 0,
    index: int = 0,
) -> tuple[DataDir, Partition]:
    """A data directory, and partition t-`index` in it."""
    folder = DataDir.open(path, CLUSTER, NODE)
    try:
        partition = folder.open_partition(
            "t", index, TOPIC_ID, config, leader_epoch, now_ms=now_ms
        )
    except BaseException:
        folder.close()
        raise
    return folder, partition


class Keeper:
    """Makes partitions, all in the same kind of place."""

    def __init__(self, kind: str, path: Path) -> None:
        self._kind = kind
        self._path = path
        self._folders: list[DataDir] = []

    def partition(
        self, config: LogConfig = DEFAULTS, *, leader_epoch: int = 0
    ) -> Partition:
        """An empty one."""
        if self._kind == MEMORY:
            return Partition("t-0", config, leader_epoch=leader_epoch)
        path = self._path / str(len(self._folders))
        folder, partition = opened(path, config, leader_epoch)
        self._folders.append(folder)
        if self._kind == SEGMENTS:

            def roll() -> None:
                segments_of(partition).roll(partition.log_end_offset)

            partition.watch(roll)
        return partition

    def close(self) -> None:
        """Closes what is in files."""
        for folder in self._folders:
            folder.close()
