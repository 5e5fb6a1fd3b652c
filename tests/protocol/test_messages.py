"""Every message of every API, in every version, in both of its forms."""

from __future__ import annotations

import io
from typing import Any

import pytest
from construct import ConstructError
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol import in_pieces
from tests.protocol.strategies import (
    SIDES,
    Side,
    carried,
    comparable,
    every_api,
    filled,
    messages,
    mutated,
    plain_messages,
    sides_of,
    some_side,
)

from kohort.protocol.fields import fields_of
from kohort.protocol.generated_calls import uvarint
from kohort.protocol.messages import WireError
from kohort.protocol.primitives import plain
from kohort.protocol.registry import Api
from kohort.protocol.slotted import replace


def _is_flexible(side: Side) -> bool:
    return side.api.is_flexible(side.version)


def _tagged(side: Side) -> dict[str, Any]:
    """The tagged fields of a message itself, and their defaults."""
    return {
        f.name: f.default
        for f in fields_of(side.declared)
        if f.exists_in(side.version) and f.versions.tag is not None
    }


def check_codec(side: Side, message: Any, before: bytes, behind: bytes) -> None:
    """An encoded message decodes to the same: at any place, in pieces, as a layout."""
    encoded = side.codec.encode(message)

    decoded, position = side.codec.decode(encoded, 0, len(encoded))

    assert position == len(encoded), side
    assert type(decoded) is side.declared
    assert plain(decoded) == plain(message)

    end = len(before) + len(encoded)
    buffer = bytearray(before + encoded + behind)
    assert side.codec.decode(buffer, len(before), end) == (decoded, end)

    assert in_pieces.encoded(side.codec, message) == encoded
    assert in_pieces.decoded(side.codec, encoded) == (decoded, len(encoded))

    assert side.layout.build(plain(message)) == encoded
    assert side.layout.parse(encoded) == carried(message, side.version)


@every_api
def test_every_version_survives_its_codec(api: Api) -> None:
    """With each field of the version, each null, and default values."""
    for side in sides_of(api):
        for message in plain_messages(side):
            check_codec(side, message, b"12", b"3")


@every_api
@given(data=st.data(), before=st.binary(max_size=9), behind=st.binary(max_size=9))
def test_a_message_survives_its_codec(
    api: Api, data: st.DataObject, before: bytes, behind: bytes
) -> None:
    """Any message of some version."""
    side = data.draw(some_side(api))
    message = data.draw(messages(side.declared, side.version))
    check_codec(side, message, before, behind)


@every_api
@given(data=st.data())
def test_doubtful_bytes_are_read_alike(api: Api, data: st.DataObject) -> None:
    """Codec and layout both refuse mutated bytes, or read the same."""
    side = data.draw(some_side(api))
    encoded = data.draw(mutated(side.codec.encode(filled(side.declared, side.version))))
    stream = io.BytesIO(encoded)
    try:
        expected = side.layout.parse_stream(stream)
    except ConstructError:
        with pytest.raises(WireError):
            side.codec.decode(encoded, 0, len(encoded))
        with pytest.raises(WireError):
            in_pieces.decoded(side.codec, encoded)
        return

    decoded, position = side.codec.decode(encoded, 0, len(encoded))

    assert position == stream.tell()
    again, position = in_pieces.decoded(side.codec, encoded)
    assert position == stream.tell()
    assert repr(plain(again)) == repr(plain(decoded))
    values = carried(decoded, side.version)
    assert comparable(values) == comparable(expected)


@every_api
def test_unknown_tagged_fields_are_skipped(api: Api) -> None:
    """A newer peer's tagged fields change nothing."""
    for side in filter(_is_flexible, sides_of(api)):
        encoded = side.codec.encode(side.declared())
        assert encoded[-1] == 0, side  # no tagged field: all have their defaults
        unknown = b"\x02" + b"\x63\x03abc" + uvarint(1000) + uvarint(300) + bytes(300)
        longer = encoded[:-1] + unknown

        decoded, position = side.codec.decode(longer, 0, len(longer))

        assert position == len(longer), side
        assert plain(decoded) == plain(side.declared()), side
        assert side.layout.parse(longer) == carried(side.declared(), side.version), side


@pytest.mark.parametrize(
    "side", [s for s in SIDES if _is_flexible(s) and _tagged(s)], ids=str
)
@given(data=st.data())
def test_tagged_fields_with_their_default_are_left_out(
    side: Side, data: st.DataObject
) -> None:
    """A default is not sent, even if the message was built with one."""
    message = data.draw(messages(side.declared, side.version))
    encoded = side.codec.encode(replace(message, **_tagged(side)))
    assert encoded[-1] == 0
    assert side.codec.encode(message).startswith(encoded[:-1])
