"""One codec with each kind of field, and with unusual bytes."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.strategies import carried, messages

from kohort.protocol.apis.k01_fetch import (
    EpochEndOffset,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kohort.protocol.apis.k03_metadata import MetadataRequest
from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.fields import (
    ZERO_UUID,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uint16,
    Uuid,
    V,
    fields_of,
)
from kohort.protocol.generated_calls import read_uvarint, skip_tags, uvarint
from kohort.protocol.messages import Codec, WireError, codec
from kohort.protocol.primitives import layout, plain
from kohort.protocol.registry import BY_NAME
from kohort.protocol.slotted import replace, slotted


@slotted
class Inner:
    """A struct with a tagged field of its own."""

    number: Int32 = 0
    label: Annotated[String, V(2, tag=0)] = ""


@slotted
class Everything:
    """Each kind of field, plain, nullable, repeated and tagged."""

    bool_: Bool = False
    int8: Int8 = 0
    int16: Int16 = 0
    int32: Int32 = 0
    int64: Int64 = 0
    uint16: Uint16 = 0
    float64: Float64 = 0.0
    uuid: Uuid = ZERO_UUID
    string: String = ""
    bytes_: Bytes = b""
    records: Records = b""
    inner: Inner = Inner()
    maybe_string: Annotated[String | None, V(0, nullable=1)] = ""
    maybe_bytes: Bytes | None = None
    maybe_records: Records | None = None
    maybe_inner: Inner | None = None
    maybe_strings: Sequence[String] | None = None
    gone: Annotated[Int32, V(0, 1)] = 7
    bools: Sequence[Bool] = ()
    int8s: Sequence[Int8] = ()
    int16s: Sequence[Int16] = ()
    int64s: Sequence[Int64] = ()
    uint16s: Sequence[Uint16] = ()
    float64s: Sequence[Float64] = ()
    uuids: Sequence[Uuid] = ()
    strings: Sequence[String] = ()
    blobs: Sequence[Bytes] = ()
    inners: Sequence[Inner] = ()
    tagged_number: Annotated[Int32, V(2, tag=3)] = -1
    tagged_string: Annotated[String | None, V(2, tag=1)] = None
    tagged_inner: Annotated[Inner, V(2, tag=0)] = Inner()
    tagged_inners: Annotated[Sequence[Inner], V(2, tag=200)] = ()
    tagged_uuid: Annotated[Uuid, V(2, tag=2)] = ZERO_UUID


@pytest.mark.parametrize("version", [0, 1, 2])
@given(data=st.data())
def test_each_kind_of_field_in_both_forms(version: int, data: st.DataObject) -> None:
    """Codec and layout agree on every type of the protocol, used by an API or not."""
    flexible = version == 2
    message = data.draw(messages(Everything, version))
    c = codec(Everything, version, flexible=flexible)
    encoded = c.encode(message)

    decoded, position = c.decode(encoded, 0, len(encoded))

    assert position == len(encoded)
    assert plain(decoded) == plain(message)
    form = layout(Everything, version, flexible=flexible)
    assert form.build(plain(message)) == encoded
    assert form.parse(encoded) == carried(message, version)


def _heartbeat(group_id: str) -> HeartbeatRequest:
    return HeartbeatRequest(group_id, 1, "m", None)


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 255, 256, 16382, 16383, 32767])
@pytest.mark.parametrize("version", [3, 4])
def test_strings_of_any_length(version: int, size: int) -> None:
    """Lengths of one, two and three bytes, classic and compact."""
    c = BY_NAME["Heartbeat"].request(version)
    encoded = c.encode(_heartbeat("g" * size))
    prefix = uvarint(size + 1) if version == 4 else struct.pack(">h", size)
    assert encoded.startswith(prefix + b"g" * size)
    assert c.decode(encoded, 0, len(encoded))[0] == _heartbeat("g" * size)


@pytest.mark.parametrize("count", [0, 1, 126, 127, 128, 16383])
@pytest.mark.parametrize(
    ("name", "version"), [("DescribeGroups", 1), ("CreatePartitions", 3)]
)
def test_arrays_of_any_length(name: str, version: int, count: int) -> None:
    """Counts of one, two and three bytes, classic and compact."""
    api = BY_NAME[name]
    field = fields_of(api.request_class)[0]
    items = [field.kind() if isinstance(field.kind, type) else "g"] * count
    message = replace(api.request_class(), **{field.name: items})
    encoded = api.request(version).encode(message)
    decoded, position = api.request(version).decode(encoded, 0, len(encoded))
    assert position == len(encoded)
    assert carried(decoded, version) == carried(message, version)


def test_records_in_several_buffers_are_one() -> None:
    """A partition's batches are sent one after the other, without a copy."""
    c = BY_NAME["Fetch"].response(11)
    batches = [memoryview(b"one"), b"", bytearray(b"two")]

    def response(records: Any) -> FetchResponse:
        topic = BY_NAME["Fetch"].module.FetchableTopicResponse
        return FetchResponse(
            responses=[topic("t", partitions=[PartitionData(records=records)])]
        )

    parts: list[Any] = []
    c.encode_into(response(batches), parts.append)
    assert any(part is batches[0] for part in parts)
    assert b"".join(parts) == c.encode(response(b"onetwo"))
    assert c.encode(response(tuple(batches))) == c.encode(response(b"onetwo"))
    assert c.encode(response([])) == c.encode(response(b""))


