"""Records of ``__consumer_offsets``: as Kafka 4.3 writes them, in any version, damaged.

The judges are Kafka's own classes (``tests/data/group_records.json``) and its own
log with what DumpLogSegments says of it (``tests/data/kafka-4.3``).
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.protocol import offsets_log
from kohort.protocol.consumer import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode,
)
from kohort.protocol.fields import ZERO_UUID
from kohort.protocol.messages import WireError
from kohort.protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    OtherKey,
)
from kohort.protocol.offsets_reader import Reader
from kohort.protocol.records import (
    CONTROL,
    TRANSACTIONAL,
    Record,
    build_batch,
    read_headers,
    read_records,
)

DATA = Path(__file__).parents[1] / "data"
WRITTEN: list[tuple[str, int, str, Any]] = json.loads(
    (DATA / "group_records.json").read_text(encoding="utf-8")
)
DUMP = DATA / "kafka-4.3" / "dump.txt"

Row = tuple[object, ...]


def new_reader() -> Reader[Row]:
    """A reader that gives rows: of an offset, or of a group."""
    return Reader[Row](lambda *offset: offset, lambda *group: group)


def uuid(text: str | None) -> bytes:
    """A topic id, as Kafka prints it."""
    return base64.urlsafe_b64decode(text + "==") if text else ZERO_UUID


def offset_value(data: Any) -> OffsetCommitValue:
    """The message that Kafka shows as this JSON."""
    return OffsetCommitValue(
        data["offset"],
        data.get("leaderEpoch", -1),
        data["metadata"],
        data["commitTimestamp"],
        data.get("expireTimestamp", -1),
        uuid(data.get("topicId")),
    )


def subscription(shown: Any) -> bytes:
    """Of a member; the tool shows those of consumers in words."""
    if isinstance(shown, str):
        return base64.b64decode(shown)
    owned = [
        TopicPartitions(row["topic"], row["partitions"])
        for row in shown["ownedPartitions"]
    ]
    message = Subscription(
        shown["topics"],
        base64.b64decode(shown["userData"]) if shown["userData"] is not None else None,
        owned,
        shown["generationId"],
        shown["rackId"],
    )
    return encode(message)


def assignment(shown: Any) -> bytes:
    """Of a member, as `subscription`."""
    if isinstance(shown, str):
        return base64.b64decode(shown)
    rows = [
        TopicPartitions(row["topic"], row["partitions"])
        for row in shown["assignedPartitions"]
    ]
    user_data = shown["userData"]
    return encode(
        Assignment(rows, None if user_data is None else base64.b64decode(user_data)), 0
    )


def group_value(data: Any) -> GroupMetadataValue:
    """The message that Kafka shows as this JSON."""
    return GroupMetadataValue(
        data["protocolType"],
        data["generation"],
        data["protocol"],
        data["leader"],
        data.get("currentStateTimestamp", -1),
        [
            MemberMetadata(
                m["memberId"],
                m.get("groupInstanceId"),
                m["clientId"],
                m["clientHost"],
                m.get("rebalanceTimeout", -1),
                m["sessionTimeout"],
                subscription(m["subscription"]),
                assignment(m["assignment"]),
            )
            for m in data["members"]
        ],
    )


def from_json(name: str, data: Any) -> Any:
    """The message of this name that Kafka shows as this JSON."""
    if name == "OffsetCommitValue":
        return offset_value(data)
    if name == "GroupMetadataValue":
        return group_value(data)
    if name == "OffsetCommitKey":
        return OffsetCommitKey(data["group"], data["topic"], data["partition"])
    assert name == "GroupMetadataKey"
    return GroupMetadataKey(data["group"])


def decoded(name: str, data: bytes) -> Any:
    """What these bytes of a key or a value are."""
    if name == "OffsetCommitValue":
        return offsets_log.decode_offset_commit(data)
    if name == "GroupMetadataValue":
        return offsets_log.decode_group_metadata(data)
    return offsets_log.decode_key(data)


def dumped() -> Iterator[tuple[str, int, str, str]]:
    """What DumpLogSegments saw: folder, offset, key and payload of each record."""
    folder = ""
    for line in DUMP.read_text(encoding="utf-8").splitlines():
        if line.startswith("Dumping "):
            folder = line.split()[1].partition("/")[0]
        found = re.match(r"\| offset: (\d+) .*?key: (\{.*\}) payload: (.*)$", line)
        if found:
            yield folder, int(found[1]), found[2], found[3]


def logged() -> dict[tuple[str, int], Record]:
    """The records of Kafka's log, by folder and offset; no markers."""
    found = {}
    for path in sorted((DATA / "kafka-4.3").glob("*/*.log")):
        data = path.read_bytes()
        for header, position in read_headers(data):
            if not header.is_control:
                for record in read_records(data, position):
                    found[path.parent.name, record.offset] = record
    return found


