"""The stores of a scene's partition: in memory or in files."""

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
"""The stores in which each batch can be dropped alone: files drop whole segments."""

CLUSTER: Final = "YWJjZGVmZ2hpamtsbW5vcA"
TOPIC_ID: Final = bytes(range(16))
NODE: Final = 1


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """In memory if possible: many flushes are slow on a disk."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)


class InFolder(RuleBasedStateMachine):
    """A state machine with a folder.

    Hypothesis also tears down machines that had no choices left before they began, so
    whatever is opened registers its closing with `closing`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.closing = contextlib.ExitStack()
        self.root = Path(self.closing.enter_context(temporary_folder()))

    def teardown(self) -> None:
        """Closes everything, and removes all files."""
        self.closing.close()


def segments_of(partition: Partition) -> SegmentStore:
    """The store of a partition in files."""
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
    """Makes partitions, all in the same kind of store."""

    def __init__(self, kind: str, path: Path) -> None:
        self._kind = kind
        self._path = path
        self._folders: list[DataDir] = []

    def partition(
        self, config: LogConfig = DEFAULTS, *, leader_epoch: int = 0
    ) -> Partition:
        """An empty partition."""
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
        """Closes partitions in files."""
        for folder in self._folders:
            folder.close()
