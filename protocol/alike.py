"""Decoding requests that the members of a group send alike, but for their member ids.

In a rebalance each member sends the same JoinGroup, and each follower the same
SyncGroup. So the decoder keeps the latest request of an API version. If the next one
has the same bytes before and behind the member id, only the id is decoded. The rest
of the message, its lists included, is that of the latest one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kohort.protocol.fields import fields_of
from kohort.protocol.generated_calls import Source
from kohort.protocol.registry import Api

_APIS: Final = frozenset({11, 14})
"""JoinGroup and SyncGroup: a group id, some int32, a member id, and further fields."""
_OFFSET_COMMIT: Final = 8
_LONGEST: Final = 4096
"""Bytes of the longest request that is kept: some topics with owned partitions."""

Decode = Callable[[Source, int, int], tuple[Any, int]]
"""As `Codec.decode_unchecked`."""

_Latest = tuple[bytes, bytes | None, tuple[Any, ...], tuple[Any, ...]]
"""The latest request: its bytes before the last byte of the member id's length, and
those behind the id (None before the first request); its fields before the id, and
behind it."""


def decoder_of(api: Api, version: int) -> Decode:
    """Returns the decoder of an API's requests; see `Codec.decode_unchecked`."""
    if api.key in _APIS:
        return AlikeDecoder(api, version).decode
    if api.key == _OFFSET_COMMIT and api.is_flexible(version):
        # Few brokers need this module at their start.
        from kohort.protocol.repeated import CommitDecoder

        return CommitDecoder(api, version).decode
    return api.request(version).decode_unchecked


class AlikeDecoder:
    """Decodes the requests of one API version; see the top of the module."""

    __slots__ = (
        "_between",
        "_cls",
        "_decode",
        "_extra",
        "_is_flexible",
        "_latest",
        "_longest_id",
    )

    def __init__(self, api: Api, version: int) -> None:
        self._is_flexible = api.is_flexible(version)
        self._decode = api.request(version).decode_unchecked
        self._cls: Any = api.request_class
        names = [field.name for field in fields_of(self._cls)]
        ints = fields_of(self._cls)[1 : names.index("member_id")]
        self._between = 4 * sum(field.exists_in(version) for field in ints)
        # The last byte of the id's length has the length, and 1 more if it is compact.
        self._extra = 0 if self._is_flexible else 1
        self._longest_id = 0x7F if self._is_flexible else 0xFF
        # One object, as threads with a broker each share the decoder.
        self._latest: _Latest = b"", None, (), ()

    def decode(self, buffer: Source, position: int, end: int) -> tuple[Any, int]:
        """Decodes a request; returns it, and the position behind it."""
        before, behind, first, rest = self._latest
        at = position + len(before)
        if at < end and buffer[position:at] == before:
            size = buffer[at]
            stop = at + size + self._extra
            # A compact length of 0 is that of a missing id.
            if size <= self._longest_id and at < stop and buffer[stop:end] == behind:
                member_id = buffer[at + 1 : stop].decode("utf-8", "replace")
                return self._cls(*first, member_id, *rest), end
        message, stop = self._decode(buffer, position, end)
        if stop == end and end - position <= _LONGEST:
            self._keep(bytes(buffer[position:end]), message)
        return message, stop

    def _keep(self, body: bytes, message: Any) -> None:
        """Keeps a request, unless a length takes more bytes than those of most."""
        if self._is_flexible:
            at = body[0] + self._between
            if body[0] > self._longest_id or body[at] > self._longest_id:
                return
        else:
            at = 2 + int.from_bytes(body[:2], "big") + self._between + 1
            if body[at - 1]:
                return
        names = self._cls.__match_args__
        place = names.index("member_id")
        values = [getattr(message, name) for name in names]
        behind = body[at + body[at] + self._extra :]
        self._latest = (
            body[:at],
            behind,
            tuple(values[:place]),
            tuple(values[place + 1 :]),
        )
