"""Admin: requests go to the node that can answer them, and each item has a result."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.client.cancelling import cancel_at_every_await
from tests.client.stage import Stage, poll_until

from kohort.broker.server import Broker
from kohort.client import (
    Admin,
    AdminConfig,
    KohortError,
    NewTopic,
    OffsetAndMetadata,
    TopicPartition,
)
from kohort.client.administering.values import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    MemberToRemove,
    ResourceType,
)
from kohort.client.errors import (
    ConfigError,
    GroupIdNotFoundError,
    InvalidTopicError,
    NonEmptyGroupError,
    OffsetOutOfRangeError,
    TopicExistsError,
    UnknownMemberError,
    UnknownTopicError,
)
from kohort.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from kohort.protocol.errors import ErrorCode

Fresh = Callable[[str], str]
TP = TopicPartition
GROUPS = 12
"""Enough groups that each of three nodes coordinates some."""


@pytest.fixture
async def admin(stage: Stage) -> AsyncIterator[Admin]:
    """An admin client of a cluster, with short retries for unknown topics."""
    async with stage.admin(retry_backoff_ms=10) as admin:
        yield admin


@pytest.fixture
def fresh(stage: Stage) -> Fresh:
    """Makes names that no other test has used."""
    return stage.name


@contextlib.asynccontextmanager
async def member(
    stage: Stage, topic: str, group: str, **settings: Any
) -> AsyncIterator[str]:
    """Starts the only member of a stable group; returns its id."""
    async with stage.consumer(topic, group_id=group, **settings) as reader:
        await poll_until(lambda: bool(reader.assignment()), reader)
        yield reader.group_metadata().member_id


@contextlib.asynccontextmanager
async def served(nodes: int = 3) -> AsyncIterator[tuple[Broker, Admin]]:
    """Some nodes of kohort, and an admin client for them."""
    async with (
        Broker({"group.initial.rebalance.delay.ms": 0}, nodes=nodes) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=20) as admin,
    ):
        yield broker, admin


async def made(admin: Admin, topic: str, partitions: int = 3) -> str:
    """A topic that all brokers know."""
    (await admin.create_topics([NewTopic(topic, partitions)])).check()
    ends = {TP(topic, number): LATEST for number in range(partitions)}
    (await admin.list_offsets(ends)).check()
    return topic


def kinds(errors: dict[Any, KohortError]) -> dict[Any, type[KohortError]]:
    """The class of each error."""
    return {item: type(error) for item, error in errors.items()}


# -- topics


async def test_topics_are_created_described_listed_and_deleted(
    admin: Admin, fresh: Fresh
) -> None:
    """Each topic has its own result; invalid ones have an error."""
    plain, placed, none = fresh("plain"), fresh("placed"), fresh("none")
    (await admin.create_topics([NewTopic(none)], validate_only=True)).check()
    created = await admin.create_topics(
        [
            NewTopic(plain, 3, 1),
            NewTopic(placed, assignments={0: [1], 1: [1]}),
            NewTopic("no such name!"),
        ]
    )
    assert list(created) == [plain, placed, "no such name!"]
    assert created[plain].num_partitions == 3
    assert any(created[plain].topic_id)
    assert kinds(created.errors) == {"no such name!": InvalidTopicError}
    assert created.errors["no such name!"].api == "CreateTopics"
    with pytest.raises(InvalidTopicError):
        created.check()
    again = await admin.create_topics([NewTopic(plain)])
    assert kinds(again.errors) == {plain: TopicExistsError}

    described = await admin.describe_topics([plain, placed, none])
    assert [p.partition for p in described[plain].partitions] == [0, 1, 2]
    assert [p.replicas for p in described[placed].partitions] == [[1], [1]]
    assert kinds(described.errors) == {none: UnknownTopicError}
    assert {plain, placed} <= set(await admin.list_topics())

    deleted = await admin.delete_topics([plain, placed, none])
    assert kinds(deleted.errors) == {none: UnknownTopicError}
    assert deleted.values == {plain: None, placed: None}


async def test_partitions_are_added(admin: Admin, fresh: Fresh) -> None:
    """Counts are totals; a lower one is an error with the broker's message."""
    more, fewer = await made(admin, fresh("more"), 1), await made(admin, fresh("fewer"))
    results = await admin.create_partitions(
        {more: 3, fewer: 2}, assignments={more: [[1], [1]]}
    )
    assert results[more] is None
    error = results.errors[fewer]
    assert (error.code, error.topic) == (ErrorCode.INVALID_PARTITIONS, fewer)
    ends = {TP(more, number): LATEST for number in range(3)}
    assert {
        end.offset for end in (await admin.list_offsets(ends)).check().values()
    } == {0}
    described = await admin.describe_topics([more])
    assert [p.leader_id for p in described[more].partitions][1:] == [1, 1]


