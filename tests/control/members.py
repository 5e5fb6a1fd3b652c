"""Members of a group that join, sync, fetch and commit when a scene says so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.wire import requests
from tests.wire.client import WireClient

from kohort.control.group import Group
from kohort.protocol.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.consumer import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Record, build_batch
from kohort.protocol.slotted import replace

AT_ONCE = {"group.initial.rebalance.delay.ms": 0}
TOPIC = "orders"


class Member:
    """A member of the group "g" that reads `TOPIC`.

    Attributes:
        id: its member id.
        generation: the generation that it joined last.
        others: the ids of all members, if it leads; for `sync`.
    """

    def __init__(self, client: WireClient, assignor: str = "range") -> None:
        self.client = client
        self._assignor = assignor
        self.id = ""
        self.generation = 0
        self.others: list[str] = []

    async def join(self, *owned: int) -> None:
        """JoinGroup, until its answer; `owned` partitions are for cooperative ones."""
        subscription = Subscription([TOPIC], None, [TopicPartitions(TOPIC, owned)])
        offers = [(self._assignor, encode(subscription, 1))]
        request = requests.join_group("g", self.id, protocols=offers)
        answer = await self.client.call("JoinGroup", 9, request)
        self.id = answer.member_id
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            await self.join(*owned)
            return
        assert answer.error_code == 0
        self.generation = answer.generation_id
        self.others = [each.member_id for each in answer.members]

    async def sync(self, *partitions: Sequence[int]) -> None:
        """SyncGroup; the leader has partitions for each member, in their order."""
        assignments = {
            member_id: encode(Assignment([TopicPartitions(TOPIC, [*some])]))
            for member_id, some in zip(self.others, partitions, strict=bool(partitions))
        }
        request = requests.sync_group(self.id, self.generation, "g", assignments)
        request = replace(request, protocol_name=self._assignor)
        answer = await self.client.call("SyncGroup", 5, request)
        assert answer.error_code == 0

    async def leave(self) -> None:
        """LeaveGroup."""
        await self.client.call("LeaveGroup", 4, requests.leave_group("g", self.id))

    async def commit(self, *offsets: tuple[int, int]) -> None:
        """OffsetCommit of (partition, offset)."""
        request = requests.commit_offsets(
            TOPIC,
            *offsets,
            group="g",
            generation=self.generation,
            member_id=self.id,
        )
        answer = await self.client.call("OffsetCommit", 8, request)
        assert not answer.topics[0].partitions[0].error_code


async def fetch(client: WireClient, partition: int, offset: int) -> int:
    """Fetches a partition from an offset on; returns the number of bytes."""
    row = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=2**20)
    request = FetchRequest(max_wait_ms=0, topics=[FetchTopic(TOPIC, partitions=[row])])
    answer = await client.call("Fetch", 11, request)
    (data,) = answer.responses[0].partitions
    assert not data.error_code
    return len(data.records or b"")


async def rebalanced(group: Group, first: Member, second: Member) -> None:
    """The first member has partition 0 from now on, and the second one partition 1."""
    joining = asyncio.create_task(second.join())
    await group.until(state="PreparingRebalance", members=2)
    await first.join()
    await joining
    await synced(first, second)


async def synced(first: Member, second: Member) -> None:
    """Both sync; each has one partition."""
    leader, follower = (first, second) if first.others else (second, first)
    shares = {first.id: [0], second.id: [1]}
    await leader.sync(*(shares[each] for each in leader.others))
    await follower.sync()


async def stable(client: WireClient) -> Member:
    """The only member of a Stable group, with both partitions."""
    member = Member(client)
    await member.join()
    await member.sync([0, 1])
    return member


async def produce(client: WireClient, partition: int, count: int) -> None:
    """Appends records to a partition."""
    batch = build_batch([Record(value=b"v")] * count)
    request = requests.produce((partition, batch), topic=TOPIC)
    answer = await client.call("Produce", 9, request)
    assert not answer.responses[0].partition_responses[0].error_code