# -- as Kafka has it


@pytest.mark.parametrize(
    ("name", "version", "data", "shown"),
    [row for row in WRITTEN if row[0] != "ShareGroupMetadataKey"],
)
def test_every_version(name: str, version: int, data: str, shown: object) -> None:
    """What Kafka's classes write in each version is read and written alike."""
    raw = bytes.fromhex(data)
    message = decoded(name, raw)
    assert message == from_json(name, shown)
    if name.endswith("Key"):
        assert offsets_log.encode_key(message) == raw
    else:
        assert offsets_log.encode_value(message, version) == raw


def test_versions_are_complete() -> None:
    """Kafka's classes were asked for every version that is readable."""
    for name in ("OffsetCommitValue", "GroupMetadataValue"):
        versions = {version for found, version, *_ in WRITTEN if found == name}
        assert versions == set(range(offsets_log.NEWEST_VALUE + 1))


def test_log_of_kafka() -> None:
    """All records of a log that Kafka wrote say what Kafka's own tool says."""
    log = logged()
    for folder, offset, key_json, payload in dumped():
        record = log.pop((folder, offset))
        assert record.key is not None
        key = json.loads(key_json)
        number = int(key["type"])
        found = offsets_log.decode_key(record.key)
        if number > offsets_log.GROUP_METADATA:
            assert found == OtherKey(number, key["data"]["groupId"])
            continue
        name = (
            "OffsetCommit" if number == offsets_log.OFFSET_COMMIT else "GroupMetadata"
        )
        assert found == from_json(f"{name}Key", key["data"])
        if payload == "<DELETE>":
            assert record.value is None
            continue
        assert record.value is not None
        shown = json.loads(payload)
        value = decoded(f"{name}Value", record.value)
        assert value == from_json(f"{name}Value", shown["data"])
    assert not log, "the tool has seen all of it"


def test_versions_that_kafka_writes() -> None:
    """Keys and values of Kafka's log come out as they are when written again."""
    versions = set()
    for record in logged().values():
        assert record.key is not None
        key = offsets_log.decode_key(record.key)
        if isinstance(key, OtherKey):
            continue
        assert offsets_log.encode_key(key) == record.key
        if isinstance(key, OffsetCommitKey):
            again = offsets_log.offset_key(key.group, key.topic, key.partition)
            assert again == record.key
        if record.value is None:
            continue
        version = int.from_bytes(record.value[:2], "big")
        if isinstance(key, OffsetCommitKey):
            offset = offsets_log.decode_offset_commit(record.value)
            assert offsets_log.encode_value(offset, version) == record.value
            versions.add(("offset", version))
            if version == offsets_log.OFFSET_COMMIT_VALUE:
                assert fast_value(offset) == record.value
        else:
            group = offsets_log.decode_group_metadata(record.value)
            assert offsets_log.encode_value(group, version) == record.value
            versions.add(("group", version))
    assert versions == {
        ("offset", offsets_log.OFFSET_COMMIT_VALUE),
        ("offset", offsets_log.OFFSET_COMMIT_VALUE_WITH_EXPIRY),
        ("group", offsets_log.GROUP_METADATA_VALUE),
    }


