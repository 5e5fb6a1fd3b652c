"""The data directory of a broker: Kafka's layout, with kohort's additions.

meta.properties       Kafka's, and kohort.format
.lock                 locked by the process that uses the directory
cluster.json          topics, leaders, configuration changed at run time
cluster.log           the changes since cluster.json was written
TOPIC-N/              a partition, as in Kafka
*-checkpoint          offsets per partition, as in Kafka
.kafka_cleanshutdown  exists only while no broker runs that might crash
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Final

from kohort.broker.log import checkpoints, files
from kohort.broker.log.checkpoints import TopicPartition, topic_partition
from kohort.broker.log.files import Files
from kohort.broker.log.journal import CHANGES, CLUSTER, Journal
from kohort.broker.log.metadata import ClusterChange, ClusterMetadata, MetadataError
from kohort.broker.log.partition import Partition
from kohort.broker.log.recovery import DamagedLogError, Recovery
from kohort.broker.log.segment import LOG
from kohort.broker.log.segments import Keeper, SegmentStore
from kohort.broker.log.settings import LogConfig
from kohort.broker.log.store import DataDirError, StorageError
from kohort.broker.long_work import finish
from kohort.broker.telemetry import Logger

log = Logger("kohort.log")

FORMAT: Final = 1
META: Final = "meta.properties"
LOCK: Final = ".lock"
FORMAT_KEY: Final = "kohort.format"

_MINE = {LOCK, META + ".tmp", "lost+found"}
_DELETE = "-delete"
_STRAY = "-stray"
_LONGEST_NAME: Final = 255
"""Bytes of a file name; topic names are ASCII, with up to 249."""


class DataDir:
    """A data directory that this process has locked.

    Attributes:
        path: its path.
        cluster_id: id of the cluster that it belongs to.
        journal: the cluster's metadata on the disk; `open` sets it.
        is_clean: whether the previous broker stopped cleanly.
    """

    def __init__(self, path: Path, lock: int) -> None:
        """Takes over the lock; call `open` instead."""
        self.path = path
        self.cluster_id = ""
        self.journal: Journal
        self.is_clean = False
        self._lock = lock
        self._files = Files()
        self._partitions: dict[TopicPartition, Partition] = {}
        self._unopened: set[str] = set()
        self._offsets: dict[str, dict[TopicPartition, int]] = {}
        self._written: dict[str, dict[TopicPartition, int]] = {}
        self._has_new_folders = False

    @classmethod
    def open(cls, path: Path, cluster_id_if_new: str, node_id: int) -> DataDir:
        """Locks a directory, and creates it if it is new.

        Args:
            path: the directory.
            cluster_id_if_new: cluster id of a new directory.
            node_id: id of the broker; a directory of another one is refused.

        Raises:
            DataDirError: it is in use, belongs to another broker, cannot be read or
                written, or is damaged.
        """
        path = path.absolute()
        try:
            files.make_folder(path)
            # Before locking, so that no lock file is left in a foreign directory.
            _checked_meta(path, node_id)
            made = cls(path, _locked(path))
        except StorageError as error:
            raise DataDirError(
                f"{path} cannot be the data directory: {error}"
            ) from None
        try:
            made._load(cluster_id_if_new, node_id)
        except StorageError as error:
            made._unlock()
            raise DataDirError(
                f"{path} cannot be the data directory: {error}"
            ) from None
        except DataDirError:
            made._unlock()
            raise
        return made

    @classmethod
    def rehearse(cls, path: Path, node_id: int) -> DataDir:
        """Reads a directory as `open` does, in a rehearsal (`files.rehearsed`).

        Raises:
            As `open`.
        """
        made = cls(path.absolute(), -1)
        made._load("", node_id)
        return made

    def _load(self, cluster_id_if_new: str, node_id: int) -> None:
        meta = _checked_meta(self.path, node_id)
        if meta is None:
            self._begin(cluster_id_if_new, node_id)
        else:
            self.cluster_id = meta["cluster.id"]
        try:
            self.journal = Journal(self.path)
        except MetadataError as error:
            raise DataDirError(str(error)) from None
        for name in (
            checkpoints.RECOVERY_POINTS,
            checkpoints.LOG_STARTS,
            checkpoints.CLEANER_OFFSETS,
        ):
            offsets = checkpoints.read_offsets(self.path / name)
            if offsets is None:
                # Recovery works without it, but reads more.
                log.warning("checkpoint_not_used", path=str(self.path / name))
            elif files.size_and_time(self.path / name)[0] >= 0:
                self._written[name] = dict(offsets)
            self._offsets[name] = offsets or {}
        for name in files.names_in(self.path):
            if name.endswith(_DELETE):
                self._remove(self.path / name)
            elif not name.endswith(_STRAY) and topic_partition(name) is not None:
                self._unopened.add(name)
        marker = self.path / checkpoints.CLEAN_SHUTDOWN
        self.is_clean = files.size_and_time(marker)[0] >= 0
        if self.is_clean and self.journal.torn:
            raise DataDirError(
                f"{self.path / CHANGES} is damaged: the last line is not whole, and "
                "the broker had stopped cleanly"
            )
        files.remove(marker)
        # After a power loss it must not reappear.
        files.sync_folder(self.path)

    def _begin(self, cluster_id: str, node_id: int) -> None:
        meta = {
            "version": "1",
            "cluster.id": cluster_id,
            "node.id": str(node_id),
            FORMAT_KEY: str(FORMAT),
        }
        files.replace_file(self.path / META, checkpoints.properties(meta))
        self.cluster_id = cluster_id

    # -- the cluster

    @property
    def metadata(self) -> ClusterMetadata | None:
        """The cluster's metadata at the start; None in a new directory."""
        return self.journal.found

    def save(self, metadata: ClusterMetadata) -> None:
        """Saves the cluster's metadata atomically.

        Raises:
            StorageError: the save failed; the previous metadata stays.
        """
        rest = metadata.without_topics
        finish(self.journal.rewrite(metadata.topics.items(), rest))

    def write_change(self, change: ClusterChange) -> None:
        """Saves a change of the cluster, after the folders that it is about.

        Raises:
            StorageError: the save failed; a start finds the previous state.
        """
        if self._has_new_folders:
            files.sync_folder(self.path)
            self._has_new_folders = False
        self.journal.append(change)

    # -- partitions

    def open_partition(
        self,
        topic: str,
        index: int,
        topic_id: bytes,
        config: LogConfig,
        leader_epoch: int,
        *,
        now_ms: int = 0,
    ) -> Partition:
        """Opens a partition; recovers it if necessary, creates it if it is new.

        The folder of an older topic with that name is moved aside.

        Args:
            topic: the topic's name.
            index: the index of the partition.
            topic_id: 16 bytes.
            config: the topic's settings.
            leader_epoch: the least epoch that the partition begins with. The resulting
                `Partition.leader_epoch` may be newer.
            now_ms: ms since the epoch: producers that have expired by then are
                forgotten.

        Raises:
            DataDirError: acknowledged records may be lost, so it is not opened.
            StorageError: files cannot be read or written.
        """
        key, name = (topic, index), f"{topic}-{index}"
        folder = self.path / name
        is_saved = self._is_saved(key, topic_id)
        if name in self._unopened:
            self._put_aside_another(folder, topic_id, is_saved=is_saved)
        if name in self._unopened:
            store = self._recovered(folder, key, config)
            self._unopened.discard(name)
        else:
            if is_saved:
                self._check_is_empty(folder, key)
            store = self._made(folder, key, topic_id, config)
        store.config = config
        store.first_dirty_offset = self._offset(checkpoints.CLEANER_OFFSETS, key)
        store.state.producers.expire(now_ms - config.producer_id_expiration_ms)
        try:
            partition = Partition(name, config, leader_epoch=leader_epoch, store=store)
        except StorageError:
            store.release()
            raise
        self._partitions[key] = partition
        return partition

    def _recovered(
        self, folder: Path, key: TopicPartition, config: LogConfig
    ) -> SegmentStore:
        recovery = Recovery(
            folder,
            self._files,
            self._offset(checkpoints.RECOVERY_POINTS, key),
            self._offset(checkpoints.LOG_STARTS, key),
            config.index_interval_bytes,
            may_have_gaps="compact" in config.cleanup_policy
            or key in self._offsets[checkpoints.CLEANER_OFFSETS],
            is_clean=self.is_clean,
        )
        keeper = Keeper(
            partial(self._keep_offset, checkpoints.LOG_STARTS, key),
            partial(self._keep_compacted, key),
        )
        try:
            return recovery.open(keeper)
        except DamagedLogError as error:
            raise DataDirError(str(error)) from None

    def _made(
        self, folder: Path, key: TopicPartition, topic_id: bytes, config: LogConfig
    ) -> SegmentStore:
        self._forget(key)
        # Before a folder exists to which rows of an earlier topic would apply.
        self._write_forgotten(key)
        files.make_folder(folder)
        self._has_new_folders = True
        checkpoints.write_topic_id(folder, topic_id)
        return self._recovered(folder, key, config)

    def _is_saved(self, key: TopicPartition, topic_id: bytes) -> bool:
        """Returns whether the partition had been created before its topic was saved."""
        topic, index = key
        saved = None if self.metadata is None else self.metadata.topics.get(topic)
        if saved is None or saved.id != topic_id:
            return False
        return index < len(saved.partitions)

    def _check_is_empty(self, folder: Path, key: TopicPartition) -> None:
        """Refuses a missing folder with flushed records, which no crash removes."""
        flushed = max(
            self._offset(checkpoints.RECOVERY_POINTS, key),
            self._offset(checkpoints.LOG_STARTS, key),
        )
        if flushed:
            raise DataDirError(
                f"{folder} is missing, and had been flushed up to offset {flushed}"
            )
        log.warning("partition_missing", folder=str(folder))

    def _put_aside_another(
        self, folder: Path, topic_id: bytes, *, is_saved: bool
    ) -> None:
        """Moves folders that a crash left of a topic being created or deleted."""
        found = checkpoints.read_topic_id(folder)
        if found == topic_id:
            return
        if found is not None and is_saved:
            # No crash mixes up folders that were on the disk before the topic was.
            raise DataDirError(
                f"{folder} is not the topic's: its {checkpoints.PARTITION_METADATA} "
                f"has the id {found.hex()}, and {CLUSTER} has {topic_id.hex()}"
            )
        if found is None:
            # A crash before the id was on the disk: only the id is lost.
            checkpoints.write_topic_id(folder, topic_id)
            return
        self._put_aside(folder, found)

    def _put_aside(self, folder: Path, topic_id: bytes) -> None:
        sizes = (
            files.size_and_time(folder / name)[0]
            for name in files.names_in(folder)
            if name.endswith(LOG)
        )
        if any(sizes):
            aside = _renamed(folder, topic_id.hex() + _STRAY)
            if files.size_and_time(aside)[0] >= 0:
                # The folder was restored by hand: the user may want both.
                aside = _renamed(folder, os.urandom(16).hex() + _STRAY)
            files.rename(folder, aside)
            log.warning("partition_put_aside", folder=str(aside))
        else:
            files.remove_folder(folder)
        self._unopened.discard(folder.name)

    def _offset(self, name: str, key: TopicPartition) -> int:
        return self._offsets[name].get(key, 0)

    def _forget(self, key: TopicPartition) -> None:
        for offsets in self._offsets.values():
            offsets.pop(key, None)

    def _write_forgotten(self, key: TopicPartition) -> None:
        """Removes a partition's rows from the checkpoints on the disk, if it has any.

        Rows of other deleted partitions are removed, too: one round of writing is
        enough for a whole topic.
        """
        for name, written in self._written.items():
            if key in written:
                self._write_offsets(name)

    def _remove(self, folder: Path) -> None:
        """Removes the folder of a deleted partition, if possible."""
        try:
            files.remove_folder(folder)
        except StorageError as error:
            # It conflicts with no other folder, and the next start tries again.
            log.warning("folder_not_deleted", reason=str(error))

    def put_aside_the_rest(self) -> None:
        """Moves partitions aside that have not been opened: they belong to no topic.

        A crash leaves them when a topic is being created or deleted. Until they are
        gone, a stop after a crash is not a clean one.

        Raises:
            StorageError: a folder cannot be renamed or removed.
        """
        for name in sorted(self._unopened):
            folder = self.path / name
            found = checkpoints.read_topic_id(folder) or os.urandom(16)
            self._put_aside(folder, found)
            key = topic_partition(name)
            if key is not None:
                self._forget(key)

    def delete_partition(self, topic: str, index: int) -> None:
        """Closes a partition, and deletes its files.

        Raises:
            StorageError: they cannot be deleted; the next start tries again, if they
                could at least be renamed.
        """
        key, name = (topic, index), f"{topic}-{index}"
        partition = self._partitions.pop(key, None)
        folder = self.path / name
        self._unopened.discard(name)
        self._forget(key)
        if partition is not None:
            partition.is_closed = True
            partition.wake()
            _store(partition).release()
        if files.size_and_time(folder)[0] >= 0:
            # Renamed first, so that half of it is never taken for a partition.
            gone = _renamed(folder, os.urandom(16).hex() + _DELETE)
            try:
                files.rename(folder, gone)
            except StorageError:
                # A topic that is created anew must not find it.
                self._unopened.add(name)
                raise
            files.remove_folder(gone)

    # -- flushing and checkpoints

    def flush(self, now_ms: int) -> None:
        """Flushes the partitions whose ``flush.ms`` has passed; errors are logged."""
        for partition in self._partitions.values():
            if not _store(partition).must_flush(now_ms):
                continue
            try:
                partition.flush()
            except StorageError as error:
                name = partition.name
                log.error("log_flush_failed", partition=name, reason=str(error))

    def checkpoint(self) -> None:
        """Saves how far logs are flushed and compacted, and where they start.

        Raises:
            StorageError: the save failed.
        """
        for key, partition in self._partitions.items():
            store = _store(partition)
            self._offsets[checkpoints.RECOVERY_POINTS][key] = store.recovery_point
            if store.first_dirty_offset:
                dirty = self._offsets[checkpoints.CLEANER_OFFSETS]
                dirty[key] = store.first_dirty_offset
        for name in (checkpoints.RECOVERY_POINTS, checkpoints.CLEANER_OFFSETS):
            self._write_offsets(name)
        for key, partition in self._partitions.items():
            self._note_log_start(key, _store(partition))
        self._write_offsets(checkpoints.LOG_STARTS)

    def _write_offsets(self, name: str) -> None:
        offsets = self._offsets[name]
        if self._written.get(name) != offsets:
            checkpoints.write_offsets(self.path / name, offsets)
            self._written[name] = dict(offsets)

    def _note_log_start(self, key: TopicPartition, store: SegmentStore) -> None:
        offsets = self._offsets[checkpoints.LOG_STARTS]
        start = store.state.log_start_offset
        # For others the files show the start, as in Kafka. Once there is a row it
        # stays: a segment before it may still exist.
        if start > store.segments[0].base_offset or key in offsets:
            offsets[key] = start

    def allow_gaps(self, topic: str, index: int) -> None:
        """Notes, before opening a partition, that it may have been compacted."""
        self._offsets[checkpoints.CLEANER_OFFSETS].setdefault((topic, index), 0)

    def _keep_compacted(self, key: TopicPartition) -> None:
        """Saves that a log may have been compacted, as a checkpoint row.

        Raises:
            StorageError: the save failed.
        """
        if key not in self._offsets[checkpoints.CLEANER_OFFSETS]:
            self._keep_offset(checkpoints.CLEANER_OFFSETS, key, 0)

    def _keep_offset(self, name: str, key: TopicPartition, offset: int) -> None:
        """Writes a partition's row of a checkpoint, and flushes it.

        Raises:
            StorageError: the write failed; the row is unchanged.
        """
        before = self._offsets[name]
        self._offsets[name] = before | {key: offset}
        try:
            self._write_offsets(name)
        except StorageError:
            self._offsets[name] = before
            raise

    def close(self) -> None:
        """Flushes all partitions, marks the stop as clean, and unlocks.

        Errors are logged; the next start then recovers.
        """
        is_clean = (not self._unopened or self.is_clean) and not self.journal.torn
        try:
            for partition in self._partitions.values():
                try:
                    partition.close()
                except StorageError as error:
                    is_clean = False
                    log.error(
                        "log_close_failed", partition=partition.name, reason=str(error)
                    )
            self.checkpoint()
            if is_clean:
                marker = self.path / checkpoints.CLEAN_SHUTDOWN
                files.replace_file(marker, checkpoints.CLEAN_SHUTDOWN_TEXT)
        except StorageError as error:
            log.error("data_dir_close_failed", path=str(self.path), reason=str(error))
        finally:
            self._files.close()
            self._unlock()

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _store(partition: Partition) -> SegmentStore:
    store = partition.store
    assert isinstance(store, SegmentStore)
    return store


