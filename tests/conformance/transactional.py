"""Producers with a transactional id, and what readers of their records see."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tests.conformance.connection import Outcome, ScenarioError
from tests.conformance.env import Env
from tests.conformance.peer import Peer
from tests.conformance.producing import fetch_fields, produce_fields, split

from kohort.protocol import records
from kohort.protocol.markers import read_marker
from kohort.protocol.records import Record

UNCOMMITTED, COMMITTED = 0, 1
"""Isolation levels."""
TRIES = 200


class Producer:
    """A producer on a separate connection.

    Args:
        env: of the scenario.
        peer: the connection.
        suffix: of the transactional id; producers with the same one fence each other.

    Attributes:
        id: the transactional id.
        producer_id, epoch: as the latest `init` or `end` has returned them.
        sequence: of the next record in partition 0; `produce` counts it.
    """

    def __init__(self, env: Env, peer: Peer, suffix: str = "") -> None:
        self._env = env
        self.peer = peer
        self.id = f"x-{env.run_id}-{suffix}" if suffix else f"x-{env.run_id}"
        env.symbols.name(self.id, f"<id:{suffix}>" if suffix else "<id>")
        self.producer_id = self.epoch = -1
        self.sequence = 0

    @classmethod
    async def ready(
        cls, env: Env, name: str, suffix: str = "", version: int = 5
    ) -> Producer:
        """A producer that has its first epoch, which is not recorded."""
        producer = cls(env, await env.peer(name), suffix)
        with env.transcript.muted():
            await producer.find()
            for _ in range(TRIES):
                if not int((await producer.init(version))["error_code"]):
                    return producer
                await asyncio.sleep(0.05)
        raise ScenarioError("no producer id")

    async def find(self) -> None:
        """Makes the broker create the topic of transactions."""
        for _ in range(TRIES):
            found = await self.peer.call("FindCoordinator", 1, key=self.id, key_type=1)
            if not int(found["error_code"]):
                return
            await asyncio.sleep(0.05)
        raise ScenarioError("no coordinator of transactions")

    @property
    def identity(self) -> dict[str, Any]:
        """The fields of a request that name the producer."""
        return {
            "transactional_id": self.id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    async def init(self, version: int = 5, **over: Any) -> Outcome:
        """InitProducerId, as a new process sends it."""
        fields: dict[str, Any] = {
            "transactional_id": self.id,
            "transaction_timeout_ms": 60_000,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        if version < 3:
            del fields["producer_id"], fields["producer_epoch"]
        return await self.peer.call(
            "InitProducerId", version, absorb=self._absorb, **(fields | over)
        )

    def _absorb(self, outcome: Outcome) -> None:
        if not outcome.ok or int(outcome["error_code"]):
            return
        if outcome.body and "producer_id" in outcome.body:
            self.producer_id = outcome["producer_id"]
            self.epoch = outcome["producer_epoch"]
            self.sequence = 0
            self._env.symbols.name_producer(self.producer_id)

    async def add(
        self, topic: str, *partitions: int, version: int = 3, **over: Any
    ) -> Outcome:
        """AddPartitionsToTxn, up to v3."""
        topics = [{"name": topic, "partitions": list(partitions or (0,))}]
        fields = self.identity | {"topics": topics} | over
        named = {f"v3_and_below_{name}": value for name, value in fields.items()}
        return await self.peer.call("AddPartitionsToTxn", version, **named)

    async def add_group(self, version: int = 4, **over: Any) -> Outcome:
        """AddOffsetsToTxn for the group without a suffix."""
        fields = self.identity | {"group_id": self._env.group()}
        return await self.peer.call("AddOffsetsToTxn", version, **(fields | over))

    async def produce(
        self,
        topic: str,
        count: int = 1,
        version: int = 11,
        *,
        partition: int = 0,
        transactional: bool = True,
        acks: int = -1,
        **over: Any,
    ) -> Outcome:
        """Produce, up to v12, in one batch of records; `over` changes its header."""
        header = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": self.sequence,
            "attributes": records.TRANSACTIONAL if transactional else 0,
        } | over
        now_ms = int(time.time() * 1000)
        some = [Record(0, now_ms, None, b"v") for _ in range(count)]
        batch = records.build_batch(some, **header)
        fields = produce_fields(topic, (partition, batch), acks=acks)
        fields["transactional_id"] = self.id
        answer = await self.peer.call("Produce", version, **fields)
        rows = answer["responses"][0]["partition_responses"]
        if not over and not partition and not int(rows[0]["error_code"]):
            self.sequence += count
        return answer

    async def commit_offset(
        self, topic: str, offset: int, version: int = 3, **over: Any
    ) -> Outcome:
        """TxnOffsetCommit of one partition, by default without a member."""
        rows = [{"partition_index": 0, "committed_offset": offset}]
        fields = self.identity | {
            "group_id": self._env.group(),
            "topics": [{"name": topic, "partitions": rows}],
        }
        if version >= 3:
            fields |= {"generation_id": -1, "member_id": "", "group_instance_id": None}
        return await self.peer.call("TxnOffsetCommit", version, **(fields | over))

    async def end(self, version: int = 4, *, commits: bool = True, **over: Any) -> None:
        """EndTxn; goes on when the markers are written."""
        fields = self.identity | {"committed": commits} | over
        await self.peer.call("EndTxn", version, absorb=self._absorb, **fields)
        await self.settle()

    async def settle(self) -> None:
        """Waits, unrecorded, while the id is in PrepareCommit or PrepareAbort."""
        with self._env.transcript.muted():
            for _ in range(TRIES):
                found = await self.describe()
                (state,) = found["transaction_states"]
                if not state["transaction_state"].startswith("Prepare"):
                    return
                await asyncio.sleep(0.02)
        raise ScenarioError("the markers are not written")

    async def describe(self) -> Outcome:
        """DescribeTransactions; the group's partition follows from its random name."""

        def edit(body: dict[str, Any]) -> None:
            for topic in body["transaction_states"][0]["topics"]:
                if topic["topic"] == "__consumer_offsets":
                    topic["partitions"] = ["<partition>"] * len(topic["partitions"])

        ids = [self.id]
        return await self.peer.call(
            "DescribeTransactions", 0, edit=edit, transactional_ids=ids
        )


