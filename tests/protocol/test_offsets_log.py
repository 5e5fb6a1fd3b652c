"""Records of ``__consumer_offsets``: as Kafka 4.3 writes them, all versions, damage.

They are compared with Kafka's own classes (``tests/data/group_records.json``), and with
Kafka's log and its dump by DumpLogSegments (``tests/data/kafka-4.3``).
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import struct
from collections.abc import Callable, Iterator, Sequence
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
from kohort.protocol.consumer_groups_log import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    CurrentMemberAssignmentKey,
    CurrentMemberAssignmentValue,
    CurrentTopicPartitions,
    RegularExpressionKey,
    RegularExpressionValue,
    TargetAssignmentMemberKey,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataKey,
    TargetAssignmentMetadataValue,
    TargetTopicPartitions,
)
from kohort.protocol.fields import ZERO_UUID
from kohort.protocol.markers import Marker, marker_batch
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
    """A reader that returns rows: of an offset, or of a group.

    A row of a transaction has the producer id in front.
    """
    return Reader[Row](
        lambda *offset: offset,
        lambda *group: group,
        lambda *record: record,
        lambda producer_id, row: (producer_id, *row),
        lambda *end: end,
    )


def uuid(text: str | None) -> bytes:
    """A topic id, as Kafka prints it."""
    return base64.urlsafe_b64decode(text + "==") if text else ZERO_UUID


def offset_value(data: Any) -> OffsetCommitValue:
    """The message for Kafka's JSON."""
    return OffsetCommitValue(
        data["offset"],
        data.get("leaderEpoch", -1),
        data["metadata"],
        data["commitTimestamp"],
        data.get("expireTimestamp", -1),
        uuid(data.get("topicId")),
    )


def subscription(shown: Any) -> bytes:
    """A member's subscription; the tool prints those of consumers in words."""
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
    """A member's assignment, likewise."""
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
    """The message for Kafka's JSON."""
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


def member_value(data: Any) -> ConsumerGroupMemberMetadataValue:
    """A member of a consumer group for Kafka's JSON."""
    # Kafka leaves it out if it is as in a new object; null is not.
    classic = data.get("classicMemberMetadata", ClassicMemberMetadata())
    if isinstance(classic, dict):
        classic = ClassicMemberMetadata(
            classic["sessionTimeoutMs"],
            [
                ClassicProtocol(each["name"], base64.b64decode(each["metadata"]))
                for each in classic["supportedProtocols"]
            ],
        )
    return ConsumerGroupMemberMetadataValue(
        data["instanceId"],
        data["rackId"],
        data["clientId"],
        data["clientHost"],
        data["subscribedTopicNames"],
        data["subscribedTopicRegex"],
        data["rebalanceTimeoutMs"],
        data["serverAssignor"],
        classic,
    )


def current_value(data: Any) -> CurrentMemberAssignmentValue:
    """The state of a member for Kafka's JSON."""
    assigned, revoked = (
        [
            CurrentTopicPartitions(
                uuid(row["topicId"]), row["partitions"], row.get("assignmentEpochs")
            )
            for row in data[name]
        ]
        for name in ("assignedPartitions", "partitionsPendingRevocation")
    )
    return CurrentMemberAssignmentValue(
        data["memberEpoch"],
        data["previousMemberEpoch"],
        data["state"],
        assigned,
        revoked,
    )