def _locked(path: Path) -> int:
    """Locks the directory; the lock ends with the process, however that ends."""
    if sys.platform == "win32":
        raise DataDirError(
            f"{path}: data directories do not work on Windows; leave them out"
        )
    import fcntl

    with files.storage_errors("open", path / LOCK):
        fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        if isinstance(error, BlockingIOError):
            raise DataDirError(f"{path} is in use by another process") from None
        raise files.failure("lock", path / LOCK, error) from error
    return fd


def _checked_meta(path: Path, node_id: int) -> dict[str, str] | None:
    """meta.properties of a usable directory; None if it is new."""
    data = files.read_file(path / META)
    if data is None:
        foreign = sorted(set(files.names_in(path)) - _MINE)
        if foreign:
            raise DataDirError(
                f"{path} is no data directory of kohort, and not empty: "
                f"{foreign[0]} is in it"
            )
        return None
    meta = checkpoints.read_properties(data)
    found, version = meta.get(FORMAT_KEY, ""), meta.get("version")
    if not found and "version" in meta:
        raise DataDirError(
            f"{path} belongs to Apache Kafka, and kohort does not write to it; "
            f"`kohort inspect {path}` shows its groups and offsets"
        )
    if not found.isdigit() or "cluster.id" not in meta:
        raise DataDirError(f"{path / META} is damaged: no {FORMAT_KEY}, or no cluster")
    if int(found) > FORMAT or version != "1":
        raise DataDirError(
            f"{path} was written by a newer kohort: format {found}, version "
            f"{version}; this one reads format {FORMAT}, version 1"
        )
    if meta.get("node.id") != str(node_id):
        raise DataDirError(
            f"{path} belongs to node {meta.get('node.id')}, and this is node {node_id}"
        )
    return meta


def _renamed(folder: Path, ending: str) -> Path:
    """Renames a partition's folder; cuts off long topic names, as Kafka does.

    The partition's index stays, so that no two partitions of a topic collide.
    """
    topic, _, index = folder.name.rpartition("-")
    ending = f"-{index}.{ending}"
    return folder.with_name(topic[: _LONGEST_NAME - len(ending)] + ending)
