"""Admin calls: incomplete responses, old brokers, and the place of errors."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.client.administering.test_admin import kinds
from tests.client.deadlines import pass_deadline_after_failure
from tests.client.fake_broker import Asked, FakeBroker, alone, coordinates, knows

from kohort.client import Admin, KohortError, NewTopic, TopicPartition
from kohort.client.administering.fan_out import UNKNOWN_TOPIC_ATTEMPTS
from kohort.client.administering.values import (
    ConfigResource,
    MemberToRemove,
    ResourceType,
    Results,
)
from kohort.client.errors import (
    BrokerError,
    InvalidTopicError,
    RequestTimedOutError,
    UnknownTopicError,
    UnsupportedVersionError,
)
from kohort.client.offsets import LATEST, MAX_TIMESTAMP
from kohort.protocol.apis.k02_list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kohort.protocol.apis.k03_metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.protocol.apis.k09_offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kohort.protocol.apis.k10_find_coordinator import (
    Coordinator,
    FindCoordinatorResponse,
)
from kohort.protocol.apis.k15_describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from kohort.protocol.apis.k19_create_topics import (
    CreatableTopicResult,
    CreateTopicsResponse,
)
from kohort.protocol.apis.k42_delete_groups import (
    DeletableGroupResult,
    DeleteGroupsResponse,
)
from kohort.protocol.apis.k69_consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    Member,
)
from kohort.protocol.apis.k69_consumer_group_describe import (
    DescribedGroup as ConsumerGroup,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import BY_NAME

TP = TopicPartition("t", 0)
TOPIC = ConfigResource(ResourceType.TOPIC, "t")
OF_TOPIC = {"topic": "t"}
OF_PARTITION = {"topic": "t", "partition": 0}
OF_GROUP = {"group": "g"}
OF_OFFSET = OF_GROUP | OF_PARTITION

# By API: a call about one item, its arguments, and the attributes of its errors.
CALLS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "CreateTopics": ("create_topics", ([NewTopic("t")],), OF_TOPIC),
    "DeleteTopics": ("delete_topics", (["t"],), OF_TOPIC),
    "CreatePartitions": ("create_partitions", ({"t": 3},), OF_TOPIC),
    "DeleteRecords": ("delete_records", ({TP: 3},), OF_PARTITION),
    "ListOffsets": ("list_offsets", ({TP: -1},), OF_PARTITION),
    "DescribeConfigs": ("describe_configs", ([TOPIC],), OF_TOPIC),
    "IncrementalAlterConfigs": (
        "alter_configs",
        ({TOPIC: {"retention.ms": "1"}},),
        OF_TOPIC,
    ),
    "DescribeGroups": ("describe_consumer_groups", (["g"],), OF_GROUP),
    "DeleteGroups": ("delete_consumer_groups", (["g"],), OF_GROUP),
    "OffsetFetch": ("list_consumer_group_offsets", ({"g": None},), OF_GROUP),
    "OffsetCommit": ("alter_consumer_group_offsets", ("g", {TP: 1}), OF_OFFSET),
    "OffsetDelete": ("delete_consumer_group_offsets", ("g", [TP]), OF_OFFSET),
    "LeaveGroup": (
        "remove_members_from_consumer_group",
        ("g", [MemberToRemove("m")]),
        OF_GROUP,
    ),
}


def has_no_consumer_groups(asked: Asked) -> None:
    """Answers ConsumerGroupDescribe as a broker with classic groups only."""
    code = ErrorCode.GROUP_ID_NOT_FOUND
    rows = [ConsumerGroup(code, None, group) for group in asked.message.group_ids]
    asked.reply(ConsumerGroupDescribeResponse(groups=rows))


@contextlib.asynccontextmanager
async def administered() -> AsyncIterator[tuple[FakeBroker, Admin]]:
    """A scripted cluster of one node, which leads everything, and its admin client."""
    async with alone() as fake:
        fake.answers["Metadata"] = knows((1, fake), partitions=1)
        fake.answers["ConsumerGroupDescribe"] = has_no_consumer_groups
        quick: dict[str, Any] = {"retry_backoff_ms": 1, "reconnect_backoff_ms": 1}
        async with Admin(bootstrap_servers=fake.address, **quick) as admin:
            yield fake, admin


async def error_of(admin: Admin, api: str, **time: int) -> KohortError:
    """The error of the only item of a call."""
    call, arguments, _ = CALLS[api]
    results: Results[Any, Any] = await getattr(admin, call)(*arguments, **time)
    (error,) = results.errors.values()
    return error


def fields(error: KohortError) -> dict[str, Any]:
    """The attributes of an error in addition to API and broker."""
    names = ("group", "topic", "partition")
    found = {name: getattr(error, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


@pytest.mark.parametrize("api", CALLS)
async def test_an_answer_without_the_item_is_its_error(api: str) -> None:
    """The outcome is unknown; the error names the item and the broker."""
    empty = BY_NAME[api].response_class()
    async with administered() as (fake, admin):
        fake.answers[api] = lambda asked: asked.reply(empty)
        error = await error_of(admin, api)
        assert isinstance(error, BrokerError)
        assert not error.retriable
        assert "does not contain it" in str(error)
        assert (error.api, error.broker) == (api, f"{fake.address} (node 1)")
        assert fields(error) == CALLS[api][2]


@pytest.mark.parametrize("api", CALLS)
async def test_a_broker_that_hangs_up_is_named_with_the_item(api: str) -> None:
    """Retried until the deadline."""
    async with administered() as (fake, admin):
        fake.answers[api] = Asked.close
        error, ms = KohortError(), 50
        while error.broker is None:  # on a busy machine the response may take 50 ms
            error = await error_of(admin, api, timeout_ms=ms)
            ms *= 2
        assert isinstance(error, RequestTimedOutError)
        assert "the last error was: " in str(error)
        assert fields(error) == CALLS[api][2]
        assert error.api is not None
        assert fake.address in error.broker


async def test_items_that_share_an_error_have_their_own() -> None:
    """Two groups whose coordinator cannot be found."""
    async with administered() as (fake, admin):

        def refuse(asked: Asked) -> None:
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            keys = asked.message.coordinator_keys
            rows = [Coordinator(key, -1, "", -1, code) for key in keys]
            asked.reply(FindCoordinatorResponse(coordinators=rows))

        fake.answers["FindCoordinator"] = refuse
        results = await admin.delete_consumer_groups(["a", "b"])
        assert [fields(error) for error in results.errors.values()] == [
            {"group": "a"},
            {"group": "b"},
        ]


async def test_the_brokers_own_words_are_the_errors_message() -> None:
    """They say more than the code."""
    row = CreatableTopicResult("t", error_code=17, error_message="no such name")
    async with administered() as (fake, admin):
        reply = CreateTopicsResponse(topics=[row])
        fake.answers["CreateTopics"] = lambda asked: asked.reply(reply)
        error = await error_of(admin, "CreateTopics")
    assert isinstance(error, InvalidTopicError)
    assert error.message == "no such name"


async def test_a_controller_that_moved_is_asked_instead() -> None:
    """NOT_CONTROLLER: the metadata has the new controller."""
    moved = ErrorCode.NOT_CONTROLLER
    async with FakeBroker() as old, FakeBroker() as new:
        asked_of: list[str] = []

        def refuse(asked: Asked) -> None:
            asked_of.append("old")
            for fake in (old, new):
                fake.answers["Metadata"] = knows((2, new), (1, old))
            rows = [CreatableTopicResult("t", error_code=moved)]
            asked.reply(CreateTopicsResponse(topics=rows))

        def take(asked: Asked) -> None:
            asked_of.append("new")
            rows = [CreatableTopicResult("t", num_partitions=1)]
            asked.reply(CreateTopicsResponse(topics=rows))

        before = knows((1, old), (2, new))
        old.answers = {"Metadata": before, "CreateTopics": refuse}
        new.answers = {"Metadata": before, "CreateTopics": take}
        async with Admin(bootstrap_servers=old.address, retry_backoff_ms=1) as admin:
            made = (await admin.create_topics([NewTopic("t", 1)])).check()
        assert made["t"].num_partitions == 1
        assert asked_of == ["old", "new"]


async def test_a_coordinator_that_moved_is_asked_instead() -> None:
    """NOT_COORDINATOR, and a coordinator that is still loading."""
    codes = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0]
    lookups = 0
    async with administered() as (fake, admin):

        def answer(asked: Asked) -> None:
            rows = [DeletableGroupResult("g", codes.pop(0))]
            asked.reply(DeleteGroupsResponse(results=rows))

        def find(asked: Asked) -> None:
            nonlocal lookups
            lookups += 1
            coordinates(fake)(asked)

        fake.answers |= {"DeleteGroups": answer, "FindCoordinator": find}
        (await admin.delete_consumer_groups(["g"])).check()
        assert not codes
        assert lookups == 2, "once more after NOT_COORDINATOR only"


async def test_members_are_described_whatever_they_have_told_the_group() -> None:
    """Brokers do not decode metadata and assignments; rebalances have none."""
    async with administered() as (fake, admin):
        rows = [
            DescribedGroupMember("m", member_metadata=b"", member_assignment=b"\xff")
        ]
        group = DescribedGroup(0, None, "g", "Stable", "consumer", "range", rows)
        fake.answers["DescribeGroups"] = lambda asked: asked.reply(
            DescribeGroupsResponse(groups=[group])
        )
        (member,) = (await admin.describe_consumer_groups(["g"]))["g"].members
    assert (member.member_id, member.metadata) == ("m", b"")
    assert member.subscription is None
    assert member.partitions is None


async def test_a_group_is_asked_for_as_classic_if_it_is_no_consumer_group() -> None:
    """Each group alone; other errors of ConsumerGroupDescribe are its own."""
    codes = {
        "c": 0,
        "classic": ErrorCode.GROUP_ID_NOT_FOUND,
        "off": ErrorCode.UNSUPPORTED_VERSION,
        "mine": ErrorCode.GROUP_AUTHORIZATION_FAILED,
    }

    def describe(asked: Asked) -> None:
        member = Member("m", subscribed_topic_regex="t.*", member_type=0)
        asked.reply(
            ConsumerGroupDescribeResponse(
                groups=[
                    ConsumerGroup(codes[g], None, g, "Assigning", 5, 4, "", [member])
                    for g in asked.message.group_ids
                ]
            )
        )

    def describe_classic(asked: Asked) -> None:
        rows = [DescribedGroup(0, None, g, "Empty") for g in asked.message.groups]
        asked.reply(DescribeGroupsResponse(groups=rows))

    async with administered() as (fake, admin):
        fake.answers |= {
            "ConsumerGroupDescribe": describe,
            "DescribeGroups": describe_classic,
        }
        found = await admin.describe_consumer_groups(codes)
        (classic,) = fake.of("DescribeGroups")
        assert classic.message.groups == ["classic", "off"]
    types = {group: row.type for group, row in found.values.items()}
    assert types == {"c": "consumer", "classic": "classic", "off": "classic"}
    group = found["c"]
    assert (group.group_epoch, group.target_assignment_epoch) == (5, 4)
    assert group.members[0].subscribed_pattern == "t.*"
    assert group.members[0].is_upgraded is False
    error = found.errors["mine"]
    assert (error.api, error.group) == ("ConsumerGroupDescribe", "mine")


async def test_a_broker_without_consumer_groups_is_asked_for_classic_ones() -> None:
    """A broker before Kafka 3.7."""
    async with administered() as (fake, admin):
        del fake.versions["ConsumerGroupDescribe"]
        group = DescribedGroup(0, None, "g", "Stable")
        fake.answers["DescribeGroups"] = lambda asked: asked.reply(
            DescribeGroupsResponse(groups=[group])
        )
        found = (await admin.describe_consumer_groups(["g"]))["g"]
    assert (found.type, found.group_epoch) == ("classic", None)


# -- some items only, and old brokers


def told(fake: FakeBroker, *topics: MetadataResponseTopic) -> MetadataResponse:
    """Metadata of a fake broker that is its own cluster."""
    nodes = [MetadataResponseBroker(1, "127.0.0.1", fake.port)]
    return MetadataResponse(0, nodes, "fake", 1, topics)


async def test_time_is_up_for_some_items_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Finished items keep their results; the others have errors."""
    leaderless = MetadataResponseTopic(
        0, "t", partitions=[MetadataResponsePartition(0, 0, -1)]
    )
    bad = MetadataResponseTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, "bad")

    def metadata(asked: Asked) -> None:
        asked.reply(told(fake, leaderless, bad))

    async with (
        FakeBroker({"Metadata": metadata}) as fake,
        Admin(bootstrap_servers=fake.address, retry_backoff_ms=1) as admin,
    ):
        pass_deadline_after_failure(monkeypatch)
        asked = {TP: LATEST, TopicPartition("bad", 0): LATEST}
        listed = await admin.list_offsets(asked)
        assert kinds(listed.errors) == {
            TP: RequestTimedOutError,
            TopicPartition("bad", 0): InvalidTopicError,
        }
        error = listed.errors[TP]
        assert error.code is ErrorCode.LEADER_NOT_AVAILABLE
        assert (error.topic, error.partition) == ("t", 0)