MESSAGES: dict[str, Callable[[Any], Any]] = {
    "OffsetCommitKey": lambda data: OffsetCommitKey(*data.values()),
    "OffsetCommitValue": offset_value,
    "GroupMetadataKey": lambda data: GroupMetadataKey(*data.values()),
    "GroupMetadataValue": group_value,
    "ConsumerGroupMetadataKey": lambda data: ConsumerGroupMetadataKey(*data.values()),
    "ConsumerGroupMetadataValue": lambda data: ConsumerGroupMetadataValue(
        data["epoch"], data.get("metadataHash", 0)
    ),
    "ConsumerGroupPartitionMetadataKey": lambda data: ConsumerGroupPartitionMetadataKey(
        *data.values()
    ),
    "ConsumerGroupMemberMetadataKey": lambda data: ConsumerGroupMemberMetadataKey(
        *data.values()
    ),
    "ConsumerGroupMemberMetadataValue": member_value,
    "ConsumerGroupTargetAssignmentMetadataKey": lambda data: (
        TargetAssignmentMetadataKey(*data.values())
    ),
    "ConsumerGroupTargetAssignmentMetadataValue": lambda data: (
        TargetAssignmentMetadataValue(
            data["assignmentEpoch"], data.get("assignmentTimestamp", 0)
        )
    ),
    "ConsumerGroupTargetAssignmentMemberKey": lambda data: TargetAssignmentMemberKey(
        *data.values()
    ),
    "ConsumerGroupTargetAssignmentMemberValue": lambda data: (
        TargetAssignmentMemberValue(
            [
                TargetTopicPartitions(uuid(row["topicId"]), row["partitions"])
                for row in data["topicPartitions"]
            ]
        )
    ),
    "ConsumerGroupCurrentMemberAssignmentKey": lambda data: CurrentMemberAssignmentKey(
        *data.values()
    ),
    "ConsumerGroupCurrentMemberAssignmentValue": current_value,
    "ConsumerGroupRegularExpressionKey": lambda data: RegularExpressionKey(
        *data.values()
    ),
    "ConsumerGroupRegularExpressionValue": lambda data: RegularExpressionValue(
        *data.values()
    ),
}
"""By Kafka's name, makes the message from Kafka's JSON."""

KEYS = {
    name.removesuffix("Key"): bytes.fromhex(data)
    for name, _, data, _ in WRITTEN
    if name.endswith("Key")
}
NAMES = {
    "1": "OffsetCommit",
    "2": "GroupMetadata",
    "3": "ConsumerGroupMetadata",
    "5": "ConsumerGroupMemberMetadata",
    "6": "ConsumerGroupTargetAssignmentMetadata",
    "7": "ConsumerGroupTargetAssignmentMember",
    "8": "ConsumerGroupCurrentMemberAssignment",
}
"""Kafka's names of the types in its log."""


def from_json(name: str, data: Any) -> Any:
    """The message of this name for Kafka's JSON."""
    return MESSAGES[name](data)


def decoded(name: str, data: bytes) -> Any:
    """Decodes the bytes of a key or a value."""
    if name == "OffsetCommitValue":
        return offsets_log.decode_offset_commit(data)
    if name == "GroupMetadataValue":
        return offsets_log.decode_group_metadata(data)
    if name.endswith("Key"):
        return offsets_log.decode_key(data)
    key: Any = offsets_log.decode_key(KEYS[name.removesuffix("Value")])
    return offsets_log.decode_consumer_group(key, data)


def dumped() -> Iterator[tuple[str, int, str, str]]:
    """The output of DumpLogSegments: folder, offset, key and payload of each record."""
    folder = ""
    for line in DUMP.read_text(encoding="utf-8").splitlines():
        if line.startswith("Dumping "):
            folder = line.split()[1].partition("/")[0]
        found = re.match(r"\| offset: (\d+) .*?key: (\{.*\}) payload: (.*)$", line)
        if found:
            yield folder, int(found[1]), found[2], found[3]


def logged() -> dict[tuple[str, int], Record]:
    """The records of Kafka's log, by folder and offset, without markers."""
    found = {}
    for path in sorted((DATA / "kafka-4.3").glob("*/*.log")):
        data = path.read_bytes()
        for header, position in read_headers(data):
            if not header.is_control:
                for record in read_records(data, position):
                    found[path.parent.name, record.offset] = record
    return found


# -- Kafka's records


@pytest.mark.parametrize(
    ("name", "version", "data", "shown"),
    [row for row in WRITTEN if row[0] != "ShareGroupMetadataKey"],
)
def test_every_version(name: str, version: int, data: str, shown: object) -> None:
    """Each version written by Kafka's classes is read and written the same."""
    raw = bytes.fromhex(data)
    message = decoded(name, raw)
    assert message == from_json(name, shown)
    if name.endswith("Key"):
        assert offsets_log.encode_key(message) == raw
    else:
        assert offsets_log.encode_value(message, version) == raw


