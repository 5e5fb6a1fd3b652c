"""Fuzz target: subscriptions and assignments, and the records of groups in the log."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

from tests.coordinator.driver import read_log
from tests.fuzz.target import Target

from kohort.broker.coordinator.consumer.group import ConsumerGroup
from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import (
    ConsumerGroupRecord,
    ConsumerMember,
    ConsumerMemberRecord,
    ConsumerRecord,
    CurrentAssignment,
    CurrentAssignmentRecord,
    Effect,
    Record,
    RegularExpressionRecord,
    TargetAssignmentRecord,
    TargetMemberRecord,
)
from kohort.broker.coordinator.events import (
    DescribeConsumerGroup,
    DescribeGroup,
    ListGroups,
)
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.events.render import render
from kohort.broker.notice import Notice
from kohort.broker.runtime.effects import Append, Arm
from kohort.broker.runtime.events import Expired
from kohort.broker.runtime.machine import CHECK_KEY
from kohort.broker.shards.consumer_group_records import from_log, to_log
from kohort.broker.shards.group_records import Decoder, Encoder
from kohort.protocol import consumer, offsets_log, records
from kohort.protocol.messages import WireError
from kohort.protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    OtherKey,
)
from kohort.simulation.checking.groups import classic

_NOW = 1_700_000_000.0
_MOST_FIRED = 100
Pair = tuple[bytes, bytes | None]
"""The key and the value of a record."""


def group_records(data: bytes) -> None:
    """Decoded values survive their encoding; records in the log can be loaded.

    Args:
        data: the kind of value to decode, one byte; then its bytes.
    """
    if data:
        _KINDS[data[0] % len(_KINDS)](data[1:])


def _subscription(data: bytes) -> None:
    found = consumer.decode_subscription(data)
    (version,) = struct.unpack_from(">h", data)
    version = min(version, consumer.NEWEST)
    encoded = consumer.encode(found, version)
    assert consumer.decode_subscription(encoded) == found


def _assignment(data: bytes) -> None:
    found = consumer.decode_assignment(data)
    assert consumer.decode_assignment(consumer.encode(found, 0)) == found


def _sticky(data: bytes) -> None:
    found = consumer.decode_sticky_user_data(data)
    encoded = consumer.encode_user_data(found)
    assert consumer.decode_sticky_user_data(encoded) == found


def _cooperative(data: bytes) -> None:
    found = consumer.decode_cooperative_sticky_user_data(data)
    encoded = consumer.encode_user_data(found)
    assert consumer.decode_cooperative_sticky_user_data(encoded) == found


def _key(data: bytes) -> None:
    found = offsets_log.decode_key(data)
    if not isinstance(found, OtherKey):
        assert offsets_log.decode_key(offsets_log.encode_key(found)) == found


def _offset(data: bytes) -> None:
    found = offsets_log.decode_offset_commit(data)
    (version,) = struct.unpack_from(">h", data)
    encoded = offsets_log.encode_value(found, version)
    assert offsets_log.decode_offset_commit(encoded) == found


def _group(data: bytes) -> None:
    found = offsets_log.decode_group_metadata(data)
    (version,) = struct.unpack_from(">h", data)
    encoded = offsets_log.encode_value(found, version)
    assert offsets_log.decode_group_metadata(encoded) == found


def _consumer_group(data: bytes) -> None:
    """The first byte chooses the type; Kafka's tagged fields need not come back."""
    if not data:
        return
    key = _CONSUMER_KEYS[data[0] % len(_CONSUMER_KEYS)]
    found = offsets_log.decode_consumer_group(key, data[1:])
    assert found is not None
    encoded = offsets_log.encode_value(found, 0)
    assert offsets_log.decode_consumer_group(key, encoded) == found
    record = from_log(key, found)
    assert record is not None
    assert from_log(*to_log(record)) == record


def _log(data: bytes) -> None:
    """Reads a batch by both implementations, and loads its records."""
    pairs = _pairs(data)
    found = _decoded(pairs, 0)
    # Times of two bytes are read one by one.
    assert _decoded(pairs, 1000) == found
    if found is not None:
        _load(found)


def _decoded(pairs: list[Pair], distance_ms: int) -> list[Record] | None:
    some = [records.Record(0, 0, b"\x7f\xff", b"")]
    some += [records.Record(0, distance_ms, *pair) for pair in pairs]
    try:
        return Decoder().read(records.build_batch(some))
    except WireError:
        return None