def fast_value(value: OffsetCommitValue) -> bytes:
    """The value as the path by hand makes it."""
    topic_id = None if value.topic_id == ZERO_UUID else value.topic_id
    return offsets_log.offset_value(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        offsets_log.plain_tail(topic_id),
    )


def test_legacy_key() -> None:
    """Type 0, of the first versions, is a committed offset as well."""
    key = offsets_log.offset_key("g", "t", 3)
    legacy = b"\0\0" + key[2:]
    assert offsets_log.decode_key(legacy) == OffsetCommitKey("g", "t", 3)
    old = offsets_log.encode_value(OffsetCommitValue(7, -1, "m", 1), 0)
    batch = build_batch([Record(0, 1, legacy, old)])
    assert new_reader().read(batch) == [("g", "t", 3, (7, -1, "m", 1), -1)]


@pytest.mark.parametrize("codec", range(5))
def test_a_large_batch_is_read_in_pieces(codec: int) -> None:
    """A thousand records at most, so that loading holds up no request."""
    value = offsets_log.encode_value(OffsetCommitValue(7, -1, "m", 1), 0)
    key = offsets_log.offset_key("g", "t", 3)
    batch = build_batch([Record(0, 1, key, value)] * 9_500, codec=codec)
    pieces = list(new_reader().read_in_pieces(batch))
    assert len(pieces) >= 10
    assert max(map(len, pieces)) == 1_000
    row = ("g", "t", 3, (7, -1, "m", 1), -1)
    assert [each for some in pieces for each in some] == [row] * 9_500


def test_tags_of_newer_brokers() -> None:
    """Tagged fields that Kafka 4.3 does not know are passed over (KIP-915)."""
    plain = offsets_log.encode_value(OffsetCommitValue(7, 2, "m", 9), 4)
    assert plain[-1] == 0
    tagged = plain[:-1] + b"\1\x05\x03new"
    assert offsets_log.decode_offset_commit(tagged) == OffsetCommitValue(7, 2, "m", 9)


# -- what is no record of the classic protocol


def test_other_types_are_skipped() -> None:
    """They are counted, and their groups are known by their protocol."""
    share = next(row for row in WRITTEN if row[0] == "ShareGroupMetadataKey")
    shared = bytes.fromhex(share[2])
    nobody = b"\x03\xe7???"
    plain = Record(0, 1, offsets_log.offset_key("g", "t", 0), None)
    reader = new_reader()
    rows = reader.read(
        build_batch(
            [Record(0, 1, shared, b"\0\0"), plain, Record(0, 1, nobody, b"\0\0")]
        )
    )
    assert rows == [("g", "t", 0, None, -1)]
    assert reader.skipped == {11: 1, 999: 1}
    assert reader.others == {"shared": "share"}
    reader.read(build_batch([Record(0, 1, shared, None)]))
    assert (reader.skipped[11], reader.others) == (2, {})


# -- damage


@pytest.mark.parametrize(("name", "version", "data", "shown"), WRITTEN)
def test_truncated(name: str, version: int, data: str, shown: object) -> None:
    """Bytes that end too early, or too late, are an error that says what is wrong."""
    raw = bytes.fromhex(data)
    for end in range(len(raw)):
        with pytest.raises(WireError, match=r"\w"):
            decoded(name, raw[:end])
    if name != "ShareGroupMetadataKey":
        with pytest.raises(WireError, match="3 bytes behind an? .*" + name):
            decoded(name, raw + b"\0\0\0")


@pytest.mark.parametrize("version", [-1, 5, 999])
def test_unknown_version(version: int) -> None:
    """A value of a version that nobody knows is named with it."""
    data = struct.pack(">h", version) + bytes(40)
    for name in ("OffsetCommitValue", "GroupMetadataValue"):
        with pytest.raises(WireError, match=f"{name} of version {version}"):
            decoded(name, data)


