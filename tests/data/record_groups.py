"""Makes the groups of the fixture on a real Apache Kafka; see README.md beside it.

    python record_groups.py 127.0.0.1:9092 groups.json

Makes groups in several states, asks the broker about them, writes its answers,
prints ``ready``, and then keeps its members until a file ``stopped`` appears beside
the output: the broker is to be stopped in between, while its groups are Stable.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._group import MemberDescription
from confluent_kafka.cimpl import NewTopic

from kohort.protocol.generated_calls import skip_tags
from kohort.protocol.registry import BY_NAME

TOPICS = {"orders": 4, "payments": 2}
ORDERS, PAYMENTS = TOPICS
SIMPLE = "einfach-ü-\U0001f600"


class Raw:
    """One connection that sends what no client library would."""

    def __init__(self, host: str, port: int) -> None:
        self._at = host, port

    async def call(self, api_name: str, version: int, message: object) -> Any:
        """Sends a request on a connection of its own; gives the response."""
        api = BY_NAME[api_name]
        reader, writer = await asyncio.open_connection(*self._at)
        head = api.key.to_bytes(2, "big") + version.to_bytes(2, "big")
        head += (7).to_bytes(4, "big") + (3).to_bytes(2, "big") + b"raw"
        head += b"\0" if api.is_flexible(version) else b""
        frame = head + api.request(version).encode(message)
        writer.write(len(frame).to_bytes(4, "big") + frame)
        size = int.from_bytes(await reader.readexactly(4), "big")
        answer = await reader.readexactly(size)
        writer.close()
        start = 4
        if api.response_header_version(version):
            start = skip_tags(answer, start)
        return api.response(version).decode(answer, start, size)[0]


def make_topics(client: AdminClient) -> None:
    """Topics, each partition with a few records."""
    topics = [NewTopic(name, count, 1) for name, count in TOPICS.items()]
    for future in client.create_topics(topics).values():
        future.result()


def fill(servers: str) -> None:
    """A few records in each partition."""
    producer = ck.Producer({"bootstrap.servers": servers})
    for name, count in TOPICS.items():
        for n in range(count * 5):
            producer.produce(name, b"value", partition=n % count)
    producer.flush()


def consumer(servers: str, group: str, **config: object) -> ck.Consumer:
    """A consumer that commits when it is told to."""
    settings: dict[str, object] = {
        "bootstrap.servers": servers,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 45_000,
        "client.id": "fixture",
    }
    settings |= {name.replace("_", "."): value for name, value in config.items()}
    if settings.get("group.protocol") == "consumer":
        del settings["session.timeout.ms"]
    return ck.Consumer(settings)


def settle(*members: ck.Consumer, topics: list[str]) -> None:
    """Lets these consumers form one group in which everybody has partitions."""
    for member in members:
        member.subscribe(topics)
    while not all(member.assignment() for member in members):
        for member in members:
            member.poll(0.05)
    # The last rebalance is over when nothing changes any more.
    for _ in range(40):
        for member in members:
            member.poll(0.05)


def commit(member: ck.Consumer, *rows: tuple[str, int, int, str]) -> None:
    """Commits (topic, partition, offset, metadata)."""
    offsets = [ck.TopicPartition(t, p, o, metadata=m) for t, p, o, m in rows]
    for result in member.commit(offsets=offsets, asynchronous=False) or []:
        assert result.error is None, result


def transactions(servers: str) -> None:
    """Offsets that are committed in a transaction, and others that are not."""
    member = consumer(servers, "transactional")
    settle(member, topics=[PAYMENTS])
    producer = ck.Producer({"bootstrap.servers": servers, "transactional.id": "t"})
    producer.init_transactions()
    for offset, is_kept in ((3, True), (4, False)):
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [ck.TopicPartition(PAYMENTS, 1, offset)], member.consumer_group_metadata()
        )
        if is_kept:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    member.close()


async def connectors(raw: Raw) -> None:
    """A group that is of no consumers, with a member that stays."""
    join = BY_NAME["JoinGroup"].module
    sync = BY_NAME["SyncGroup"].module
    protocols = [join.JoinGroupRequestProtocol("sessioned", b"\1\2\xff")]
    request = ["workers", 300_000, 60_000, "", None, "connect", protocols]
    joined = await raw.call("JoinGroup", 5, join.JoinGroupRequest(*request))
    assert joined.error_code == 79, joined
    request[3] = joined.member_id
    joined = await raw.call("JoinGroup", 5, join.JoinGroupRequest(*request))
    assert joined.error_code == 0, joined
    member_id = joined.member_id
    mine = [sync.SyncGroupRequestAssignment(member_id, b"tasks \xf0")]
    synced = await raw.call(
        "SyncGroup",
        3,
        sync.SyncGroupRequest(
            "workers", joined.generation_id, member_id, None, None, None, mine
        ),
    )
    assert synced.error_code == 0, synced


async def odd_commits(raw: Raw) -> None:
    """Commits with a retention time, and offsets that are deleted again."""
    commits = BY_NAME["OffsetCommit"].module
    deletes = BY_NAME["OffsetDelete"].module

    async def store(version: int, group: str, retention_ms: int, note: str) -> None:
        rows = [
            commits.OffsetCommitRequestPartition(p, 10 + p, p, note) for p in range(3)
        ]
        topic = commits.OffsetCommitRequestTopic(ORDERS, bytes(16), rows)
        message = commits.OffsetCommitRequest(
            group, -1, "", None, retention_ms, [topic]
        )
        answer = await raw.call("OffsetCommit", version, message)
        codes = [row.error_code for t in answer.topics for row in t.partitions]
        assert codes == [0, 0, 0], answer

    await store(4, "retention", 3_600_000_000, "old client")
    await store(7, "some-deleted", -1, "")
    gone = deletes.OffsetDeleteRequestTopic(
        ORDERS, [deletes.OffsetDeleteRequestPartition(1)]
    )
    message = deletes.OffsetDeleteRequest("some-deleted", [gone])
    answer = await raw.call("OffsetDelete", 0, message)
    assert answer.topics[0].partitions[0].error_code == 0, answer


def described(client: AdminClient) -> dict[str, Any]:
    """What the broker says about all groups."""
    listed = client.list_consumer_groups().result()
    names = sorted(g.group_id for g in listed.valid)
    answers: dict[str, Any] = {}
    for name, future in client.describe_consumer_groups(names).items():
        found = future.result()
        request = [ck.ConsumerGroupTopicPartitions(name)]
        offsets = client.list_consumer_group_offsets(request)[name].result()
        answers[name] = {
            "type": found.type.name,
            "state": found.state.name,
            "assignor": found.partition_assignor,
            "members": sorted(map(member_facts, found.members), key=str),
            "offsets": sorted(
                [row.topic, row.partition, row.offset, row.leader_epoch, row.metadata]
                for row in offsets.topic_partitions
            ),
        }
    return answers


def member_facts(member: MemberDescription) -> dict[str, Any]:
    """One member, without what is only known while it is connected."""
    assigned = member.assignment.topic_partitions if member.assignment else []
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "assigned": sorted([row.topic, row.partition] for row in assigned),
    }


def main() -> None:
    """Makes the groups."""
    servers, output = sys.argv[1:]
    host, _, port = servers.rpartition(":")
    client = AdminClient({"bootstrap.servers": servers})
    make_topics(client)
    fill(servers)

    both = "range,roundrobin"
    stable = [
        consumer(
            servers,
            "two-protocols",
            client_id=f"consumer-{n}",
            partition_assignment_strategy=both,
        )
        for n in (1, 2)
    ]
    settle(*stable, topics=[ORDERS, PAYMENTS])
    commit(stable[0], (ORDERS, 0, 5, "first"), (ORDERS, 1, 4, ""))
    static = [
        consumer(servers, "static", group_instance_id=f"instance-{n}") for n in (1, 2)
    ]
    settle(*static, topics=[ORDERS])
    modern = consumer(servers, "kip-848", group_protocol="consumer")
    settle(modern, topics=[PAYMENTS])
    commit(modern, (PAYMENTS, 0, 2, "modern"))
    for name in ("left", "deleted"):
        member = consumer(servers, name)
        settle(member, topics=[ORDERS])
        commit(member, (ORDERS, 2, 3, ""), (ORDERS, 3, 1, "größe ✓ \U0001f600"))
        member.close()
    simple = consumer(servers, SIMPLE)
    commit(simple, (PAYMENTS, 0, 1, "Überträge"), (PAYMENTS, 1, 2**40, "x" * 200))
    transactions(servers)
    raw = Raw(host, int(port))
    asyncio.run(connectors(raw))
    asyncio.run(odd_commits(raw))
    for future in client.delete_consumer_groups(["deleted"]).values():
        future.result()

    answers = described(client)
    text = json.dumps(answers, indent=1, ensure_ascii=False, sort_keys=True)
    Path(output).write_text(text + "\n", encoding="utf-8")
    print("ready", flush=True)
    # Members must not leave before the broker has gone.
    waiting = True
    while waiting:
        for member in (*stable, *static, modern):
            member.poll(0.01)
        waiting = not (Path(output).parent / "stopped").exists()


if __name__ == "__main__":
    main()
