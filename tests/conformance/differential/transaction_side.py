"""A broker's transactions, from the view of transaction steps."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import Any

from kio.schema.errors import ErrorCode
from tests.conformance.connection import Connection, ScenarioError
from tests.conformance.differential import batches
from tests.conformance.differential.request import Request
from tests.conformance.differential.sequence import Step
from tests.conformance.differential.side import PARTITIONS, TopicSide
from tests.conformance.differential.transaction_requests import (
    Process,
    Requests,
)
from tests.conformance.env import Env, Stage
from tests.patience import PATIENCE_S

LATEST = -1
_LOOKS = ("ids", "ends", "stable ends", "offsets", "stable offsets", "group")
_NOT_VERIFIED = {ErrorCode.transaction_abortable, ErrorCode.invalid_txn_state}
"""Time limit for a new topic to have leaders, and for the first producer id."""


class TransactionSide(TopicSide):
    """See `Side`.

    Kafka answers EndTxn before the markers are written. Until then the transactional
    id, which is in `state`, is in PrepareCommit or PrepareAbort; kohort is never seen
    there. So a step is over when both brokers have written their markers, and no
    request meets CONCURRENT_TRANSACTIONS by chance.

    Batches of partitions that the transaction lacks are refused with
    TRANSACTION_ABORTABLE, or INVALID_TXN_STATE in old versions. Kafka verifies the
    batches of several requests at once, and takes the version of the first request. So
    both errors are shown as one.
    """

    def __init__(self, target: Stage) -> None:
        super().__init__(target)
        self._made = Requests(self.env, self.topic)
        self._pids = {-1: "none", self._made.unknown_producer: "unknown"}

    def requests(self, step: Step) -> list[Request]:
        """The request of a step."""
        if step["do"] in ("topic", "delete_topic"):
            self.is_made = step["do"] == "topic"
        if step["do"] == "topic":
            return [Request(step["actor"], "CreateTopics", 7, self.creation(), {})]
        return [self._made.of(step)]

    def restart(self, step: Step) -> None:
        """A new process knows nothing of the one before."""
        self._made.processes[step["actor"]] = Process(step["actor"])

    # -- responses

    def answered(self, request: Request, body: dict[str, Any] | None) -> None:
        """Updates the process from a response."""
        if body is None:
            return
        process = self._made.processes[request.who]
        code = int(body.get("error_code") or 0)
        if request.api == "CreateTopics":
            self._created(body["topics"][0])
        elif request.api in ("InitProducerId", "EndTxn"):
            if not code and "producer_id" in body:
                self._has_epoch(process, body)
        elif request.api == "Produce":
            self._produced(process, request, body)
        elif request.api == "JoinGroup":
            self.env.symbols.name_member(body["member_id"] or "", request.who)
            if not code:
                process.member_id = body["member_id"]
                process.generation = body["generation_id"]

    def _created(self, topic: dict[str, Any]) -> None:
        if not int(topic["error_code"]):
            self._made.topic_id = topic["topic_id"]
            self.env.symbols.name_uuid(topic["topic_id"], "<topic-id>")

    def _has_epoch(self, process: Process, body: dict[str, Any]) -> None:
        producer_id = body["producer_id"]
        self._pids.setdefault(producer_id, f"producer {len(self._pids) - 1}")
        process.producer_id, process.epoch = producer_id, body["producer_epoch"]
        process.sequences, process.last = {}, {}

    def _produced(
        self, process: Process, request: Request, body: dict[str, Any]
    ) -> None:
        told = request.told or {}
        is_own = "producer" not in told and "epoch" not in told
        if not is_own or told["sequence"] in ("same", "none"):
            return
        for row in body["responses"][0]["partition_responses"]:
            if not int(row["error_code"]):
                records, size = told["records"], told["bytes"]
                at = process.sequences.get(row["index"], 0)
                if told["sequence"] == "zero":
                    at = 0
                process.last[row["index"]] = at, records, size
                process.sequences[row["index"]] = at + records

    def told(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        """The response without other runs' ids, and the topic's configuration."""
        if request.api == "CreateTopics":
            body["topics"] = [t | {"configs": "any"} for t in body["topics"]]
        elif request.api == "ListTransactions":
            own = self._made.ids.values()
            body["transaction_states"] = [
                each
                for each in body["transaction_states"]
                if each["transactional_id"] in own
            ]
        return body

    def plain(self, value: Any, key: str = "") -> Any:
        """A message without the values that differ from run to run."""
        if isinstance(value, dict):
            if value.get("error_code") in _NOT_VERIFIED:
                one = {"error_code": "not verified", "error_message": None}
                value = {k: one.get(k, v) for k, v in value.items()}
            return {k: self.plain(v, k) for k, v in value.items()}
        if key == "records":
            shown = batches.shown(value, masks_size=False, producer=self._producer)
            return {"batches": shown}
        if isinstance(value, (list, tuple)):
            return [self.plain(each) for each in value]
        if isinstance(value, datetime):
            return batches.shown_time(int(value.timestamp() * 1000))
        if key in ("timestamp", "last_timestamp"):
            return batches.shown_time(value)
        if key == "producer_id":
            return self._producer(value)
        return value

    def _producer(self, producer_id: int) -> str:
        return self._pids.get(producer_id, "another")

    # -- the state

    async def state(self) -> Any:
        """Transactional ids, the ends of the partitions, and the group's offsets."""
        bodies = await self.settled(*self._looks(), codes=_codes)
        return dict(zip(_LOOKS, map(self.rendered, bodies), strict=True))

    def _looks(self) -> list[Request]:
        made = self._made
        wanted = [
            {"partition_index": p, "current_leader_epoch": -1, "timestamp": LATEST}
            for p in range(PARTITIONS)
        ]
        ends = {
            "replica_id": -1,
            "topics": [{"name": made.topic, "partitions": wanted}],
        }
        group = {"group_id": made.group, "topics": None}
        ids = [made.ids["x"], made.ids["y"]]
        asked: list[tuple[str, int, dict[str, Any]]] = [
            ("DescribeTransactions", 0, {"transactional_ids": ids}),
            ("ListOffsets", 6, ends | {"isolation_level": 0}),
            ("ListOffsets", 6, ends | {"isolation_level": 1}),
            ("OffsetFetch", 8, {"groups": [group], "require_stable": False}),
            ("OffsetFetch", 8, {"groups": [group], "require_stable": True}),
            ("DescribeGroups", 6, {"groups": [made.group]}),
        ]
        return [Request("watcher", *each) for each in asked]


def _codes(bodies: list[Any]) -> list[int]:
    return [int(row["error_code"]) for row in bodies[1]["topics"][0]["partitions"]]


async def prepare(target: Stage, names: int) -> None:
    """Waits until a broker has transaction coordinators, and producer ids.

    Raises:
        ScenarioError: it does not become available.
    """
    env = Env(target)
    try:
        connection = await env.open("prepare")
        # A real broker creates and loads each partition of the topic on first use.
        for number in range(names):
            await _until_served(connection, f"prepare-{env.run_id}-{number}")
    finally:
        await env.close()


async def _until_served(connection: Connection, transactional_id: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        wanted = {"key": transactional_id, "key_type": 1}
        await (await connection.send("FindCoordinator", 1, wanted)).wait()
        fields = {"transactional_id": transactional_id, "transaction_timeout_ms": 1000}
        answer = await (await connection.send("InitProducerId", 2, fields)).wait()
        if not int(answer["error_code"]):
            return
        await asyncio.sleep(0.05)
    raise ScenarioError(f"no transaction coordinator for {transactional_id}")
