"""Admin calls: what brokers leave out or do not know, and that errors say where."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.client.fake_broker import Asked, FakeBroker
from tests.client.time_up import is_up_after_a_failure

from kohort.client.admin import Admin
from kohort.client.admin_values import (
    ConfigResource,
    MemberToRemove,
    NewTopic,
    ResourceType,
    Results,
)
from kohort.client.errors import (
    BrokerError,
    ClosedError,
    ConnectionFailedError,
    InvalidTopicError,
    KohortError,
    RequestTimedOutError,
    UnknownTopicError,
    UnsupportedVersionError,
)
from kohort.client.fan_out import PATIENCE
from kohort.client.offsets import LATEST, TopicPartition
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
from kohort.protocol.apis.k13_leave_group import LeaveGroupResponse
from kohort.protocol.apis.k15_describe_groups import DescribeGroupsResponse
from kohort.protocol.apis.k19_create_topics import (
    CreatableTopicResult,
    CreateTopicsResponse,
)
from kohort.protocol.apis.k20_delete_topics import DeleteTopicsResponse
from kohort.protocol.apis.k21_delete_records import DeleteRecordsResponse
from kohort.protocol.apis.k32_describe_configs import DescribeConfigsResponse
from kohort.protocol.apis.k37_create_partitions import CreatePartitionsResponse
from kohort.protocol.apis.k42_delete_groups import (
    DeletableGroupResult,
    DeleteGroupsResponse,
)
from kohort.protocol.apis.k44_incremental_alter_configs import (
    IncrementalAlterConfigsResponse,
)
from kohort.protocol.apis.k47_offset_delete import OffsetDeleteResponse
from kohort.protocol.errors import ErrorCode

TP = TopicPartition("t", 0)
TOPIC = ConfigResource(ResourceType.TOPIC, "t")
Call = Callable[..., Awaitable[Results[Any, Any]]]

# By API: a call about one item, what its errors name besides, and an empty answer.
CALLS: dict[str, tuple[Call, dict[str, Any], object]] = {
    "CreateTopics": (
        lambda admin, **time: admin.create_topics([NewTopic("t")], **time),
        {"topic": "t"},
        CreateTopicsResponse(),
    ),
    "DeleteTopics": (
        lambda admin, **time: admin.delete_topics(["t"], **time),
        {"topic": "t"},
        DeleteTopicsResponse(),
    ),
    "CreatePartitions": (
        lambda admin, **time: admin.create_partitions({"t": 3}, **time),
        {"topic": "t"},
        CreatePartitionsResponse(),
    ),
    "DeleteRecords": (
        lambda admin, **time: admin.delete_records({TP: 3}, **time),
        {"topic": "t", "partition": 0},
        DeleteRecordsResponse(),
    ),
    "ListOffsets": (
        lambda admin, **time: admin.list_offsets({TP: -1}, **time),
        {"topic": "t", "partition": 0},
        ListOffsetsResponse(),
    ),
    "DescribeConfigs": (
        lambda admin, **time: admin.describe_configs([TOPIC], **time),
        {"topic": "t"},
        DescribeConfigsResponse(),
    ),
    "IncrementalAlterConfigs": (
        lambda admin, **time: admin.alter_configs(
            {TOPIC: {"retention.ms": "1"}}, **time
        ),
        {"topic": "t"},
        IncrementalAlterConfigsResponse(),
    ),
    "DescribeGroups": (
        lambda admin, **time: admin.describe_consumer_groups(["g"], **time),
        {"group": "g"},
        DescribeGroupsResponse(),
    ),
    "DeleteGroups": (
        lambda admin, **time: admin.delete_consumer_groups(["g"], **time),
        {"group": "g"},
        DeleteGroupsResponse(),
    ),
    "OffsetFetch": (
        lambda admin, **time: admin.list_consumer_group_offsets({"g": None}, **time),
        {"group": "g"},
        OffsetFetchResponse(),
    ),
    "OffsetCommit": (
        lambda admin, **time: admin.alter_consumer_group_offsets("g", {TP: 1}, **time),
        {"group": "g", "topic": "t", "partition": 0},
        OffsetCommitResponse(),
    ),
    "OffsetDelete": (
        lambda admin, **time: admin.delete_consumer_group_offsets("g", [TP], **time),
        {"group": "g", "topic": "t", "partition": 0},
        OffsetDeleteResponse(),
    ),
    "LeaveGroup": (
        lambda admin, **time: admin.remove_members_from_consumer_group(
            "g", [MemberToRemove("m")], **time
        ),
        {"group": "g"},
        LeaveGroupResponse(),
    ),
}


def leading(*brokers: FakeBroker, controller: int = 0) -> Callable[[Asked], None]:
    """Answers Metadata: the first one leads everything."""

    def answer(asked: Asked) -> None:
        nodes = [
            MetadataResponseBroker(number, "127.0.0.1", fake.port)
            for number, fake in enumerate(brokers)
        ]
        led = [MetadataResponsePartition(0, 0, 0)]
        topics = [
            MetadataResponseTopic(0, topic.name, partitions=led)
            for topic in asked.message.topics or ()
        ]
        asked.reply(MetadataResponse(0, nodes, "c", controller, topics))

    return answer


def coordinating(fake: FakeBroker, node_id: int = 0) -> Callable[[Asked], None]:
    """Answers FindCoordinator with this one."""

    def answer(asked: Asked) -> None:
        rows = [
            Coordinator(key, node_id, "127.0.0.1", fake.port)
            for key in asked.message.coordinator_keys
        ]
        asked.reply(FindCoordinatorResponse(coordinators=rows))

    return answer


@contextlib.asynccontextmanager
async def administered() -> AsyncIterator[tuple[FakeBroker, Admin]]:
    """A cluster of one node by script, and its admin client."""
    async with FakeBroker() as fake:
        fake.answers["Metadata"] = leading(fake)
        fake.answers["FindCoordinator"] = coordinating(fake)
        quick: dict[str, Any] = {"retry_backoff_ms": 1, "reconnect_backoff_ms": 1}
        async with Admin(bootstrap_servers=fake.address, **quick) as admin:
            yield fake, admin


async def error_of(call: Awaitable[Results[Any, Any]]) -> KohortError:
    """The error of the one item."""
    (error,) = (await call).errors.values()
    return error


def fields(error: KohortError) -> dict[str, Any]:
    """What an error names besides API and broker."""
    names = ("group", "topic", "partition")
    found = {name: getattr(error, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


@pytest.mark.parametrize("api", CALLS)
async def test_an_answer_without_the_item_is_its_error(api: str) -> None:
    """Nobody knows what has become of it; the error says of what, and who was asked."""
    call, names, empty = CALLS[api]
    async with administered() as (fake, admin):
        fake.answers[api] = lambda asked: asked.reply(empty)
        error = await error_of(call(admin))
        assert isinstance(error, BrokerError)
        assert not error.retriable
        assert "does not name it" in str(error)
        assert (error.api, error.broker) == (api, f"{fake.address} (node 0)")
        assert fields(error) == names


@pytest.mark.parametrize("api", CALLS)
async def test_a_broker_that_hangs_up_is_named_with_the_item(api: str) -> None:
    """Until time is up it is tried again."""
    call, names, _ = CALLS[api]
    async with administered() as (fake, admin):
        fake.answers[api] = Asked.close
        error, ms = KohortError(), 50
        while error.broker is None:  # on a busy machine 50 ms are too few to be told
            error = await error_of(call(admin, timeout_ms=ms))
            ms *= 2
        assert isinstance(error, RequestTimedOutError)
        assert "the last error was: " in str(error)
        assert fields(error) == names
        assert error.api is not None
        assert fake.address in error.broker


async def test_items_that_share_an_error_have_their_own() -> None:
    """Two groups whose coordinator nobody can tell."""
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


async def test_a_controller_that_moved_is_asked_instead() -> None:
    """NOT_CONTROLLER: the metadata tells who it is."""
    moved = ErrorCode.NOT_CONTROLLER
    async with FakeBroker() as old, FakeBroker() as new:
        asked_of: list[str] = []

        def refuse(asked: Asked) -> None:
            asked_of.append("old")
            for fake in (old, new):
                fake.answers["Metadata"] = leading(old, new, controller=1)
            rows = [CreatableTopicResult("t", error_code=moved)]
            asked.reply(CreateTopicsResponse(topics=rows))

        def take(asked: Asked) -> None:
            asked_of.append("new")
            rows = [CreatableTopicResult("t", num_partitions=1)]
            asked.reply(CreateTopicsResponse(topics=rows))

        old.answers = {"Metadata": leading(old, new), "CreateTopics": refuse}
        new.answers = {"Metadata": leading(old, new), "CreateTopics": take}
        async with Admin(bootstrap_servers=old.address, retry_backoff_ms=1) as admin:
            made = (await admin.create_topics([NewTopic("t", 1)])).check()
        assert made["t"].num_partitions == 1
        assert asked_of == ["old", "new"]


async def test_a_coordinator_that_moved_is_asked_instead() -> None:
    """NOT_COORDINATOR, and a coordinator that is still reading the log."""
    codes = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0]
    lookups = 0
    async with administered() as (fake, admin):

        def answer(asked: Asked) -> None:
            rows = [DeletableGroupResult("g", codes.pop(0))]
            asked.reply(DeleteGroupsResponse(results=rows))

        def find(asked: Asked) -> None:
            nonlocal lookups
            lookups += 1
            coordinating(fake)(asked)

        fake.answers |= {"DeleteGroups": answer, "FindCoordinator": find}
        (await admin.delete_consumer_groups(["g"])).check()
        assert not codes
        assert lookups == 2, "once more after NOT_COORDINATOR only"


# -- start and close


async def test_an_admin_client_is_started_once() -> None:
    """A second start would leave the first one's connections to nobody."""
    async with administered() as (fake, admin):
        with pytest.raises(ClosedError, match="once"):
            await admin.start()
        assert fake.opened == 1