def test_error_says_where() -> None:
    """A wrong record in a batch is named by its place and the batch's offset."""
    good = Record(0, 1, offsets_log.offset_key("g", "t", 0), None)
    for bad, what in (
        (Record(0, 1, None, b""), "a null key"),
        (Record(0, 1, b"\0", b""), "a key of 1 bytes"),
        (Record(0, 1, good.key, b"\0"), "OffsetCommitValue of 1 bytes"),
    ):
        batch = build_batch([good, bad], base_offset=70)
        text = f"record 1 of the batch at offset 70: {what}"
        with pytest.raises(WireError, match=text):
            new_reader().read(batch)


def test_names_that_are_too_long() -> None:
    """Names and metadata of more than 32,767 bytes are refused by every reader."""
    long = "x" * 40_000
    with pytest.raises(WireError, match="40000 and 1 bytes"):
        offsets_log.offset_key(long, "t", 0)
    with pytest.raises(WireError, match="GroupMetadataKey"):
        offsets_log.encode_key(GroupMetadataKey(long))
    value = OffsetCommitValue(1, 2, long, 3)
    with pytest.raises(WireError, match="metadata of 40000 bytes"):
        fast_value(value)
    with pytest.raises(WireError, match="OffsetCommitValue"):
        offsets_log.encode_value(value, offsets_log.OFFSET_COMMIT_VALUE_WITH_EXPIRY)


# -- the path by hand against the one by declaration

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAME = st.text(st.characters(codec="utf-8"), max_size=100)
PLAIN = st.builds(
    OffsetCommitValue,
    INT64,
    INT32,
    st.just(""),
    INT64,
    topic_id=st.binary(min_size=16, max_size=16),
)
NOTED = st.builds(
    OffsetCommitValue,
    INT64,
    INT32,
    st.text(st.characters(codec="utf-8"), max_size=300),
    INT64,
    topic_id=st.sampled_from([ZERO_UUID, bytes(range(16))]),
)
KEY = st.builds(OffsetCommitKey, NAME, NAME, INT32)
OFFSET = st.tuples(KEY, st.one_of(st.none(), PLAIN, NOTED))
HEADERS = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)))


@st.composite
def batches(draw: st.DrawFn) -> tuple[bytes, list[Row]]:
    """A batch of offsets as any broker may write it, and what it says."""
    repeated = draw(st.lists(OFFSET, min_size=1, max_size=4))
    pairs = draw(st.lists(st.sampled_from(repeated), min_size=1, max_size=150))
    time_ms = draw(st.integers(0, 2**40))
    step = draw(st.sampled_from([0, 0, 1, 1000]))
    records: list[Record] = []
    rows: list[Row] = []
    for n, (key, value) in enumerate(pairs):
        data, entry = None, None
        if value is not None:
            data = offsets_log.encode_value(value, offsets_log.OFFSET_COMMIT_VALUE)
            entry = (
                value.offset,
                value.leader_epoch,
                value.metadata,
                value.commit_timestamp,
            )
        headers = draw(HEADERS) if n % 50 == 7 else ()
        key_data = offsets_log.encode_key(key)
        records.append(Record(0, time_ms + n * step, key_data, data, headers))
        rows.append((key.group, key.topic, key.partition, entry, -1))
    codec = draw(st.sampled_from([0, 0, 1, 2, 3, 4]))
    return build_batch(records, codec=codec), rows


@given(batches())
def test_reader_and_declaration_agree(made: tuple[bytes, list[Row]]) -> None:
    """A batch says the same whichever way its records were written and are read."""
    batch, rows = made
    reader = new_reader()
    assert reader.read(batch) == rows
    assert reader.read(batch) == rows  # with all names known


