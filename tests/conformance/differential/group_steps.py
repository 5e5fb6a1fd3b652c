"""Random sequences of group requests."""

from __future__ import annotations

import random
from typing import Any

from tests.conformance.differential.draw import Kinds, kind, maybe, number, often, one
from tests.conformance.differential.profiles import TIMER_MS, Profile
from tests.conformance.differential.sequence import Sequence, Step

ACTORS = ["A", "B", "C", "S", "S2", "T", "T2"]
INSTANCES = {"S": "i-S", "S2": "i-S", "T": "i-T", "T2": "i-T"}
"""Instance ids of static members; S2 is another process with that of S."""
PROTOCOLS = [["x", "y"], ["x", "y"], ["y", "x"], ["x"], ["y"], ["z"], []]
TOO_LARGE = 4097
METADATA = [0, 0, 0, TOO_LARGE - 1, TOO_LARGE]
"""Lengths of an offset's metadata; `offset.metadata.max.bytes` is 4096."""
BURST = 5
"""Steps between two waits in which timers fire."""

_NEVER_TOGETHER = {"restart", "together"}
_GENERATION = often({0: 12, -1: 1, 1: 1, "none": 1})


def sequence(rng: random.Random, profile: Profile) -> Sequence:
    """A sequence for the profile."""
    is_quick = rng.random() < profile.quick
    actors = rng.sample(ACTORS, rng.choice([2, 3, 4, 5]))
    rebalance_ms = TIMER_MS if is_quick and rng.random() < 0.7 else 60_000
    kinds = _kinds(profile, actors, rebalance_ms)

    def step() -> Step:
        return kinds.step(rng, one(*actors))

    if not is_quick:
        return Sequence([step() for _ in range(rng.randint(8, 40))])
    steps: list[Step] = []
    for _ in range(rng.randint(2, 5)):
        steps += [step() for _ in range(rng.randint(2, BURST))]
        # A wait for all timers, except those of members that keep heartbeating.
        alive = rng.sample(actors, rng.randint(0, len(actors)))
        steps.append({"do": "wait", "actor": "".join(alive[:1]), "alive": alive})
    timers = {TIMER_MS, profile.delay_ms} - {0}
    return Sequence(steps, tuple(sorted(timers)))


def _commit(rng: random.Random) -> Step:
    """Partitions, and the length of their metadata."""
    partitions = rng.sample([0, 1, 9], rng.randint(1, 2))
    metadata = rng.choice(METADATA)
    if metadata == TOO_LARGE and 1 not in partitions:
        # Kafka creates a group for a commit even if it refuses all offsets, and
        # shows it after a record of any other group in the same partition.
        partitions.append(1)
    return {"partitions": partitions, "metadata": metadata}


def _kinds(profile: Profile, actors: list[str], rebalance_ms: int) -> Kinds:
    some = one(*actors)
    advance: dict[str, Any] = {
        "version": often({0: 1, 1: 1, 3: 3, 4: 2, 5: 2, 7: 1, 8: 2, 9: 8}),
        "rebalance": one(rebalance_ms),
        "session": one(*profile.sessions_ms[:-1]),
        "protocols": one(0),
    }
    # The member in a request: 1 in 4 is unusual.
    named: dict[str, Any] = {
        "id": maybe(0.25, one("", "made-up", "old", "other"), "own"),
        "other": some,
        "instance": often({"own": 12, "none": 2, "i-S": 1, "i-unknown": 1}),
    }
    of_generation = named | {"generation": _GENERATION}
    kinds = Kinds(
        advance=kind(40, advance),
        join=kind(
            8,
            advance,
            named,
            protocols=number(0, len(PROTOCOLS) - 1),
            meta=one("m", "m", "n"),
            type=often({"consumer": 20, "connect": 1, "": 1}),
            session=one(*profile.sessions_ms),
        ),
        sync=kind(
            5,
            of_generation,
            version=number(0, 5),
            protocol=often({"own": 10, "other": 1, None: 1}),
        ),
        heartbeat=kind(5, of_generation, version=number(0, 4)),
        leave=kind(7, named, version=number(0, 5)),
        batch=kind(
            2,
            version=number(3, 5),
            members=lambda rng: [
                (some(rng), rng.choice(["own", "instance", "odd"]))
                for _ in range(rng.randint(1, 3))
            ],
        ),
        commit=kind(8, of_generation, {"*": _commit}, version=number(2, 9)),
        fetch=kind(2),
        offset_delete=kind(3),
        delete=kind(2),
        list=kind(0.4, version=number(0, 5)),  # has all groups of the broker
        restart=kind(3, forgets=often({True: 7, False: 3})),
        together=kind(
            5,
            steps=lambda rng: [
                kinds.step(rng, some, but=_NEVER_TOGETHER)
                for _ in range(rng.choice([2, 2, 3]))
            ],
        ),
    )
    return kinds
