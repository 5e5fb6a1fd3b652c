"""Conditions on a restarted broker, given the responses that its clients got.

Each check returns one sentence per violation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from tests.long_runs.witness import Poll, Witness, checksum
from tests.workers.lines import key_of, value_of

Log = Mapping[int, Sequence[tuple[int, bytes, bytes]]]
"""By partition, all records in the log's order: offset, key, value."""
Committed = Mapping[tuple[str, int], tuple[int, str]]
"""By group and partition, the committed offset (-1 for none) and its metadata."""


def producers(
    witness: Witness, log: Log, sent: Mapping[str, Sequence[int]]
) -> list[str]:
    """Checks that no acknowledged record is lost or duplicated, and all are in order.

    Args:
        witness: of the acknowledgements.
        log: the log that the broker serves now.
        sent: by producer, the number of records that it sent to each partition.
    """
    found = [*witness.contradictions, *witness.gave_up]
    content = {
        (partition, offset): (key, value)
        for partition, records in log.items()
        for offset, key, value in records
    }
    for (partition, offset), (producer, number) in witness.produced.items():
        wanted = key_of(producer, partition), value_of(number)
        got = content.get((partition, offset))
        if got != wanted:
            found.append(
                f"lost: record {number} of {producer} was acknowledged at offset "
                f"{offset} of partition {partition}, where there is {got}"
            )
    by_source = _numbers(log)
    for producer, partition, number in witness.unplaced:
        if number not in by_source.get((producer, partition), []):
            found.append(
                f"lost: record {number} of {producer} was acknowledged in partition "
                f"{partition}, and is not there"
            )
    for (producer, partition), numbers in by_source.items():
        found += _in_order(producer, partition, numbers)
        limit = sent[producer][partition] if producer in sent else 0
        found += [
            f"made up: record {number} of {producer} in partition {partition}"
            for number in numbers
            if number >= limit
        ]
    return found


def _numbers(log: Log) -> dict[tuple[str, int], list[int]]:
    """The records of each producer and partition, in the log's order."""
    by_source: dict[tuple[str, int], list[int]] = {}
    for partition, records in log.items():
        for _, key, value in records:
            producer = key.decode().rpartition("/")[0]
            number = int(value.rstrip(b"."))
            by_source.setdefault((producer, partition), []).append(number)
    return by_source


def _in_order(producer: str, partition: int, numbers: list[int]) -> list[str]:
    found = [
        f"duplicate: record {number} of {producer} is {count} times in partition "
        f"{partition}"
        for number, count in Counter(numbers).items()
        if count > 1
    ]
    found += [
        f"order: record {after} of {producer} comes after {before} in partition "
        f"{partition}"
        for before, after in pairwise(dict.fromkeys(numbers))
        if after < before
    ]
    return found


def offsets(acked: Mapping[tuple[str, int], int], committed: Committed) -> list[str]:
    """Checks that no acknowledged commit is lost.

    Args:
        acked: the furthest acknowledged ones, read before `committed` was requested.
        committed: according to the broker.
    """
    return [
        f"commit lost: {group} was told that {offset} is committed of partition "
        f"{partition}, which is at {committed.get((group, partition), (-1, ''))[0]}"
        for (group, partition), offset in acked.items()
        if committed.get((group, partition), (-1, ""))[0] < offset
    ]


def ends(acked: Mapping[int, int], known: Sequence[int]) -> list[str]:
    """Checks that no partition ends before an acknowledged record."""
    return [
        f"lost: partition {partition} ends at {known[partition]}, and the record "
        f"before {end} was acknowledged"
        for partition, end in acked.items()
        if known[partition] < end
    ]


def committers(
    witness: Witness, committed: Committed, text_of: Callable[[str, int], str]
) -> list[str]:
    """Checks that every committed offset was sent, with its text.

    Args:
        witness: read after `committed` was requested.
        committed: according to the broker.
        text_of: returns the text of a group's offset.
    """
    found = []
    for group, partition in sorted(witness.sent):
        offset, text = committed.get((group, partition), (-1, ""))
        if offset == -1:
            continue
        if offset not in witness.sent[group, partition]:
            found.append(
                f"made up: {group} never committed {offset} of partition {partition}"
            )
        # confluent-kafka includes the NUL at the end of a C string.
        elif text.removesuffix("\0") != text_of(group, offset):
            found.append(
                f"made up: {group} did not write {text!r} to {offset} of partition "
                f"{partition}"
            )
    return found


def inspected(seen: Committed, committed: Committed) -> list[str]:
    """Checks that the directory shows the same as the broker after its recovery.

    Args:
        seen: the output of `kohort inspect`; no key for a missing offset.
        committed: according to the broker.
    """
    said = {place: found for place, found in committed.items() if found[0] != -1}
    return [
        f"kohort inspect shows {seen.get(place)} for {place}, and the broker "
        f"{said.get(place)}"
        for place in sorted({*seen, *said})
        if seen.get(place) != said.get(place)
    ]


def members(witness: Witness, log: Log, groups: Iterable[str]) -> list[str]:
    """Checks that each group got every record, and only records in the log."""
    found = []
    for group in groups:
        for partition, records in log.items():
            polls = witness.consumed.get((group, partition), [])
            found += [
                f"{group}, partition {partition}: {each}"
                for each in (*_gaps(polls, len(records)), *_strange(polls, records))
            ]
    return found


def _gaps(polls: Sequence[Poll], end: int) -> list[str]:
    reached = 0
    found = []
    for first, last in sorted((poll.first, poll.last) for poll in polls):
        if first > reached:
            found.append(f"not consumed: {reached} to {first - 1}")
        reached = max(reached, last + 1)
    if reached < end:
        found.append(f"not consumed: {reached} to {end - 1}")
    return found


def _strange(
    polls: Sequence[Poll], records: Sequence[tuple[int, bytes, bytes]]
) -> list[str]:
    """Records of these partitions have every offset from 0 on."""
    return [
        f"consumed what is not in the log: {poll}"
        for poll in polls
        if poll.count != poll.last - poll.first + 1
        or poll.checksum != checksum(records[poll.first : poll.last + 1])
    ]
