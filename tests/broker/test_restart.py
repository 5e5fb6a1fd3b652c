"""A broker on a data directory, stopped or killed, and started again.

A kill is played by a copy of the running broker's directory, as a killed process would
leave it.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.broker.test_cluster import (
    NO_DELAY,
    coordinator,
    elsewhere,
    heartbeat,
    join,
    offsets,
    until,
)
from tests.broker.test_cluster import stable as make_stable
from tests.broker.test_records_over_the_wire import batch, values_of
from tests.broker.topics import delete_topic
from tests.wire.client import WireClient, connected, connected_to
from tests.wire.requests import (
    BROKER,
    TOPIC,
    alter_configs,
    create_partitions,
    create_topics,
    describe_configs,
    fetch,
    fetch_offsets,
    metadata,
    produce,
    sync_group,
)

from kohort.broker.log.store import DataDirError
from kohort.broker.server import Broker
from kohort.protocol.apis.k03_metadata import MetadataRequest
from kohort.protocol.apis.k15_describe_groups import DescribeGroupsRequest
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdRequest
from kohort.protocol.apis.k42_delete_groups import DeleteGroupsRequest
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record, build_batch


def broker_on(path: Path, nodes: int = 1, **config: object) -> Broker:
    """A broker on a data directory; keys have ``_`` in place of dots."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    return Broker(NO_DELAY | settings, data_dir=path, nodes=nodes)


def killed(path: Path, copy: str = "copy") -> Path:
    """The files that a kill at this moment leaves behind."""
    return Path(shutil.copytree(path, path.with_name(copy)))


async def committed(client: WireClient, group: str = "g") -> dict[str, int]:
    """The offsets of partition 0 of each topic."""
    answer = await client.call("OffsetFetch", 8, fetch_offsets(group))
    return {
        topic.name: topic.partitions[0].committed_offset
        for topic in answer.groups[0].topics
    }


async def values(client: WireClient) -> list[bytes | None]:
    """The values in partition 0 of "t"."""
    answer = await client.call("Fetch", 12, fetch(0))
    (row,) = answer.responses[0].partitions
    assert row.error_code == 0
    return values_of(row)


async def describe(client: WireClient, group: str = "g") -> Any:
    """DescribeGroups of one group."""
    request = DescribeGroupsRequest([group])
    return (await client.call("DescribeGroups", 5, request)).groups[0]


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_stable_group_goes_on(tmp_path: Path, is_killed: bool) -> None:
    """Members, generation, assignments and offsets are restored; no member rejoins."""
    path = tmp_path / "data"
    async with broker_on(path) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        member_id = await make_stable(client)
        await client.call("OffsetCommit", 8, offsets(5, group="simple"))
        before = await describe(client)
        found = killed(path) if is_killed else path
    async with broker_on(found) as broker, connected(broker) as client:
        assert await heartbeat(client, member_id) == 0
        assert await describe(client) == before
        synced = await client.call("SyncGroup", 5, sync_group(member_id))
        assert synced.assignment == b"mine"
        assert await committed(client, "simple") == {"t": 5}


async def test_what_is_deleted_stays_deleted(tmp_path: Path) -> None:
    """A deleted group or topic, with its offsets, does not come back after a kill."""
    path = tmp_path / "data"
    async with broker_on(path) as broker, connected(broker) as client:
        for topic in ("t", "u"):
            broker.cluster.create_topic(topic, 1)
            await client.call("OffsetCommit", 8, offsets(5, topic))
        await client.call("OffsetCommit", 8, offsets(5, group="gone"))
        request = DeleteGroupsRequest(["gone"])
        answer = await client.call("DeleteGroups", 2, request)
        assert answer.results[0].error_code == 0
        delete_topic(broker, "t")
        found = killed(path)
    async with broker_on(found) as broker, connected(broker) as client:
        assert await committed(client) == {"u": 5}
        assert (await describe(client, "gone")).group_state == "Dead"
        assert set(broker.cluster.topics.by_name) == {"u", "__consumer_offsets"}


