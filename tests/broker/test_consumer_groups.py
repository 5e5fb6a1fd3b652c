"""Consumer groups (KIP-848) on a broker: configuration, restarts, moves, old features.

Their rules are scenes of `tests/coordinator/consumer` and `tests/conformance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.broker.topics import delete_topic
from tests.wire.client import WireClient, connected

from kohort.broker.server import Broker
from kohort.protocol.apis import k44_incremental_alter_configs as k44
from kohort.protocol.apis import k57_update_features as k57
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kohort.protocol.apis.k15_describe_groups import DescribeGroupsRequest
from kohort.protocol.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kohort.protocol.apis.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kohort.protocol.errors import ErrorCode

AT_ONCE = {"group.consumer.assignment.interval.ms": 0}
"""Each heartbeat that changes a group also assigns its partitions."""
BROKER, GROUP = 4, 32
SET, DELETE = 0, 1


async def beat(
    client: WireClient,
    member_id: str = "a",
    epoch: int = 0,
    topics: Sequence[str] | None = None,
    owned: Sequence[TopicPartitions] | None = None,
    group_id: str = "g",
) -> Any:
    """A heartbeat; by default the member joins and subscribes to t."""
    joins = epoch == 0
    return await client.call(
        "ConsumerGroupHeartbeat",
        1,
        ConsumerGroupHeartbeatRequest(
            group_id,
            member_id,
            epoch,
            rebalance_timeout_ms=30_000 if joins else -1,
            subscribed_topic_names=["t"] if joins and topics is None else topics,
            topic_partitions=[] if joins and owned is None else owned,
        ),
    )


async def described(client: WireClient, group_id: str = "g") -> Any:
    """The group in ConsumerGroupDescribe."""
    answer = await client.call(
        "ConsumerGroupDescribe", 1, ConsumerGroupDescribeRequest([group_id])
    )
    (group,) = answer.groups
    return group


async def configure(
    client: WireClient, kind: int, name: str, key: str, value: str | None
) -> ErrorCode:
    """Sets or deletes a key by IncrementalAlterConfigs."""
    row = k44.AlterableConfig(key, DELETE if value is None else SET, value)
    request = k44.IncrementalAlterConfigsRequest(
        [k44.AlterConfigsResource(kind, name, [row])]
    )
    answer = await client.call("IncrementalAlterConfigs", 1, request)
    return ErrorCode(answer.responses[0].error_code)


# -- configuration


async def test_a_group_may_have_its_own_heartbeat_interval() -> None:
    """From the next heartbeat on; without it the broker's counts again."""
    key = "consumer.heartbeat.interval.ms"
    async with Broker(AT_ONCE) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        joined = await beat(client)
        assert joined.heartbeat_interval_ms == 5_000
        assert await configure(client, GROUP, "g", key, "7000") == 0
        assert await configure(client, GROUP, "other", key, "8000") == 0
        again = await beat(client, epoch=joined.member_epoch)
        assert again.heartbeat_interval_ms == 7_000
        assert await configure(client, GROUP, "g", key, None) == 0
        again = await beat(client, epoch=joined.member_epoch)
        assert again.heartbeat_interval_ms == 5_000
        assert (await beat(client, group_id="other")).heartbeat_interval_ms == 8_000


async def test_a_group_may_have_its_own_session_timeout(tmp_path: Path) -> None:
    """Also after a restart, which here lowers the broker's limit."""
    key = "consumer.session.timeout.ms"
    async with Broker(AT_ONCE, data_dir=tmp_path) as broker, connected(broker) as c:
        broker.cluster.create_topic("t", 1)
        assert await configure(c, GROUP, "g", key, "60000") == 0
    lower = AT_ONCE | {"group.consumer.max.session.timeout.ms": 50_000}
    async with (
        Broker(lower, data_dir=tmp_path, clock="manual") as broker,
        connected(broker) as client,
    ):
        for group_id in ("g", "other"):
            await beat(client, group_id=group_id)
        await broker.clock.advance(46, credit_heartbeats=False)
        assert (await described(client)).group_state == "Stable"
        assert (await described(client, "other")).group_state == "Empty"
        await broker.clock.advance(5, credit_heartbeats=False)
        assert (await described(client)).group_state == "Empty"


async def test_the_assignment_interval_changes_at_run_time() -> None:
    """group.consumer.assignment.interval.ms, for all groups without an own value."""
    key = "group.consumer.assignment.interval.ms"
    async with Broker(clock="manual") as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 2)
        epoch = (await beat(client)).member_epoch
        await beat(client, "b")
        assert (await described(client)).assignment_epoch == epoch
        assert await configure(client, BROKER, "", key, "0") == 0
        await beat(client, epoch=epoch)
        group = await described(client)
        assert group.assignment_epoch == group.group_epoch > epoch


