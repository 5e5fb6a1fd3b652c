"""An error in the response of every API, in every version."""

from __future__ import annotations

from typing import Any

import pytest
from tests.faults.scene import Scene, versions
from tests.wire import frames

from kohort.broker.api_counts import errors_in
from kohort.broker.faults.kafka_errors import ERRORS
from kohort.protocol.apis.k03_metadata import MetadataRequest
from kohort.protocol.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.apis.k18_api_versions import ApiVersionsRequest
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import (
    ZERO_UUID,
    Primitive,
    fields_of,
)
from kohort.protocol.registry import APIS, Api

CODE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""An error that none of the APIs returns by itself here."""
_EMPTY: dict[str, Any] = {"string": "a", "bytes": b"", "records": b""}


def filled(cls: type, version: int) -> Any:
    """A message whose arrays all have one row, and whose strings are not empty."""
    values: dict[str, Any] = {}
    for field in fields_of(cls):
        kind = field.kind
        if not field.exists_in(version):
            continue
        if not isinstance(kind, Primitive):
            value: Any = filled(kind, version)
        elif field.name in {"acks", "timeout_ms"}:
            value = 1
        elif kind.name == "uuid":
            value = ZERO_UUID
        else:
            value = _EMPTY.get(kind.name, 0 if field.array else field.default)
        values[field.name] = [value] if field.array else value
    return cls(**values)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
async def test_every_version(api: Api) -> None:
    """The response is whole, has the error and no other, and echoes the rows."""
    scene = Scene()
    peer = scene.peer()
    scene.faults.fail(api.name, CODE.name)
    for version in versions(api.name):
        asked = filled(api.request_class, version)
        answer = await peer.call(api.name, version, asked)
        assert errors_in(answer) == {CODE}, version
    assert not peer.is_closed
    assert len(scene.strikes) == len(versions(api.name))


def test_the_table_has_every_api() -> None:
    """The table of errors has every API, and only known errors."""
    assert ERRORS.keys() == {api.name for api in APIS}
    assert set().union(*ERRORS.values()) <= set(ErrorCode.__members__)


async def test_members_that_leave_have_errors_of_their_own() -> None:
    """Each unknown member has its own error; the request has none."""
    scene = Scene()
    leave = LeaveGroupRequest("g", "", [MemberIdentity("a"), MemberIdentity("b", "i")])
    scene.faults.fail("LeaveGroup", "UNKNOWN_MEMBER_ID")
    answer = await scene.peer().call("LeaveGroup", 5, leave)
    rows = [(m.member_id, m.group_instance_id, m.error_code) for m in answer.members]
    assert (answer.error_code, rows) == (0, [("a", None, 25), ("b", "i", 25)])


async def test_metadata_of_all_topics() -> None:
    """Each existing topic has the error."""
    scene = Scene()
    scene.faults.fail("Metadata", "LEADER_NOT_AVAILABLE")
    answer = await scene.peer().call("Metadata", 12, MetadataRequest(None))
    assert [(each.name, each.error_code) for each in answer.topics] == [("t", 5)]


async def test_a_version_of_apiversions_that_is_refused() -> None:
    """The response is v0, with the known versions (KIP-511)."""
    scene = Scene()
    peer = scene.peer()
    scene.faults.requests.record()
    scene.faults.fail("ApiVersions", "UNSUPPORTED_VERSION", version=3)
    peer.send("ApiVersions", 3, ApiVersionsRequest("tests", "1"))
    answer = frames.response("ApiVersions", 0, peer.whole[0])
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(k.api_key, k.max_version) for k in answer.api_keys] == [(18, 4)]
    assert scene.faults.requests.find()[0].error == "UNSUPPORTED_VERSION"
    again = await peer.call("ApiVersions", 0, ApiVersionsRequest())
    assert again.error_code == 0