async def test_an_admin_client_that_is_closed_amid_its_start_stays_closed() -> None:
    """Whenever that is; nothing is left open."""
    async with FakeBroker() as fake:
        fake.answers["Metadata"] = leading(fake)
        for turns in range(0, 30, 3):
            admin = Admin(bootstrap_servers=fake.address)
            starting = asyncio.create_task(admin.start())
            for _ in range(turns):
                await asyncio.sleep(0)
            await admin.close()
            outcome = (await asyncio.gather(starting, return_exceptions=True))[0]
            assert outcome is None or isinstance(outcome, ClosedError)
            await fake.is_left_alone()
            with pytest.raises(ClosedError):
                await admin.list_topics()


async def test_a_node_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Configurations of broker 77."""
    async with administered() as (_, admin):
        is_up_after_a_failure(monkeypatch)
        resource = ConfigResource(ResourceType.BROKER, "77")
        error = await error_of(admin.describe_configs([resource]))
        assert isinstance(error, RequestTimedOutError | ConnectionFailedError)
        assert "node 77" in str(error)
        assert error.api == "DescribeConfigs"


# -- some items only, and old brokers


def kinds(errors: dict[Any, KohortError]) -> dict[Any, type[KohortError]]:
    """The class of each error."""
    return {item: type(error) for item, error in errors.items()}


def told(fake: FakeBroker, *topics: MetadataResponseTopic) -> MetadataResponse:
    """Metadata of a fake that is a cluster of its own."""
    nodes = [MetadataResponseBroker(1, "127.0.0.1", fake.port)]
    return MetadataResponse(0, nodes, "fake", 1, topics)


async def test_time_is_up_for_some_items_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What has a result keeps it; the others tell why they have none."""
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
        is_up_after_a_failure(monkeypatch)
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
    """A broker that has not heard of it yet gets some attempts, not all the time."""
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
            answers += [MetadataResponseTopic(unknown, "t")] * PATIENCE
            listed = await admin.list_offsets({TP: LATEST})
            assert kinds(listed.errors) == {TP: UnknownTopicError}
            assert not answers


