"""Decoding commits that a member sends again and again, with other offsets only.

Consumers commit the same partitions every time. So for each member the decoder keeps a
layout: the bytes around the generation and the offsets, which stay the same, and what
they are decoded to. A commit with the same bytes there needs one `unpack`, which reads
its generation and its offsets: its topics are `RepeatedTopics`. Others, and the first
two of a member, are decoded field by field.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, Final, overload

from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
)
from kohort.protocol.generated_calls import Source
from kohort.protocol.registry import Api
from kohort.protocol.row_cache import RowCache
from kohort.protocol.slotted import replace

_LONGEST: Final = 4096
"""Bytes of the longest body that is kept: some 200 partitions."""
_ROW_BYTES: Final = 16
"""Bytes of a body that count as a row of its layout: partitions have 18 or more."""

_Key = tuple[int, bytes, bytes]
"""Size of a body, and its bytes before and behind the generation: the ids of group and
member."""


class Layout:
    """A commit without its generation and its offsets.

    Attributes:
        unpack: reads constant bytes and numbers, in turns.
        constants: the constant bytes.
        message: a commit with them.
        kept: for the reader of commits: a value made of the constants, or None.
    """

    __slots__ = ("constants", "kept", "message", "unpack")

    def __init__(
        self,
        unpack: Callable[..., tuple[Any, ...]],
        constants: tuple[bytes, ...],
        message: OffsetCommitRequest,
    ) -> None:
        self.unpack = unpack
        self.constants = constants
        self.message = message
        self.kept: Any = None


class RepeatedTopics(Sequence[OffsetCommitRequestTopic]):
    """The topics of a repeated commit; each is made when it is read.

    Attributes:
        layout: the commit without its offsets.
        offsets: the offsets of all partitions, in order.
    """

    __slots__ = ("layout", "offsets")
    __hash__ = None  # type: ignore[assignment]  # like a list

    def __init__(self, layout: Layout, offsets: tuple[int, ...]) -> None:
        self.layout = layout
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.layout.message.topics)

    def __iter__(self) -> Iterator[OffsetCommitRequestTopic]:
        offsets = iter(self.offsets)
        for topic in self.layout.message.topics:
            rows = [
                replace(partition, committed_offset=next(offsets))
                for partition in topic.partitions
            ]
            yield replace(topic, partitions=rows)

    @overload
    def __getitem__(self, index: int) -> OffsetCommitRequestTopic: ...

    @overload
    def __getitem__(self, index: slice) -> list[OffsetCommitRequestTopic]: ...

    def __getitem__(
        self, index: int | slice
    ) -> OffsetCommitRequestTopic | list[OffsetCommitRequestTopic]:
        return [*self][index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return [*self] == [*other]

    def __repr__(self) -> str:
        return repr([*self])


_SEEN, _CHANGES = "seen once", "has other constants each time"

_struct_of = functools.lru_cache(64)(struct.Struct)


class CommitDecoder:
    """Decodes the OffsetCommit requests of one flexible version; see the module."""

    __slots__ = ("_codec", "_decode", "_layouts")

    def __init__(self, api: Api, version: int) -> None:
        self._codec = api.request(version)
        self._decode = self._codec.decode_unchecked
        self._layouts: RowCache[_Key, Layout | str] = RowCache()

    def decode(self, buffer: Source, position: int, end: int) -> tuple[Any, int]:
        """Decodes a request; returns it, and the position behind it."""
        size = end - position
        if size > _LONGEST or type(buffer) is not bytes:
            return self._decode(buffer, position, end)
        # The lengths of both ids are compact, and take a byte each. If they do not, the
        # key has other bytes, which does no harm: a layout compares all of them.
        at = position + buffer[position]
        stop = at + 4
        if stop < end:
            stop += buffer[stop]
        key = size, buffer[position:at], buffer[at + 4 : stop]
        known = self._layouts.get(key)
        if type(known) is Layout:
            values = known.unpack(buffer, position)
            if values[::2] == known.constants:
                of = known.message
                message = OffsetCommitRequest(
                    of.group_id,
                    values[1],
                    of.member_id,
                    of.group_instance_id,
                    -1,  # no version with a retention time is flexible
                    RepeatedTopics(known, values[3::2]),
                )
                return message, end
            self._layouts.keep(key, _CHANGES, 1)
        message, last = self._decode(buffer, position, end)
        if last == end:
            if known is None:
                self._layouts.keep(key, _SEEN, 1)
            elif known is _SEEN:
                self._learn(key, buffer[position:end], message)
        return message, last

    def _learn(self, key: _Key, body: bytes, message: OffsetCommitRequest) -> None:
        """Keeps the layout of a commit, unless its encoding is an unusual one."""
        encode = self._codec.encode
        known: Layout | str = _CHANGES
        if encode(message) == body:
            zeros, ones = (encode(_with_numbers(message, each)) for each in (0, -1))
            known = _layout(body, message, zeros, ones)
        self._layouts.keep(key, known, len(body) // _ROW_BYTES)


def _with_numbers(message: OffsetCommitRequest, number: int) -> OffsetCommitRequest:
    """The commit with the same number as the generation, and as all offsets."""
    topics = [
        replace(
            topic,
            partitions=[replace(p, committed_offset=number) for p in topic.partitions],
        )
        for topic in message.topics
    ]
    return replace(message, generation_id_or_member_epoch=number, topics=topics)


def _layout(
    body: bytes, message: OffsetCommitRequest, zeros: bytes, ones: bytes
) -> Layout:
    """The layout of a body.

    Args:
        body: the commit.
        message: its message.
        zeros: the body with all bits of these numbers 0.
        ones: the body with all of them 1.
    """
    differ = [i for i, byte in enumerate(zeros) if byte != ones[i]]
    form, constants, position = [">"], [], 0
    starts = [differ[0], *differ[4::8]]
    for start, kind in zip(starts, chain("i", repeat("q")), strict=False):
        form.append(f"{start - position}s{kind}")
        constants.append(body[position:start])
        position = start + struct.calcsize(f">{kind}")
    form.append(f"{len(body) - position}s")
    constants.append(body[position:])
    unpack = _struct_of("".join(form)).unpack_from
    return Layout(unpack, tuple(constants), message)
