"""OffsetCommit: decoded by the layout of the member's earlier commits, or without."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.strategies import messages, mutated
from tests.protocol.test_alike import outcome

from kohort.protocol.alike import decoder_of
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.registry import BY_KEY
from kohort.protocol.slotted import replace

API = BY_KEY[8]
FLEXIBLE = [v for v in range(API.oldest, API.newest + 1) if API.is_flexible(v)]
every_version = pytest.mark.parametrize("version", FLEXIBLE)


def moved(message: Any, offset: int, generation: int = 7) -> Any:
    """The same commit with offsets from this one on, in another generation."""
    topics = []
    for topic in message.topics:
        rows = []
        for row in topic.partitions:
            rows.append(replace(row, committed_offset=offset))
            offset = (offset * 3 + 1) % 2**62
        topics.append(replace(topic, partitions=rows))
    return replace(message, generation_id_or_member_epoch=generation, topics=topics)


@every_version
@given(data=st.data())
def test_every_commit_is_decoded_as_without_the_ones_before(
    version: int, data: st.DataObject
) -> None:
    """Commits of one member in any order: with other offsets, different, malformed."""
    codec, decode = API.request(version), decoder_of(API, version)
    message = data.draw(messages(OffsetCommitRequest, version))
    for _ in range(8):
        how = data.draw(st.sampled_from(["moved", "moved", "other", "mutated"]))
        if how == "other":
            other = data.draw(messages(OffsetCommitRequest, version))
            message = replace(message, topics=other.topics)
        elif how == "moved":
            generation = data.draw(st.integers(-1, 300))
            message = moved(message, data.draw(st.integers(0, 2**62)), generation)
        frame = codec.encode(message)
        if how == "mutated":
            frame = data.draw(mutated(frame))
        around = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))
        plain = codec.decode_unchecked
        assert outcome(decode, frame, *around) == outcome(plain, frame, *around)


def commit(offset: int, epoch: int = 3, text: str = "") -> OffsetCommitRequest:
    """A member's commit of partitions of two topics."""
    some = [OffsetCommitRequestPartition(i, offset + i, epoch, text) for i in (0, 4)]
    more = [OffsetCommitRequestPartition(i, offset - i, epoch, "x") for i in range(3)]
    topics = [
        OffsetCommitRequestTopic("orders", bytes(16), some),
        OffsetCommitRequestTopic("bills", bytes(16), more),
    ]
    return OffsetCommitRequest("g", 7, "ana-1", None, -1, topics)


@pytest.mark.parametrize("change", [{}, {"epoch": 4}, {"text": "y"}])
def test_commits_of_the_same_partitions_share_all_but_offsets(
    change: dict[str, Any],
) -> None:
    """From the third one on; a commit with another epoch or text is not mistaken."""
    codec, decode = API.request(9), decoder_of(API, 9)
    found: list[Any] = []
    for offset in 10, 20, 30, 40:
        frame = codec.encode(commit(offset))
        message, _ = decode(frame, 0, len(frame))
        assert message == commit(offset)
        found.append(message.topics)
    assert found[2].layout is found[3].layout
    assert found[2].offsets != found[3].offsets
    frame = codec.encode(commit(50, **change))
    assert decode(frame, 0, len(frame))[0] == commit(50, **change)
