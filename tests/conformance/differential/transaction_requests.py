"""The requests of transactional producers, from steps and from their processes."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.differential import batches
from tests.conformance.differential.request import Request
from tests.conformance.differential.sequence import Step
from tests.conformance.differential.side import following
from tests.conformance.differential.transaction_steps import ACTORS
from tests.conformance.env import Env

UNKNOWN_PRODUCERS = range(10**9, 10**15)
"""Each run uses another one: all runs share the log of offsets, which remembers it."""
UNKNOWN_TOPIC = "no-such-topic"
OFFSETS_TOPIC = "__consumer_offsets"
UNKNOWN_TOPIC_ID = uuid.UUID(int=7)
INSTANCE = "i"
"""The group.instance.id of all actors: each join replaces the member before."""

_SAME_IN_ALL = {"timeout_ms": 5000, "replica_id": -1}


@dataclass
class Process:
    """A producer's process, and the group member beside it, from responses.

    Attributes:
        sequences: of the next record, by partition.
        last: sequence and size of the last accepted batch, by partition.
    """

    name: str
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[int, int] = field(default_factory=dict)
    last: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    member_id: str = ""
    generation: int = -1


class Requests:
    """Makes the request of each kind of step.

    Args:
        env: names the run.
        topic: has two partitions.

    Attributes:
        topic_id: its id; None until it is created.
        processes: by actor.
        unknown_producer: a producer id that the broker has not given out.
    """

    def __init__(self, env: Env, topic: str) -> None:
        self.topic = topic
        self.topic_id: uuid.UUID | None = None
        self.group = env.group()
        self.ids = {name: f"{name}-{env.run_id}" for name in ("x", "y")}
        self.ids |= {"unknown": f"z-{env.run_id}", "": ""}
        for name, raw in self.ids.items():
            if raw:
                env.symbols.name(raw, f"<{name}>")
        env.symbols.name_uuid(UNKNOWN_TOPIC_ID, "<unknown topic id>")
        self.unknown_producer = random.choice(UNKNOWN_PRODUCERS)
        self.processes = {name: Process(name) for name in ACTORS}
        self._run_id = env.run_id

    def of(self, step: Step) -> Request:
        """The request of a step."""
        process = self.processes[step["actor"]]
        fields: dict[str, Any]
        api, fields = getattr(self, f"_{step['do']}")(process, step)
        ignored = ("do", "actor", "version")
        told = {k: v for k, v in step.items() if k not in ignored}
        version = step.get("version", 7)
        return Request(process.name, api, version, _SAME_IN_ALL | fields, told)

    def _delete_topic(self, _: Process, __: Step) -> tuple[str, dict[str, Any]]:
        return "DeleteTopics", {"topic_names": [self.topic]}

    # -- the producer

    def _identity(self, process: Process, step: Step) -> dict[str, Any]:
        """Transactional id, producer id and epoch."""
        other = self._other(process)
        named = {
            "own": self.ids[ACTORS[process.name]],
            "other": self.ids[ACTORS[other.name]],
            "unknown": self.ids["unknown"],
            "empty": "",
        }
        producers = {
            "own": process.producer_id,
            "other": other.producer_id,
            "unknown": self.unknown_producer,
            "none": -1,
        }
        epoch = step.get("epoch", 0)
        return {
            "transactional_id": named[step.get("id", "own")],
            "producer_id": producers[step.get("producer", "own")],
            "producer_epoch": -1 if epoch == "none" else process.epoch + epoch,
        }

    def _other(self, process: Process) -> Process:
        """A process with the other transactional id."""
        return self.processes["P" if process.name == "R" else "R"]

    def _init(self, process: Process, step: Step) -> tuple[str, dict[str, Any]]:
        own, epoch = process.producer_id, process.epoch
        other = self._other(process)
        brought = {
            "none": (-1, -1),
            "own": (own, epoch),
            "before": (own, epoch - 1),
            "after": (own, epoch + 1),
            "other": (other.producer_id, other.epoch),
            "unknown": (self.unknown_producer, 0),
            "no id": (-1, epoch),
            "no epoch": (own, -1),
        }[step["bring"]]
        own_id = self.ids[ACTORS[process.name]]
        return "InitProducerId", {
            "transactional_id": {"own": own_id, "null": None, "empty": ""}[step["id"]],
            "transaction_timeout_ms": step["timeout"],
            "producer_id": brought[0],
            "producer_epoch": brought[1],
            "enable2_pc": step.get("two_phase", False),
            "keep_prepared_txn": step.get("two_phase", False),
        }

    # -- the transaction

    def _add_partitions(
        self, process: Process, step: Step
    ) -> tuple[str, dict[str, Any]]:
        names = _names(step, self.topic)
        topics = [{"name": n, "partitions": step["partitions"]} for n in names]
        first = self._identity(process, step) | {"topics": topics}
        together = [first | {"verify_only": step["verifies"]}]
        if step["batched"] and step.get("id") != "other":
            second = self._identity(self._other(process), {})
            together.append(second | {"topics": topics, "verify_only": False})
        # Before v4 one transaction is in the request itself, under longer names.
        alone = {f"v3_and_below_{name}": value for name, value in first.items()}
        return "AddPartitionsToTxn", {"transactions": together} | alone | first

    def _add_offsets(self, process: Process, step: Step) -> tuple[str, dict[str, Any]]:
        group = self.group if step["group"] == "group" else ""
        return "AddOffsetsToTxn", self._identity(process, step) | {"group_id": group}

    def _commit_in_transaction(
        self, process: Process, step: Step
    ) -> tuple[str, dict[str, Any]]:
        group = self.group if step["group"] == "group" else ""
        fields = self._identity(process, step) | self._offsets(process, step)
        return "TxnOffsetCommit", fields | {"group_id": group}

    def _offsets(self, process: Process, step: Step) -> dict[str, Any]:
        """A group, one of its members, and offsets; for both kinds of commits."""
        is_member = step["member"] == "own"
        generation = process.generation if is_member else -1
        wanted = step["generation"]
        generation = -1 if wanted == "none" else generation + wanted
        rows = [
            {
                "partition_index": p,
                "committed_offset": step["offset"],
                "committed_leader_epoch": -1,
                "committed_metadata": step["metadata"] if p < 1 else "",
            }
            for p in step["partitions"]
        ]
        return {
            "group_id": self.group,
            "generation_id": generation,
            "generation_id_or_member_epoch": generation,
            "member_id": {
                "own": process.member_id,
                "unknown": "made-up",
            }.get(step["member"], ""),
            "group_instance_id": step["instance"],
            "retention_time_ms": -1,
            "topics": [named | {"partitions": rows} for named in self._by_both(step)],
        }

    def _by_both(self, step: Step) -> Iterable[dict[str, Any]]:
        """Topics with name and id, of which each version has one."""
        ids = {self.topic: self.topic_id or UNKNOWN_TOPIC_ID}
        for name in _names(step, self.topic):
            yield {"name": name, "topic_id": ids.get(name, UNKNOWN_TOPIC_ID)}

    def _end(self, process: Process, step: Step) -> tuple[str, dict[str, Any]]:
        fields = self._identity(process, step)
        return "EndTxn", fields | {"committed": step["commits"]}

    def _markers(self, process: Process, step: Step) -> tuple[str, dict[str, Any]]:
        identity = self._identity(process, step)
        topics = [
            {"name": name, "partition_indexes": step["partitions"]}
            for name in _names(step, self.topic)
        ]
        marker = {
            "producer_id": identity["producer_id"],
            "producer_epoch": identity["producer_epoch"],
            "transaction_result": step["commits"],
            "topics": topics,
            "coordinator_epoch": step["coordinator"],
            "transaction_version": step["transaction_version"],
        }
        return "WriteTxnMarkers", {"markers": [marker]}

    # -- records

    def _produce(self, process: Process, step: Step) -> tuple[str, dict[str, Any]]:
        identity = self._identity(process, step)
        if step["named"] == "null":
            identity["transactional_id"] = None
        data = [
            {"index": p, "records": self._batch(process, step, identity, p)}
            for p in step["partitions"]
        ]
        (named,) = self._by_both(step)
        topic = named | {"partition_data": data}
        fields = {"acks": step["acks"], "topic_data": [topic]}
        return "Produce", identity | fields

    def _batch(
        self, process: Process, step: Step, identity: dict[str, Any], partition: int
    ) -> bytes:
        at = process.sequences.get(partition, 0)
        last, records, size = process.last.get(partition, (0, 1, 1))
        sequence = following(step["sequence"], at, last)
        plain = {"codec": 0, "times": "now", "keys": False}
        own = {"records": step["records"], "bytes": step["bytes"]}
        if step["sequence"] == "same":
            own = {"records": records, "bytes": size}
        fault = {"fault": "transactional"} if step["transactional"] else {}
        producer = identity["producer_id"], identity["producer_epoch"], sequence
        return batches.batch(int(time.time() * 1000), plain | own | fault, producer)

    def _fetch(self, _: Process, step: Step) -> tuple[str, dict[str, Any]]:
        partitions = [
            {
                "partition": p,
                "current_leader_epoch": -1,
                "fetch_offset": step["offset"],
                "last_fetched_epoch": -1,
                "log_start_offset": -1,
                "partition_max_bytes": step["most"],
            }
            for p in step["partitions"]
        ]
        topic_id = self.topic_id or UNKNOWN_TOPIC_ID
        topic = {"topic": self.topic, "topic_id": topic_id, "partitions": partitions}
        return "Fetch", {
            "max_bytes": 1 << 20,
            "isolation_level": step["isolation"],
            "session_epoch": -1,
            "topics": [topic],
        }

    def _list_offsets(self, _: Process, step: Step) -> tuple[str, dict[str, Any]]:
        partitions = [
            {
                "partition_index": p,
                "current_leader_epoch": -1,
                "timestamp": step["time"],
            }
            for p in step["partitions"]
        ]
        topics = [{"name": self.topic, "partitions": partitions}]
        isolation = {"isolation_level": step["isolation"]}
        return "ListOffsets", isolation | {"topics": topics}

    def _delete_records(self, _: Process, step: Step) -> tuple[str, dict[str, Any]]:
        partitions = [{"partition_index": 0, "offset": step["offset"]}]
        topics = [{"name": self.topic, "partitions": partitions}]
        return "DeleteRecords", {"topics": topics}

    # -- the group

    def _commit(self, process: Process, step: Step) -> tuple[str, dict[str, Any]]:
        return "OffsetCommit", self._offsets(process, step)

    def _fetch_offsets(self, _: Process, step: Step) -> tuple[str, dict[str, Any]]:
        topics = None
        if step["partitions"] is not None:
            partitions = {"partition_indexes": step["partitions"]}
            topics = [named | partitions for named in self._by_both(step)]
        elif step["version"] == 1:
            topics = []
        group = {"group_id": self.group, "topics": topics, "member_epoch": -1}
        return "OffsetFetch", group | {
            "groups": [group],
            "require_stable": step["stable"],
        }

    def _delete_offsets(self, _: Process, step: Step) -> tuple[str, dict[str, Any]]:
        partitions = [{"partition_index": p} for p in step["partitions"]]
        topics = [{"name": self.topic, "partitions": partitions}]
        return "OffsetDelete", {"group_id": self.group, "topics": topics}

    def _delete_group(self, _: Process, __: Step) -> tuple[str, dict[str, Any]]:
        return "DeleteGroups", {"groups_names": [self.group]}

    def _join(self, _: Process, __: Step) -> tuple[str, dict[str, Any]]:
        return "JoinGroup", self._member("") | {
            "session_timeout_ms": 600_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0\0\0\0\0"}],
        }

    def _sync(self, process: Process, _: Step) -> tuple[str, dict[str, Any]]:
        given = {"member_id": process.member_id, "assignment": b"all"}
        return "SyncGroup", self._member(process.member_id) | {
            "generation_id": process.generation,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [given],
        }

    def _leave(self, _: Process, __: Step) -> tuple[str, dict[str, Any]]:
        return "LeaveGroup", {
            "group_id": self.group,
            "members": [{"member_id": "", "group_instance_id": INSTANCE}],
        }

    def _member(self, member_id: str) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "member_id": member_id,
            "group_instance_id": INSTANCE,
        }

    # -- looking

    def _describe(self, _: Process, step: Step) -> tuple[str, dict[str, Any]]:
        return "DescribeTransactions", {
            "transactional_ids": [self.ids[name] for name in step["ids"]]
        }

    def _list(self, process: Process, step: Step) -> tuple[str, dict[str, Any]]:
        return "ListTransactions", {
            "state_filters": step["states"],
            "producer_id_filters": [process.producer_id] if step["producers"] else [],
            "duration_filter": step["duration"],
            "transactional_id_pattern": step["pattern"],
        }

    def _describe_producers(self, _: Process, step: Step) -> tuple[str, dict[str, Any]]:
        topics = [{"name": self.topic, "partition_indexes": step["partitions"]}]
        return "DescribeProducers", {"topics": topics}

    def _find(self, _: Process, step: Step) -> tuple[str, dict[str, Any]]:
        keys = [self.ids[name] for name in step["ids"]]
        return "FindCoordinator", {
            "key": keys[0],
            "key_type": 1,
            "coordinator_keys": keys,
        }


def _names(step: Step, topic: str) -> list[str]:
    """The topics of a step."""
    return {
        "topic": [topic],
        "both": [topic, UNKNOWN_TOPIC],
        "offsets": [OFFSETS_TOPIC],
    }.get(step["topic"], [UNKNOWN_TOPIC])