# -- records


async def test_offsets_are_listed_and_records_deleted(
    stage: Stage, admin: Admin
) -> None:
    """Each leader answers for its partitions, and some partitions do not exist."""
    topic, none = stage.topic, stage.name("none")
    await stage.fill([3, 3, 3])
    asked = {
        TP(topic, 0): EARLIEST,
        TP(topic, 1): LATEST,
        TP(topic, 2): 1_001,
        TP(topic, 3): LATEST,
        TP(none, 0): LATEST,
    }
    listed = await admin.list_offsets(asked)
    assert list(listed) == list(asked)
    assert listed[TP(topic, 0)].offset == 0
    assert listed[TP(topic, 1)].offset == 3
    found = listed[TP(topic, 2)]
    assert (found.offset, found.timestamp) == (1, 1_001)
    unknown = {TP(topic, 3): UnknownTopicError, TP(none, 0): UnknownTopicError}
    assert kinds(listed.errors) == unknown
    assert listed.errors[TP(topic, 3)].partition == 3
    largest = await admin.list_offsets({TP(topic, 0): MAX_TIMESTAMP})
    assert largest[TP(topic, 0)][:2] == (2, 1_002)

    deleted = await admin.delete_records(
        {TP(topic, 0): 2, TP(topic, 1): -1, TP(topic, 2): 4, TP(none, 0): 0}
    )
    assert deleted.values == {TP(topic, 0): 2, TP(topic, 1): 3}
    assert kinds(deleted.errors) == {
        TP(topic, 2): OffsetOutOfRangeError,
        TP(none, 0): UnknownTopicError,
    }
    starts = await admin.list_offsets(dict.fromkeys(deleted.values, EARLIEST))
    assert [start.offset for start in starts.check().values()] == [2, 3]


# -- configurations


async def until_set(
    admin: Admin, resource: ConfigResource, key: str, value: str
) -> None:
    """Returns when the broker has the change from the controller."""
    async with asyncio.timeout(60):
        while True:
            described = (await admin.describe_configs([resource], keys=[key])).check()
            if described[resource][key].value == value:
                return


async def test_configurations_are_described_and_altered(
    admin: Admin, fresh: Fresh
) -> None:
    """Single keys are set, appended to and deleted; other keys stay."""
    topic = await made(admin, fresh("t"))
    mine = ConfigResource(ResourceType.TOPIC, topic)
    none = ConfigResource(ResourceType.TOPIC, fresh("none"))
    bad = ConfigResource(ResourceType.TOPIC, await made(admin, fresh("bad")))
    altered = await admin.alter_configs(
        {
            mine: {
                "retention.ms": "5000",
                "cleanup.policy": ConfigChange(ConfigOperation.APPEND, "compact"),
            },
            none: {"retention.ms": "5000"},
            bad: {"retention.ms": "long"},
        }
    )
    assert altered.values == {mine: None}
    assert kinds(altered.errors)[none] is UnknownTopicError
    assert altered.errors[bad].code is ErrorCode.INVALID_CONFIG
    await until_set(admin, mine, "retention.ms", "5000")
    broker = ConfigResource(ResourceType.BROKER, "1")
    keys = ["retention.ms", "cleanup.policy", "group.max.size"]
    described = await admin.describe_configs(
        [mine, broker, none], keys=keys, include_synonyms=True
    )
    assert described[mine]["retention.ms"].value == "5000"
    assert described[mine]["retention.ms"].synonyms[0][:2] == ("retention.ms", "5000")
    assert described[mine]["cleanup.policy"].value == "delete,compact"
    assert described[broker]["group.max.size"].is_read_only
    assert list(described.errors) == [none]
    (await admin.alter_configs({mine: {"retention.ms": None}})).check()
    await until_set(admin, mine, "retention.ms", "604800000")
    everything = (await admin.describe_configs([mine])).check()[mine]
    assert len(everything) > 10


