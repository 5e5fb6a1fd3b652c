"""Streams of almost valid requests, for any reader of them."""

from __future__ import annotations

from hypothesis import strategies as st
from tests.protocol.strategies import messages, mutated
from tests.wire.frames import frame, payload

from kohort.protocol.registry import APIS, Api

_SIZES = st.sampled_from((-1, -(2**31), 0, 1, 7, 2**20, 2**31 - 1))


@st.composite
def _payloads(draw: st.DrawFn, apis: tuple[Api, ...]) -> bytes:
    api = draw(st.sampled_from(apis))
    version = draw(st.integers(api.oldest, api.newest))
    message = draw(messages(api.request_class, version))
    body = api.request(version).encode(message)
    where = draw(st.sampled_from(("body", "body", "body", "all", "nowhere", "version")))
    if where == "body":
        return payload(api.name, version, draw(mutated(body)))
    if where == "all":
        return draw(mutated(payload(api.name, version, body)))
    if where == "version":
        version = draw(st.integers(-1, 20))
    return payload(api.name, version, body)


@st.composite
def mutated_frames(draw: st.DrawFn, apis: tuple[Api, ...] = APIS) -> bytes:
    """One to three requests of a client, with a fault somewhere.

    Mostly whole frames around a wrong body; also wrong headers, wrong sizes, and
    mutations across frames.

    Args:
        draw: from hypothesis.
        apis: the APIs of the requests, each in any of its versions.
    """
    out = b""
    for _ in range(draw(st.integers(1, 3))):
        content = draw(_payloads(apis))
        lies = draw(st.integers(0, 9)) == 9
        out += frame(content, draw(_SIZES) if lies else None)
    return draw(mutated(out)) if draw(st.integers(0, 9)) == 9 else out
