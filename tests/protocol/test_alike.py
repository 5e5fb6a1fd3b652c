"""JoinGroup and SyncGroup: decoded with the latest request in mind, or without."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.strategies import Side, messages, mutated, sides_of

from kohort.protocol.alike import AlikeDecoder, decoder_of
from kohort.protocol.messages import MALFORMED
from kohort.protocol.registry import BY_KEY, BY_NAME
from kohort.protocol.slotted import replace

SIDES = [side for key in (11, 14) for side in sides_of(BY_KEY[key]) if side.is_request]
every_side = pytest.mark.parametrize("side", SIDES, ids=str)
MEMBER_IDS = st.sampled_from(["", "m", "\u00e9", "x" * 125, "x" * 126, "x" * 127])


def outcome(decode: Any, data: bytes, before: int, behind: int) -> Any:
    """The message and its end, or the fact that the bytes are malformed."""
    buffer = b"\x01" * before + data + b"\x01" * behind
    try:
        message, position = decode(buffer, before, before + len(data))
    except MALFORMED:
        return "malformed"
    if position > before + len(data):
        return "malformed"
    return message, position - before


@every_side
@given(data=st.data())
def test_every_request_is_decoded_as_without_the_one_before(
    side: Side, data: st.DataObject
) -> None:
    """Requests in any order: alike but for the member id, different, or malformed."""
    decode, plain = decoder_of(side.api, side.version), side.codec.decode_unchecked
    message = data.draw(messages(side.declared, side.version))
    for _ in range(6):
        how = data.draw(st.sampled_from(["alike", "other", "mutated", "longer"]))
        if how == "other":
            message = data.draw(messages(side.declared, side.version))
        elif how == "alike":
            message = replace(message, member_id=data.draw(MEMBER_IDS))
        frame = side.codec.encode(message)
        if how == "mutated":
            frame = data.draw(mutated(frame))
        elif how == "longer":
            frame += b"\0"
        around = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))
        assert outcome(decode, frame, *around) == outcome(plain, frame, *around)


@every_side
def test_members_share_all_but_their_ids(side: Side) -> None:
    """The second member's message has the very lists of the first one's."""
    names = side.declared.__match_args__  # type: ignore[attr-defined]
    rows = "protocols" if "protocols" in names else "assignments"
    decode = AlikeDecoder(side.api, side.version).decode
    found = []
    for member_id in "ana", "ben", "caroline":
        message = replace(side.declared(), group_id="g", member_id=member_id)
        frame = side.codec.encode(message)
        found.append(decode(frame, 0, len(frame))[0])
        assert found[-1].member_id == member_id
    assert getattr(found[0], rows) is getattr(found[1], rows) is getattr(found[2], rows)


def test_other_requests_have_their_plain_decoder() -> None:
    """A heartbeat is decoded by its codec."""
    api = BY_NAME["Heartbeat"]
    assert decoder_of(api, 4) is api.request(4).decode_unchecked