def test_records_are_a_view_of_what_came() -> None:
    """Produce copies no record."""
    c = BY_NAME["Produce"].request(3)
    form = BY_NAME["Produce"].module
    partition = form.PartitionProduceData(0, b"batch")
    message = form.ProduceRequest(
        None, 1, 5, [form.TopicProduceData("t", partition_data=[partition])]
    )
    encoded = c.encode(message)
    decoded, _ = c.decode(encoded, 0, len(encoded))
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is encoded


def test_a_response_of_fixed_size_is_one_piece() -> None:
    """A heartbeat's response is a single pack."""
    parts: list[Any] = []
    c = BY_NAME["Heartbeat"].response(4)
    c.encode_into(HeartbeatResponse(0, 27), parts.append)
    assert parts == [b"\0\0\0\0\0\x1b\0"] == [c.encode(HeartbeatResponse(0, 27))]


def test_tagged_fields_are_told_by_value() -> None:
    """A struct equal to the default is not sent; another one is."""
    c = BY_NAME["Fetch"].response(12)
    topic = BY_NAME["Fetch"].module.FetchableTopicResponse

    def size(epoch: EpochEndOffset) -> int:
        partition = PartitionData(diverging_epoch=epoch)
        return len(
            c.encode(FetchResponse(responses=[topic("t", partitions=[partition])]))
        )

    unset = size(PartitionData().diverging_epoch)
    assert size(EpochEndOffset(-1, -1)) == unset
    assert size(EpochEndOffset(3, -1)) == unset + 2 + 13


# Apache Kafka 4.3 was given each of the following. Bytes that it answers are read here,
# bytes at which it closes the connection raise WireError.


def _decoded(c: Codec, data: bytes) -> Any:
    message, position = c.decode(data, 0, len(data))
    assert position == len(data)
    return message


@pytest.mark.parametrize("count", [-1, -2, -7, -(2**31)])
def test_any_negative_count_is_null(count: int) -> None:
    """-1, or any lower number, requests all topics."""
    data = struct.pack(">i", count)
    assert _decoded(BY_NAME["Metadata"].request(1), data).topics is None
    with pytest.raises(WireError, match=r"length -\d+ of topics"):
        BY_NAME["Metadata"].request(0).decode(data, 0, 4)


def test_any_negative_compact_count_is_null() -> None:
    """A varint with bit 31 set is a negative number."""
    data = b"\xff\xff\xff\xff\x0f" + b"\x01\x00\x00\x00"
    assert _decoded(BY_NAME["Metadata"].request(9), data) == MetadataRequest(
        None, True, False, False
    )


def _find(key: bytes) -> bytes:
    return key + b"\x00" + b"\x00"


