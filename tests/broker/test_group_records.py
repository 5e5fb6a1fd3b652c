"""The coordinator's records as batches, and back; Kafka's records are loaded."""

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
from tests.coordinator.context import Context
from tests.coordinator.member import subscribed

from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.effects import (
    CommitRecords,
    ConsumerGroupRecord,
    ConsumerMember,
    ConsumerMemberRecord,
    ConsumerRecord,
    CurrentAssignment,
    CurrentAssignmentRecord,
    GroupRecord,
    GroupTombstone,
    OffsetRecord,
    PendingOffset,
    Record,
    RegularExpressionRecord,
    TargetAssignmentRecord,
    TargetMemberRecord,
    TransactionEnd,
    Written,
)
from kohort.broker.coordinator.events import Offsets
from kohort.broker.coordinator.load import Loading
from kohort.broker.shards.consumer_group_records import from_log
from kohort.broker.shards.group_records import Decoder, Encoder
from kohort.protocol import offsets_log
from kohort.protocol.consumer import decode_assignment
from kohort.protocol.consumer_groups_log import (
    CurrentMemberAssignmentKey,
    CurrentMemberAssignmentValue,
    CurrentTopicPartitions,
)
from kohort.protocol.messages import WireError
from kohort.protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.records import check_batch, read_header, read_headers, read_records
from kohort.simulation.checking.groups import classic


def encode(records: Sequence[Written], now_ms: int) -> bytes:
    """One batch, by a new encoder."""
    return Encoder().encode(records, now_ms)


def decode(batch: bytes) -> Sequence[Record]:
    """The records of one batch that does not depend on earlier ones."""
    return Decoder().read(batch)


KAFKA = Path(__file__).parents[1] / "data" / "kafka-4.3"
NOW_MS = 1_700_000_000_123
TOPIC_ID = bytes(range(16))

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=50)
# Names repeat in a batch, and partitions are mostly small numbers.
NAME = st.sampled_from(["", "g", "größe", "\U0001f600", "x" * 100])
PARTITION = st.integers(0, 9) | INT32


