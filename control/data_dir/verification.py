"""Verification: checks every file of a data directory, and changes none.

Reads all of it: checksums, offsets, indexes, checkpoints, snapshots, epochs, and the
cluster's files; of Apache Kafka's directories the same without the cluster's. Then a
start of the broker is rehearsed, which changes nothing and shows its effects.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kohort.broker.config import Config
from kohort.broker.log import checkpoints, files
from kohort.broker.log.directory import (
    FORMAT_KEY,
    LOCK,
    META,
    DataDir,
)
from kohort.broker.log.examination import Examination, Finding, Known
from kohort.broker.log.files import Deed
from kohort.broker.log.journal import CHANGES, CLUSTER, Journal
from kohort.broker.log.metadata import ClusterMetadata, MetadataError, TopicMetadata
from kohort.broker.log.segment import OFFSET_INDEX, TIME_INDEX, is_segment
from kohort.broker.log.segments import SegmentStore
from kohort.broker.log.settings import LogConfig
from kohort.broker.log.store import DataDirError, StorageError
from kohort.broker.topics.settings import log_config

_FORGOTTEN: Final = ("-delete", "-stray")
_OFFSETS: Final = (
    checkpoints.RECOVERY_POINTS,
    checkpoints.LOG_STARTS,
    checkpoints.CLEANER_OFFSETS,
)

Progress = Callable[[str, int], None]
"""Called with the partition that is read, and the bytes since the last call."""


class VerifyError(Exception):
    """There is nothing to verify, or it cannot be read."""


@dataclass(frozen=True)
class PartitionReport:
    """One partition.

    Attributes:
        name: topic and number; the folder's name where no topic has it.
        segments: how many there are.
        size: bytes of their batches.
        log_start: the first offset.
        log_end: the offset behind the last whole batch.
        records: how many are in whole batches.
        findings: damage and notes.
        start: the deeds of a start of the broker, a line each; the reason, if it
            would be refused.
        is_refused: whether a start would be refused.
    """

    name: str
    segments: int = 0
    size: int = 0
    log_start: int = 0
    log_end: int = 0
    records: int = 0
    findings: Sequence[Finding] = ()
    start: Sequence[str] = ()
    is_refused: bool = False


class Verification:
    """A directory and the findings in it.

    Attributes:
        path: where.
        kind: ``kohort``, ``kafka``, or ``partition`` for the folder of one.
        is_clean: whether the broker before stopped in order.
        partitions: in the order of their names.
        findings: about files that are no partition's.
        refusals: the reasons why a start would be refused, apart from partitions'.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self.path = path
        self.kind = kind
        self.is_clean = False
        self.partitions: list[PartitionReport] = []
        self.findings: list[Finding] = []
        self.refusals: list[str] = []

    @property
    def is_damaged(self) -> bool:
        """True if a file is damaged, or a start would be refused."""
        findings = [*self.findings]
        for report in self.partitions:
            findings += report.findings
        return self.is_refused or any(found.is_damage for found in findings)

    @property
    def is_refused(self) -> bool:
        """True if a start of the broker would be refused."""
        return bool(self.refusals) or any(each.is_refused for each in self.partitions)