@pytest.mark.parametrize(
    ("key", "read"),
    [
        (b"\x02a", "a"),
        (b"\x02\xff", "\N{REPLACEMENT CHARACTER}"),
        (b"\x82\x00a", "a"),  # longer than necessary
        (b"\x82\x80\x80\x80\x70a", "a"),  # bits above 31 are dropped
        (uvarint(32768) + b"a" * 32767, "a" * 32767),
        (uvarint(32769) + b"a" * 32768, None),
        (b"\x00", None),
        (b"\xff\xff\xff\xff\x0f", None),
        (b"\x82\x80\x80\x80\x80\x00a", None),  # six bytes
    ],
)
def test_compact_strings(key: bytes, read: str | None) -> None:
    """Strings have up to 32767 bytes, valid UTF-8 or not."""
    c = BY_NAME["FindCoordinator"].request(3)
    if read is None:
        with pytest.raises(WireError):
            c.decode(_find(key), 0, len(_find(key)))
    else:
        assert _decoded(c, _find(key)) == FindCoordinatorRequest(read)


_FETCH = struct.pack(">iiiibii", -1, 0, 0, 1000, 0, 0, -1) + b"\x01\x01\x01"
_NONE = FetchRequest(max_bytes=1000, topics=[], forgotten_topics_data=[])
_AB = replace(_NONE, cluster_id="ab")


@pytest.mark.parametrize(
    ("tags", "read"),
    [
        (b"\x00", _NONE),
        (b"\x01\x00\x03\x03ab", _AB),
        (b"\x01\x00\x09\x03ab", _AB),  # the size of a known field is ignored
        (b"\x01\x00\x01\x03ab", _AB),
        (b"\x02\x00\x03\x03xy\x00\x03\x03ab", _AB),  # the last one counts
        (b"\x02\x09\x00\x00\x03\x03ab", _AB),  # out of order
        (b"\x80\x80\x80\x80\x10", _NONE),  # bits above 31 are dropped
        (b"\xff\xff\xff\xff\x0f", _NONE),  # a negative count
        (b"\x01\x09\x05", None),
        (b"\x01\x09\xff\xff\xff\xff\x0f", None),  # does not go backwards
        (b"\x80\x80\x80\x80\x80\x00", None),
    ],
)
def test_sections_of_tagged_fields(tags: bytes, read: FetchRequest | None) -> None:
    """Known fields are read, unknown ones skipped, in any order."""
    c = BY_NAME["Fetch"].request(12)
    if read is None:
        with pytest.raises(WireError):
            c.decode(_FETCH + tags, 0, len(_FETCH + tags))
    else:
        assert _decoded(c, _FETCH + tags) == read


@pytest.mark.parametrize(
    ("cursor", "there"),
    [(b"\xff", False), (b"\x80", False), (b"\x00", True), (b"\x7f", True)],
)
def test_a_struct_is_null_behind_a_negative_byte(cursor: bytes, there: bool) -> None:
    """Any number from 0 on means that the struct follows."""
    body = b"\x02a" + struct.pack(">i", 5) + b"\0" if there else b""
    data = b"\x01" + struct.pack(">i", 10) + cursor + body + b"\0"
    read = _decoded(BY_NAME["DescribeTopicPartitions"].request(0), data)
    assert (read.cursor is not None) == there


def test_a_bool_is_any_byte_but_zero() -> None:
    """Kafka reads 2 as true."""
    c = BY_NAME["Metadata"].request(4)
    assert _decoded(c, bytes(4) + b"\x02").allow_auto_topic_creation is True


def test_bytes_behind_the_message_are_the_callers() -> None:
    """Like Kafka, the codec leaves the bytes after a body unread."""
    c = BY_NAME["Heartbeat"].response(0)
    assert c.decode(b"\x00\x1btrailing", 0, 10) == (HeartbeatResponse(0, 27), 2)


@given(st.integers(0, 2**31 - 1))
def test_varints(value: int) -> None:
    """Seven bits a byte, lowest first."""
    encoded = uvarint(value)
    assert len(encoded) == max(1, -(-value.bit_length() // 7))
    assert read_uvarint(b"\xff" + encoded + b"\xff", 1) == (value, 1 + len(encoded))
    assert skip_tags(b"\x01" + encoded + b"\x02ab", 0) == len(encoded) + 4


def test_generated_source_is_kept() -> None:
    """The source of a codec can be inspected."""
    source = BY_NAME["Heartbeat"].request(4).source
    names = [line.split("(")[0] for line in source.splitlines() if line[0] != " "]
    assert names == ["def decode", "def encode_into", "def encode"]
    assert len(list(itertools.takewhile(bool, source.splitlines()))) < 60