def offset_record(
    group_id: str,
    topic: str,
    partition: int,
    entry: tuple[int, int, str, int],
    expire_ms: int,
) -> OffsetRecord:
    """A commit; one with a retention time has no leader epoch."""
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
SOME_ID = st.binary(min_size=16, max_size=16)
EPOCH_ROW = st.tuples(SOME_ID, st.lists(st.tuples(INT32, INT32), max_size=3)).map(
    lambda row: (row[0], [p for p, _ in row[1]], [e for _, e in row[1]])
)
EPOCH_ROWS = st.lists(EPOCH_ROW, max_size=3)
CONSUMER_RECORD: st.SearchStrategy[ConsumerRecord] = st.one_of(
    st.builds(ConsumerGroupRecord, NAME, st.none() | st.tuples(INT32, INT64)),
    st.builds(TargetAssignmentRecord, NAME, st.none() | st.tuples(INT32, INT64)),
    st.builds(
        ConsumerMemberRecord,
        NAME,
        TEXT,
        st.none()
        | st.builds(
            ConsumerMember,
            st.none() | TEXT,
            st.none() | TEXT,
            TEXT,
            TEXT,
            st.lists(TEXT, max_size=3).map(tuple),
            st.none() | TEXT,
            INT32,
            st.none() | TEXT,
            st.none()
            | st.tuples(
                INT32,
                st.lists(st.tuples(TEXT, st.binary(max_size=9)), max_size=3).map(tuple),
            ),
        ),
    ),
    st.builds(
        TargetMemberRecord,
        NAME,
        TEXT,
        st.none()
        | st.lists(st.tuples(SOME_ID, st.lists(INT32, max_size=3)), max_size=3),
    ),
    st.builds(
        CurrentAssignmentRecord,
        NAME,
        TEXT,
        st.none()
        | st.builds(
            CurrentAssignment,
            INT32,
            INT32,
            st.integers(-128, 127),
            EPOCH_ROWS,
            EPOCH_ROWS,
        ),
    ),
    st.builds(
        RegularExpressionRecord,
        NAME,
        TEXT,
        st.none() | st.tuples(st.lists(TEXT, max_size=3), INT64, INT64),
    ),
)
RECORD: st.SearchStrategy[Written] = st.one_of(
    CONSUMER_RECORD,
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


def commit(count: int, metadata: str = "", group_id: str = "g") -> CommitRecords:
    """A commit of this many partitions of one topic."""
    rows = (("t", p, 100 + p, 3, metadata, None) for p in range(count))
    offsets = Offsets.of(rows)
    return CommitRecords(group_id, offsets, NOW_MS, -1, is_plain=not metadata)


# -- there and back


def test_assignments_without_epochs() -> None:
    """Partitions that Kafka before 4.3 wrote are as old as the member's epoch."""
    topic_id = bytes(range(16))
    for epoch, expected in ((7, 7), (-2, 0)):
        value = CurrentMemberAssignmentValue(
            epoch, 6, 0, [CurrentTopicPartitions(topic_id, [0, 3])], []
        )
        record = from_log(CurrentMemberAssignmentKey("g", "m"), value)
        assert record == CurrentAssignmentRecord(
            "g",
            "m",
            CurrentAssignment(epoch, 6, 0, [(topic_id, [0, 3], [expected] * 2)], []),
        )


@pytest.mark.parametrize("metadata", ["", "note"])
def test_pending_offsets(metadata: str) -> None:
    """A commit in a transaction is a transactional batch without a sequence."""
    offsets = commit(3, metadata).offsets
    records = CommitRecords(
        "g", offsets, NOW_MS, -1, is_plain=not metadata, producer=(7, 2)
    )
    batch = encode(records, NOW_MS)
    header = read_header(batch)
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch) == (7, 2)
    assert header.base_sequence == -1
    assert decode(batch) == [*records]
    assert [r.offset for r in records if isinstance(r, PendingOffset)] == [
        *commit(3, metadata)
    ]


@given(RECORDS, RECORDS, st.sampled_from([{}, {"g": TOPIC_ID}]), st.integers(0, 4))
def test_round_trip(
    first: list[Written], second: list[Written], ids: dict[str, bytes], codec: int
) -> None:
    """Every record is read as it was written, whatever was written before."""
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
    """Commits are encoded as the declared messages, with the topic's id."""
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
    """A commit with a retention time is written in the version that has one."""
    records = [OffsetRecord("g", "t", 0, (7, -1, "", NOW_MS), NOW_MS + 5)]
    (record,) = read_records(encode(records, NOW_MS))
    assert record.value is not None
    assert record.value[:2] == b"\0\1"
    assert decode(encode(records, NOW_MS)) == records


def test_more_commits_than_are_kept() -> None:
    """The cache is bounded, and dropping entries changes nothing."""
    encoder = Encoder()
    for first in range(3_000):
        rows = [("t", first + p, p, -1, None, None) for p in range(50)]
        records = CommitRecords("g", Offsets.of(rows), NOW_MS, -1, is_plain=True)
        batch = encoder.encode(records, NOW_MS)
        if first % 100 == 0:
            assert decode(batch) == [*records]
    assert 0 < encoder.templates.rows < 132_000


def test_groups_share_what_is_kept() -> None:
    """Groups that commit the same partitions take no more memory than one."""
    encoder = Encoder()
    for number in range(10, 100):
        records = commit(60, group_id=f"group-{number}")
        assert decode(encoder.encode(records, NOW_MS)) == [*records]
    assert encoder.templates.rows == 60


def test_long_commits_are_not_kept() -> None:
    """A commit of thousands of partitions is written as any other."""
    encoder = Encoder()
    records = commit(2_000)
    assert decode(encoder.encode(records, NOW_MS)) == [*records]
    assert encoder.templates.rows == 0


