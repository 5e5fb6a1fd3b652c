"""KIP-814 over the wire: a returning static leader need not assign again."""

from __future__ import annotations

import pytest
from tests.groups.test_reasons import join, sync
from tests.wire.client import connected

from kohort.broker.server import Broker
from kohort.protocol.apis.k11_join_group import JoinGroupResponse


@pytest.mark.parametrize(("version", "skips"), [(5, False), (8, False), (9, True)])
async def test_skip_assignment_of_a_leader_that_returns(
    version: int, *, skips: bool
) -> None:
    """Version 9 says "you lead, but need not assign"; before, its old id leads."""
    config = {"group.initial.rebalance.delay.ms": 0}
    async with Broker(config) as broker, connected(broker) as client:
        first = await join(client, None, instance="i", version=version)
        await sync(client, first)
        async with connected(broker) as restarted:
            back = await join(restarted, None, instance="i", version=version)
            assert (back.error_code, back.generation_id) == (0, first.generation_id)
            assert back.skip_assignment == skips
            assert back.leader == (back.member_id if skips else first.member_id)
            assert [m.member_id for m in back.members] == [back.member_id] * skips
            kept = await sync(
                restarted, JoinGroupResponse(0, 0, 1, member_id=back.member_id)
            )
            assert kept.assignment == b"mine"
