"""A broker's partition, its producers and consumers, from the view of log steps."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.conformance.differential import batches
from tests.conformance.differential.log_steps import ACTORS
from tests.conformance.differential.request import Request
from tests.conformance.differential.sequence import Step
from tests.conformance.differential.side import TopicSide, following
from tests.conformance.env import Stage
from tests.conformance.producing import produce_fields

UNKNOWN_PRODUCER = 987_654_321
UNKNOWN_SESSION = 123_456_789
PARK_MS = 20_000

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
"""Time limit for a new topic to have a leader."""


@dataclass
class Actor:
    """One process's state, from a broker's responses."""

    name: str
    producer_id: int = -1
    epoch: int = -1
    sequence: int = 0
    """The sequence of the next record."""
    last: int = 0
    """The sequence of the first record of the last accepted batch."""
    session: int = 0
    session_epoch: int = 0


class LogSide(TopicSide):
    """See `Side`."""

    def __init__(self, target: Stage) -> None:
        super().__init__(target)
        self.actors = {name: Actor(name) for name in ACTORS}
        self._config: dict[str, str] = {}
        self._start = 0
        self._end = 0

    def requests(self, step: Step) -> list[Request]:
        """The request of a step."""
        actor = self.actors[step["actor"]]
        made: Request = getattr(self, f"_{step['do']}")(actor, step)
        return [made]

    def restart(self, step: Step) -> None:
        """A new process has no producer id and no session."""
        self.actors[step["actor"]] = Actor(step["actor"])

    def _topic(self, actor: Actor, step: Step) -> Request:
        self._config, self.is_made = step["config"], True
        configs = [{"name": n, "value": v} for n, v in self._config.items()]
        return Request(actor.name, "CreateTopics", 4, self.creation(configs=configs))

    # -- producing

    def _init(self, actor: Actor, step: Step) -> Request:
        brought = {
            "none": (-1, -1),
            "own": (actor.producer_id, actor.epoch),
            "unknown": (UNKNOWN_PRODUCER, 0),
        }[step["bring"]]
        fields = {
            "transactional_id": None,
            "transaction_timeout_ms": 1000,
            "producer_id": brought[0],
            "producer_epoch": brought[1],
        }
        told = {"brings": step["bring"]}
        return Request(actor.name, "InitProducerId", step["version"], fields, told)

    def _produce(self, actor: Actor, step: Step) -> Request:
        now_ms = int(time.time() * 1000)
        records = batches.batch(now_ms, step, self._producer(actor, step))
        partition = 9 if step["where"] == "partition 9" else 0
        topic = "no-such-topic" if step["where"] == "no topic" else self.topic
        fields = produce_fields(topic, (partition, records), acks=step["acks"])
        ignored = ("do", "actor", "version")
        told = {k: v for k, v in step.items() if k not in ignored}
        waits = step["acks"] == 0
        version = step["version"]
        return Request(actor.name, "Produce", version, fields, told, waits)

    def _producer(self, actor: Actor, step: Step) -> tuple[int, int, int]:
        wanted = step.get("producer")
        if wanted is None or actor.producer_id < 0:
            return -1, -1, -1
        sequence = following(wanted["sequence"], actor.sequence, actor.last)
        is_own = wanted["id"] == "own"
        producer_id = actor.producer_id if is_own else UNKNOWN_PRODUCER
        return producer_id, actor.epoch + wanted["epoch"], sequence

    # -- reading

    def _offset(self, step: Step) -> int:
        plus: int = step["plus"]
        return (self._start if step["from"] == "start" else self._end) + plus

    def _fetch(self, actor: Actor, step: Step) -> Request:
        partitions = [
            {
                "partition": p,
                "current_leader_epoch": step["epoch"],
                "fetch_offset": self._offset(step),
                "log_start_offset": -1,
                "partition_max_bytes": step["partition_most"],
            }
            for p in step["partitions"]
        ]
        fields = {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": step["most"],
            "isolation_level": step["isolation"],
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": self.topic, "partitions": partitions}],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        return Request(actor.name, "Fetch", step["version"], fields)

    def _session(self, actor: Actor, step: Step) -> Request:
        request = self._fetch(actor, step)
        fields = request.fields
        how = step["how"]
        fields["session_id"] = actor.session
        fields["session_epoch"] = actor.session_epoch
        if how == "new":
            fields["session_id"] = fields["session_epoch"] = 0
        elif how == "nothing new":
            fields["topics"] = []
        elif how == "wrong epoch":
            fields["session_epoch"] += 3
        elif how == "unknown":
            fields["session_id"], fields["session_epoch"] = UNKNOWN_SESSION, 1
        elif how == "close":
            fields["session_epoch"] = -1
        elif how == "forget":
            fields["topics"] = []
            fields["forgotten_topics_data"] = [
                {"topic": self.topic, "partitions": step["partitions"]}
            ]
        request.told = fields | {
            "session_id": {0: 0, UNKNOWN_SESSION: "unknown"}.get(
                fields["session_id"], "own"
            )
        }
        return request

    def _park(self, actor: Actor, step: Step) -> Request:
        """Sends a fetch at the end that waits for bytes."""
        whole = {"from": "end", "plus": 0, "most": 1 << 20, "partition_most": 1 << 20}
        rest = {"isolation": 0, "epoch": -1, "partitions": [0]}
        request = self._fetch(actor, step | whole | rest)
        request.fields |= {"max_wait_ms": PARK_MS, "min_bytes": step["least"]}
        request.waits = True
        return request

    def _list_offsets(self, actor: Actor, step: Step) -> Request:
        now_ms = int(time.time() * 1000)
        meant = {"now": now_ms - 60_000, "later": now_ms + 10**9}
        # Kafka finds a deleted record as well, until its segment is deleted.
        swapped = {MAX_TIMESTAMP: LATEST} if self._start else {}
        times = [swapped.get(at, at) for at in step["times"]]
        partitions = [
            {
                "partition_index": p,
                "current_leader_epoch": step["epoch"],
                "timestamp": meant.get(at, at),
            }
            for p, at in zip(step["partitions"], times, strict=False)
        ]
        fields = {
            "replica_id": -1,
            "isolation_level": step["isolation"],
            "topics": [{"name": self.topic, "partitions": partitions}],
            "timeout_ms": 1000,
        }
        told = {"times": times} | {k: step[k] for k in ("partitions", "epoch")}
        return Request(actor.name, "ListOffsets", step["version"], fields, told)

    def _delete_records(self, actor: Actor, step: Step) -> Request:
        offset = self._offset(step) if step["to"] == "offset" else step["to"]
        partitions = [{"partition_index": 0, "offset": offset}]
        fields = {
            "topics": [{"name": self.topic, "partitions": partitions}],
            "timeout_ms": 5000,
        }
        return Request(actor.name, "DeleteRecords", step["version"], fields)

    def _epoch_end(self, actor: Actor, step: Step) -> Request:
        partition = {
            "partition": 0,
            "current_leader_epoch": -1,
            "leader_epoch": step["epoch"],
        }
        fields = {
            "replica_id": -1,
            "topics": [{"topic": self.topic, "partitions": [partition]}],
        }
        return Request(actor.name, "OffsetForLeaderEpoch", step["version"], fields)

    # -- responses

    def answered(self, request: Request, body: dict[str, Any] | None) -> None:
        """Updates the process from a response."""
        if body is None:
            return
        actor = self.actors[request.who]
        if request.api == "InitProducerId" and not int(body["error_code"]):
            actor.producer_id, actor.epoch = body["producer_id"], body["producer_epoch"]
            actor.sequence = 0
        elif request.api == "Produce":
            self._produced(actor, request, body)
        elif request.api == "Fetch":
            self._fetched(actor, request, body)

    def _produced(self, actor: Actor, request: Request, body: dict[str, Any]) -> None:
        (answered,) = body["responses"][0]["partition_responses"]
        told = request.told or {}
        wanted = (told.get("producer") or {}).get("sequence")
        if int(answered["error_code"]) or wanted in (None, "same"):
            return
        actor.last = actor.sequence
        actor.sequence += told["records"]

    def _fetched(self, actor: Actor, request: Request, body: dict[str, Any]) -> None:
        if request.fields["session_epoch"] == -1:
            return
        if int(body.get("error_code") or 0):
            actor.session = actor.session_epoch = 0
        elif body.get("session_id"):
            actor.session = body["session_id"]
            actor.session_epoch = request.fields["session_epoch"] + 1

    def plain(self, value: Any, key: str = "") -> Any:
        """A message without the values that differ from run to run."""
        if isinstance(value, dict):
            return {k: self.plain(v, k) for k, v in value.items()}
        if key == "records":
            return {"batches": batches.shown(value, "compression.type" in self._config)}
        if isinstance(value, (list, tuple)):
            return [self.plain(each) for each in value]
        if isinstance(value, datetime):
            return batches.shown_time(int(value.timestamp() * 1000))
        if isinstance(value, uuid.UUID):
            return "<id>" if value.int else None
        if key == "batch_index_error_message":
            return value and "<text>"
        if key == "timestamp" and isinstance(value, int):
            return batches.shown_time(value)
        if key in ("producer_id", "session_id") and isinstance(value, int):
            return value > 0
        return value

    async def state(self) -> Any:
        """The start and the end of the partition, and the end of the other one."""
        looks = [_end_of(*each) for each in ((0, EARLIEST), (0, LATEST), (1, LATEST))]
        for look in looks:
            look.fields["topics"][0]["name"] = self.topic
        rows = [
            body["topics"][0]["partitions"][0]
            for body in await self.settled(*looks, codes=_codes)
        ]
        found = [(int(row["error_code"]), int(row["offset"])) for row in rows]
        if not any(code for code, _ in found):
            self._start, self._end = found[0][1], found[1][1]
        return found


def _end_of(partition: int, at: int) -> Request:
    """A look at one end of a partition."""
    topic = {"partitions": [{"partition_index": partition, "timestamp": at}]}
    fields = {"replica_id": -1, "isolation_level": 0, "topics": [topic]}
    return Request("watcher", "ListOffsets", 1, fields)


def _codes(bodies: list[Any]) -> list[int]:
    return [int(b["topics"][0]["partitions"][0]["error_code"]) for b in bodies]