@pytest.mark.parametrize("protocols", ["classic", "classic,streams"])
async def test_consumer_groups_can_be_disabled(protocols: str) -> None:
    """Both APIs answer UNSUPPORTED_VERSION, each time."""
    config = {"group.coordinator.rebalance.protocols": protocols}
    async with Broker(config) as broker, connected(broker) as client:
        for _ in range(2):
            answer = await beat(client)
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert "group.protocol=classic" in answer.error_message
        group = await described(client)
        assert group.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_consumer_groups_need_their_feature() -> None:
    """Without group.version there are none, and those that exist wait."""
    async with Broker(AT_ONCE) as broker, connected(broker) as client:
        epoch = (await beat(client)).member_epoch
        assert not (await beat(client, epoch=epoch)).error_code
        for level, kind, error in (
            (0, 2, ErrorCode.UNSUPPORTED_VERSION),
            (1, 1, ErrorCode.NONE),
        ):
            change = k57.FeatureUpdateKey("group.version", level, False, kind)
            request = k57.UpdateFeaturesRequest(feature_updates=[change])
            assert not (await client.call("UpdateFeatures", 1, request)).error_code
            assert (await beat(client, epoch=epoch)).error_code == error


# -- restarts and moves


async def test_a_consumer_group_survives_a_restart(tmp_path: Path) -> None:
    """Its members go on with their epochs and partitions, and so do their offsets."""
    async with Broker(AT_ONCE, data_dir=tmp_path) as broker, connected(broker) as c:
        broker.cluster.create_topic("t", 2)
        joined = await beat(c)
        row = OffsetCommitRequestPartition(0, 5)
        commit = OffsetCommitRequest(
            "g",
            joined.member_epoch,
            "a",
            topics=[OffsetCommitRequestTopic("t", partitions=[row])],
        )
        answer = await c.call("OffsetCommit", 9, commit)
        assert not answer.topics[0].partitions[0].error_code
        before = await described(c)
    async with Broker(AT_ONCE, data_dir=tmp_path) as broker, connected(broker) as c:
        assert await described(c) == before
        again = await beat(c, epoch=joined.member_epoch)
        assert (again.error_code, again.member_epoch) == (0, joined.member_epoch)
        group = OffsetFetchRequestGroup(
            "g", "a", joined.member_epoch, [OffsetFetchRequestTopics("t", b"", [0])]
        )
        found = await c.call("OffsetFetch", 9, OffsetFetchRequest(groups=[group]))
        assert found.groups[0].topics[0].partitions[0].committed_offset == 5


async def test_a_consumer_group_moves_to_another_node() -> None:
    """Its former coordinator refuses heartbeats, the new one accepts them."""
    async with Broker(AT_ONCE, nodes=2) as broker:
        broker.cluster.create_topic("t", 1)
        broker.move_coordinator("g", 1)
        async with connected(broker, 1) as one, connected(broker, 2) as two:
            epoch = (await beat(one)).member_epoch
            before = await described(one)
            broker.move_coordinator("g", 2)
            answer = await beat(one, epoch=epoch)
            assert answer.error_code == ErrorCode.NOT_COORDINATOR
            refused = await described(one)
            assert refused.error_code == ErrorCode.NOT_COORDINATOR
            assert await described(two) == before
            assert (await beat(two, epoch=epoch)).member_epoch == epoch


async def test_topics_change_while_the_group_is_loaded(tmp_path: Path) -> None:
    """A topic that grew before a restart is assigned whole after it."""
    async with Broker(AT_ONCE, data_dir=tmp_path) as broker, connected(broker) as c:
        broker.cluster.create_topic("t", 1)
        epoch = (await beat(c)).member_epoch
    async with Broker(data_dir=tmp_path) as broker:
        delete_topic(broker, "t")
        broker.cluster.create_topic("t", 3)
    async with Broker(AT_ONCE, data_dir=tmp_path) as broker, connected(broker) as c:
        again = await beat(c, epoch=epoch, owned=[])
        (row,) = again.assignment.topic_partitions
        assert list(row.partitions) == [0, 1, 2]


async def test_the_classic_description_says_that_it_is_another_protocol() -> None:
    """DescribeGroups v6 has GROUP_ID_NOT_FOUND with the reason."""
    async with Broker(AT_ONCE) as broker, connected(broker) as client:
        await beat(client)
        request = DescribeGroupsRequest(["g", "missing"])
        answer = await client.call("DescribeGroups", 6, request)
    assert [(row.error_code, row.error_message) for row in answer.groups] == [
        (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a classic group."),
        (ErrorCode.GROUP_ID_NOT_FOUND, "Group missing not found."),
    ]