async def test_a_topic_that_is_made_anew_at_once_has_its_own_files(
    tmp_path: Path,
) -> None:
    """A waiting consumer learns that its topic is gone, and asks for it again."""
    path = tmp_path / "data"
    async with broker_on(path) as broker, connected(broker) as client:
        old = broker.cluster.create_topic("t", 2)
        await client.send("Fetch", 12, fetch(0, wait_ms=60_000))
        await client.send("Metadata", 9, metadata("t"))
        await until(lambda: old.partitions[0].watchers)
        delete_topic(broker, "t")
        answer = await client.response("Fetch", 12)
        row = answer.responses[0].partitions[0]
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await client.response("Metadata", 9)
        answer = await client.call("Produce", 9, produce((0, batch(b"new"))))
        assert answer.responses[0].partition_responses[0].error_code == 0
    async with broker_on(path) as broker, connected(broker) as client:
        assert await values(client) == [b"new"]


async def test_a_topic_that_is_made_anew_keeps_its_records(tmp_path: Path) -> None:
    """The offsets of the deleted topic do not apply to it."""
    path = tmp_path / "data"
    async with broker_on(path) as broker, connected(broker) as client:
        old = broker.cluster.create_topic("t", 1)
        for _ in range(20):
            await client.call("Produce", 9, produce((0, batch(b"old"))))
        assert old.partitions[0].delete_records(10) == (0, 10)
    async with broker_on(path) as broker, connected(broker) as client:
        delete_topic(broker, "t")
        broker.cluster.create_topic("t", 1)
        for _ in range(5):
            answer = await client.call("Produce", 9, produce((0, batch(b"new"))))
            assert answer.responses[0].partition_responses[0].error_code == 0
        found = killed(path)
    async with broker_on(found) as broker, connected(broker) as client:
        assert await values(client) == [b"new"] * 5


@contextmanager
def no_change_can_be_written(path: Path) -> Iterator[None]:
    """Blocks cluster.log with something else."""
    log, aside = path / "cluster.log", path / "aside"
    log.rename(aside)
    log.mkdir()
    yield
    log.rmdir()
    aside.rename(log)


async def test_what_cannot_be_written_down_is_not_there(tmp_path: Path) -> None:
    """A topic or partition that cannot be saved takes no records."""
    path = tmp_path / "data"
    async with broker_on(path) as broker, connected(broker) as client:
        with no_change_can_be_written(path):
            assert await create(client, "t") == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await join(client)).error_code == ErrorCode.NOT_COORDINATOR
            answer = (await coordinator(client, "g"))[0]
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert not broker.cluster.topics.by_name
            assert not broker.cluster.topics.by_id
        assert await create(client, "t") == 0
        with no_change_can_be_written(path):
            assert await grow(client, 2) == ErrorCode.KAFKA_STORAGE_ERROR
        # Blocks the third partition.
        (path / "t-2").touch()
        assert await grow(client, 3) == ErrorCode.KAFKA_STORAGE_ERROR
        (path / "t-2").unlink()
        topic = broker.cluster.topics.by_name["t"]
        assert len(topic.partitions) == len(topic.replicas) == len(topic.leaders) == 1
        assert [folder.name for folder in path.glob("*-*")] == ["t-0"]
        assert await grow(client, 3) == 0
        assert (await coordinator(client, "g"))[0].error_code == 0
        await make_stable(client)


async def create(client: WireClient, topic: str) -> int:
    """CreateTopics with one partition; returns the error code."""
    answer = await client.call("CreateTopics", 5, create_topics(topic))
    return int(answer.topics[0].error_code)


async def grow(client: WireClient, count: int) -> int:
    """CreatePartitions for "t"; returns the error code."""
    answer = await client.call("CreatePartitions", 2, create_partitions("t", count))
    return int(answer.results[0].error_code)