async def test_a_topic_that_is_new_is_asked_for_again() -> None:
    """An unknown topic is retried a few times, not until the deadline."""
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    async with FakeBroker() as fake:
        answers = [MetadataResponseTopic(unknown, "t")] * 2
        led = [MetadataResponsePartition(0, 0, 1)]
        answers.append(MetadataResponseTopic(0, "t", partitions=led))

        def metadata(asked: Asked) -> None:
            is_about_it = bool(asked.message.topics)
            asked.reply(told(fake, *([answers.pop(0)] if is_about_it else [])))

        def offsets(asked: Asked) -> None:
            rows = [ListOffsetsPartitionResponse(0, 0, -1, 42)]
            asked.reply(ListOffsetsResponse(0, [ListOffsetsTopicResponse("t", rows)]))

        fake.answers |= {"Metadata": metadata, "ListOffsets": offsets}
        async with Admin(bootstrap_servers=fake.address, retry_backoff_ms=1) as admin:
            listed = await admin.list_offsets({TP: LATEST})
            assert listed[TP].offset == 42
            answers += [MetadataResponseTopic(unknown, "t")] * UNKNOWN_TOPIC_ATTEMPTS
            listed = await admin.list_offsets({TP: LATEST})
            assert kinds(listed.errors) == {TP: UnknownTopicError}
            assert not answers


