"""The coordinator's records as batches, and back; what Kafka wrote is loaded."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.coordinator.context import Context, subscribed

from kohort.broker.coordinator.effects import (
    GroupRecord,
    GroupTombstone,
    OffsetRecord,
    Record,
)
from kohort.broker.coordinator.load import Loading
from kohort.broker.shards.group_records import Decoder, Encoder
from kohort.protocol import offsets_log
from kohort.protocol.consumer import decode_assignment
from kohort.protocol.messages import WireError
from kohort.protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.records import check_batch, read_header, read_headers, read_records


def encode(records: Sequence[Record], now_ms: int) -> bytes:
    """One batch, by an encoder that has seen nothing before."""
    return Encoder().encode(records, now_ms)


def decode(batch: bytes) -> Sequence[Record]:
    """The records of one batch that needs nothing of those before it."""
    return Decoder().read(batch)


KAFKA = Path(__file__).parents[1] / "data" / "kafka-4.3"
NOW_MS = 1_700_000_000_123
TOPIC_ID = bytes(range(16))

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=50)
# Names come again in a batch, and partitions are small numbers mostly.
NAME = st.sampled_from(["", "g", "größe", "\U0001f600", "x" * 100])
PARTITION = st.integers(0, 9) | INT32


def offset_record(
    group_id: str,
    topic: str,
    partition: int,
    entry: tuple[int, int, str, int],
    expire_ms: int,
) -> OffsetRecord:
    """A commit; one that brings a retention time has no leader epoch."""
    offset, leader_epoch, metadata, commit_ms = entry
    if expire_ms != -1:
        leader_epoch = -1
    entry = offset, leader_epoch, metadata, commit_ms
    return OffsetRecord(group_id, topic, partition, entry, expire_ms)


ENTRY = st.tuples(INT64, INT32, st.just("") | TEXT, INT64)
MEMBER = st.tuples(
    TEXT,
    st.none() | TEXT,
    TEXT,
    TEXT,
    INT32,
    INT32,
    st.binary(max_size=100),
    st.binary(max_size=100),
)
RECORD: st.SearchStrategy[Record] = st.one_of(
    st.builds(offset_record, NAME, NAME, PARTITION, ENTRY, st.just(-1) | INT64),
    st.builds(OffsetRecord, NAME, NAME, PARTITION, st.none()),
    st.builds(GroupTombstone, NAME),
    st.builds(
        GroupRecord,
        NAME,
        TEXT,
        INT32,
        st.none() | TEXT,
        st.none() | TEXT,
        INT64,
        st.lists(MEMBER, max_size=4),
    ),
)
RECORDS = st.lists(RECORD, min_size=1, max_size=100)


def commit(count: int, metadata: str = "", group_id: str = "g") -> list[OffsetRecord]:
    """A commit of this many partitions of one topic."""
    return [
        OffsetRecord(group_id, "t", p, (100 + p, 3, metadata, NOW_MS))
        for p in range(count)
    ]


# -- there and back


@given(RECORDS, RECORDS, st.sampled_from([{}, {"g": TOPIC_ID}]), st.integers(0, 4))
def test_round_trip(
    first: list[Record], second: list[Record], ids: dict[str, bytes], codec: int
) -> None:
    """Whatever is written is read again, whatever has been written before."""
    encoder, decoder = Encoder(ids, codec=codec), Decoder()
    for records in (first, second, first):
        batch = encoder.encode(records, NOW_MS)
        assert decoder.read(batch) == records
        header = read_header(batch)
        assert check_batch(header, batch, 1 << 30) is None
        assert header.codec == codec
        assert (header.base_timestamp, header.max_timestamp) == (NOW_MS, NOW_MS)
        found = list(read_records(batch))
        assert [record.offset for record in found] == [*range(len(records))]


@pytest.mark.parametrize("ids", [{}, {"t": TOPIC_ID}])
@pytest.mark.parametrize("count", [1, 10, 64, 65, 200])
def test_offsets_by_declaration(count: int, ids: dict[str, bytes]) -> None:
    """Commits are written as the declared messages say, with the topic's id."""
    encoder = Encoder(ids)
    for metadata in ("", "note", ""):
        batch = encoder.encode(commit(count, metadata), NOW_MS)
        for p, record in enumerate(read_records(batch)):
            key, value = record.key, record.value
            assert key is not None
            assert value is not None
            assert offsets_log.decode_key(key) == OffsetCommitKey("g", "t", p)
            topic_id = ids.get("t", bytes(16))
            assert offsets_log.decode_offset_commit(value) == OffsetCommitValue(
                100 + p, 3, metadata, NOW_MS, -1, topic_id
            )
            assert value[:2] == b"\0\4"


def test_topic_that_is_made_again() -> None:
    """A topic's id is looked up at each commit."""
    ids: dict[str, bytes] = {}
    encoder = Encoder(ids)
    seen = []
    for topic_id in (None, TOPIC_ID, TOPIC_ID[::-1], None):
        ids.clear()
        if topic_id is not None:
            ids["t"] = topic_id
        (record,) = read_records(encoder.encode(commit(1), NOW_MS))
        assert record.value is not None
        seen.append(offsets_log.decode_offset_commit(record.value).topic_id)
    assert seen == [bytes(16), TOPIC_ID, TOPIC_ID[::-1], bytes(16)]


def test_retention_time() -> None:
    """A commit with a time of its own is written in the version that has one."""
    records = [OffsetRecord("g", "t", 0, (7, -1, "", NOW_MS), NOW_MS + 5)]
    (record,) = read_records(encode(records, NOW_MS))
    assert record.value is not None
    assert record.value[:2] == b"\0\1"
    assert decode(encode(records, NOW_MS)) == records


