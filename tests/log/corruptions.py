"""Damages a data directory repeatedly, and compares two verdicts on it.

``kohort verify`` says what is damaged and whether a start would be refused; a start of
the same directory shows whether that is true, and what it serves. By hand::

    python -m tests.log.corruptions --count 500 --seed 1
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.log.storage import CLUSTER, NODE, temporary_folder
from tests.log.transacting import EVERYTHING, committed_offsets, transact

from kohort.broker import telemetry
from kohort.broker.log import checkpoints, files
from kohort.broker.log.compaction import clean
from kohort.broker.log.directory import META, DataDir
from kohort.broker.log.metadata import (
    ClusterChange,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)
from kohort.broker.log.partition import Partition
from kohort.broker.log.settings import LogConfig
from kohort.broker.log.store import DataDirError, StorageError
from kohort.control.data_dir.verification import verify
from kohort.protocol.messages import WireError
from kohort.protocol.records import Record, build_batch, read_headers

NOW: Final = 1_700_000_000_000
COMPACTED: Final = {"cleanup.policy": "compact"}
TOPICS: Final = {
    "plain": (b"p" * 16, {}, 2),
    "compacted": (b"c" * 16, COMPACTED, 1),
    "deleted": (b"d" * 16, {}, 1),
    "empty": (b"e" * 16, {}, 1),
    "transactional": (b"t" * 16, {}, 1),
    "transactional-compacted": (b"u" * 16, COMPACTED, 1),
}
NEW_TOPIC: Final = {
    "new": TopicMetadata(b"n" * 16, {}, [PartitionMetadata([NODE], NODE, 0)])
}
"""The last change in cluster.log, unless the stop was clean."""


def config_of(topic: str) -> LogConfig:
    """Segments so small that a few records fill several."""
    return LogConfig(
        segment_bytes=900,
        index_interval_bytes=200,
        cleanup_policy="compact" if "compacted" in topic else "delete",
        min_cleanable_dirty_ratio=0.0,
        retention_ms=-1,
    )


def opened_all(path: Path) -> tuple[DataDir, dict[tuple[str, int], Partition], str]:
    """A directory, its partitions, and the reason if some cannot be opened.

    The broker has the node id of the directory: verify knows no other.
    """
    meta = checkpoints.read_properties(files.read_file(path / META) or b"")
    node_id = meta.get("node.id", "")
    data = DataDir.open(path, CLUSTER, int(node_id) if node_id.isdigit() else NODE)
    metadata, found, why = data.metadata, {}, ""
    for name, topic in ({} if metadata is None else metadata.topics).items():
        for index in range(len(topic.partitions)):
            try:
                found[name, index] = data.open_partition(
                    name, index, topic.id, config_of(name), 1
                )
            except (DataDirError, StorageError) as error:
                why = why or str(error)
    return data, found, why


def make(path: Path, *, is_clean: bool) -> None:
    """A directory of several topics, stopped cleanly or not."""
    data = DataDir.open(path, CLUSTER, NODE)
    rows = {
        name: TopicMetadata(
            topic_id, overrides, [PartitionMetadata([NODE], NODE, 0)] * count
        )
        for name, (topic_id, overrides, count) in TOPICS.items()
    }
    partitions = {
        (name, index): data.open_partition(name, index, topic_id, config_of(name), 0)
        for name, (topic_id, _, count) in TOPICS.items()
        for index in range(count)
    }
    data.save(ClusterMetadata(rows, {}, 0))
    new = data.open_partition("new", 0, NEW_TOPIC["new"].id, config_of("new"), 0)
    data.write_change(ClusterChange(NEW_TOPIC))
    partitions["new", 0] = new
    for number in range(40):
        for (name, index), partition in partitions.items():
            key = b"%d" % (number % 4)
            if "transactional" in name:
                is_commit = number % 3 > 0
                transact(partition, number % 5, is_commit=is_commit, key=key)
            elif name != "empty":
                size = 10 + 7 * (number + index) % 60
                record = Record(0, NOW + number, key, bytes(size))
                sequence = {
                    "producer_id": 7,
                    "producer_epoch": 0,
                    "base_sequence": number,
                }
                batch = build_batch([record], **(sequence if name == "plain" else {}))
                assert not partition.append(batch, now_ms=NOW).error_code
    for name in ("compacted", "transactional-compacted"):
        for _ in clean(partitions[name, 0], NOW + 1000):
            pass
    assert not partitions["deleted", 0].delete_records(17)[0]
    if is_clean:
        data.save(ClusterMetadata({**rows, **NEW_TOPIC}, {}, 0))
    data.close()
    if not is_clean:
        (path / ".kafka_cleanshutdown").unlink()


def contents(path: Path) -> dict[str, bytes]:
    """All files by name."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file()
    }


# -- damage


