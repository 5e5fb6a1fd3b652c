"""Random sequences of the requests of transactional producers."""

from __future__ import annotations

import random
from typing import Any

from tests.conformance.differential.draw import (
    Kinds,
    drawn,
    kind,
    maybe,
    number,
    often,
    one,
)
from tests.conformance.differential.sequence import Sequence, Step

ACTORS = {"P": "x", "Q": "x", "R": "y"}
"""Producers, and their transactional ids."""
_OFTEN = often({"P": 6, "Q": 2, "R": 4})
_STARTED = {"P": 0.9, "Q": 0.2, "R": 0.7}
"""The probability that a producer begins with InitProducerId."""
_AFTER_MARKERS = ["markers", "produce", "fetch", "list_offsets", "describe_producers"]
"""Kinds of steps after WriteTxnMarkers. If a partition refuses the coordinator's own
marker because of those, a transactional id of Kafka is of no use any more."""

_PARTITIONS = one([0], [0], [0], [1], [0, 1], [1, 0], [0, 9], [0, 0], [])
_STATES = ["Empty", "Ongoing", "CompleteCommit", "CompleteAbort", "ongoing", "Dead"]

_IDENTITY: dict[str, Any] = {
    "*": maybe(
        0.2,
        one(
            {"id": "unknown"},
            {"id": "empty"},
            {"id": "other"},
            {"producer": "unknown"},
            {"producer": "other"},
            {"producer": "none"},
            {"epoch": 1},
            {"epoch": -1},
            {"epoch": -2},
            {"epoch": "none"},
        ),
    )
}
"""Transactional id, producer id and epoch; most are the producer's."""
_OFFSETS = {
    "partitions": _PARTITIONS,
    "topic": often({"topic": 16, "no-such-topic": 1, "both": 1}),
    "offset": lambda rng: rng.choices([rng.randint(0, 99), 0, -1], [8, 1, 1])[0],
    "metadata": often({"": 6, "m": 3, None: 1}),
    "member": often({"none": 6, "own": 6, "unknown": 1, "empty": 1}),
    "generation": often({0: 12, 1: 1, -1: 1, "none": 1}),
    "instance": often({None: 6, "i": 3, "j": 1}),
}
_PLAIN_INIT = {
    "version": number(0, 5),
    "id": one("own"),
    "bring": one("none"),
    "timeout": one(60_000),
}

