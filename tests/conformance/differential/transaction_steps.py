"""Makes random sequences of the requests of transactional producers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.conformance.differential.sequence import Sequence, Step

ACTORS = {"P": "x", "Q": "x", "R": "y"}
"""Producers, and their transactional ids."""
_OFTEN = {"P": 6, "Q": 2, "R": 4}
_STARTED = {"P": 0.9, "Q": 0.2, "R": 0.7}
"""How often a producer acts, and the probability that it begins with InitProducerId."""
_WEIGHTS = {
    "init": 8,
    "add_partitions": 10,
    "add_offsets": 6,
    "commit_in_transaction": 12,
    "end": 16,
    "produce": 22,
    "fetch": 6,
    "list_offsets": 3,
    "commit": 3,
    "fetch_offsets": 5,
    "delete_offsets": 2,
    "delete_group": 1,
    "delete_records": 2,
    "join": 2,
    "sync": 3,
    "leave": 1,
    "describe": 1,
    "list": 3,
    "describe_producers": 4,
    "find": 1,
    "delete_topic": 0.3,
    "restart": 1,
}
_AFTER_MARKERS = ["produce", "fetch", "list_offsets", "describe_producers"]
"""Kinds of steps after WriteTxnMarkers. If a partition refuses the coordinator's own
marker because of those, a transactional id of Kafka is of no use any more."""

_PARTITIONS = [[0], [0], [0], [1], [0, 1], [1, 0], [0, 9], [0, 0], []]
_STATES = ["Empty", "Ongoing", "CompleteCommit", "CompleteAbort", "ongoing", "Dead"]


def sequence(rng: random.Random) -> Sequence:
    """A sequence; its first steps create the topic, and initialize most producers."""
    steps: list[Step] = [{"do": "topic", "actor": "P"}]
    some = [actor for actor in ACTORS if rng.random() < _STARTED[actor]]
    steps += [{"do": "init", "actor": actor} | _plain_init(rng) for actor in some]
    steps += [_step(rng, list(_WEIGHTS)) for _ in range(rng.randint(8, 30))]
    if rng.random() < 0.25:
        steps.append({"do": "markers", "actor": rng.choice([*ACTORS])} | _markers(rng))
        kinds = ["markers", *_AFTER_MARKERS]
        steps += [_step(rng, kinds) for _ in range(rng.randint(2, 8))]
    return Sequence(steps)


def _step(rng: random.Random, among: list[str]) -> Step:
    (kind,) = rng.choices(among, [_WEIGHTS.get(each, 4) for each in among])
    (actor,) = rng.choices([*_OFTEN], [*_OFTEN.values()])
    step: Step = {"do": kind, "actor": actor}
    return step | _FIELDS[kind](rng)


# -- the producer


def _identity(rng: random.Random) -> dict[str, Any]:
    """Transactional id, producer id and epoch; most are the producer's."""
    if rng.random() < 0.8:
        return {}
    return rng.choice(
        [
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
        ]
    )


def _plain_init(rng: random.Random) -> Step:
    return {
        "version": rng.randint(0, 5),
        "id": "own",
        "bring": "none",
        "timeout": 60_000,
    }


def _init(rng: random.Random) -> Step:
    return {
        "version": rng.choices([0, 1, 2, 3, 4, 5, 6], [1, 1, 1, 3, 5, 8, 0.3])[0],
        "id": rng.choices(["own", "null", "empty"], [20, 2, 1])[0],
        "bring": rng.choices(
            ["none", "own", "before", "after", "other", "unknown", "no id", "no epoch"],
            [10, 10, 3, 1, 1, 1, 1, 1],
        )[0],
        "timeout": rng.choices(
            [60_000, 900_000, 900_001, 1, 0, -1], [20, 2, 1, 0, 1, 1]
        )[0],
        "two_phase": rng.random() < 0.5,
    }


# -- the transaction


def _add_partitions(rng: random.Random) -> Step:
    return _identity(rng) | {
        "version": rng.choice([0, 1, 2, 3, 3, 4, 4, 5]),
        "partitions": rng.choice(_PARTITIONS),
        "topic": rng.choices(
            ["topic", "no-such-topic", "both", "offsets"], [16, 1, 1, 1]
        )[0],
        "verifies": rng.random() < 0.3,
        "batched": rng.random() < 0.2,
    }


def _add_offsets(rng: random.Random) -> Step:
    return _identity(rng) | {
        "version": rng.randint(0, 4),
        "group": rng.choices(["group", "empty"], [12, 1])[0],
    }


def _commit_in_transaction(rng: random.Random) -> Step:
    return (
        _identity(rng)
        | _offsets(rng)
        | {
            "version": rng.choices([0, 1, 2, 3, 4, 5], [1, 1, 1, 4, 4, 8])[0],
            "group": rng.choices(["group", "empty"], [20, 1])[0],
        }
    )


def _offsets(rng: random.Random) -> Step:
    return {
        "partitions": rng.choice(_PARTITIONS),
        "topic": rng.choices(["topic", "no-such-topic", "both"], [16, 1, 1])[0],
        "offset": rng.choices([rng.randint(0, 99), 0, -1], [8, 1, 1])[0],
        "metadata": rng.choices(["", "m", None], [6, 3, 1])[0],
        "member": rng.choices(["none", "own", "unknown", "empty"], [6, 6, 1, 1])[0],
        "generation": rng.choices([0, 1, -1, "none"], [12, 1, 1, 1])[0],
        "instance": rng.choices([None, "i", "j"], [6, 3, 1])[0],
    }


def _end(rng: random.Random) -> Step:
    return _identity(rng) | {
        "version": rng.choices([0, 1, 2, 3, 4, 5], [1, 1, 1, 3, 4, 10])[0],
        "commits": rng.random() < 0.5,
    }