def test_more_groups_than_are_kept() -> None:
    """What is kept of old commits is bounded, and being dropped changes nothing."""
    encoder = Encoder()
    for n in range(1_500):
        encoder.encode(commit(60, group_id=f"group-{n}"), NOW_MS)
    assert 0 < encoder.kept < 70_000
    for group_id in ("group-0", "group-1499"):
        records = commit(60, group_id=group_id)
        assert decode(encoder.encode(records, NOW_MS)) == records


def test_more_partitions_than_are_kept() -> None:
    """It is bounded for one group, too, that commits partitions in any order."""
    encoder = Encoder()
    many = [OffsetRecord("g", "t", p, (p, -1, "", NOW_MS)) for p in range(70_000)]
    for start in range(0, len(many), 50):
        records = many[start : start + 50]
        batch = encoder.encode(records, NOW_MS)
        if start % 10_000 == 0:
            assert decode(batch) == records
    assert 0 < encoder.kept < 70_000


def test_names_that_no_record_can_have() -> None:
    """A name that is too long is refused with what is wrong, and nothing is written."""
    long = "x" * 33_000
    for record in (
        OffsetRecord(long, "t", 0, (1, -1, "", 1)),
        OffsetRecord("g", "t", 0, (1, -1, long, 1)),
        GroupTombstone(long),
        GroupRecord("g", long, 1, None, None, 1, []),
    ):
        with pytest.raises(WireError, match=r"33000|GroupMetadata"):
            encode([record], NOW_MS)


# -- loading


def slices(records: Sequence[Record], sizes: Iterable[int]) -> list[bytes]:
    """The records as batches of these sizes, again and again."""
    found: list[bytes] = []
    start = 0
    for size in itertools.cycle(sizes):
        if start >= len(records):
            return found
        batch = encode(records[start : start + size], NOW_MS)
        found.append(batch)
        start += size
    raise AssertionError("there are sizes")


def busy_context() -> Context:
    """Groups in several states, and what they have left in the log."""
    context = Context()
    a, _ = context.stable_group("A", "B", static=True, protocols=subscribed("t"))
    a.commit("t", 7)
    context.commit([("u", 0, 7, 3, "note")], group="simple")
    context.commit([("u", 1, 7, 3, "note")], group="gone")
    context.delete("gone")
    return context


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_loading_in_slices(sizes: list[int]) -> None:
    """Fed batch by batch, a log gives the groups that its records give at once."""
    context = busy_context()
    loading, decoder = Loading(), Decoder()
    for batch in slices(context.records, sizes):
        loading.feed(decoder.read(batch))
    context.restart()
    whole = context.coordinator
    sliced = Context().coordinator
    effects = sliced.take_over(loading, context.now)
    assert whole.groups.keys() == sliced.groups.keys() == {"g", "simple"}
    for group_id, group in whole.groups.items():
        other = sliced.groups[group_id]
        assert other.record() == group.record()
        assert (other.state, other.offsets, other.expire_ms) == (
            group.state,
            group.offsets,
            group.expire_ms,
        )
    kinds = Counter(type(effect).__name__ for effect in effects)
    # Two groups, the leader of one, and what its two members own.
    assert kinds == {"Arm": 2, "Notice": 5}
    assert loading.found == {}


# -- what Kafka wrote


def loaded_from_kafka() -> Context:
    """A coordinator that has loaded all partitions of Kafka's log."""
    context = Context()
    for path in sorted(KAFKA.glob("*/*.log")):
        data, decoder, loading = path.read_bytes(), Decoder(), Loading()
        for header, position in read_headers(data):
            loading.feed(decoder.read(data[position : position + header.size]))
        context.coordinator.take_over(loading, context.now)
    return context


ANSWERS: dict[str, Any] = json.loads((KAFKA / "groups.json").read_text("utf-8"))


def test_groups_of_kafka_are_loaded() -> None:
    """A coordinator says of Kafka's groups what Kafka said of them."""
    context = loaded_from_kafka()
    groups = context.coordinator.groups
    # The client that asked Kafka lists consumers only; the dump has this one.
    workers = groups["workers"]
    assert groups.keys() == ANSWERS.keys() | {"workers"}
    assert (workers.state, workers.protocol_type) == ("Stable", "connect")
    for group_id, answer in ANSWERS.items():
        group = groups[group_id]
        # librdkafka ends metadata with a NUL, which it takes off again.
        offsets = sorted(
            [
                topic,
                partition,
                entry[0],
                None if entry[1] == -1 else entry[1],
                entry[2].removesuffix("\0") or None,
            ]
            for (topic, partition), entry in group.offsets.items()
        )
        assert offsets == [[*row[:4], row[4] or None] for row in answer["offsets"]]
        if answer["type"] == "CLASSIC":
            assert group.state.upper() == answer["state"]
            assert (group.protocol_name or "") == answer["assignor"]
            assert members_of(group.record()) == answer["members"]


def members_of(record: GroupRecord) -> list[dict[str, Any]]:
    """The members as ``record_groups.py`` wrote down what Kafka said of them."""
    found = []
    for row in record.members:
        assigned: list[list[object]] = []
        if record.protocol_type == "consumer":
            for entry in decode_assignment(row[7]).assigned_partitions:
                assigned += [[entry.topic, p] for p in entry.partitions]
        found.append(
            {
                "member_id": row[0],
                "group_instance_id": row[1],
                "client_id": row[2],
                "host": row[3],
                "assigned": sorted(assigned),
            }
        )
    return sorted(found, key=str)