_KINDS = Kinds(
    init=kind(
        8,
        version=often({0: 1, 1: 1, 2: 1, 3: 3, 4: 5, 5: 8, 6: 0.3}),
        id=often({"own": 20, "null": 2, "empty": 1}),
        bring=often(
            {
                "none": 10,
                "own": 10,
                "before": 3,
                "after": 1,
                "other": 1,
                "unknown": 1,
                "no id": 1,
                "no epoch": 1,
            }
        ),
        timeout=often({60_000: 20, 900_000: 2, 900_001: 1, 0: 1, -1: 1}),
        two_phase=one(True, False),
    ),
    add_partitions=kind(
        10,
        _IDENTITY,
        version=one(0, 1, 2, 3, 3, 4, 4, 5),
        partitions=_PARTITIONS,
        topic=often({"topic": 16, "no-such-topic": 1, "both": 1, "offsets": 1}),
        verifies=often({True: 3, False: 7}),
        batched=often({True: 2, False: 8}),
    ),
    add_offsets=kind(
        6, _IDENTITY, version=number(0, 4), group=often({"group": 12, "empty": 1})
    ),
    commit_in_transaction=kind(
        12,
        _IDENTITY,
        _OFFSETS,
        version=often({0: 1, 1: 1, 2: 1, 3: 4, 4: 4, 5: 8}),
        group=often({"group": 20, "empty": 1}),
    ),
    end=kind(
        16,
        _IDENTITY,
        version=often({0: 1, 1: 1, 2: 1, 3: 3, 4: 4, 5: 10}),
        commits=one(True, False),
    ),
    produce=kind(
        22,
        _IDENTITY,
        version=one(3, 7, 9, 10, 11, 11, 12, 12, 12, 13, 13),
        acks=often({-1: 16, 1: 3, 2: 0.3}),
        partitions=often({(0,): 12, (1,): 5, (0, 1): 2, (0, 9): 0.5}),
        topic=often({"topic": 40, "offsets": 1}),
        records=one(1, 1, 2, 3),
        bytes=number(1, 200),
        transactional=often({True: 85, False: 15}),
        named=often({"own": 12, "null": 1}),
        sequence=often(
            {"next": 24, "same": 3, "gap": 1, "back": 1, "zero": 2, "none": 0.5}
        ),
    ),
    markers=kind(
        4,
        version=one(1, 2),
        producer=often({"own": 12, "other": 2, "unknown": 1}),
        epoch=often({0: 6, 1: 4, -1: 1}),
        commits=one(True, False),
        topic=often({"topic": 5, "offsets": 2, "both": 1}),
        partitions=_PARTITIONS,
        coordinator=often({0: 8, -1: 1, 2: 1}),
        transaction_version=one(0, 1, 2, 2),
    ),
    fetch=kind(
        6,
        version=one(4, 5, 7, 11, 12, 13, 15, 16, 17, 18),
        partitions=one([0], [0], [1], [0, 1]),
        isolation=one(0, 1, 1, 1),
        offset=lambda rng: rng.choices([0, rng.randint(0, 20)], [2, 1])[0],
        most=often({1 << 20: 4, 1: 1, 150: 1, 400: 1}),
    ),
    list_offsets=kind(
        4,
        version=one(2, 4, 6, 7, 8, 9, 10),
        time=one(-1, -1, -2, 0),
        isolation=one(0, 1, 1),
        partitions=one([0], [1], [0, 1]),
    ),
    fetch_offsets=kind(
        5,
        version=one(1, 5, 6, 7, 7, 8, 8, 9, 9, 10),
        partitions=one([0], [0, 1], [1], [0, 9], None, None),
        stable=often({True: 6, False: 4}),
        topic=often({"topic": 16, "no-such-topic": 1, "both": 1}),
    ),
    describe_producers=kind(4, version=one(0), partitions=one([0], [0, 1], [1])),
    describe=kind(
        1, version=one(0), ids=one(["x"], ["x", "y"], ["x", "x"], ["", "x"], [])
    ),
    list=kind(
        3,
        version=number(0, 2),
        states=lambda rng: rng.sample(_STATES, rng.choice([0, 0, 1, 2])),
        producers=often({True: 3, False: 7}),
        duration=one(-1, -1, -5, 3_600_000),
        pattern=one(None, "", "x", "x.*", "[xy]-.*", "[", ".*y-.*"),
    ),
    find=kind(1, version=number(1, 6), ids=one(["x"], ["x", "y"], [""])),
    commit=kind(3, _OFFSETS, version=one(2, 5, 7, 8, 9, 10)),
    delete_offsets=kind(2, version=one(0), partitions=one([0], [1], [0, 1])),
    delete_group=kind(1, version=number(0, 2)),
    delete_records=kind(
        2,
        version=number(0, 2),
        offset=lambda rng: rng.choices([rng.randint(0, 12), -1], [4, 1])[0],
    ),
    join=kind(2, version=one(5, 7, 9)),
    sync=kind(3, version=one(3, 4, 5)),
    leave=kind(1, version=one(3, 4, 5)),
    delete_topic=kind(0.3, version=one(3)),
    restart=kind(1, forgets=one(True)),
)


def sequence(rng: random.Random) -> Sequence:
    """A sequence; its first steps create the topic, and initialize most producers."""
    steps: list[Step] = [{"do": "topic", "actor": "P"}]
    some = [actor for actor in ACTORS if rng.random() < _STARTED[actor]]
    steps += [
        {"do": "init", "actor": actor} | drawn(_PLAIN_INIT, rng) for actor in some
    ]
    before = ("markers",)
    steps += [_KINDS.step(rng, _OFTEN, but=before) for _ in range(rng.randint(8, 30))]
    if rng.random() < 0.25:
        steps.append(_KINDS.step(rng, one(*ACTORS), ["markers"]))
        steps += [
            _KINDS.step(rng, _OFTEN, _AFTER_MARKERS) for _ in range(rng.randint(2, 8))
        ]
    return Sequence(steps)