def _produce(rng: random.Random) -> Step:
    return _identity(rng) | {
        "version": rng.choice([3, 7, 9, 10, 11, 11, 12, 12, 12, 13, 13]),
        "acks": rng.choices([-1, 1, 2], [16, 3, 0.3])[0],
        "partitions": rng.choices([[0], [1], [0, 1], [0, 9]], [12, 5, 2, 0.5])[0],
        "topic": rng.choices(["topic", "offsets"], [40, 1])[0],
        "records": rng.choice([1, 1, 2, 3]),
        "bytes": rng.randint(1, 200),
        "transactional": rng.random() < 0.85,
        "named": rng.choices(["own", "null"], [12, 1])[0],
        "sequence": rng.choices(
            ["next", "same", "gap", "back", "zero", "none"],
            [24, 3, 1, 1, 2, 0.5],
        )[0],
    }


def _markers(rng: random.Random) -> Step:
    return {
        "version": rng.choice([1, 2]),
        "producer": rng.choices(["own", "other", "unknown"], [12, 2, 1])[0],
        "epoch": rng.choices([0, 1, -1], [6, 4, 1])[0],
        "commits": rng.random() < 0.5,
        "topic": rng.choices(["topic", "offsets", "both"], [5, 2, 1])[0],
        "partitions": rng.choice(_PARTITIONS),
        "coordinator": rng.choices([0, -1, 2], [8, 1, 1])[0],
        "transaction_version": rng.choice([0, 1, 2, 2]),
    }


# -- reading


def _fetch(rng: random.Random) -> Step:
    return {
        "version": rng.choice([4, 5, 7, 11, 12, 13, 15, 16, 17, 18]),
        "partitions": rng.choice([[0], [0], [1], [0, 1]]),
        "isolation": rng.choice([0, 1, 1, 1]),
        "offset": rng.choices([0, rng.randint(0, 20)], [2, 1])[0],
        "most": rng.choices([1 << 20, 1, 150, 400], [4, 1, 1, 1])[0],
    }


def _list_offsets(rng: random.Random) -> Step:
    return {
        "version": rng.choice([2, 4, 6, 7, 8, 9, 10]),
        "time": rng.choice([-1, -1, -2, 0]),
        "isolation": rng.choice([0, 1, 1]),
        "partitions": rng.choice([[0], [1], [0, 1]]),
    }


def _fetch_offsets(rng: random.Random) -> Step:
    return {
        "version": rng.choice([1, 5, 6, 7, 7, 8, 8, 9, 9, 10]),
        "partitions": rng.choice([[0], [0, 1], [1], [0, 9], None, None]),
        "stable": rng.random() < 0.6,
        "topic": rng.choices(["topic", "no-such-topic", "both"], [16, 1, 1])[0],
    }


def _describe_producers(rng: random.Random) -> Step:
    return {"version": 0, "partitions": rng.choice([[0], [0, 1], [1]])}


def _describe(rng: random.Random) -> Step:
    return {
        "version": 0,
        "ids": rng.choice([["x"], ["x", "y"], ["x", "x"], ["", "x"], []]),
    }


def _list(rng: random.Random) -> Step:
    return {
        "version": rng.randint(0, 2),
        "states": rng.choice([[], [], rng.sample(_STATES, 1), rng.sample(_STATES, 2)]),
        "producers": rng.random() < 0.3,
        "duration": rng.choice([-1, -1, -5, 3_600_000]),
        "pattern": rng.choice([None, "", "x", "x.*", "[xy]-.*", "[", ".*y-.*"]),
    }


def _find(rng: random.Random) -> Step:
    return {"version": rng.randint(1, 6), "ids": rng.choice([["x"], ["x", "y"], [""]])}


# -- the group, and the log


def _commit(rng: random.Random) -> Step:
    return _offsets(rng) | {"version": rng.choice([2, 5, 7, 8, 9, 10])}


def _delete_offsets(rng: random.Random) -> Step:
    return {"version": 0, "partitions": rng.choice([[0], [1], [0, 1]])}


def _delete_group(rng: random.Random) -> Step:
    return {"version": rng.randint(0, 2)}


def _delete_records(rng: random.Random) -> Step:
    offset = rng.choices([rng.randint(0, 12), -1], [4, 1])[0]
    return {"version": rng.randint(0, 2), "offset": offset}


def _join(rng: random.Random) -> Step:
    return {"version": rng.choice([5, 7, 9])}


def _sync(rng: random.Random) -> Step:
    return {"version": rng.choice([3, 4, 5])}


def _leave(rng: random.Random) -> Step:
    return {"version": rng.choice([3, 4, 5])}


def _delete_topic(_: random.Random) -> Step:
    return {"version": 3}


def _restart(_: random.Random) -> Step:
    return {"forgets": True}


_FIELDS: dict[str, Callable[[random.Random], Step]] = {
    "init": _init,
    "add_partitions": _add_partitions,
    "add_offsets": _add_offsets,
    "commit_in_transaction": _commit_in_transaction,
    "end": _end,
    "produce": _produce,
    "markers": _markers,
    "fetch": _fetch,
    "list_offsets": _list_offsets,
    "commit": _commit,
    "fetch_offsets": _fetch_offsets,
    "delete_offsets": _delete_offsets,
    "delete_group": _delete_group,
    "delete_records": _delete_records,
    "join": _join,
    "sync": _sync,
    "leave": _leave,
    "describe": _describe,
    "list": _list,
    "describe_producers": _describe_producers,
    "find": _find,
    "delete_topic": _delete_topic,
    "restart": _restart,
}
