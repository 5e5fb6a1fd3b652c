"""``__kohort_events``: its creation, content, and readers."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.broker.test_cluster import join, offsets, stable
from tests.broker.test_records_over_the_wire import batch
from tests.broker.topics import delete_topic
from tests.events.test_stream import happen
from tests.patience import PATIENCE_S
from tests.small_disk import on_a_small_disk
from tests.wire.client import WireClient, connected, connected_to
from tests.wire.requests import produce

from kohort.broker.cluster import events_topic
from kohort.broker.events.bus import Events
from kohort.broker.server import Broker
from kohort.broker.topics.topic import EVENTS_TOPIC
from kohort.client.consumer import Consumer
from kohort.client.offsets import TopicPartition
from kohort.protocol.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.apis.k11_join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from kohort.protocol.consumer import Subscription, encode
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import read_records

FAST = {"group.initial.rebalance.delay.ms": 0}
WRITTEN = FAST | {"events.topic.enable": True}


def records(broker: Broker) -> list[tuple[bytes | None, dict[str, Any]]]:
    """(key, event) of all that is in the topic."""
    found = []
    for partition in broker.cluster.topics.by_name[EVENTS_TOPIC].partitions:
        for raw in partition.batches(0):
            for record in read_records(raw):
                assert record.value is not None
                found.append((record.key, json.loads(record.value)))
    return found


async def in_the_topic(broker: Broker, group: str, kind: str) -> None:
    """Waits until an event is in the topic."""
    grown = asyncio.Event()
    partitions = broker.cluster.topics.by_name[EVENTS_TOPIC].partitions
    for partition in partitions:
        partition.watch(grown.set)
    async with asyncio.timeout(PATIENCE_S):
        while (group, kind) not in {
            (e["group"], e["kind"]) for _, e in records(broker)
        }:
            grown.clear()
            await grown.wait()
    for partition in partitions:
        partition.unwatch(grown.set)


async def ask_for(client: WireClient, topic: str) -> Any:
    """Metadata of a topic that may be created by that."""
    request = MetadataRequest([MetadataRequestTopic(name=topic)])
    return (await client.call("Metadata", 12, request)).topics[0]


async def test_it_has_the_stream() -> None:
    """The values are the events in their order, the keys their groups."""
    async with Broker(WRITTEN) as broker, connected(broker) as client:
        await stable(client, "a")
        await stable(client, "b")
        await in_the_topic(broker, "b", "assignment_made")
        found = records(broker)
        assert [event for _, event in found] == broker.events.recent()[: len(found)]
        for key, event in found:
            group = event["group"]
            assert key == (None if group is None else group.encode())


async def test_it_is_there_when_somebody_asks_for_it() -> None:
    """The first request creates it, with the remembered events; it is internal."""
    async with Broker(FAST) as broker, connected(broker) as client:
        await stable(client, "a")
        assert EVENTS_TOPIC not in broker.cluster.topics.by_name
        await ask_for(client, EVENTS_TOPIC)
        topic = await ask_for(client, EVENTS_TOPIC)
        assert (topic.error_code, topic.is_internal) == (0, True)
        assert len(topic.partitions) == 1
        await stable(client, "b")
        await in_the_topic(broker, "b", "assignment_made")
        sequences = [event["sequence"] for _, event in records(broker)]
        assert sequences == [*range(1, len(sequences) + 1)]


async def test_clients_do_not_write_to_it() -> None:
    """As to any internal topic."""
    async with Broker(WRITTEN) as broker, connected(broker) as client:
        request = produce((0, batch(b"forged")), topic=EVENTS_TOPIC)
        answer = await client.call("Produce", 9, request)
        (row,) = answer.responses[0].partition_responses
        assert row.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_who_creates_it_need_not_say_how_much_it_keeps() -> None:
    """It has a bound, however it comes to be; or the one that it is created with."""
    async with Broker(FAST) as broker:
        for given, kept in ((None, 128 * 1024 * 1024), ({"retention.bytes": "7"}, 7)):
            topic = broker.cluster.create_topic(EVENTS_TOPIC, 2, 1, given)
            for partition in topic.partitions:
                assert partition.config.retention_bytes == kept
            delete_topic(broker, EVENTS_TOPIC)


async def test_deleted_and_created_again() -> None:
    """Nothing is written while it is not there, and all that is remembered after."""
    async with Broker(WRITTEN) as broker, connected(broker) as client:
        await stable(client, "a")
        await in_the_topic(broker, "a", "assignment_made")
        delete_topic(broker, EVENTS_TOPIC)
        await stable(client, "b")
        for number in range(2):
            broker.cluster.auto_create(EVENTS_TOPIC)
            await stable(client, f"c{number}")
            await in_the_topic(broker, f"c{number}", "assignment_made")
            found = [event["sequence"] for _, event in records(broker)]
            assert found == [*range(1, len(found) + 1)]
            delete_topic(broker, EVENTS_TOPIC)


async def test_more_partitions_keep_a_group_together() -> None:
    """All events of a group are in one partition, in their order."""
    async with Broker(FAST) as broker, connected(broker) as client:
        broker.cluster.create_topic(EVENTS_TOPIC, 5)
        for number in range(20):
            await stable(client, f"g{number}")
        await in_the_topic(broker, "g19", "assignment_made")
        partitions: dict[str, set[int]] = {}
        topic = broker.cluster.topics.by_name[EVENTS_TOPIC]
        for index, partition in enumerate(topic.partitions):
            last = 0
            for raw in partition.batches(0):
                for record in read_records(raw):
                    event = json.loads(record.value or b"")
                    assert event["sequence"] > last
                    last = event["sequence"]
                    partitions.setdefault(event["group"], set()).add(index)
        assert all(len(found) == 1 for found in partitions.values())
        assert len(set().union(*partitions.values())) > 1


async def test_who_reads_and_commits_makes_no_events_there() -> None:
    """A consumer that commits after each record comes to an end of them."""
    async with Broker(WRITTEN) as broker, connected(broker) as client:
        await stable(client, "watched")
        await in_the_topic(broker, "watched", "assignment_made")
        read = 0
        async with Consumer(
            EVENTS_TOPIC,
            bootstrap_servers=broker.bootstrap_servers,
            group_id="reader",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            while read < len(records(broker)):
                await consumer.getone()
                await consumer.commit()
                read += 1
        commits = [
            event
            for event in broker.events.recent("reader")
            if event["kind"] == "offsets_committed"
        ]
        # Every other view has them.
        assert len(commits) >= read
        await stable(client, "last")
        await in_the_topic(broker, "last", "assignment_made")
        groups = [event["group"] for _, event in records(broker)]
        assert groups.count("reader") <= 1  # the id that it was given, if at all
        assert read <= len(groups) - groups.count("last")


def reading(group: str, member_id: str = "") -> JoinGroupRequest:
    """JoinGroup of a consumer that subscribes to the topic."""
    metadata = encode(Subscription([EVENTS_TOPIC]))
    protocols = [JoinGroupRequestProtocol("range", metadata)]
    return JoinGroupRequest(
        group, 10_000, 10_000, member_id, None, "consumer", protocols
    )


async def test_a_group_that_is_not_known_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written until the group's first member sends its subscription."""
    monkeypatch.setattr(events_topic, "NEWCOMER_S", 2 * PATIENCE_S)
    monkeypatch.setattr(events_topic, "LINGER_S", 0.0)
    async with Broker(WRITTEN) as broker, connected(broker) as client:
        await stable(client, "a")
        await in_the_topic(broker, "a", "assignment_made")
        answer = await client.call("JoinGroup", 9, reading("reader"))
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        await stable(client, "b")
        # Turns enough for the topic to be written, if it were not to wait.
        for _ in range(20):
            await ask_for(client, "t")
        assert {"reader", "b"}.isdisjoint(e["group"] for _, e in records(broker))
        answer = await client.call("JoinGroup", 9, reading("reader", answer.member_id))
        assert answer.error_code == ErrorCode.NONE
        await in_the_topic(broker, "b", "assignment_made")
        assert "reader" not in {event["group"] for _, event in records(broker)}