async def test_an_old_broker_is_asked_in_old_forms() -> None:
    """One group per request; unsupported calls are an error."""
    versions = {
        "ApiVersions": (0, 2),
        "Metadata": (0, 4),
        "FindCoordinator": (0, 1),
        "OffsetFetch": (0, 3),
        "OffsetCommit": (2, 3),
        "ListGroups": (0, 2),
        "LeaveGroup": (0, 1),
        "ListOffsets": (0, 6),
    }

    def offsets(asked: Asked) -> None:
        rows = [OffsetFetchResponsePartition(0, len(asked.message.group_id), -1, None)]
        asked.reply(OffsetFetchResponse(topics=[OffsetFetchResponseTopic("t", rows)]))

    def commit(asked: Asked) -> None:
        rows = [OffsetCommitResponsePartition(0)]
        topics = [OffsetCommitResponseTopic("t", partitions=rows)]
        asked.reply(OffsetCommitResponse(topics=topics))

    script = {"OffsetFetch": offsets, "OffsetCommit": commit}
    async with (
        alone(answers=script, versions=versions) as fake,
        Admin(bootstrap_servers=fake.address) as admin,
    ):
        listed = await admin.list_consumer_group_offsets({"a": None, "bb": [TP]})
        assert {g: found[TP].offset for g, found in listed.check().items()} == {
            "a": 1,
            "bb": 2,
        }
        (await admin.alter_consumer_group_offsets("a", {TP: 5})).check()
        with pytest.raises(UnsupportedVersionError):
            await admin.list_consumer_groups(states=["Stable"])
        removed = await admin.remove_members_from_consumer_group(
            "a", [MemberToRemove("m")]
        )
        assert kinds(removed.errors) == {MemberToRemove("m"): UnsupportedVersionError}
        # A broker with these versions would use -3 as a timestamp.
        fake.answers["Metadata"] = knows((1, fake), partitions=1)
        largest = await admin.list_offsets({TP: MAX_TIMESTAMP})
        assert kinds(largest.errors) == {TP: UnsupportedVersionError}
        group = ConfigResource(ResourceType.GROUP, "g")
        error = (await admin.describe_configs([group])).errors[group]
        assert fields(error) == OF_GROUP
