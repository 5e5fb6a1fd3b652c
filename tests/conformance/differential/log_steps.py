"""Makes random sequences of Produce, Fetch, and related requests."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.conformance.differential.sequence import Sequence, Step

ACTORS = ["P", "Q", "R"]
_WEIGHTS = {
    "produce": 40,
    "init": 5,
    "fetch": 20,
    "session": 14,
    "park": 4,
    "list_offsets": 10,
    "delete_records": 4,
    "epoch_end": 2,
    "restart": 1,
    "together": 4,
}
_TOGETHER = ["produce", "fetch", "list_offsets", "delete_records"]

CONFIGS = [
    {},
    {},
    {},
    {"cleanup.policy": "compact"},
    {"message.timestamp.type": "LogAppendTime"},
    {"max.message.bytes": "400"},
    {"compression.type": "gzip"},
    {"compression.type": "uncompressed"},
    {"message.timestamp.after.max.ms": "1000"},
    # Far from both "now", on a busy machine, and "old".
    {"message.timestamp.before.max.ms": "1000000"},
    {"min.insync.replicas": "2"},
]
# Null records are not included: Kafka never answers.
FAULTS = [
    "crc",
    "magic 0",
    "magic 1",
    "magic 3",
    "length -1",
    "length +1",
    "length 0",
    "count +1",
    "count -1",
    "count 0",
    "last delta +1",
    "last delta -1",
    "base offset 7",
    "control",
    "transactional",
    "append time",
    "codec 5",
    "codec lies",
    "trailing",
    "cut",
    "nothing",
    "no records",
    "two batches",
    "max timestamp",
    "first delta 1",
    "deltas down",
    "record length",
    "record attributes",
    "header key null",
    "varint long",
    "epoch 7",
]

_PARTITIONS = [[0], [0], [0], [0], [0, 1], [0, 1], [1, 0], [0, 9], [0, 0]]


def sequence(rng: random.Random) -> Sequence:
    """A sequence; its first step creates the topic."""
    steps: list[Step] = [{"do": "topic", "actor": "P", "config": rng.choice(CONFIGS)}]
    steps += [_step(rng) for _ in range(rng.randint(8, 30))]
    return Sequence(steps)


def _step(rng: random.Random, kinds: list[str] | None = None) -> Step:
    among = kinds or list(_WEIGHTS)
    (kind,) = rng.choices(among, [_WEIGHTS[each] for each in among])
    step: Step = {"do": kind, "actor": rng.choice(ACTORS)}
    return step | _FIELDS[kind](rng)


def _produce(rng: random.Random) -> Step:
    records = rng.choice([1, 1, 2, 3, 8])
    step: Step = {
        "version": rng.choice([3, 5, 7, 8, 9, 11, 12]),
        "acks": rng.choices([-1, 1, 0, 2], [8, 4, 2, 1])[0],
        "records": records,
        "bytes": rng.choice([1, 20, 200]),
        "keys": rng.random() < 0.7,
        "codec": rng.choices([0, 1, 2, 3, 4], [8, 2, 1, 1, 1])[0],
        "times": rng.choices(["now", "old", "later", "none"], [8, 1, 1, 1])[0],
        "where": rng.choices(["topic", "partition 9", "no topic"], [16, 1, 1])[0],
    }
    if rng.random() < 0.5:
        step["producer"] = {
            "epoch": rng.choices([0, -1, 1], [12, 1, 1])[0],
            "sequence": rng.choices(
                ["next", "same", "gap", "back", "zero", "none"], [10, 3, 2, 1, 1, 1]
            )[0],
            "id": rng.choices(["own", "unknown"], [12, 1])[0],
        }
    if rng.random() < 0.25:
        step["fault"] = rng.choice(FAULTS)
        if step["fault"] == "record length":
            # In a compressed batch Kafka does not detect it.
            step["codec"] = 0
    return step


def _offset(rng: random.Random) -> Step:
    """An offset, counted from the log's start or end."""
    return {
        "from": rng.choice(["start", "end"]),
        "plus": rng.choices([0, 1, 2, -1, -2, 100], [6, 2, 1, 3, 1, 1])[0],
    }


def _fetch(rng: random.Random) -> Step:
    return _offset(rng) | {
        "version": rng.choice([4, 5, 7, 9, 11, 12]),
        "most": rng.choice([0, 1, 150, 1 << 20]),
        "partition_most": rng.choice([0, 1, 150, 1 << 20]),
        "isolation": rng.choice([0, 0, 1]),
        "epoch": rng.choices([-1, 0, 5], [8, 2, 1])[0],
        "partitions": rng.choice(_PARTITIONS),
    }


def _session(rng: random.Random) -> Step:
    return _fetch(rng) | {
        "version": rng.choice([7, 9, 11, 12]),
        "how": rng.choices(
            ["new", "next", "nothing new", "wrong epoch", "unknown", "close", "forget"],
            [5, 6, 6, 1, 1, 1, 2],
        )[0],
    }


def _park(rng: random.Random) -> Step:
    return {"version": rng.choice([4, 11, 12]), "least": rng.choice([1, 100, 2000])}


def _list_offsets(rng: random.Random) -> Step:
    return {
        "version": rng.choice([1, 2, 4, 6, 7, 8, 9, 10]),
        "times": rng.sample([-1, -2, -3, -4, -5, -6, -7, 0, "now", "later"], 2),
        "partitions": rng.choices([[0], [0, 9], [0, 0], [1, 0]], [8, 1, 1, 1])[0],
        "isolation": rng.choice([0, 0, 1]),
        "epoch": rng.choices([-1, 0, 5], [8, 2, 1])[0],
    }


def _delete_records(rng: random.Random) -> Step:
    return _offset(rng) | {
        "version": rng.randint(0, 2),
        "to": rng.choices(["offset", -1, -2], [4, 2, 1])[0],
    }


def _epoch_end(rng: random.Random) -> Step:
    return {"version": rng.choice([2, 3, 4]), "epoch": rng.choice([-1, 0, 1, 5])}


def _init(rng: random.Random) -> Step:
    return {
        "version": rng.randint(0, 5),
        "bring": rng.choices(["none", "own", "unknown"], [4, 1, 1])[0],
    }


def _restart(_: random.Random) -> Step:
    return {"forgets": True}


def _together(rng: random.Random) -> Step:
    return {"steps": [_step(rng, _TOGETHER) for _ in range(2)]}


_FIELDS: dict[str, Callable[[random.Random], Step]] = {
    "produce": _produce,
    "init": _init,
    "fetch": _fetch,
    "session": _session,
    "park": _park,
    "list_offsets": _list_offsets,
    "delete_records": _delete_records,
    "epoch_end": _epoch_end,
    "restart": _restart,
    "together": _together,
}
