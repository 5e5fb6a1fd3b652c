"""Responses that are filled into a template have the bytes of the codec."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kohort.broker.coordinator.effects import JoinResult, Replies, SyncResult
from kohort.broker.handlers import k11_join_group, k14_sync_group
from kohort.broker.notice import Client
from kohort.broker.request import Request, ResponseFormat
from kohort.broker.template import Encoded
from kohort.protocol.registry import BY_KEY

JOIN, SYNC = BY_KEY[11], BY_KEY[14]
LONG = 200
"""A length that takes two bytes in flexible versions."""


def replied(handler: Any, api: Any, version: int, result: object) -> Any:
    """The response to a result, encoded by the handler or else by the codec."""
    codec = api.response(version)
    bodies: list[bytes] = []
    request: Any = SimpleNamespace(
        api=api,
        version=version,
        encode=codec.encode,
        finish=lambda answer: bodies.append(
            b"".join(answer.parts) if type(answer) is Encoded else codec.encode(answer)
        ),
    )
    handler.respond(request, result)
    (body,) = bodies
    message, end = codec.decode(body, 0, len(body))
    assert end == len(body)
    assert codec.encode(message) == body
    return message


def filled(handler: Any, form: ResponseFormat, replies: Replies) -> list[Any]:
    """The responses to requests that are answered alike."""
    quotas = SimpleNamespace(is_used=False)
    node: Any = SimpleNamespace(cluster=SimpleNamespace(quotas=quotas), counters=None)
    sent: list[bytes] = []
    peer: Any = SimpleNamespace(send=lambda _, parts: sent.append(b"".join(parts)))
    found = []
    for number, value in enumerate(replies.values):
        request = Request(
            form, handler.respond, number, Client("", ""), None, node, peer
        )
        request.answer_alike(replies.result, value)
        message = form.decoded(sent[-1][4 + form.head_size :])
        assert form.frame(number, message) == [sent[-1]]
        found.append(message)
    assert len(sent) == len(found)
    return found


@pytest.mark.parametrize("version", range(JOIN.oldest, JOIN.newest + 1))
def test_followers_get_their_own_member_ids(version: int) -> None:
    """Each follower of two generations gets its generation with its own id."""
    member_ids = "a-1", "", "\u00e9" * LONG
    form = ResponseFormat(JOIN, version, k11_join_group.template)
    for generation, leader in (1, "a"), (2, "b"):
        result = JoinResult(0, "", generation, "consumer", "range", leader)
        replies = Replies(result, member_ids, member_ids)
        messages = filled(k11_join_group, form, replies)
        assert [message.member_id for message in messages] == [*member_ids]
        for message, reply in zip(messages, replies.each(), strict=True):
            assert (message.generation_id, message.leader) == (generation, leader)
            assert (message.error_code, [*message.members]) == (0, [])
            assert message == replied(k11_join_group, JOIN, version, reply.result)


@pytest.mark.parametrize("version", range(JOIN.oldest, JOIN.newest + 1))
@pytest.mark.parametrize("count", [1, LONG])
def test_the_leader_gets_all_members(version: int, count: int) -> None:
    """The rows of members that are alike, and of those that are not."""
    for offer in b"", b"x", b"x" * LONG:
        rows: list[tuple[str, str | None, bytes]]
        rows = [(f"m-{i}", None, offer if i % 3 else b"other") for i in range(count)]
        rows += [("\u00e9" * LONG, "static" if version >= 5 else None, b"")]
        result = JoinResult(
            0, "m-1", 3, "consumer", "range", "m-1", skip_assignment=False, members=rows
        )
        message = replied(k11_join_group, JOIN, version, result)
        assert (message.leader, message.generation_id) == ("m-1", 3)
        found = [
            (m.member_id, m.group_instance_id, m.metadata) for m in message.members
        ]
        assert found == rows


@pytest.mark.parametrize("version", range(SYNC.oldest, SYNC.newest + 1))
def test_members_get_their_own_assignments(version: int) -> None:
    """Each member of two groups gets its assignment with its group's protocol."""
    assignments = b"", b"one", b"x" * LONG
    form = ResponseFormat(SYNC, version, k14_sync_group.template)
    for name in "range", "sticky":
        result = SyncResult(0, "consumer", name)
        replies = Replies(result, assignments, assignments)
        messages = filled(k14_sync_group, form, replies)
        assert [message.assignment for message in messages] == [*assignments]
        for message, reply in zip(messages, replies.each(), strict=True):
            assert message.protocol_name == (name if version >= 5 else None)
            assert message == replied(k14_sync_group, SYNC, version, reply.result)