def test_names_that_no_record_can_have() -> None:
    """A name that is too long is refused with the reason, and nothing is written."""
    long = "x" * 33_000
    for record in (
        OffsetRecord(long, "t", 0, (1, -1, "", 1)),
        OffsetRecord("g", "t", 0, (1, -1, long, 1)),
        GroupTombstone(long),
        GroupRecord("g", long, 1, None, None, 1, []),
    ):
        with pytest.raises(WireError, match=r"33000|GroupMetadata"):
            encode([record], NOW_MS)
    with pytest.raises(WireError, match="33000"):
        encode(commit(1, group_id=long), NOW_MS)


# -- loading


def slices(records: Sequence[Written], sizes: Iterable[int]) -> list[bytes]:
    """The records as batches of these sizes, repeatedly."""
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
    """Groups in several states, with their records in the log."""
    context = Context()
    a, _ = context.stable_group("A", "B", static=True, protocols=subscribed("t"))
    a.commit("t", 7)
    context.commit([("u", 0, 7, 3, "note")], group="simple")
    context.commit([("u", 1, 7, 3, "note")], group="gone")
    context.delete("gone")
    return context


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_loading_in_slices(sizes: list[int]) -> None:
    """A log that is loaded batch by batch gives the same groups as all at once."""
    context = busy_context()
    loading, decoder = Loading(), Decoder()
    written = [r for r in context.records if not isinstance(r, TransactionEnd)]
    for batch in slices(written, sizes):
        loading.feed(decoder.read(batch))
    context.restart()
    whole = context.coordinator
    sliced = Context().coordinator
    effects = sliced.start(loading, context.now)
    assert whole.groups.keys() == sliced.groups.keys() == {"g", "simple"}
    others = classic(sliced.groups.values())
    for group_id, group in classic(whole.groups.values()).items():
        other = others[group_id]
        assert other.record() == group.record()
        assert (other.state, other.offsets, other.expire_ms) == (
            group.state,
            group.offsets,
            group.expire_ms,
        )
    kinds = Counter(type(effect).__name__ for effect in effects)
    # Two sessions and the check; two groups, the leader of one, and the partitions of
    # its two members.
    assert kinds == {"Arm": 3, "Notice": 5}
    assert loading.found == {}


# -- Kafka's records


def loaded_from_kafka() -> Context:
    """A coordinator that has loaded all partitions of Kafka's log."""
    context = Context()
    for path in sorted(KAFKA.glob("*/*.log")):
        data, decoder, loading = path.read_bytes(), Decoder(), Loading()
        for header, position in read_headers(data):
            loading.feed(decoder.read(data[position : position + header.size]))
        context.coordinator.start(loading, context.now)
    return context


ANSWERS: dict[str, Any] = json.loads((KAFKA / "groups.json").read_text("utf-8"))


def test_groups_of_kafka_are_loaded() -> None:
    """A coordinator describes Kafka's groups as Kafka did."""
    context = loaded_from_kafka()
    groups = context.coordinator.groups
    # The client that queried Kafka lists only consumers; the dump has this one.
    workers = groups["workers"]
    assert groups.keys() == ANSWERS.keys() | {"workers"}
    assert (workers.state, workers.protocol_type) == ("Stable", "connect")
    for group_id, answer in ANSWERS.items():
        group = groups[group_id]
        # librdkafka appends a NUL to metadata, and removes it again.
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
        assert group.state.upper() == answer["state"]
        if isinstance(group, ClassicGroup):
            assert (group.protocol_name or "") == answer["assignor"]
            assert members_of(group.record()) == answer["members"]
        else:
            assert isinstance(group, ConsumerGroup)
            assert group.assignor() == answer["assignor"]
            assert [
                (each.member_id, each.says.client_id, len([*each.holds()]))
                for each in group.members.values()
            ] == [
                (each["member_id"], each["client_id"], len(each["assigned"]))
                for each in answer["members"]
            ]


def members_of(record: GroupRecord) -> list[dict[str, Any]]:
    """The members as recorded by ``record_groups.py`` from Kafka."""
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