async def test_a_brokers_configuration_is_its_own() -> None:
    """Each broker describes its own configuration."""
    async with served() as (broker, admin):
        brokers = [ConfigResource(ResourceType.BROKER, str(n)) for n in (1, 2, 3)]
        described = await admin.describe_configs(brokers, keys=["group.max.size"])
        assert list(described.check()) == brokers
        assert {each.node.id for each in broker.connections} == {1, 2, 3}


# -- groups


async def test_groups_are_listed_described_and_deleted(
    stage: Stage, admin: Admin, fresh: Fresh
) -> None:
    """The groups of all coordinators, in one call."""
    topic = await made(admin, fresh("t"))
    groups = [fresh(f"g{number}") for number in range(GROUPS)]
    none = fresh("none")
    for group in groups:
        (await admin.alter_consumer_group_offsets(group, {TP(topic, 0): 5})).check()
    async with member(stage, topic, groups[0]) as member_id:
        listed = await admin.list_consumer_groups()
        assert set(groups) <= set(listed.groups)
        assert not listed.errors
        assert listed.groups[groups[0]].state == "Stable"
        stable = await admin.list_consumer_groups(states=["Stable"], types=["classic"])
        assert set(groups) & set(stable.groups) == {groups[0]}

        described = await admin.describe_consumer_groups([*groups, none])
        assert list(described) == [*groups, none]
        assert kinds(described.errors) == {none: GroupIdNotFoundError}
        full = described[groups[0]]
        assert (full.type, full.state, full.protocol) == ("classic", "Stable", "range")
        (only,) = full.members
        assert only.member_id == member_id
        assert only.subscription is not None
        assert only.subscription.topics == [topic]
        assert only.partitions == [TP(topic, number) for number in range(3)]
        assert described[groups[1]].state == "Empty"

        deleted = await admin.delete_consumer_groups([*groups, none])
        assert kinds(deleted.errors) == {
            groups[0]: NonEmptyGroupError,
            none: GroupIdNotFoundError,
        }
        assert deleted.errors[groups[0]].group == groups[0]
        assert set(groups) & set((await admin.list_consumer_groups()).groups) == {
            groups[0]
        }
        await admin.remove_members_from_consumer_group(groups[0])
    (await admin.delete_consumer_groups([groups[0]])).check()


async def test_a_consumer_group_is_described(
    stage: Stage, admin: Admin, fresh: Fresh
) -> None:
    """Its epochs, and the members with both assignments; it can be emptied."""
    topic, group = await made(admin, fresh("t")), fresh("g")
    stage = dataclasses.replace(stage, group_settings={"group_protocol": "consumer"})
    async with member(stage, topic, group, group_instance_id="one") as member_id:
        found = (await admin.describe_consumer_groups([group]))[group]
        assert (found.type, found.state, found.protocol) == (
            "consumer",
            "Stable",
            "uniform",
        )
        (only,) = found.members
        assert (only.member_id, only.group_instance_id) == (member_id, "one")
        assert found.group_epoch == found.target_assignment_epoch == only.member_epoch
        assert only.subscription is not None
        assert only.subscription.topics == [topic]
        assert only.is_upgraded is True
        assert only.partitions == [TP(topic, number) for number in range(3)]
        assert only.target_partitions == only.partitions
        await admin.remove_members_from_consumer_group(group)
        emptied = (await admin.describe_consumer_groups([group]))[group]
        assert (emptied.state, emptied.members) == ("Empty", [])
    (await admin.delete_consumer_groups([group])).check()