def test_versions_are_complete() -> None:
    """The recording has every version that Kafka's classes can read."""
    for name in ("OffsetCommitValue", "GroupMetadataValue"):
        versions = {version for found, version, *_ in WRITTEN if found == name}
        assert versions == set(range(offsets_log.NEWEST_VALUE + 1))


def test_log_of_kafka() -> None:
    """All records of Kafka's log are read as Kafka's own tool prints them."""
    log = logged()
    for folder, offset, key_json, payload in dumped():
        record = log.pop((folder, offset))
        assert record.key is not None
        key = json.loads(key_json)
        found = offsets_log.decode_key(record.key)
        name = NAMES[key["type"]]
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
    """Keys and values of Kafka's log are unchanged when they are written again."""
    versions = set()
    for record in logged().values():
        assert record.key is not None
        key = offsets_log.decode_key(record.key)
        assert not isinstance(key, OtherKey)
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
        elif isinstance(key, GroupMetadataKey):
            group = offsets_log.decode_group_metadata(record.value)
            assert offsets_log.encode_value(group, version) == record.value
            versions.add(("group", version))
        else:
            consumers = offsets_log.decode_consumer_group(key, record.value)
            assert consumers is not None
            assert offsets_log.encode_value(consumers, version) == record.value
            versions.add((type(consumers).__name__, version))
    assert versions == {
        ("offset", offsets_log.OFFSET_COMMIT_VALUE),
        ("offset", offsets_log.OFFSET_COMMIT_VALUE_WITH_EXPIRY),
        ("group", offsets_log.GROUP_METADATA_VALUE),
        ("ConsumerGroupMetadataValue", 0),
        ("ConsumerGroupMemberMetadataValue", 0),
        ("TargetAssignmentMetadataValue", 0),
        ("TargetAssignmentMemberValue", 0),
        ("CurrentMemberAssignmentValue", 0),
    }


def fast_value(value: OffsetCommitValue) -> bytes:
    """The value from the hand-written encoder."""
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
    """At most a thousand records, so that loading delays no request."""
    value = offsets_log.encode_value(OffsetCommitValue(7, -1, "m", 1), 0)
    key = offsets_log.offset_key("g", "t", 3)
    batch = build_batch([Record(0, 1, key, value)] * 9_500, codec=codec)
    pieces = list(new_reader().read_in_pieces(batch))
    assert len(pieces) >= 10
    assert max(map(len, pieces)) == 1_000
    row = ("g", "t", 3, (7, -1, "m", 1), -1)
    assert [each for some in pieces for each in some] == [row] * 9_500


def test_tags_of_newer_brokers() -> None:
    """Tagged fields unknown to Kafka 4.3 are skipped (KIP-915)."""
    plain = offsets_log.encode_value(OffsetCommitValue(7, 2, "m", 9), 4)
    assert plain[-1] == 0
    tagged = plain[:-1] + b"\1\x05\x03new"
    assert offsets_log.decode_offset_commit(tagged) == OffsetCommitValue(7, 2, "m", 9)


# -- records of other protocols


def test_other_types_are_skipped() -> None:
    """They are counted, and the protocol of their groups is known."""
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


def test_partition_metadata_is_ignored() -> None:
    """Records of type 4, from Kafka before 4.1, are no results, whatever they hold."""
    key = KEYS["ConsumerGroupPartitionMetadata"]
    epoch = offsets_log.encode_value(ConsumerGroupMetadataValue(7), 0)
    reader = new_reader()
    rows = reader.read(
        build_batch(
            [
                Record(0, 1, key, b"?"),
                Record(0, 1, key, None),
                Record(0, 1, KEYS["ConsumerGroupMetadata"], epoch),
            ]
        )
    )
    assert rows == [
        (ConsumerGroupPartitionMetadataKey("größe"), None),
        (ConsumerGroupPartitionMetadataKey("größe"), None),
        (ConsumerGroupMetadataKey("größe"), ConsumerGroupMetadataValue(7)),
    ]
    assert not reader.skipped


# -- damage


