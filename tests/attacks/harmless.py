"""The attacks that never did harm; each is a generator, see `Attack.program`."""

from __future__ import annotations

import itertools
import random
import struct
import time
from collections.abc import Iterator

from tests.attacks.attack import Attack, Program
from tests.attacks.freezing import bomb, fetching, find_time, record_of
from tests.attacks.innocent import SESSION_MS
from tests.attacks.target import Line, Target, batch, pipelined, producing
from tests.wire import frames as wire
from tests.wire.requests import commit_offsets, join_group

from kohort.protocol import compression
from kohort.protocol.apis import k03_metadata as metadata
from kohort.protocol.apis.k11_join_group import (
    JoinGroupRequest,
)
from kohort.protocol.apis.k18_api_versions import ApiVersionsRequest
from kohort.protocol.registry import APIS

SEED = 13
STREAMS = 2_000
LIES = (
    struct.pack(">i", 2**31 - 1),  # a count, or the size of bytes
    struct.pack(">h", 2**15 - 1) * 2,  # the size of a string
    b"\xff\xff\xff\xff\x07",  # both, as a varint
    b"\xff" * 9 + b"\x01",  # a varint that never ends
)


def _mutated(draw: random.Random, data: bytes) -> bytes:
    """A few bytes changed, removed, inserted, or repeated."""
    made = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(4, len(made)) if len(made) > 4 else 0
        kind = draw.randrange(4)
        if kind == 0:
            made[at : at + 1] = draw.randbytes(1)
        elif kind == 1:
            del made[at : at + draw.randint(1, 8)]
        elif kind == 2:
            made[at:at] = draw.choice((*LIES, b"\0", draw.randbytes(4)))
        else:
            made[at:at] = made[at : at + draw.randint(1, 16)] * draw.randint(1, 20)
    if draw.randrange(4):  # mostly with a correct size
        made[:4] = struct.pack(">i", len(made) - 4)
    return bytes(made)


def _frames_at_random(target: Target) -> Program:
    draw = random.Random(SEED)
    target.create("thin")
    whole = [
        wire.request("ApiVersions", 3, ApiVersionsRequest("a", "b")),
        producing("thin", batch(b"\x0e\0\0\0\1\2v\0", 1)),
        fetching("thin", 0, 0),
        find_time("thin"),
        wire.request("JoinGroup", 5, _join("at-random", 6_000)),
        _committing("at-random", "thin"),
        wire.request("Metadata", 9, metadata.MetadataRequest(None)),
    ]
    yield
    for number in range(STREAMS):
        line = Line(target.port)
        if number % 4:
            line.send_bytes(_mutated(draw, draw.choice(whole)))
        else:
            line.send_bytes(draw.randbytes(draw.randint(1, 2_000)))
        line.vanish()
    return f"{STREAMS} streams were sent"


def _lying_counts(target: Target) -> Program:
    frames = [
        wire.request(api.name, version, lie * 8)
        for api in APIS
        for version in range(api.oldest, api.newest + 1)
        for lie in LIES
    ]
    yield
    closed = 0
    for each in frames:
        line = Line(target.port)
        line.socket.settimeout(ANSWER_S)
        line.send_bytes(each)
        closed += line.answer() in {"closed", "reset"}
        line.vanish()
    return f"{closed} of {len(frames)} were closed"


ANSWER_S = 0.05
"""Seconds to wait for responses: some of these requests wait, or get none."""


def _bombs(target: Target) -> Program:
    frames = []
    sizes = {
        compression.GZIP: (99_000_000, 400_000_000),
        compression.SNAPPY: (15_000_000,),
        compression.LZ4: (99_000_000, 200_000_000),
        compression.ZSTD: (99_000_000, 1_000_000_000),
    }
    for codec, each in sizes.items():
        for size in each:
            topic = f"bomb-{codec}-{size}"
            target.create(topic)
            data = bomb(record_of(bytes(size)), 1, codec)
            frames += [
                producing(topic, data),
                find_time(topic),
            ]
    yield
    return "; ".join(target.ask(each) for each in frames)


def _connections(target: Target) -> Program:
    ping = wire.request("ApiVersions", 0, ApiVersionsRequest())
    yield
    opened = 0
    try:
        for _ in range(15_000):
            target.line().send_bytes(ping)
            opened += 1
    except OSError as error:
        return f"{opened} connections, then {error}"
    return f"{opened} connections"


def _slow_loris(target: Target) -> Program:
    ping = wire.request("ApiVersions", 0, ApiVersionsRequest())
    yield
    lines = [target.line() for _ in range(500)]
    for byte in ping:
        for line in lines:
            line.send_bytes(bytes([byte]))
        time.sleep(BYTE_S)
    answered = sum(line.answer().endswith(" s") for line in lines)
    return f"{answered} of {len(lines)} were answered in the end"


BYTE_S = 0.1
"""Time between two bytes: being slow is the attack."""


def _never_read(target: Target) -> Program:
    target.create("large")
    data = batch(bytes(900_000), 1)
    for _ in range(20):
        target.produce("large", data)
    asked = wire.request("Metadata", 9, metadata.MetadataRequest(None)) * 50
    asked += fetching("large", 0, 1) * 50
    yield
    for _ in range(50):
        target.line().send_bytes(asked)
    time.sleep(READ_S)
    return "not read"


READ_S = 3.0


def _committing(group: str, topic: str) -> bytes:
    request = commit_offsets(topic, (0, 1), group=group)
    return wire.request("OffsetCommit", 7, request)


def _groups(target: Target) -> Program:
    target.create("thin")
    yield
    frames = (_committing(f"one-of-many-{i}", "thin") for i in range(50_000))
    return f"answered: {pipelined(target.line(), frames)}"


def _join(group: str, session_ms: int) -> JoinGroupRequest:
    return join_group(group, session_ms=session_ms, rebalance_ms=60_000)


def _members(target: Target) -> Program:
    # From v4 on a member gets its id first (KIP-394), and is pending until it joins
    # with that: so one connection can make any number of them.
    join = wire.request("JoinGroup", 4, _join("crowd", SESSION_MS))
    yield
    frames: Iterator[bytes] = itertools.repeat(join, 50_000)
    answered = pipelined(target.line(), frames)
    time.sleep(SESSION_MS / 1000)  # then all of them expire
    return f"answered: {answered}"


def _wrong_crcs(target: Target) -> Program:
    target.create("thin")
    wrong = batch(bytes(1_000_000), 1, damage=1)
    data = producing("thin", wrong)
    yield
    frames: Iterator[bytes] = itertools.repeat(data, 300)
    return f"answered: {pipelined(target.line(), frames)}"


HARMLESS = [
    Attack(
        "at-random",
        "2,000 streams at random, most of them almost right",
        _frames_at_random,
    ),
    Attack(
        "lying-counts", "every API in each version, with counts that lie", _lying_counts
    ),
    Attack(
        "bombs",
        "batches of all codecs that decompress to 15 to 1,000 MB; ListOffsets by time",
        _bombs,
    ),
    Attack("connections", "15,000 connections", _connections),
    Attack("slow-loris", "500 connections that send a byte at a time", _slow_loris),
    Attack(
        "never-read", "50 clients that ask for 1 GB each and read nothing", _never_read
    ),
    Attack("groups", "commits of 50,000 groups", _groups, keeps_mb=200.0),
    Attack("members", "50,000 pending members of a group", _members),
    Attack(
        "wrong-crcs", "Produce of 300 batches of 1 MB with a wrong CRC", _wrong_crcs
    ),
]
