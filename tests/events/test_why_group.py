"""A handle of a group of a broker in this process."""

from __future__ import annotations

import pytest
from tests.client.consuming import consumer, fill, poll_until

from kohort.broker.server import Broker
from kohort.control.group import Group, UnknownGroupError
from kohort.control.why import Outcome


async def test_a_history() -> None:
    """It may be made before the group is there, and has what the broker remembers."""
    async with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        await fill(broker, counts=[0] * 3)
        group = Group(broker, "g")
        async with consumer(broker, "t", group_id="g", client_id="ana") as ana:
            await poll_until(lambda: len(ana.assignment()) == 3, ana)
            found = group.history()
            (only,) = found.rebalances
            assert found.names.list(only.culprits) == "ana"
            assert only.outcome is Outcome.COMPLETED
            assert "ana came to the empty group" in found.explain(only)
        assert [r.cause for r in group.history().rebalances][-1] == "member_left"


async def test_a_group_that_there_is_not() -> None:
    """The nearest name is told, or all there are."""
    config = {"group.initial.rebalance.delay.ms": 0}
    async with Broker(config) as broker:
        with pytest.raises(UnknownGroupError) as error:
            Group(broker, "g").history()
        assert str(error.value) == "there is no group 'g', and none of any other"
        await fill(broker, counts=[0])
        async with consumer(broker, "t", group_id="billing") as ana:
            await poll_until(lambda: bool(ana.assignment()), ana)
            with pytest.raises(UnknownGroupError, match="did you mean 'billing'"):
                Group(broker, "biling").history()
            with pytest.raises(LookupError, match="there are: 'billing'"):
                Group(broker, "x").history()
