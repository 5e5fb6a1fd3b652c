"""Fuzz targets: every request and response, and the cutting of frames."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from typing import Any

import construct
from tests.fuzz.messages import Pool, mutated
from tests.fuzz.target import Target
from tests.protocol import in_pieces
from tests.protocol.strategies import SIDES, Side, carried, comparable, filled

from kohort.protocol.fields import Buffer
from kohort.protocol.framing import Frame, Framer, FrameSizeError
from kohort.protocol.messages import WireError
from kohort.protocol.registry import APIS, BY_KEY

_RESPONSE, _COMPARED, _IN_PIECES = 1, 2, 4
"""Flags: a response; construct has to read the bytes as the generated code does; and so
does the code that works in pieces."""
_LIMIT = 1 << 16
"""``socket.request.max.bytes`` of the frames."""
_POOL = Pool()


def _side(data: bytes) -> Side:
    """The API, version and direction of an input's bytes."""
    key, version, flags = data[:3]
    api = BY_KEY.get(key) or APIS[key % len(APIS)]
    if not api.accepts(version):
        version = api.oldest + version % (api.newest - api.oldest + 1)
    return Side(api, version, not flags & _RESPONSE)


def decode(data: bytes) -> None:
    """Bytes are a message or raise `WireError`, and a message survives its encoding.

    Args:
        data: the API key, the version, flags, one byte each; then the body.
    """
    if len(data) < 3:
        return
    body = data[3:]
    side = _side(data)
    known, version = side.codec, side.version
    try:
        message, position = known.decode(body, 0, len(body))
    except WireError:
        message, position = None, -1
    if data[2] & _COMPARED:
        _compare(side, body, message, position)
    if data[2] & _IN_PIECES:
        _decode_in_pieces(side, body, message, position)
    if message is None:
        return
    assert 0 <= position <= len(body)
    encoded = known.encode(message)
    again, end = known.decode(encoded, 0, len(encoded))
    assert end == len(encoded), "its encoding is read to the end"
    assert _said(again, version) == _said(message, version), "as its encoding says"
    assert known.encode(again) == encoded
    pieces: list[Buffer] = []
    known.encode_into(message, pieces.append)
    assert b"".join(pieces) == encoded
    if data[2] & _IN_PIECES:
        assert in_pieces.encoded(known, message) == encoded


def _decode_in_pieces(side: Side, body: bytes, message: Any, position: int) -> None:
    try:
        found, end = in_pieces.decoded(side.codec, body)
    except WireError:
        found, end = None, -1
    assert end == position
    same = _said(found, side.version) == _said(message, side.version)
    assert same, "in pieces it says the same"


def _compare(side: Side, body: bytes, message: Any, position: int) -> None:
    stream = io.BytesIO(body)
    try:
        parsed = side.layout.parse_stream(stream)
    except construct.ConstructError:
        assert message is None, "construct refuses it"
        return
    assert message is not None, "construct reads it"
    assert stream.tell() == position
    assert comparable(parsed) == _said(message, side.version)


def _said(message: Any, version: int) -> Any:
    return comparable(carried(message, version))


def _prefix(side: Side) -> bytes:
    # Making layouts of every version would take seconds.
    flags = _COMPARED | _IN_PIECES if side.version == side.api.newest else 0
    flags |= 0 if side.is_request else _RESPONSE
    return bytes((side.api.key, side.version, flags))


def _messages() -> Iterator[bytes]:
    """One message of each API, version and direction, with all fields filled."""
    for side in SIDES:
        yield _prefix(side) + side.codec.encode(filled(side.declared, side.version))


def _mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes a field of the message, or reads the bytes as another version."""
    if len(data) < 3 or chance.random() < 0.1:
        return (
            bytes((chance.choice(APIS).key, chance.randrange(20), chance.randrange(8)))
            + data[3:]
        )
    side = _side(data)
    known, version = side.codec, side.version
    try:
        message, _ = known.decode(data[3:], 0, len(data) - 3)
    except WireError:
        message = filled(side.declared, version)
    return data[:3] + known.encode(mutated(message, version, _POOL, chance))


DECODERS = Target(decode, _messages, _mutate, weight=2)


def frames(data: bytes) -> None:
    """A stream is cut into the same frames, however it arrives.

    Args:
        data: a number of pieces, their sizes, then the stream.
    """
    count = data[0] % 16 if data else 0
    sizes, stream = data[1 : 1 + count], data[1 + count :]
    finish = _fed([stream])
    pieces, rest = [], stream
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    assert _fed([*pieces, rest]) == finish


def _fed(pieces: list[bytes]) -> tuple[list[bytes], str]:
    framer = Framer(_LIMIT)
    found: list[Frame] = []
    came = 0
    for piece in pieces:
        came += len(piece)
        try:
            found += framer.feed(piece)
        except FrameSizeError as error:
            found += error.frames
            return [bytes(b[start:end]) for b, start, end in found], str(error)
        # An incomplete long frame is kept without its size.
        used = sum(4 + end - start for _, start, end in found)
        assert came - used - framer.unfinished in {0, 4}
    return [bytes(b[start:end]) for b, start, end in found], ""


def _streams() -> Iterator[bytes]:
    yield b"\x02\x03\x06" + b"\0\0\0\x05hello\0\0\0\0\0\0\0\x01x"
    yield b"\x01\x02" + b"\0\0\0\x02hi\xff\xff\xff\xff"
    # Gathered in pieces: at least LONG_FRAME.
    yield b"\x0f" + b"\xff" * 15 + b"\0\0\x40\x01" + bytes(0x4001) + b"\0\0\0\x01y"


FRAMES = Target(frames, _streams, longest=20_000)