async def test_offsets_of_groups_are_altered_listed_and_deleted(
    admin: Admin, fresh: Fresh
) -> None:
    """For several groups at once, with metadata and epochs."""
    topic, none = await made(admin, fresh("t")), fresh("none")
    groups = [fresh(f"g{number}") for number in range(GROUPS)]
    for number, group in enumerate(groups):
        offsets: dict[TopicPartition, OffsetAndMetadata | int] = {
            TP(topic, 0): number,
            TP(topic, 1): OffsetAndMetadata(7, "note", 0),
            TP(none, 0): 1,
        }
        altered = await admin.alter_consumer_group_offsets(group, offsets)
        assert kinds(altered.errors) == {TP(none, 0): UnknownTopicError}
        assert altered.errors[TP(none, 0)].group == group
    wanted: dict[str, Any] = dict.fromkeys(groups)
    wanted[groups[1]] = [TP(topic, 1), TP(topic, 2)]
    wanted[none] = None
    listed = (await admin.list_consumer_group_offsets(wanted)).check()
    assert listed[none] == {}
    assert listed[groups[1]] == {TP(topic, 1): (7, "note", 0)}
    for number, group in enumerate(groups[2:], start=2):
        assert listed[group][TP(topic, 0)].offset == number
    deleted = await admin.delete_consumer_group_offsets(
        groups[2], [TP(topic, 0), TP(topic, 2)]
    )
    assert deleted.values.keys() >= {TP(topic, 0)}
    left = await admin.list_consumer_group_offsets({groups[2]: None})
    assert set(left[groups[2]]) == {TP(topic, 1)}
    with pytest.raises(GroupIdNotFoundError):
        (await admin.delete_consumer_group_offsets(none, [TP(topic, 0)])).check()


async def test_members_are_removed(stage: Stage, admin: Admin, fresh: Fresh) -> None:
    """By instance id, or all. Until then, only members may change the offsets."""
    topic, group = await made(admin, fresh("t")), fresh("g")
    static, nobody = MemberToRemove("", "one"), MemberToRemove("nobody")
    async with member(stage, topic, group, group_instance_id="one"):
        altered = await admin.alter_consumer_group_offsets(group, {TP(topic, 0): 5})
        assert kinds(altered.errors) == {TP(topic, 0): UnknownMemberError}
        removed = await admin.remove_members_from_consumer_group(
            group, [static, nobody]
        )
        assert removed.values == {static: None}
        assert kinds(removed.errors) == {nobody: UnknownMemberError}
        described = await admin.describe_consumer_groups([group])
        assert described[group].members == []


# -- the cluster, moves and cancellation


async def test_the_cluster_is_described(admin: Admin) -> None:
    """Its nodes, by id."""
    described = await admin.describe_cluster()
    assert described.cluster_id
    assert described.controller_id in described.nodes
    assert described.nodes == dict(admin.cluster.metadata.nodes)


async def test_a_call_can_be_cancelled_anywhere() -> None:
    """The next call works, whichever await was cancelled."""
    async with served() as (_, admin):
        await made(admin, "t")
        groups = [f"g{number}" for number in range(GROUPS)]

        async def call() -> None:
            for group in groups:
                admin.cluster.forget_coordinator(group)
            await admin.describe_consumer_groups(groups)
            await admin.list_offsets({TP("t", number): LATEST for number in range(3)})

        assert await cancel_at_every_await(call, call) >= 4


async def test_arguments_that_a_broker_would_misunderstand(admin: Admin) -> None:
    """A string is not a list of names, and an offset is not negative."""
    for call in (
        admin.delete_topics,
        admin.describe_topics,
        admin.delete_consumer_groups,
        admin.describe_consumer_groups,
    ):
        with pytest.raises(ConfigError, match="'g'"):
            await call("g")
    with pytest.raises(ConfigError, match="-4"):
        await admin.alter_consumer_group_offsets("g", {TP("t", 0): -4})
    with pytest.raises(ConfigError, match="read_all"):
        await admin.list_offsets({TP("t", 0): LATEST}, isolation_level="read_all")


def test_settings_are_checked_at_once() -> None:
    """An unknown setting, or a configuration given twice."""
    with pytest.raises(ConfigError, match="group_id"):
        Admin(group_id="g")  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="client_id"):
        Admin(AdminConfig(), client_id="x")