async def fetch(
    env: Env,
    peer: Peer,
    topic: str,
    *partitions: int,
    isolation: int = COMMITTED,
    offset: int = 0,
    **over: Any,
) -> Outcome:
    """Fetch v11, whose records are recorded batch by batch."""

    def edit(body: dict[str, Any]) -> None:
        for row in body["responses"][0]["partitions"]:
            row["records"] = [
                _shown(env, batch) for batch in split(row["records"] or b"")
            ]

    fields = fetch_fields(topic, *(partitions or (0,)), offset=offset)
    fields |= {"isolation_level": isolation, "max_bytes": 1 << 20, "session_epoch": -1}
    for row in fields["topics"][0]["partitions"]:
        row |= {"current_leader_epoch": -1, "log_start_offset": -1}
        if "partition_max_bytes" in over:
            row["partition_max_bytes"] = over["partition_max_bytes"]
    return await peer.call("Fetch", 11, edit=edit, **fields)


def _shown(env: Env, batch: bytes) -> dict[str, Any]:
    if len(batch) < records.HEADER_SIZE:
        return {"kind": "cut off", "bytes": len(batch)}
    header = records.read_header(batch)
    shown: dict[str, Any] = {
        "offsets": [header.base_offset, header.last_offset],
        "producer": env.symbols.for_producer(header.producer_id),
        "epoch": header.producer_epoch,
    }
    if header.size > len(batch):
        return shown | {"kind": "cut off", "bytes": len(batch)}
    if not header.is_control:
        kind = "transactional" if header.is_transactional else "plain"
        return shown | {"kind": kind, "sequence": header.base_sequence}
    marker = read_marker(batch)
    assert marker is not None
    kind = "commit marker" if marker.is_commit else "abort marker"
    return shown | {"kind": kind, "coordinator_epoch": marker.coordinator_epoch}


async def describe_producers(peer: Peer, topic: str, *partitions: int) -> Outcome:
    """DescribeProducers, without times."""

    def edit(body: dict[str, Any]) -> None:
        for row in body["topics"][0]["partitions"]:
            for each in row["active_producers"]:
                del each["last_timestamp"]

    topics = [{"name": topic, "partition_indexes": list(partitions or (0,))}]
    return await peer.call("DescribeProducers", 0, edit=edit, topics=topics)


async def mark(
    producer: Producer,
    topic: str,
    *,
    version: int = 2,
    commits: bool = False,
    partitions: tuple[int, ...] = (0,),
    **over: Any,
) -> Outcome:
    """WriteTxnMarkers, by default an abort of transaction version 2."""
    marker = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "transaction_result": commits,
        "topics": [{"name": topic, "partition_indexes": list(partitions)}],
        "coordinator_epoch": 0,
    }
    if version >= 2:
        marker["transaction_version"] = 2
    return await producer.peer.call("WriteTxnMarkers", version, markers=[marker | over])
