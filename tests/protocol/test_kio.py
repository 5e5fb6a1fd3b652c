"""kohort's bytes compared with those of kio, an independent implementation."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from kio.schema.index import api_key_map, schema_name_map
from tests.protocol.kio_bridge import (
    from_kio,
    kio_class,
    kio_decode,
    kio_encode,
    to_kio,
)
from tests.protocol.strategies import (
    SIDES,
    Side,
    carried,
    every_api,
    messages,
    plain_messages,
    sides_of,
    some_side,
)

from kohort.protocol.registry import APIS, Api


def test_kio_has_every_version_of_every_api() -> None:
    """The comparison below covers every version of every API."""
    missing = [
        (api.name, version)
        for api in APIS
        for version in range(api.oldest, api.newest + 1)
        if version not in schema_name_map[api_key_map[api.key]]
    ]
    assert missing == []
    assert len(APIS) == 60
    assert len(SIDES) == 2 * sum(api.newest - api.oldest + 1 for api in APIS)


def check_same(side: Side, message: Any) -> None:
    """The message has the same bytes in both implementations, both ways."""
    values = carried(message, side.version)
    theirs = to_kio(
        kio_class(side.api.key, side.version, is_request=side.is_request), values
    )

    encoded = kio_encode(theirs)

    assert side.codec.encode(message) == encoded, side
    decoded, position = side.codec.decode(encoded, 0, len(encoded))
    assert position == len(encoded)
    assert carried(decoded, side.version) == values
    assert kio_decode(type(theirs), encoded) == (theirs, len(encoded))
    assert from_kio(theirs) == values


@every_api
def test_every_version_has_kios_fields(api: Api) -> None:
    """Messages with each field of its version, and with each null."""
    for side in sides_of(api):
        for message in plain_messages(side):
            check_same(side, message)


@every_api
@given(data=st.data())
def test_kio_reads_and_writes_the_same(api: Api, data: st.DataObject) -> None:
    """Any message of some version."""
    side = data.draw(some_side(api))
    check_same(side, data.draw(messages(side.declared, side.version, modest=True)))
