"""Random sequences of Produce, Fetch, and related requests."""

from __future__ import annotations

import random

from tests.conformance.differential.draw import (
    Kinds,
    drawn,
    kind,
    maybe,
    number,
    often,
    one,
    row,
)
from tests.conformance.differential.sequence import Sequence, Step

ACTORS = ["P", "Q", "R"]
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


_OFFSET = {
    "from": one("start", "end"),
    "plus": often({0: 6, 1: 2, 2: 1, -1: 3, -2: 1, 100: 1}),
}
"""An offset, counted from the log's start or end."""
_EPOCH = often({-1: 8, 0: 2, 5: 1})
_FETCH = _OFFSET | {
    "version": one(4, 5, 7, 9, 11, 12),
    "most": one(0, 1, 150, 1 << 20),
    "partition_most": one(0, 1, 150, 1 << 20),
    "isolation": one(0, 0, 1),
    "epoch": _EPOCH,
    "partitions": often({(0,): 4, (0, 1): 2, (1, 0): 1, (0, 9): 1, (0, 0): 1}),
}
_PRODUCER = row(
    epoch=often({0: 12, -1: 1, 1: 1}),
    sequence=often({"next": 10, "same": 3, "gap": 2, "back": 1, "zero": 1, "none": 1}),
    id=often({"own": 12, "unknown": 1}),
)

_KINDS = Kinds(
    produce=kind(
        40,
        version=one(3, 5, 7, 8, 9, 11, 12),
        acks=often({-1: 8, 1: 4, 0: 2, 2: 1}),
        records=one(1, 1, 2, 3, 8),
        bytes=one(1, 20, 200),
        keys=often({True: 7, False: 3}),
        codec=often({0: 8, 1: 2, 2: 1, 3: 1, 4: 1}),
        times=often({"now": 8, "old": 1, "later": 1, "none": 1}),
        where=often({"topic": 16, "partition 9": 1, "no topic": 1}),
        producer=maybe(0.5, _PRODUCER),
        fault=maybe(0.25, one(*FAULTS), ""),
    ),
    init=kind(
        5, version=number(0, 5), bring=often({"none": 4, "own": 1, "unknown": 1})
    ),
    fetch=kind(20, _FETCH),
    session=kind(
        14,
        _FETCH,
        version=one(7, 9, 11, 12),
        how=often(
            {
                "new": 5,
                "next": 6,
                "nothing new": 6,
                "wrong epoch": 1,
                "unknown": 1,
                "close": 1,
                "forget": 2,
            }
        ),
    ),
    park=kind(4, version=one(4, 11, 12), least=one(1, 100, 2000)),
    list_offsets=kind(
        10,
        version=one(1, 2, 4, 6, 7, 8, 9, 10),
        times=lambda rng: rng.sample(
            [-1, -2, -3, -4, -5, -6, -7, 0, "now", "later"], 2
        ),
        partitions=often({(0,): 8, (0, 9): 1, (0, 0): 1, (1, 0): 1}),
        isolation=one(0, 0, 1),
        epoch=_EPOCH,
    ),
    delete_records=kind(
        4, _OFFSET, version=number(0, 2), to=often({"offset": 4, -1: 2, -2: 1})
    ),
    epoch_end=kind(2, version=one(2, 3, 4), epoch=one(-1, 0, 1, 5)),
    restart=kind(1, forgets=one(True)),
    together=kind(4, steps=lambda rng: [_step(rng, _TOGETHER) for _ in range(2)]),
)


def sequence(rng: random.Random) -> Sequence:
    """A sequence; its first step creates the topic."""
    first = {"do": "topic", "actor": "P"} | drawn({"config": one(*CONFIGS)}, rng)
    return Sequence([first, *(_step(rng) for _ in range(rng.randint(8, 30)))])


def _step(rng: random.Random, kinds: list[str] | None = None) -> Step:
    return _KINDS.step(rng, one(*ACTORS), kinds or ())