def _load(found: list[Record]) -> None:
    ids = iter(range(1000))
    coordinator = Coordinator(GroupSettings(max_size=2), lambda _: f"m{next(ids)}")
    effects = coordinator.start(read_log(found), _NOW)
    fired = 0
    while effects and fired < _MOST_FIRED:
        now, keys = _perform(effects)
        effects = []
        for key in keys:
            fired += 1
            if key != CHECK_KEY:
                effects += coordinator.handle(Expired(key), now)
    for group_id, group in classic(coordinator.groups.values()).items():
        record = group.record()
        again = Decoder().read(Encoder().encode([record], 0))
        assert again == [record]
        _perform(coordinator.handle(DescribeGroup(None, group_id), _NOW))
    for group_id, group_848 in consumer_groups(coordinator):
        again = Decoder().read(Encoder().encode([*group_848.records()], 0))
        assert again == [*group_848.records()]
        _perform(coordinator.handle(DescribeConsumerGroup(None, group_id), _NOW))
    _perform(coordinator.handle(ListGroups(None, (), ()), _NOW))
    coordinator.unload()


def consumer_groups(coordinator: Coordinator) -> list[tuple[str, ConsumerGroup]]:
    """The consumer groups with records, by id."""
    return [
        (group_id, group)
        for group_id, group in coordinator.groups.items()
        if isinstance(group, ConsumerGroup) and any(group.records())
    ]


def _perform(effects: list[Effect]) -> tuple[float, list[Any]]:
    """Renders and encodes all groups, and returns the armed timers."""
    keys, latest = [], _NOW
    for effect in effects:
        if isinstance(effect, Append):
            written = Encoder().encode(effect.records, 0)
            assert Decoder().read(written) == [*effect.records]
        elif isinstance(effect, Arm):
            keys.append(effect.key)
            latest = max(latest, effect.deadline)
        elif isinstance(effect, Notice):
            render(effect, _NOW)
    return latest, keys


def _pairs(data: bytes) -> list[Pair]:
    pairs: list[Pair] = []
    at = 0
    while at + 4 <= len(data):
        key_size, size = struct.unpack_from(">Hh", data, at)
        at += 4
        key = data[at : at + key_size]
        at += key_size
        value = None if size < 0 else data[at : at + size]
        at += max(size, 0)
        pairs.append((key, value))
    return pairs


def _packed(pairs: list[Pair]) -> bytes:
    made = b""
    for key, value in pairs:
        size = -1 if value is None else len(value)
        made += struct.pack(">Hh", len(key), size) + key + (value or b"")
    return made