async def test_topics_are_what_they_were(tmp_path: Path) -> None:
    """Ids, records, configuration and replicas survive; a new epoch begins."""
    path = tmp_path / "data"
    async with broker_on(path, nodes=2) as broker, connected(broker) as client:
        topic = broker.cluster.create_topic(
            "t", 1, overrides={"retention.ms": "-1"}, replicas=[[1, 2]]
        )
        topic_id, cluster_id = topic.id, broker.cluster.id
        await client.call("Produce", 9, produce((0, batch(b"x", b"y"))))
        found = killed(path)
    async with broker_on(found, nodes=2) as broker, connected(broker) as client:
        topic = broker.cluster.topics.by_name["t"]
        assert (topic.id, broker.cluster.id) == (topic_id, cluster_id)
        assert topic.overrides == {"retention.ms": "-1"}
        assert (topic.replicas, topic.leaders) == ([[1, 2]], [1])
        assert topic.partitions[0].config.retention_ms == -1
        assert topic.partitions[0].leader_epoch == 1
        assert await values(client) == [b"x", b"y"]
        await client.call("Produce", 9, produce((0, batch(b"z"))))
        assert await values(client) == [b"x", b"y", b"z"]


async def test_fewer_nodes_lead_what_there_is(tmp_path: Path) -> None:
    """A directory of three nodes serves with one, including its groups."""
    path = tmp_path / "data"
    async with broker_on(path, nodes=3) as broker:
        broker.cluster.create_topic("t", 6)
        right = broker.coordinator_of("g")
        async with connected(broker, right) as client:
            member_id = await make_stable(client)
        broker.move_coordinator("g", elsewhere(broker, 1))
    async with broker_on(path) as broker, connected(broker) as client:
        assert set(broker.cluster.topics.by_name["t"].leaders) == {1}
        assert await heartbeat(client, member_id) == 0


async def test_configuration_changed_at_run_time_survives(tmp_path: Path) -> None:
    """IncrementalAlterConfigs of a topic and of all brokers survives."""
    path = tmp_path / "data"
    async with broker_on(path) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        for request in (
            alter_configs(TOPIC, "t", max_message_bytes="2000"),
            alter_configs(BROKER, "", log_retention_bytes="3000"),
        ):
            answer = await client.call("IncrementalAlterConfigs", 1, request)
            assert answer.responses[0].error_code == 0
        found = killed(path)
    async with broker_on(found) as broker, connected(broker) as client:
        answer = await client.call("DescribeConfigs", 4, describe_configs(TOPIC, "t"))
        configs = {each.name: each.value for each in answer.results[0].configs}
        assert configs["max.message.bytes"] == "2000"
        assert configs["retention.bytes"] == "3000"


async def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    """Producer ids are unique after a stop and after a kill."""
    path, given = tmp_path / "data", []
    for number in range(3):
        async with broker_on(path) as broker, connected(broker) as client:
            for _ in range(2):
                request = InitProducerIdRequest(None, 1000, -1, -1)
                answer = await client.call("InitProducerId", 4, request)
                assert answer.error_code == 0
                given.append(answer.producer_id)
            path = killed(path, f"copy-{number}")
    assert len(set(given)) == 6


async def test_a_seed_gives_no_id_twice(tmp_path: Path) -> None:
    """Ids of restored members and topics are not handed out again."""
    path, topic_ids, member_ids = tmp_path / "data", set(), set()
    for number in range(3):
        async with (
            Broker(NO_DELAY, data_dir=path, seed=1) as broker,
            connected(broker) as client,
        ):
            topic_ids.add(broker.cluster.create_topic(f"t{number}", 1).id)
            member_ids.add(await make_stable(client, f"g{number}"))
    assert len(topic_ids) == len(member_ids) == 3


def edit(saved: Path, old: str, new: str) -> None:
    """Changes the text of cluster.json, and removes its checksum."""
    text = saved.read_text()
    assert old in text
    content = text.replace(old, new).rpartition(',\n"crc"')[0]
    saved.write_text(content + "}")


async def test_changed_configuration_that_is_not_possible_is_one_line(
    tmp_path: Path,
) -> None:
    """An older or a newer version may have left it."""
    path = tmp_path / "data"
    async with broker_on(path):
        pass
    edit(path / "cluster.json", '"1": {}', '"1": {"message.max.bytes": "-5"}')
    for _ in range(2):
        with pytest.raises(DataDirError, match=r"message\.max\.bytes=-5"):
            await broker_on(path).start()