@given(KEY, PLAIN | NOTED, st.integers(0, 10_000))
def test_values_by_hand(
    key: OffsetCommitKey, value: OffsetCommitValue, position: int
) -> None:
    """What is written by hand is what the declaration writes."""
    expected_key = offsets_log.encode_key(key)
    assert offsets_log.offset_key(key.group, key.topic, key.partition) == expected_key
    expected = offsets_log.encode_value(value, offsets_log.OFFSET_COMMIT_VALUE)
    assert fast_value(value) == expected
    framed = offsets_log.frame(position, expected_key, expected)
    batch = offsets_log.batch_of(framed, 1, 123, 0)
    (record,) = read_records(batch)
    assert (record.key, record.value, record.offset) == (
        expected_key,
        expected,
        position,
    )
    if not value.metadata:
        has_id = value.topic_id != ZERO_UUID
        tail = offsets_log.plain_tail(value.topic_id if has_id else None)
        head = offsets_log.plain_head(position, expected_key, len(tail))
        middle = offsets_log.plain_offset(
            value.offset, value.leader_epoch, 1, value.commit_timestamp
        )
        assert head + middle + tail == framed


@given(st.data())
def test_damaged_batches(data: st.DataObject) -> None:
    """Whatever the bytes are, there is a result or a WireError."""
    batch, _ = data.draw(batches())
    body = bytearray(batch)
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(12, len(body) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.sampled_from([len(body), len(body) - 1, 61, 30]))
    with contextlib.suppress(WireError):
        new_reader().read(bytes(body[:end]))


# -- transactions (KIP-98)

ABORT, COMMIT = struct.pack(">hh", 0, 0), struct.pack(">hh", 0, 1)


def offsets(*rows: tuple[str, int | None]) -> list[Record]:
    """Committed offsets of group g, by topic; None for a tombstone."""
    return [
        Record(
            0,
            1,
            offsets_log.offset_key("g", topic, 0),
            None
            if offset is None
            else offsets_log.encode_value(OffsetCommitValue(offset), 4),
        )
        for topic, offset in rows
    ]


def in_transaction(producer_id: int, records: Sequence[Record]) -> bytes:
    """A batch within a transaction."""
    return build_batch(
        records, producer_id=producer_id, attributes=TRANSACTIONAL, producer_epoch=0
    )


def marker(producer_id: int, key: bytes) -> bytes:
    """The end of a transaction."""
    return build_batch(
        [Record(0, 1, key, bytes(6))],
        producer_id=producer_id,
        attributes=TRANSACTIONAL | CONTROL,
        producer_epoch=0,
    )


def read_all(*read: bytes) -> tuple[list[tuple[object, object]], int]:
    """(topic, offset) in order, and how many transactions are open."""
    reader = new_reader()
    rows = [row for batch in read for row in reader.read(batch)]
    found = [(row[1], row[3][0] if isinstance(row[3], tuple) else None) for row in rows]
    return found, reader.open_transactions


def test_transactions() -> None:
    """Offsets count when their transaction ends, unless it is aborted."""
    first = in_transaction(1, offsets(("a", 1), ("b", 1)))
    second = in_transaction(2, offsets(("c", 2)))
    assert read_all(first, second) == ([], 2)
    assert read_all(first, second, marker(2, COMMIT)) == ([("c", 2)], 1)
    ended = read_all(first, second, marker(1, COMMIT), marker(2, ABORT))
    assert ended == ([("a", 1), ("b", 1)], 0)


def test_transaction_after_a_newer_commit() -> None:
    """A commit outside of the transaction, made meanwhile, is newer and stays."""
    pending = in_transaction(1, offsets(("a", 1), ("b", 1)))
    newer = build_batch(offsets(("a", 5)))
    found, _ = read_all(pending, newer, marker(1, COMMIT))
    assert found == [("a", 5), ("b", 1)]


def test_marker_without_transaction() -> None:
    """After compaction a marker may be all that is left."""
    assert read_all(marker(1, COMMIT)) == ([], 0)
    with pytest.raises(WireError, match="a marker of key"):
        read_all(marker(1, b"?"))
