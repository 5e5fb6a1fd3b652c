"""A broker on what Apache Kafka 4.3 has written: its groups are served as it did."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.broker.test_records_over_the_wire import batch
from tests.broker.test_restart import broker_on, describe
from tests.wire.client import connected
from tests.wire.requests import fetch_offsets

from kohort.broker.config import Config
from kohort.broker.log.store import DataDirError
from kohort.broker.server import Broker
from kohort.control.data_dir.importing import Imported, import_kafka
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.apis.k16_list_groups import ListGroupsRequest
from kohort.protocol.consumer import decode_assignment

KAFKA = Path(__file__).parent.parent / "data" / "kafka-4.3"
ANSWERS: dict[str, Any] = json.loads((KAFKA / "groups.json").read_text())
NOW_MS = 1_795_250_200_000
"""Shortly after Kafka wrote it."""


def imported(source: Path, target: Path, *topics: str, **config: object) -> Any:
    """Imports with that configuration."""
    settings = Config({n.replace("_", "."): v for n, v in config.items()})
    return import_kafka(source, target, settings, topics=topics, now_ms=NOW_MS)


async def test_groups_of_kafka_are_served(tmp_path: Path) -> None:
    """States, members, assignments and offsets are as Kafka itself described them."""
    (result,) = imported(KAFKA, tmp_path / "data")
    assert result.topic == "__consumer_offsets"
    assert (result.partitions, result.found) == (50, 10)
    async with broker_on(tmp_path / "data") as broker, connected(broker) as client:
        listed = await client.call("ListGroups", 4, ListGroupsRequest())
        assert ANSWERS.keys() <= {group.group_id for group in listed.groups}
        for group_id, answer in ANSWERS.items():
            answered = await client.call("OffsetFetch", 9, fetch_offsets(group_id))
            fetched = answered.groups[0]
            offsets = {
                (topic.name, p.partition_index): p.committed_offset
                for topic in fetched.topics
                for p in topic.partitions
            }
            assert offsets == {(t, p): o for t, p, o, *_ in answer["offsets"]}
            if answer["type"] == "CLASSIC":
                group = await describe(client, group_id)
                assert group.group_state.upper() == answer["state"]
                assert len(group.members) == len(answer["members"])


async def test_members_go_on_where_they_left_kafka(tmp_path: Path) -> None:
    """A member's heartbeat in the generation that Kafka gave it is good."""
    imported(KAFKA, tmp_path / "data")
    async with broker_on(tmp_path / "data") as broker, connected(broker) as client:
        group = await describe(client, "two-protocols")
        assert group.group_state == "Stable"
        for member in group.members:
            assert decode_assignment(member.member_assignment).assigned_partitions
            request = HeartbeatRequest("two-protocols", 2, member.member_id)
            assert (await client.call("Heartbeat", 4, request)).error_code == 0


async def test_one_partition_is_enough(tmp_path: Path) -> None:
    """The folder of a partition is put where its number says."""
    source = KAFKA / "__consumer_offsets-20"
    (result,) = imported(source, tmp_path / "data")
    assert (result.partitions, result.found) == (50, 1)
    async with broker_on(tmp_path / "data") as broker, connected(broker) as client:
        listed = await client.call("ListGroups", 4, ListGroupsRequest())
        assert [group.group_id for group in listed.groups] == ["two-protocols"]


def test_topics_can_be_chosen(tmp_path: Path) -> None:
    """Other topics are left out; Kafka's own logs are no topics."""
    source = tmp_path / "kafka"
    for name in ("t-0", "t-2", "u-0", "__cluster_metadata-0"):
        folder = source / name
        shutil.copytree(KAFKA / "__consumer_offsets-20", folder)
    (source / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=7\n")
    result = imported(source, tmp_path / "data", "t")
    assert result == [Imported("t", 3, 2, result[0].records, [])]
    assert result[0].records > 0
    assert {path.name for path in (tmp_path / "data").glob("*-?")} == {
        "t-0",
        "t-1",
        "t-2",
    }
    assert "cluster.id=abc" in (tmp_path / "data" / "meta.properties").read_text()
    names = {each.topic for each in imported(source, tmp_path / "all")}
    assert names == {"t", "u"}


async def test_segments_that_kafka_compacted(tmp_path: Path) -> None:
    """A gap between two segments is none of damage, at the import and afterwards."""
    folder = tmp_path / "kafka" / "t-0"
    folder.mkdir(parents=True)
    values = [b"first", b"gone", b"last"]
    batches = [batch(value) for value in values]
    for offset in (0, 2):
        data = offset.to_bytes(8, "big") + batches[offset][8:]
        (folder / f"{offset:020d}.log").write_bytes(data)
    (result,) = imported(tmp_path / "kafka", tmp_path / "data")
    assert result.records == 3
    for _ in range(2):
        async with broker_on(tmp_path / "data") as broker:
            assert broker.cluster.topics.by_name["t"].partitions[0].log_end_offset == 3


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda source, _: source.mkdir(), "has no partitions of Apache Kafka"),
        (lambda _, __: None, "has no partitions of Apache Kafka"),
        (
            lambda source, target: (
                shutil.copytree(KAFKA, source),
                target.mkdir(),
                (target / "precious.txt").write_text("mine"),
            ),
            "not empty: precious.txt is in it",
        ),
    ],
)
def test_what_cannot_be_imported(tmp_path: Path, make: Any, why: str) -> None:
    """One line says why; nothing is touched."""
    source, target = tmp_path / "kafka", tmp_path / "data"
    make(source, target)
    with pytest.raises(DataDirError, match=why):
        imported(source, target)
    assert not list(target.glob("*-*"))


async def test_topics_that_are_there_stay(tmp_path: Path) -> None:
    """The directory of a broker is nothing to import into; it is as it was."""
    target = tmp_path / "data"
    async with Broker(data_dir=target) as broker:
        broker.cluster.create_topic("t", 1)
    with pytest.raises(DataDirError, match="belongs to a broker and already"):
        imported(KAFKA, target)
    async with Broker(data_dir=target) as broker:
        assert list(broker.cluster.topics.by_name) == ["t"]


def test_the_source_is_not_changed(tmp_path: Path) -> None:
    """Files are copied, and Kafka can go on with its own."""
    source = shutil.copytree(KAFKA, tmp_path / "kafka")
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    imported(source, tmp_path / "data")
    after = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    assert before == after


def test_damage_is_found(tmp_path: Path) -> None:
    """From a batch on that does not match its checksum a log is left out, and told."""
    source = shutil.copytree(KAFKA, tmp_path / "kafka")
    log = source / "__consumer_offsets-20" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[100] ^= 0xFF
    log.write_bytes(data)
    result = imported(source, tmp_path / "data")
    whole = imported(KAFKA, tmp_path / "whole")
    assert result[0].records < whole[0].records
    assert whole[0].damaged == []
    ((partition, lost),) = result[0].damaged
    assert partition == "__consumer_offsets-20"
    assert 0 < lost <= len(data)


def test_an_import_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    """Half of a directory is not to be taken for all of it, and can be tried again."""

    def stop(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_kafka(KAFKA, tmp_path / "data", Config(), now_ms=NOW_MS, progress=stop)
    assert not (tmp_path / "data").exists()
    assert imported(KAFKA, tmp_path / "data")
