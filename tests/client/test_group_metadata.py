"""What a consumer says of its membership."""

from __future__ import annotations

import pytest
from tests.client.consuming import Stage, poll_until

from kohort.client.errors import ClosedError, ConfigError


async def test_a_consumer_tells_its_membership(stage: Stage) -> None:
    """Group, generation and ids are those that the broker has; none before."""
    await stage.fill([1, 1])
    reader = stage.member(group_instance_id="one")
    with pytest.raises(ClosedError):
        reader.group_metadata()
    async with reader:
        assert reader.group_metadata() == (stage.group, -1, "", "one")
        await poll_until(lambda: bool(reader.assignment()), reader)
        await stage.until_members(1)
        said = reader.group_metadata()
        assert said.generation_id == 1
        async with stage.admin() as admin:
            described = (await admin.describe_consumer_groups([stage.group])).check()
        members = described[stage.group].members
        assert [m.member_id for m in members] == [said.member_id]
    with pytest.raises(ClosedError):
        reader.group_metadata()


async def test_without_a_group_there_is_no_membership(stage: Stage) -> None:
    """As for subscribing, the setting that is missing is named."""
    async with stage.consumer(group_id=None) as reader:
        with pytest.raises(ConfigError, match="group_id"):
            reader.group_metadata()