async def test_a_member_that_never_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps the topic waiting for a while, and no longer."""
    monkeypatch.setattr(events_topic, "NEWCOMER_S", 0.01)
    async with Broker(WRITTEN) as broker, connected(broker) as client:
        answer = await client.call("JoinGroup", 9, reading("nobody"))
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        await in_the_topic(broker, "nobody", "member_id_given")


async def test_who_only_commits_to_it_makes_no_events_there() -> None:
    """Consumers that assign themselves partitions have no subscription."""
    async with Broker(WRITTEN) as broker, connected(broker) as client:
        for offset in range(5):
            request = offsets(offset, EVENTS_TOPIC, "manual")
            await client.call("OffsetCommit", 8, request)
        await stable(client, "last")
        await in_the_topic(broker, "last", "assignment_made")
        assert "manual" not in {event["group"] for _, event in records(broker)}
        assert len(broker.events.recent("manual")) >= 5


async def test_who_committed_before_a_restart_is_known(tmp_path: Path) -> None:
    """A group that is loaded with offsets of the topic is no news there, either."""
    async with (
        Broker(WRITTEN, data_dir=tmp_path) as broker,
        connected(broker) as client,
    ):
        request = offsets(1, EVENTS_TOPIC, "manual")
        await client.call("OffsetCommit", 8, request)
    async with (
        Broker(FAST, data_dir=tmp_path) as broker,
        connected(broker) as client,
    ):
        await broker.wait_until_loaded()
        await join(client, "manual")
        await stable(client, "last")
        await in_the_topic(broker, "last", "assignment_made")
        found = records(broker)
        assert "manual" not in {event["group"] for _, event in found}
        # Both runs are there, one behind the other.
        runs = [event["run"] for _, event in found]
        assert len({*runs}) == 2
        assert runs == sorted(runs, key=runs.index)


@pytest.mark.parametrize("nodes", [1, 3])
async def test_any_node_may_stop(nodes: int) -> None:
    """All nodes are replicas; events of all nodes are in it."""
    async with Broker(WRITTEN, nodes=nodes) as broker, connected(broker) as client:
        await ask_for(client, "t")
        topic = broker.cluster.topics.by_name[EVENTS_TOPIC]
        assert len(topic.replicas[0]) == nodes
        for number in range(9):
            group = f"g{number}"
            async with connected(broker, broker.coordinator_of(group)) as other:
                await stable(other, group)
            await in_the_topic(broker, group, "assignment_made")
        assert {e["node"] for _, e in records(broker)} == {*range(1, nodes + 1)}


async def test_what_is_forgotten_is_announced() -> None:
    """A topic that is created late begins with the gaps, node by node."""
    broker = Broker(FAST, nodes=2)
    broker.events = Events(remembered=20)
    async with broker, connected(broker) as client, AsyncExitStack() as others:
        for number in range(6):
            group = f"g{number}"
            coordinator = broker.coordinator_of(group)
            other = await others.enter_async_context(connected(broker, coordinator))
            await stable(other, group)
        happen(broker.events.of(2), "last")
        first = {
            event["node"]: event["sequence"]
            for event in reversed(broker.events.recent())
        }
        assert first.keys() == {1, 2}
        await ask_for(client, EVENTS_TOPIC)
        await in_the_topic(broker, "last", "pending_member_expired")
        found = [event for _, event in records(broker)]
        gaps = {e["node"]: e for e in found if e["kind"] == "events_lost"}
        for node, sequence in first.items():
            assert (gaps[node]["first"], gaps[node]["last"]) == (1, sequence - 1)
            of_node = [event for event in found if event["node"] == node]
            assert of_node[0] == gaps[node]
            numbers = [event["sequence"] for event in of_node]
            assert numbers == [*range(sequence - 1, numbers[-1] + 1)]


async def test_made_anew_at_once() -> None:
    """A recreated topic has all events, even if no reader saw the old one go."""
    async with Broker(WRITTEN) as broker, connected(broker) as client:
        await stable(client, "a")
        await in_the_topic(broker, "a", "assignment_made")
        delete_topic(broker, EVENTS_TOPIC)
        broker.cluster.auto_create(EVENTS_TOPIC)
        await stable(client, "b")
        await in_the_topic(broker, "b", "assignment_made")
        found = [event for _, event in records(broker)]
        assert found == broker.events.recent()[: len(found)]


async def test_a_topic_that_is_there_before_the_broker(tmp_path: Path) -> None:
    """One of a data directory is written to again, without any setting."""
    async with Broker(FAST, data_dir=tmp_path) as broker:
        broker.cluster.create_topic(EVENTS_TOPIC, 1)
    async with Broker(FAST, data_dir=tmp_path) as broker, connected(broker) as client:
        await broker.wait_until_loaded()
        await stable(client, "a")
        await in_the_topic(broker, "a", "assignment_made")
        run = broker.events.run
        found = [event for _, event in records(broker) if event["run"] == run]
        assert found == broker.events.recent()[: len(found)]


HOW: dict[str, Callable[[Consumer], None]] = {
    "subscribes": lambda consumer: consumer.subscribe([EVENTS_TOPIC]),
    "a pattern": lambda consumer: consumer.subscribe(pattern="__kohort.*"),
    "by hand": lambda consumer: consumer.assign([TopicPartition(EVENTS_TOPIC, 0)]),
}


async def read_all(broker: Broker, how: str, *, until: str) -> int:
    """Commits after each record until the last event of a group: how many there were.

    The group's name is the way that it takes.
    """
    read = 0
    async with Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id=how,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        exclude_internal_topics=False,
    ) as consumer:
        HOW[how](consumer)
        while True:
            record = await consumer.getone()
            await consumer.commit()
            read += 1
            event = json.loads(record.value or b"")
            if (event["group"], event["kind"]) == (until, "assignment_made"):
                return read


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("is_there", [True, False], ids=["there before", "asked for"])
async def test_readers_that_commit_after_each_record(
    tmp_path: Path, nodes: int, *, is_there: bool
) -> None:
    """Their own events are never in the topic, however they read, also after a restart.

    The records are counted: while three readers commit after each one the topic gets
    none, except for the member ids of those with a subscription.
    """
    config = WRITTEN if is_there else FAST
    async with (
        Broker(config, nodes=nodes, data_dir=tmp_path) as broker,
        asyncio.timeout(PATIENCE_S),
    ):
        await commits_are_not_read(broker, "first")
    async with (
        Broker(FAST, nodes=nodes, data_dir=tmp_path) as broker,
        asyncio.timeout(PATIENCE_S),
    ):
        await broker.wait_until_loaded()
        await commits_are_not_read(broker, "second")


async def commits_are_not_read(broker: Broker, watched: str) -> None:
    """Plays a group that is watched, and readers of the topic."""
    async with connected(broker, broker.coordinator_of(watched)) as client:
        await ask_for(client, EVENTS_TOPIC)
        await stable(client, watched)
        await in_the_topic(broker, watched, "assignment_made")
        read = await asyncio.gather(
            *(read_all(broker, how, until=watched) for how in HOW)
        )
        # All actions of the readers are before this, which none of them reads.
        last = f"{watched}, last"
        async with connected(broker, broker.coordinator_of(last)) as other:
            await stable(other, last)
        await in_the_topic(broker, last, "assignment_made")
    for how, count in zip(HOW, read, strict=True):
        commits = [
            event
            for event in broker.events.recent(how)
            if event["kind"] == "offsets_committed"
        ]
        # Every other view has them all.
        assert len(commits) == count > 10
    seen = [
        (event["group"], event["kind"])
        for _, event in records(broker)
        if event["group"] in HOW
    ]
    # The group's events wait until it sends its subscription.
    assert {*seen} <= {
        (how, kind)
        for how in ("subscribes", "a pattern")
        for kind in ("group_state", "member_id_given")
    }
    assert len(seen) == len({*seen})


async def test_nodes_come_and_go() -> None:
    """Each node's numbers have no gaps, whatever it was that stopped and started."""
    async with Broker(WRITTEN, nodes=3) as broker, connected(broker, 1) as client:
        await ask_for(client, "t")
        for number, node in enumerate((2, 3, 2)):
            group = f"g{number}"
            async with connected(broker, broker.coordinator_of(group)) as other:
                await stable(other, group)
            await broker.stop_node(node)
            await broker.start_node(node)
        await stable(client, mine := of_node(broker, 1))
        await in_the_topic(broker, mine, "assignment_made")
        numbers: dict[int, list[int]] = {}
        for _, event in records(broker):
            assert event["kind"] != "events_lost"
            numbers.setdefault(event["node"], []).append(event["sequence"])
        assert numbers.keys() == {1, 2, 3}
        for of_one in numbers.values():
            assert of_one == [*range(1, len(of_one) + 1)]


def of_node(broker: Broker, node: int) -> str:
    """A group that a node coordinates."""
    names = (f"of node {number}" for number in itertools.count())
    return next(name for name in names if broker.coordinator_of(name) == node)


async def test_a_full_disk(tmp_path: Path) -> None:
    """One line in the log; when there is room it goes on, with nothing there twice."""
    options = (f"--data-dir={tmp_path}", "--set=events.topic.enable=true")
    async with (
        on_a_small_disk(64 * 1024, *options, "--log-level=warning") as small,
        connected_to("127.0.0.1", small.port) as client,
        asyncio.timeout(PATIENCE_S),
    ):
        refused = asyncio.create_task(small.until_logged(EVENTS_TOPIC))
        groups = 0
        while not refused.done():
            await stable(client, f"g{groups}")
            groups += 1
        await refused
        small.give_room()
        await small.until_logged("log_writable_again")
        await small.end()
    async with Broker(FAST, data_dir=tmp_path) as broker:
        run = broker.events.run
        found = [event for _, event in records(broker) if event["run"] != run]
    sequences = [event["sequence"] for event in found]
    assert sequences == [*range(1, len(sequences) + 1)]
    assert len({event["group"] for event in found} - {None}) == groups