@pytest.mark.parametrize(("name", "version", "data", "shown"), WRITTEN)
def test_truncated(name: str, version: int, data: str, shown: object) -> None:
    """Truncated or too long bytes are an error that describes the fault."""
    raw = bytes.fromhex(data)
    for end in range(len(raw)):
        with pytest.raises(WireError, match=r"\w"):
            decoded(name, raw[:end])
    if name != "ShareGroupMetadataKey":
        with pytest.raises(WireError, match=r"3 bytes behind the \w+"):
            decoded(name, raw + b"\0\0\0")


@pytest.mark.parametrize("version", [-1, 5, 999])
def test_unknown_version(version: int) -> None:
    """The error names an unknown version."""
    data = struct.pack(">h", version) + bytes(40)
    for name in ("OffsetCommitValue", "GroupMetadataValue"):
        with pytest.raises(WireError, match=f"{name} of version {version}"):
            decoded(name, data)


def test_error_says_where() -> None:
    """The error names the record's position and the batch's offset."""
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
    """All readers refuse names and metadata of more than 32,767 bytes."""
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


# -- hand-written code and declarations

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
    """A batch of offsets as any broker may write it, and its rows."""
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
    """The result is the same for both ways of writing and of reading."""
    batch, rows = made
    reader = new_reader()
    assert reader.read(batch) == rows
    assert reader.read(batch) == rows  # with all names cached


@given(KEY, PLAIN | NOTED, st.integers(0, 10_000))
def test_values_by_hand(
    key: OffsetCommitKey, value: OffsetCommitValue, position: int
) -> None:
    """The hand-written encoder and the declaration give the same bytes."""
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


@given(
    st.text(max_size=100),
    st.lists(st.tuples(st.sampled_from(["t", "größe"]), KEY, PLAIN), min_size=1),
    st.booleans(),
)
def test_commits_by_template(
    group: str,
    rows: list[tuple[str, OffsetCommitKey, OffsetCommitValue]],
    has_ids: bool,
) -> None:
    """A template gives the bytes of records that are encoded one by one.

    The records of a commit share its time.
    """
    ids = {"t": bytes(range(16))} if has_ids else {}
    template = offsets_log.CommitTemplate(
        len(group.encode()),
        [topic for topic, _, _ in rows],
        [key.partition for _, key, _ in rows],
        ids,
    )
    packed = template.pack(
        group.encode(),
        [value.offset for _, _, value in rows],
        [value.leader_epoch for _, _, value in rows],
        123,
    )
    framed = b""
    for place, (topic, key, value) in enumerate(rows):
        tail = offsets_log.plain_tail(ids.get(topic))
        offset, epoch = value.offset, value.leader_epoch
        framed += offsets_log.frame(
            place,
            offsets_log.offset_key(group, topic, key.partition),
            offsets_log.offset_value(offset, epoch, "", 123, tail),
        )
    assert packed == framed


@given(st.data())
def test_damaged_batches(data: st.DataObject) -> None:
    """Any bytes give a result or a WireError."""
    batch, _ = data.draw(batches())
    body = bytearray(batch)
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(12, len(body) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.sampled_from([len(body), len(body) - 1, 61, 30]))
    with contextlib.suppress(WireError):
        new_reader().read(bytes(body[:end]))


# -- transactions (KIP-98)


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
    """A batch in a transaction."""
    return build_batch(
        records, producer_id=producer_id, attributes=TRANSACTIONAL, producer_epoch=0
    )


def test_records_of_transactions() -> None:
    """They come with their producer id, and markers as the end of the transaction."""
    pending = in_transaction(7, offsets(("a", 1), ("b", None)))
    reader = new_reader()
    first, second = reader.read(pending)
    assert first[:4] == (7, "g", "a", 0)
    assert second[:5] == (7, "g", "b", 0, None)
    for is_commit in (True, False):
        batch = marker_batch(Marker(is_commit, 0), 7, 0, 1)
        assert reader.read(batch) == [(7, is_commit)]


def test_other_control_records() -> None:
    """Control records that are no markers are skipped; damaged ones are errors."""

    def control(key: bytes) -> bytes:
        return build_batch([Record(0, 1, key, bytes(6))], attributes=CONTROL)

    assert new_reader().read(control(struct.pack(">hh", 0, 3))) == []
    with pytest.raises(WireError, match="a control record without a type"):
        new_reader().read(control(b"?"))