async def test_a_topic_with_impossible_configuration_is_named(tmp_path: Path) -> None:
    """Otherwise the user would have to search all topics for the value."""
    path = tmp_path / "data"
    async with broker_on(path) as broker:
        broker.cluster.create_topic("t", 1, overrides={"retention.ms": "5000"})
    edit(path / "cluster.json", '"5000"', '"soon"')
    with pytest.raises(DataDirError, match="topic t: must be a whole number"):
        await broker_on(path).start()


async def test_idempotence_survives(tmp_path: Path) -> None:
    """A batch that is sent again after a kill is recognised; a gap is an error."""
    path = tmp_path / "data"

    async def send(client: WireClient, sequence: int) -> tuple[int, int]:
        # Producers expire by the time of their records.
        records = build_batch(
            [Record(0, broker.cluster.now_ms(), None, b"x", ())],
            producer_id=7,
            producer_epoch=0,
            base_sequence=sequence,
        )
        answer = await client.call("Produce", 9, produce((0, records)))
        (row,) = answer.responses[0].partition_responses
        return row.error_code, row.base_offset

    async with broker_on(path) as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        assert await send(client, 0) == (0, 0)
        assert await send(client, 1) == (0, 1)
        found = killed(path)
    async with broker_on(found) as broker, connected(broker) as client:
        assert await send(client, 1) == (0, 1)
        assert await send(client, 0) == (0, 0)
        error = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (await send(client, 3))[0] == error
        assert await send(client, 2) == (0, 2)
        assert await values(client) == [b"x"] * 3


async def test_one_directory_has_one_broker(tmp_path: Path) -> None:
    """A second broker fails to start, and the first one continues."""
    async with broker_on(tmp_path / "data") as broker, connected(broker) as client:
        with pytest.raises(DataDirError, match="in use"):
            await broker_on(tmp_path / "data").start()
        broker.cluster.create_topic("t", 1)
        await client.call("Produce", 9, produce((0, batch(b"x"))))
        assert await values(client) == [b"x"]


async def test_a_broker_stops_once(tmp_path: Path) -> None:
    """A second stop does not touch the directory, which another broker may use."""
    path = tmp_path / "data"
    first = broker_on(path)
    await first.stop()
    await first.start()
    await first.stop()
    async with broker_on(path):
        await first.stop()
        # A kill now would not be a clean stop.
        assert not (path / ".kafka_cleanshutdown").exists()


async def test_a_stop_that_is_given_up_lets_the_directory_go(tmp_path: Path) -> None:
    """After a cancelled stop the next broker can be started."""
    path = tmp_path / "data"
    first = broker_on(path)
    await first.start()
    async with connected(first) as client:
        await make_stable(client)
        stop = asyncio.create_task(first.stop())
        await asyncio.sleep(0)
        stop.cancel()
        await asyncio.wait([stop])
        async with broker_on(path):
            pass


async def test_who_comes_first_is_told_all_there_is(tmp_path: Path) -> None:
    """No client connects before the groups and the ports of all nodes are known."""
    path = tmp_path / "data"
    async with broker_on(path, nodes=3) as broker:
        right = broker.coordinator_of("g")
        async with connected(broker, right) as client:
            await make_stable(client)
        port = broker.port
    again = Broker(NO_DELAY, port=port, nodes=3, data_dir=path)
    eager = asyncio.create_task(first_answer(port))
    try:
        await again.start()
    except OSError:
        # Another process has taken one of the three ports meanwhile.
        eager.cancel()
        return
    answer = await eager
    assert [node.port for node in answer.brokers] == [port, port + 1, port + 2]
    assert [topic.name for topic in answer.topics] == ["__consumer_offsets"]
    await again.stop()


async def first_answer(port: int) -> Any:
    """Metadata from the first broker that listens there."""
    while True:
        try:
            async with connected_to("127.0.0.1", port) as client:
                return await client.call("Metadata", 12, MetadataRequest(None))
        except ConnectionError:
            await asyncio.sleep(0)
