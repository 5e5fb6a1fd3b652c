"""Streams of requests that are almost right, for any reader of them."""

from __future__ import annotations

import struct

from hypothesis import strategies as st
from tests.protocol.strategies import messages, mutated

from kohort.protocol.framing import RequestHeader
from kohort.protocol.messages import codec
from kohort.protocol.registry import APIS, Api

_SIZES = st.sampled_from((-1, -(2**31), 0, 1, 7, 2**20, 2**31 - 1))


def frame(payload: bytes, size: int | None = None) -> bytes:
    """A payload behind its size, or behind another one."""
    return struct.pack(">i", len(payload) if size is None else size) + payload


def request(api: Api, version: int, body: bytes, correlation_id: int = 1) -> bytes:
    """A request with its header, without its size."""
    header = codec(
        RequestHeader,
        api.request_header_version(version),
        flexible=api.is_flexible(version),
    )
    head = RequestHeader(api.key, version, correlation_id, "fuzz")
    return header.encode(head) + body


@st.composite
def _payloads(draw: st.DrawFn, apis: tuple[Api, ...]) -> bytes:
    api = draw(st.sampled_from(apis))
    version = draw(st.integers(api.oldest, api.newest))
    message = draw(messages(api.request_class, version))
    body = api.request(version).encode(message)
    where = draw(st.sampled_from(("body", "body", "body", "all", "nowhere", "version")))
    if where == "body":
        return request(api, version, draw(mutated(body)))
    if where == "all":
        return draw(mutated(request(api, version, body)))
    if where == "version":
        version = draw(st.integers(-1, 20))
    return request(api, version, body)


@st.composite
def mutated_frames(draw: st.DrawFn, apis: tuple[Api, ...] = APIS) -> bytes:
    """What a client sends: one to three requests, wrong somewhere.

    Mostly whole frames around a body that is wrong; also wrong headers, wrong
    sizes, and mutations across frames.

    Args:
        draw: hypothesis gives it.
        apis: the APIs that are asked for, each in any of its versions.
    """
    out = b""
    for _ in range(draw(st.integers(1, 3))):
        payload = draw(_payloads(apis))
        lies = draw(st.integers(0, 9)) == 9
        out += frame(payload, draw(_SIZES) if lies else None)
    return draw(mutated(out)) if draw(st.integers(0, 9)) == 9 else out
