"""Consumer groups (KIP-848): their handle, its conditions, and HTTP.

The rules of the powers are scenes of `tests/coordinator/consumer/test_powers.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from operator import itemgetter
from typing import Any

import pytest
from tests.broker.test_consumer_groups import AT_ONCE, beat
from tests.control.asking import Asking, asking
from tests.wire.client import WireClient, connected

from kohort.control.commands.group_printing import show_group
from kohort.control.group import Group, PowerError
from kohort.protocol.apis.k68_consumer_group_heartbeat import TopicPartitions
from kohort.protocol.errors import ErrorCode

PATH = "/v1/groups/g"


class Members:
    """Members of the group g, which take over what each heartbeat gives them."""

    def __init__(self, client: WireClient) -> None:
        self._client = client
        self._epochs: dict[str, int] = {}
        self._owned: dict[str, list[TopicPartitions]] = {}

    async def beat(self, *names: str) -> ErrorCode:
        """A heartbeat of each of them; the first one of a name joins."""
        error = ErrorCode.NONE
        for name in names:
            epoch = self._epochs.get(name, 0)
            owned = self._owned.get(name) if epoch else []
            answer = await beat(self._client, name, epoch, owned=owned)
            error = ErrorCode(answer.error_code)
            if error is ErrorCode.NONE:
                self._epochs[name] = answer.member_epoch
                if answer.assignment is not None:
                    self._owned[name] = [*answer.assignment.topic_partitions]
        return error

    def forget(self, name: str) -> None:
        """The next heartbeat joins."""
        del self._epochs[name]


@pytest.fixture
async def client() -> AsyncIterator[Asking]:
    """An HTTP client of a broker with the topic t of two partitions."""
    async with asking(config=AT_ONCE) as made:
        made.broker.cluster.create_topic("t", 2, 1)
        yield made


@pytest.fixture
async def members(client: Asking) -> AsyncIterator[Members]:
    """Its group g: a, who has both partitions."""
    async with connected(client.broker) as wire:
        found = Members(wire)
        await found.beat("a", "a")
        yield found


def steps(client: Asking) -> dict[str, str | None]:
    """The steps of the members."""
    return {row.member_id: row.step for row in Group(client.broker, "g").members}


async def test_the_rows_of_a_group_that_reconciles(
    client: Asking, members: Members
) -> None:
    """Epochs, steps, current and target assignments."""
    await members.beat("b")
    _, shown = await client.get(PATH)
    assert {key: shown[key] for key in ("state", "type", "generation", "protocol")} == {
        "state": "Reconciling",
        "type": "consumer",
        "generation": 3,
        "protocol": "uniform",
    }
    assert (shown["assignment_epoch"], shown["leader"]) == (3, None)
    a, b = sorted(shown["members"], key=itemgetter("member_id"))
    assert (a["epoch"], a["step"], a["assignment"]) == (2, "stable", {"t": [0, 1]})
    assert (b["epoch"], b["step"], b["assignment"]) == (3, "unreleased_partitions", {})
    assert (a["target"], b["target"]) == ({"t": [0]}, {"t": [1]})
    await members.beat("a")
    assert steps(client) == {"a": "unrevoked_partitions", "b": "unreleased_partitions"}


async def test_conditions(client: Asking, members: Members) -> None:
    """A group is assigned once all members have their partitions of the target."""
    group = Group(client.broker, "g")
    await group.until_assigned("a", 2)
    await members.beat("b")
    waits = asyncio.ensure_future(group.until_assigned("b", 1))
    reconciles = asyncio.ensure_future(group.until(state="Reconciling", members=2))
    await reconciles
    await members.beat("a", "a", "b")
    await waits
    assert group.assignment() == {"a": {"t": [0]}, "b": {"t": [1]}}
    await group.until(state="Stable", generation=3, rebalances=2)


async def test_a_group_is_held_between_epoch_and_target(
    client: Asking, members: Members
) -> None:
    """No member gets or gives up partitions; the state is one of the protocol."""
    _, shown = await client.post(f"{PATH}/hold", {"state": "Reconciling"})
    assert shown["held"] == "Reconciling"
    await members.beat("b", "a", "b", "a")
    group = Group(client.broker, "g")
    assert group.assignment() == {"a": {"t": [0, 1]}, "b": {}}
    assert group.state == "Reconciling"
    await client.post(f"{PATH}/release")
    await members.beat("a", "a", "b")
    assert group.state == "Stable"
    with pytest.raises(PowerError, match="Assigning or Reconciling"):
        group.hold("PreparingRebalance")


async def test_one_member_is_held(client: Asking, members: Members) -> None:
    """The others wait for the partitions that it would give up."""
    status, _ = await client.post(f"{PATH}/hold_member", {"member": "a"})
    assert status == 200
    await members.beat("b", "a", "a", "b")
    group = Group(client.broker, "g")
    assert steps(client) == {"a": "stable", "b": "unreleased_partitions"}
    await client.post(f"{PATH}/release_member", {"member": "a"})
    await members.beat("a", "a", "b")
    assert group.state == "Stable"
    path = f"{PATH}/release_member"
    assert "not held" in await client.refusal(path, {"member": "a"}, 409)


async def test_a_member_is_fenced(client: Asking, members: Members) -> None:
    """It joins again under the same id."""
    await client.post(f"{PATH}/fence", {"member": "a"})
    assert await members.beat("a") is ErrorCode.FENCED_MEMBER_EPOCH
    members.forget("a")
    assert await members.beat("a") is ErrorCode.NONE
    assert Group(client.broker, "g").generation == 2


async def test_the_story_of_a_rebalance(client: Asking, members: Members) -> None:
    """It names the members that keep partitions from others."""
    await members.beat("b", "a")
    story = Group(client.broker, "g").history()
    words = story.explain(story.last)
    assert words.startswith("Generation 3: wire-client-b joined")
    assert "to give up 1 partition; wire-client-b has waited" in words
    assert "in progress, waiting for wire-client-a and wire-client-b" in words
    await members.beat("a", "b")
    story = Group(client.broker, "g").history()
    words = story.explain(story.last)
    assert "a gave up 1 partition within" in words
    assert "for 1 partition of wire-client-a" in words


async def test_a_group_in_the_terminal(
    client: Asking, members: Members, capsys: pytest.CaptureFixture[str]
) -> None:
    """Members with their epochs and steps."""
    await members.beat("b")
    found: dict[str, Any] = (await client.get(PATH))[1]
    show_group(found)
    text = capsys.readouterr().out
    assert "3 (assignment of epoch 3)" in text
    assert "unreleased partitions" in text