async def test_an_old_broker_is_asked_in_old_forms() -> None:
    """One group at a time; what the broker cannot do is an error."""
    versions = {
        "ApiVersions": (0, 2),
        "Metadata": (0, 4),
        "FindCoordinator": (0, 1),
        "OffsetFetch": (0, 3),
        "OffsetCommit": (2, 3),
        "ListGroups": (0, 2),
        "LeaveGroup": (0, 1),
    }

    def metadata(asked: Asked) -> None:
        nodes = [MetadataResponseBroker(1, "127.0.0.1", fake.port)]
        asked.reply(MetadataResponse(0, nodes, "fake", 1))

    def coordinator(asked: Asked) -> None:
        asked.reply(FindCoordinatorResponse(0, 0, "", 1, "127.0.0.1", fake.port))

    def offsets(asked: Asked) -> None:
        rows = [OffsetFetchResponsePartition(0, len(asked.message.group_id), -1, None)]
        asked.reply(OffsetFetchResponse(topics=[OffsetFetchResponseTopic("t", rows)]))

    def commit(asked: Asked) -> None:
        rows = [OffsetCommitResponsePartition(0)]
        topics = [OffsetCommitResponseTopic("t", partitions=rows)]
        asked.reply(OffsetCommitResponse(topics=topics))

    script = {
        "Metadata": metadata,
        "FindCoordinator": coordinator,
        "OffsetFetch": offsets,
        "OffsetCommit": commit,
    }
    async with (
        FakeBroker(script, versions=versions) as fake,
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
