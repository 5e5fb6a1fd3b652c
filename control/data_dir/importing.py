"""Import: makes a data directory of kohort from one of Apache Kafka.

Kafka's files are copied and never changed; the copies are checked as after a crash.
A log directory of Kafka has no configuration of topics, so imported topics have
kohort's defaults, and one replica.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from kohort.broker.config import Config
from kohort.broker.ids import Ids
from kohort.broker.log import checkpoints
from kohort.broker.log.directory import DataDir
from kohort.broker.log.metadata import (
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)
from kohort.broker.log.store import DataDirError
from kohort.broker.topics.settings import log_config, offsets_topic_overrides
from kohort.broker.topics.topic import OFFSETS_TOPIC, why_no_topic_name
from kohort.protocol.slotted import slotted

_KEPT: Final = (".log", ".snapshot")
"""Suffixes of the files that are copied, with `_KEPT_FILES`; indexes are rebuilt."""
_KEPT_FILES: Final = ("partition.metadata", "leader-epoch-checkpoint")
_NO_TOPICS: Final = frozenset({"__cluster_metadata"})
"""The log of Kafka's controllers is no topic."""

_FIRST_PRODUCER_ID: Final = 2**32
"""Kafka assigns ids from 0 on, in blocks of a thousand, and the imported logs know
producers with them. No cluster comes this far."""


@slotted
class Imported:
    """An imported topic: its partitions, and how many of them the source has."""

    topic: str
    partitions: int
    found: int
    records: int
    """Offsets between the start and the end of all its logs."""
    damaged: Sequence[tuple[str, int]] = ()
    """Partitions whose logs end in damage, and the bytes that were left out."""


def import_kafka(
    source: Path,
    target: Path,
    config: Config,
    *,
    topics: Sequence[str] = (),
    now_ms: int,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Imported]:
    """Makes a data directory from one of Kafka's.

    Args:
        source: a data directory of Kafka, or the folder of one partition. It must
            not change meanwhile.
        target: the directory to make; new, or empty.
        config: the configuration of the broker that is to use it: says how many
            partitions ``__consumer_offsets`` has, which are empty where they are
            not in the source.
        topics: which topics to import; all by default.
        now_ms: ms since the epoch.
        progress: called with the folder that is being copied.

    Raises:
        DataDirError: there is nothing to import, or the target cannot be used.
        OSError: files cannot be copied.
    """
    folders = _partitions(source, topics)
    node_id = config["node.id"]
    # Opened and closed, so that it is a data directory before it has partitions.
    data_dir = DataDir.open(target, _cluster_id(source), node_id)
    data_dir.close()
    if data_dir.metadata is not None:
        # Its topics would not be topics any more.
        raise DataDirError(f"{target} belongs to a broker and already has topics")
    try:
        return _filled(target, folders, config, now_ms, progress)
    except BaseException:
        # Half of it would be taken for all of it.
        shutil.rmtree(target, ignore_errors=True)
        raise


def _filled(
    target: Path,
    folders: dict[str, dict[int, Path]],
    config: Config,
    now_ms: int,
    progress: Callable[[str], None],
) -> list[Imported]:
    (target / checkpoints.CLEAN_SHUTDOWN).unlink(missing_ok=True)
    for name, indexes in folders.items():
        for index, folder in indexes.items():
            progress(folder.name)
            _copy(folder, target / f"{name}-{index}")
    data_dir = DataDir.open(target, "", config["node.id"])
    try:
        return _adopted(data_dir, folders, config, now_ms)
    finally:
        data_dir.close()


def _partitions(source: Path, topics: Sequence[str]) -> dict[str, dict[int, Path]]:
    """Folders by topic and partition."""
    candidates = [source] if checkpoints.topic_partition(source.name) else []
    if source.is_dir() and not any(source.glob("*.log")):
        candidates = sorted(path for path in source.iterdir() if path.is_dir())
    found: dict[str, dict[int, Path]] = {}
    for path in candidates:
        topic, index = checkpoints.topic_partition(path.name) or ("", 0)
        if why_no_topic_name(topic) or not any(path.glob("*.log")):
            continue
        if topic not in _NO_TOPICS and (not topics or topic in topics):
            found.setdefault(topic, {})[index] = path
    missing = sorted(set(topics) - found.keys())
    if missing or not found:
        what = f"topic {missing[0]}" if missing else "partitions of Apache Kafka"
        raise DataDirError(f"{source} has no {what}")
    return found


def _cluster_id(source: Path) -> str:
    for folder in (source, source.parent):
        try:
            data = (folder / "meta.properties").read_bytes()
        except OSError:
            continue
        found = checkpoints.read_properties(data).get("cluster.id")
        if found:
            return found
    return Ids().cluster_id()


def _copy(source: Path, target: Path) -> None:
    target.mkdir()
    for path in sorted(source.iterdir()):
        if path.suffix in _KEPT or path.name in _KEPT_FILES:
            shutil.copyfile(path, target / path.name)


def _adopted(
    data_dir: DataDir,
    folders: dict[str, dict[int, Path]],
    config: Config,
    now_ms: int,
) -> list[Imported]:
    """Opens, and so checks, all logs; writes down which topics there are."""
    imported: list[Imported] = []
    saved: dict[str, TopicMetadata] = {}
    ids = Ids()
    for name, found in folders.items():
        count = max(found) + 1
        if name == OFFSETS_TOPIC:
            count = max(count, config["offsets.topic.num.partitions"])
        first = data_dir.path / f"{name}-{min(found)}"
        topic_id = checkpoints.read_topic_id(first) or ids.topic_id()
        overrides = offsets_topic_overrides(config) if name == OFFSETS_TOPIC else {}
        rows, records, damaged = [], 0, []
        for index in range(count):
            if index in found:
                # Kafka may have compacted it under an earlier policy of the topic.
                data_dir.allow_gaps(name, index)
            partition = data_dir.open_partition(
                name, index, topic_id, log_config(config, overrides), 0, now_ms=now_ms
            )
            records += partition.log_end_offset - partition.log_start_offset
            if index in found:
                size = sum(log.stat().st_size for log in found[index].glob("*.log"))
                if size > partition.size_in_bytes:
                    lost = size - partition.size_in_bytes
                    damaged.append((f"{name}-{index}", lost))
            node_id = config["node.id"]
            rows.append(PartitionMetadata([node_id], node_id, partition.leader_epoch))
        saved[name] = TopicMetadata(topic_id, overrides, rows)
        imported.append(Imported(name, count, len(found), records, damaged))
    data_dir.save(ClusterMetadata(saved, {}, _FIRST_PRODUCER_ID))
    return imported