def damage(path: Path, chance: random.Random) -> tuple[str, Path]:
    """Damages one or two files; returns the kind of damage and their names."""
    kind = chance.choice(sorted(KINDS))
    every = [f for f in sorted(path.rglob("*")) if f.is_file() and f.name != ".lock"]
    logs = [file for file in every if file.suffix == ".log"]
    file = chance.choice(logs if chance.random() < 0.5 else every)
    KINDS[kind](file, every, chance)
    return kind, file


def _flipped(file: Path, _: list[Path], chance: random.Random) -> None:
    data = bytearray(file.read_bytes())
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        file.write_bytes(data)


def _cut(file: Path, _: list[Path], chance: random.Random) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: chance.randrange(len(data) + 1)])


def _zeroed(file: Path, _: list[Path], chance: random.Random) -> None:
    data = bytearray(file.read_bytes())
    start = chance.randrange(len(data) + 1)
    end = min(len(data), start + chance.randint(1, 200))
    data[start:end] = bytes(end - start)
    file.write_bytes(data)


def _swapped(file: Path, every: list[Path], chance: random.Random) -> None:
    other = chance.choice([f for f in every if f.suffix == file.suffix])
    data = file.read_bytes()
    file.write_bytes(other.read_bytes())
    other.write_bytes(data)


def _missing(file: Path, _: list[Path], __: random.Random) -> None:
    file.unlink()


def _without_folder(file: Path, every: list[Path], chance: random.Random) -> None:
    folders = {each.parent for each in every if each.name == "partition.metadata"}
    is_in_one = file.parent in folders
    shutil.rmtree(file.parent if is_in_one else chance.choice(sorted(folders)))


KINDS: Final[dict[str, Callable[[Path, list[Path], random.Random], None]]] = {
    "flipped": _flipped,
    "cut": _cut,
    "zeroed": _zeroed,
    "swapped": _swapped,
    "missing": _missing,
    "without a folder": _without_folder,
}


# -- verdicts


def compare(root: Path, count: int, seed: int, *, is_clean: bool) -> Counter[str]:
    """Damages copies, and compares the results; returns how often each occurred.

    ``unseen`` is damage that verify does not find, and ``lost`` what it calls sound
    although a start serves less of the records, or records of aborted transactions.
    """
    chance = random.Random(seed)
    original, copy = root / "original", root / "copy"
    make(original, is_clean=is_clean)
    whole = contents(original)
    assert not verify(original).is_damaged
    shutil.copytree(original, copy)
    expected = served(copy)
    assert expected is not None
    shutil.rmtree(copy)
    counts: Counter[str] = Counter()
    for _ in range(count):
        shutil.copytree(original, copy)
        kind, file = damage(copy, chance)
        before = contents(copy)
        found = verify(copy)
        assert contents(copy) == before, "verify has changed something"
        where = f"{kind} {file.relative_to(copy)}"
        now = served(copy)
        is_refused = now is None
        assert found.is_refused == is_refused, f"{where}: refused is {is_refused}"
        if before == whole:
            assert not found.is_damaged, f"{where}: a false alarm"
        elif found.is_damaged:
            counts["seen"] += 1
        else:
            counts[f"unseen: {kind} {file.suffix or file.name}"] += 1
            if now is not None and _has_lost(now, expected):
                counts[f"lost: {where}"] += 1
        counts["refused"] += is_refused
        shutil.rmtree(copy)
    return counts


Served = dict[tuple[str, int], tuple[set[tuple[int, bytes]], list[int]]]
"""The batches of each partition by offset, and the offsets of committed records."""


def served(path: Path) -> Served | None:
    """Starts and stops; returns the records between, or None if a start is refused."""
    try:
        data, partitions, why = opened_all(path)
        data.put_aside_the_rest()
    except DataDirError:
        return None
    found = {key: _read(partition) for key, partition in partitions.items()}
    data.close()
    return None if why else found


def _read(partition: Partition) -> tuple[set[tuple[int, bytes]], list[int]]:
    start = partition.log_start_offset
    found = partition.read(start, EVERYTHING, minimum_one=True, committed=True)
    data, batches = b"".join(found.buffers), set()
    try:
        for header, position in read_headers(data):
            batch = data[position : position + header.size]
            batches.add((header.base_offset, batch))
        return batches, committed_offsets(found, start)
    except WireError:
        return batches, []


def _has_lost(now: Served, expected: Served) -> bool:
    for key, (batches, committed) in expected.items():
        found, offsets = now.get(key, (set(), []))
        start = min((offset for offset, _ in batches), default=0)
        if not found >= batches or committed != [o for o in offsets if o >= start]:
            return True
    return False


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    telemetry.configure(level="critical")
    for after in (True, False):
        with temporary_folder() as folder:
            result = compare(Path(folder), given.count, given.seed, is_clean=after)
        stop = "a clean stop" if after else "a crash"
        sys.stdout.write(f"after {stop}: {dict(result)}\n")