def verify(path: Path, progress: Progress = lambda _, __: None) -> Verification:
    """Reads a data directory, of kohort's or of Kafka's, or one partition's folder.

    Args:
        path: where. No broker may use it meanwhile, and none can start on it.
        progress: see `Progress`.

    Raises:
        VerifyError: there is nothing to verify, a broker uses it, or files cannot be
            read.
    """
    path = path.absolute()
    if not path.is_dir():
        raise VerifyError(f"{path} is not a directory")
    try:
        if any(map(is_segment, files.names_in(path))):
            found = Verification(path, "partition")
            found.partitions.append(_examined(path, path.name, Known(), progress))
            return found
        with _locked(path):
            return _Directory(path, progress).run()
    except StorageError as error:
        raise VerifyError(str(error)) from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keeps brokers away. Java's locks are others than kohort's: both are taken."""
    try:
        fd = os.open(path / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        # A copy need not have one.
        yield
        return
    except OSError as error:
        raise files.failure("open", path / LOCK, error) from None
    import fcntl  # Windows has none.

    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise VerifyError(
                f"{path} is in use by another process: stop it, or verify a copy"
            ) from None
        yield
    finally:
        os.close(fd)


def _examined(
    folder: Path, name: str, known: Known, progress: Progress
) -> PartitionReport:
    examination = Examination(folder, known, lambda size: progress(name, size))
    examination.run()
    return PartitionReport(
        name,
        examination.segments,
        examination.size,
        examination.log_start,
        examination.log_end,
        examination.records,
        examination.findings,
    )


class _Directory:
    """Verifies one data directory."""

    def __init__(self, path: Path, progress: Progress) -> None:
        self._path = path
        self._progress = progress
        self._config = Config({})
        self._names = files.names_in(path)
        meta = checkpoints.read_properties(files.read_file(path / META) or b"")
        self._node_id = meta.get("node.id", "")
        self._is_kohort = FORMAT_KEY in meta or CLUSTER in self._names
        kind = "kohort" if self._is_kohort else "kafka"
        self._found = Verification(path, kind)
        self._found.is_clean = checkpoints.CLEAN_SHUTDOWN in self._names
        self._topics: dict[str, TopicMetadata] = {}
        self._deleted: set[str] = set()
        self._offsets: dict[str, dict[checkpoints.TopicPartition, int]] = {}
        self._data_dir: DataDir | None = None
        self._deeds: list[Deed] = []

    def run(self) -> Verification:
        """Reads and checks all files."""
        folders = [name for name in self._names if self._is_partition(name)]
        if not folders and META not in self._names and not self._is_kohort:
            raise VerifyError(f"{self._path} is not a data directory")
        self._read_checkpoints(has_partitions=bool(folders))
        if self._is_kohort:
            with files.rehearsed() as self._deeds:
                self._read_cluster()
                self._verify_all(folders)
        else:
            self._verify_all(folders)
        return self._found

    def _is_partition(self, name: str) -> bool:
        return (
            checkpoints.topic_partition(name) is not None
            and (self._path / name).is_dir()
        )

    def _find(self, name: str, what: str, *, is_damage: bool = True) -> None:
        self._found.findings.append(Finding(self._path / name, what, is_damage))

    # -- the cluster's files

    def _read_checkpoints(self, *, has_partitions: bool) -> None:
        for name in _OFFSETS:
            offsets = checkpoints.read_offsets(self._path / name)
            self._offsets[name] = offsets or {}
            if offsets is None:
                self._find(name, "it is incomplete")
            elif name not in self._names and has_partitions and self._found.is_clean:
                self._find(name, "it is missing")

    def _read_cluster(self) -> None:
        metadata: ClusterMetadata | None = None
        try:
            journal = Journal(self._path)
        except MetadataError as error:
            self._find(CLUSTER, str(error))
        else:
            metadata, self._deleted = journal.found, journal.deleted
            if journal.torn:
                what = f"its last {journal.torn} bytes are half a change"
                self._find(CHANGES, what, is_damage=self._found.is_clean)
        if metadata is not None:
            self._topics = dict(metadata.topics)
        missing = {CLUSTER, META} - {*self._names}
        for name in sorted(missing):
            if name == META or CHANGES not in self._names:
                self._find(name, "it is missing")
        try:
            node_id = int(self._node_id)
        except ValueError:
            node_id = 0
            self._find(META, "it has no node.id")
        try:
            self._data_dir = DataDir.rehearse(self._path, node_id)
        except DataDirError as error:
            self._found.refusals.append(str(error))

    # -- partitions

    def _verify_all(self, folders: list[str]) -> None:
        expected = {
            f"{name}-{index}"
            for name, topic in self._topics.items()
            for index in range(len(topic.partitions))
        }
        for name in sorted(expected | set(folders)):
            if name not in folders:
                self._find(name, "the folder of this partition is missing")
            elif self._is_kohort and name not in expected:
                self._find_stray(name)
            self._verify_one(name, exists=name in folders, is_expected=name in expected)
        for name in self._names:
            if name.endswith(_FORGOTTEN):
                self._find(name, "left over from a deleted topic", is_damage=False)

    def _find_stray(self, name: str) -> None:
        """A crash leaves the folder of a topic that is being created or deleted."""
        folder = self._path / name
        sizes = [
            files.size_and_time(folder / each)[0]
            for each in files.names_in(folder)
            if is_segment(each)
        ]
        is_deleted = name.rpartition("-")[0] in self._deleted
        is_damage = self._found.is_clean or (any(sizes) and not is_deleted)
        self._find(name, "it has no topic", is_damage=is_damage)

    def _verify_one(self, name: str, *, exists: bool, is_expected: bool) -> None:
        key = checkpoints.topic_partition(name)
        assert key is not None
        topic = key[0]
        saved = self._topics.get(topic)
        try:
            config = log_config(self._config, saved.overrides if saved else {})
        except ValueError as error:
            why = f"topic {topic} has an invalid configuration: {error}"
            self._found.refusals.append(why)
            return
        cleaner = self._offsets[checkpoints.CLEANER_OFFSETS]
        known = Known(
            self._offsets[checkpoints.RECOVERY_POINTS].get(key, 0),
            self._offsets[checkpoints.LOG_STARTS].get(key, 0),
            not self._is_kohort or "compact" in config.cleanup_policy or key in cleaner,
            self._found.is_clean,
            self._is_kohort,
        )
        report = PartitionReport(name)
        if exists:
            report = _examined(self._path / name, name, known, self._progress)
        if is_expected and saved is not None and self._data_dir is not None:
            report = self._rehearsed(report, self._data_dir, key, saved, config)
        elif self._is_kohort and not is_expected:
            report = replace(report, start=["renames it, or removes it if it is empty"])
        if exists or report.start:
            self._found.partitions.append(report)

    def _rehearsed(
        self,
        report: PartitionReport,
        data_dir: DataDir,
        key: checkpoints.TopicPartition,
        saved: TopicMetadata,
        config: LogConfig,
    ) -> PartitionReport:
        del self._deeds[:]
        topic, index = key
        if any(".swap" in found.path.name for found in report.findings):
            return replace(report, start=["finishes a compaction"])
        try:
            partition = data_dir.open_partition(topic, index, saved.id, config, 0)
        except (DataDirError, StorageError) as error:
            is_new = not (self._path / report.name).exists()
            if is_new and isinstance(error, StorageError):
                # It would have been made, but for the rehearsal.
                return replace(report, start=["recreates it without records"])
            return replace(report, start=[str(error)], is_refused=True)
        assert isinstance(partition.store, SegmentStore)
        partition.store.release()
        return replace(report, start=list(_start_lines(self._deeds, report)))


def _start_lines(deeds: Sequence[Deed], report: PartitionReport) -> Iterator[str]:
    """The deeds that change records, a line each."""
    damaged = {found.path for found in report.findings}
    anew = set()
    for deed in deeds:
        if deed.what == "cut":
            yield f"cuts {deed.path.name} off behind byte {deed.size}"
        elif deed.what == "write" and deed.path in damaged:
            anew.add(deed.path.name)
        elif deed.what == "remove" and deed.path in damaged:
            yield f"removes {deed.path.name}"
    for name in sorted(anew):
        yield f"writes {name} anew"
    is_read = any(found.offset is not None for found in report.findings)
    if is_read and not any(deed.what == "cut" for deed in deeds):
        yield "does not notice the damaged records: consumers do"
    for path in sorted(damaged):
        is_index = path.suffix in (OFFSET_INDEX, TIME_INDEX)
        if is_index and path.name not in anew and path.exists():
            yield f"does not read {path.name}; without that file it is made anew"