def _refusing(check: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Decodes bytes from outside, which may raise `WireError`."""

    def checked(data: bytes) -> None:
        try:
            check(data)
        except WireError:
            return

    return checked


_KINDS: list[Callable[[bytes], None]] = [
    *map(_refusing, (_subscription, _assignment, _sticky, _cooperative)),
    *map(_refusing, (_key, _offset, _group)),
    _log,
    # At the end, so that inputs in the corpus keep their kind.
    _refusing(_consumer_group),
]
_LOG = _KINDS.index(_log)


# -- seeds and mutations

_OWNED = [consumer.TopicPartitions("t", [0, 1])]
_SUBSCRIPTION = consumer.Subscription(["t", "u"], b"data", _OWNED, 3, "rack")
_MEMBERS = [
    MemberMetadata(
        f"m{number}", instance, "c", "/h", 3000, 10_000,
        consumer.encode(_SUBSCRIPTION), consumer.encode(consumer.Assignment(_OWNED)),
    )
    for number, instance in enumerate((None, "i1", None))
]  # fmt: skip
_GROUP = GroupMetadataValue("consumer", 5, "range", "m0", 1_000, _MEMBERS)
_EMPTY = GroupMetadataValue("consumer", 6, None, None, 1_000, [])
_TOPIC_ID = bytes(range(16))
_CONSUMER_RECORDS: list[ConsumerRecord] = [
    ConsumerMemberRecord(
        "c",
        "m",
        ConsumerMember(
            "i", "r", "client", "/h", ["t"], "a.*", 9_000, "range",
            (10_000, [("range", consumer.encode(_SUBSCRIPTION))]),
        ),
    ),
    ConsumerGroupRecord("c", (3, 77)),
    TargetMemberRecord("c", "m", [(_TOPIC_ID, [0, 1])]),
    TargetAssignmentRecord("c", (3, 1_000)),
    CurrentAssignmentRecord(
        "c",
        "m",
        CurrentAssignment(3, 2, 1, [(_TOPIC_ID, [0], [2])], [(_TOPIC_ID, [1], [3])]),
    ),
    RegularExpressionRecord("c", "a.*", (["a", "ab"], 5, 1_000)),
]  # fmt: skip
_CONSUMER_KEYS = [to_log(record)[0] for record in _CONSUMER_RECORDS]
_OFFSET = OffsetCommitValue(7, 1, "meta", 1_000, -1, bytes(range(16)))


def _some_pairs() -> Iterator[Pair]:
    keys = [OffsetCommitKey("g", "t", 0), OffsetCommitKey("g", "\u00e9", 1)]
    for number, key in enumerate(keys):
        plain = OffsetCommitValue(number, 0, "", 5, -1, bytes(range(16)))
        for version in (4, 4, 3, 1, 0):
            value = offsets_log.encode_value(plain, version)
            yield offsets_log.encode_key(key), value
    group = offsets_log.encode_key(GroupMetadataKey("g"))
    for version in range(offsets_log.GROUP_METADATA_VALUE + 1):
        yield group, offsets_log.encode_value(_GROUP, version)
    yield group, offsets_log.encode_value(_EMPTY, 3)
    for record in _CONSUMER_RECORDS:
        logged, content = to_log(record)
        assert content is not None
        yield offsets_log.encode_key(logged), offsets_log.encode_value(content, 0)
        yield offsets_log.encode_key(logged), None
    yield struct.pack(">hh", 3, 1) + b"n", b"new"
    yield offsets_log.encode_key(keys[0]), None
    yield group, None


def _seeds() -> Iterator[bytes]:
    for version in range(consumer.NEWEST + 1):
        yield b"\0" + consumer.encode(_SUBSCRIPTION, version)
    yield b"\1" + consumer.encode(consumer.Assignment(_OWNED, b"x"), 0)
    yield b"\2" + consumer.encode_user_data(consumer.StickyUserData(_OWNED, 5))
    yield b"\3" + consumer.encode_user_data(consumer.CooperativeStickyUserData(5))
    pairs = [*_some_pairs()]
    for key, value in pairs:
        yield b"\4" + key
        yield b"\5" + (value or b"")
        yield b"\6" + (value or b"")
        yield bytes((_LOG,)) + _packed([(key, value)])
    yield bytes((_LOG,)) + _packed(pairs[:10])
    yield bytes((_LOG,)) + _packed(pairs[10:16])
    yield bytes((_LOG,)) + _packed(pairs[15::2])
    for number, record in enumerate(_CONSUMER_RECORDS):
        _, content = to_log(record)
        assert content is not None
        yield bytes((_LOG + 1, number)) + offsets_log.encode_value(content, 0)
    for version in range(offsets_log.NEWEST_VALUE + 1):
        yield b"\5" + offsets_log.encode_value(_OFFSET, version)


def _mutate(data: bytes, chance: random.Random) -> bytes:
    """Adds, drops or swaps whole records, or changes bytes within one."""
    if not data or data[0] % len(_KINDS) != _LOG:
        return bytes((chance.randrange(len(_KINDS)),)) + data[1:]
    pairs = _pairs(data[1:])
    known = [*_some_pairs()]
    how = chance.randrange(4)
    at = chance.randrange(len(pairs)) if pairs else 0
    if not pairs or how == 0:
        pairs.insert(at, chance.choice(known))
    elif how == 1:
        del pairs[at]
    elif how == 2:
        pairs[at] = (pairs[at][0], chance.choice(known)[1])
    else:
        value = bytearray(pairs[at][1] or b"\0")
        place = chance.randrange(len(value) + 1)
        value[place : place + 1] = chance.choice((b"", b"\xff", b"\0\0", b"\x7f"))
        pairs[at] = (pairs[at][0], bytes(value))
    return bytes((_LOG,)) + _packed(pairs)


GROUP_RECORDS = Target(group_records, _seeds, _mutate)
