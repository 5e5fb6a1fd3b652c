"""Finds violations in the state of a broker after a power cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from tests.power.model import (
    Commit,
    CommitOffsets,
    Configure,
    Create,
    Delete,
    DeleteGroup,
    Grow,
    Part,
    Place,
    Produce,
    Shard,
    Start,
    Step,
    Topic,
    Value,
    World,
    shard_of,
)


@dataclass(slots=True)
class FoundPart:
    """A partition as a client sees it: records are offset, key, value."""

    start: int
    end: int
    records: list[tuple[int, bytes, bytes | None]]


@dataclass(slots=True)
class FoundTopic:
    """A topic as a client sees it."""

    id: bytes
    config: dict[str, str]
    parts: list[FoundPart]


@dataclass(slots=True)
class Found:
    """The state of a broker as clients see it."""

    topics: dict[str, FoundTopic]
    committed: dict[tuple[str, Place], Commit]


def check(world: World, step: Step | None, found: Found) -> list[str]:
    """The violations, a sentence each; updates the world if both states are allowed.

    Args:
        world: the acknowledged state before the cut.
        step: the step in progress.
        found: the state after the cut.
    """
    _take_over(world, step, found)
    wrong = []
    names = set(world.topics), set(found.topics)
    wrong += [f"topic {name[:20]} is lost" for name in names[0] - names[1]]
    wrong += [f"topic {name[:20]} is made up" for name in names[1] - names[0]]
    for name in sorted(names[0] & names[1]):
        topic = world.topics[name]
        is_shrinking = world.has_own_time and topic.is_retained
        wrong += _check_topic(
            name, topic, step, found.topics[name], is_shrinking=is_shrinking
        )
    for index, shard in enumerate(world.shards):
        committed = {
            key: commit
            for key, commit in found.committed.items()
            if shard_of(key[0]) == index
        }
        wrong += _check_shard(index, shard, step, committed)
    return wrong


def _take_over(world: World, step: Step | None, found: Found) -> None:
    """Updates the world by the topics that the step in progress has changed."""
    match step:
        case Delete() if step.topic not in found.topics:
            del world.topics[step.topic]
        case Create() if step.topic in found.topics:
            # Its id is unknown without a response.
            step.id = step.id or found.topics[step.topic].id
            step.apply(world)
        case Grow() if len(found.topics[step.topic].parts) == step.count:
            step.apply(world)
        case Configure() if found.topics[step.topic].config[step.key] == step.value:
            step.apply(world)


def _check_topic(
    name: str,
    topic: Topic,
    step: Step | None,
    found: FoundTopic,
    *,
    is_shrinking: bool,
) -> list[str]:
    wrong = []
    if topic.id != found.id:
        wrong.append(f"{name[:20]} has another id")
    for key, value in topic.config.items():
        if found.config.get(key) != value:
            wrong.append(f"{name[:20]} has {key} {found.config.get(key)}, not {value}")
    if len(topic.parts) != len(found.parts):
        wrong.append(
            f"{name[:20]} has {len(found.parts)} partitions, not {len(topic.parts)}"
        )
        return wrong
    for index, part in enumerate(topic.parts):
        start = part.start
        if isinstance(step, Start):
            start = max(start, step.starts.get((name, index), 0))
        if isinstance(step, Produce) and step.place == (name, index):
            part.batches.append(step.sent)
        if is_shrinking:
            start = max(start, found.parts[index].start)
        wrong += [
            f"{name[:20]}-{index}: {each}"
            for each in _check_part(
                part, start, found.parts[index], is_compacted=topic.is_compacted
            )
        ]
    return wrong


def _check_part(
    part: Part, start: int, found: FoundPart, *, is_compacted: bool
) -> list[str]:
    wrong = []
    if found.end < part.flushed:
        wrong.append(f"ends at {found.end}, and was flushed up to {part.flushed}")
    if not part.start <= found.start <= start:
        wrong.append(
            f"starts at {found.start}, and should from {part.start} to {start}"
        )
    ends = {part.begin, start, *(batch.end for batch in part.batches)}
    if found.end not in ends:
        wrong.append(f"ends at {found.end}, where no batch ended: {sorted(ends)}")
    sent = {
        batch.first + number: value
        for batch in part.batches
        for number, value in enumerate(batch.records)
    }
    wrong += [
        f"offset {offset} is {(key, value)}, and {sent.get(offset)} was sent"
        for offset, key, value in found.records
        if sent.get(offset) != (key, value)
    ]
    offsets = [offset for offset, _, _ in found.records]
    if any(a >= b for a, b in pairwise(offsets)):
        wrong.append(f"offsets go back: {offsets}")
    if is_compacted:
        wrong += _check_latest(sent, found)
    elif offsets != list(range(found.start, found.end)):
        wrong.append(
            f"has the offsets {offsets}, from {found.start} to {found.end} (flushed: "
            f"{part.flushed})"
        )
    _settle(part, found)
    return wrong


def _settle(part: Part, found: FoundPart) -> None:
    """Takes the found log as the state from here on."""
    while part.batches and part.batches[-1].first >= found.end:
        part.batches.pop()
    if part.end < found.end:
        part.batches.clear()
        part.begin = found.end
    part.start = found.start
    part.flushed = part.flushing = min(part.flushed, found.end)


def _check_latest(sent: Mapping[int, Value], found: FoundPart) -> list[str]:
    """The last value of each key exists, and no deleted key does."""
    latest: dict[bytes, int] = {}
    for offset, (key, _) in sent.items():
        if found.start <= offset < found.end:
            latest[key] = offset
    visible = {key: offset for offset, key, _ in found.records}
    wrong = []
    for key, offset in latest.items():
        is_gone = key not in visible and sent[offset][1] is None
        if visible.get(key) != offset and not is_gone:
            wrong.append(
                f"key {key!r} was last sent at {offset}, and is at {visible.get(key)}"
            )
    return wrong


def _check_shard(
    index: int,
    shard: Shard,
    step: Step | None,
    found: dict[tuple[str, Place], Commit],
) -> list[str]:
    flushed = shard.flushed
    match step:
        case CommitOffsets() if shard_of(step.group) == index:
            shard.changes.append(step.commits)
        case DeleteGroup() if shard_of(step.group) == index:
            shard.changes.append(step.forgets(shard))
        case Delete():
            # One group after the other.
            gone = step.forgets(shard).keys() - found.keys()
            shard.changes.append(dict.fromkeys(gone))
    for count in range(len(shard.changes), flushed - 1, -1):
        if shard.after(count) == found:
            del shard.changes[count:]
            shard.flushing = shard.flushed
            return []
    wanted = shard.after(flushed)
    wrong = sorted(
        f"{key[0]} has {found.get(key)} of {key[1][0][:20]}-{key[1][1]}, "
        f"and {wanted.get(key)} when it was last flushed"
        for key in {*wanted, *found}
        if wanted.get(key) != found.get(key)
    )
    return [f"the commits of shard {index} are of no moment since the flush: {wrong}"]
