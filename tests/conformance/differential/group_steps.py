"""Random sequences of group requests."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any

from tests.conformance.differential.draw import (
    Draw,
    Fields,
    Kinds,
    kind,
    maybe,
    number,
    often,
    one,
)
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

NEVER_TOGETHER = {"restart", "together"}
GENERATION = often({0: 12, -1: 1, 1: 1, "none": 1})


def sequence(rng: random.Random, profile: Profile) -> Sequence:
    """A sequence for the profile."""
    is_quick = rng.random() < profile.quick
    actors = rng.sample(ACTORS, rng.choice([2, 3, 4, 5]))
    rebalance_ms = TIMER_MS if is_quick and rng.random() < 0.7 else 60_000
    kinds = Kinds(
        **member_kinds(profile, actors, rebalance_ms),
        fetch=kind(2),
        together=kind(5, steps=lambda rng: some_of(rng, step)),
    )

    def step(rng: random.Random, but: Collection[str] = ()) -> Step:
        return kinds.step(rng, one(*actors), but=but)

    return paced(rng, profile, actors, step, is_quick=is_quick)


MakeStep = Callable[..., Step]
"""``make(rng, but)``: draws a step, of no kind in `but`."""


def some_of(rng: random.Random, make: MakeStep) -> list[Step]:
    """The steps of a step `together`."""
    return [make(rng, NEVER_TOGETHER) for _ in range(rng.choice([2, 2, 3]))]


def paced(
    rng: random.Random,
    profile: Profile,
    actors: list[str],
    make: MakeStep,
    *,
    is_quick: bool,
) -> Sequence:
    """A sequence; in a quick one there are waits, in which timers fire."""
    if not is_quick:
        return Sequence([make(rng) for _ in range(rng.randint(8, 40))])
    steps: list[Step] = []
    for _ in range(rng.randint(2, 5)):
        steps += [make(rng) for _ in range(rng.randint(2, BURST))]
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


def identity(some: Draw) -> dict[str, Draw]:
    """The fields that name a member: in 1 of 4 steps an unusual one."""
    return {
        "id": maybe(0.25, one("", "made-up", "old", "other"), "own"),
        "other": some,
        "instance": often({"own": 12, "none": 2, "i-S": 1, "i-unknown": 1}),
    }


def member_kinds(
    profile: Profile, actors: list[str], rebalance_ms: int
) -> dict[str, tuple[float, Fields]]:
    """The kinds of steps of members of the classic protocol, and those of any group."""
    some = one(*actors)
    advance: dict[str, Any] = {
        "version": often({0: 1, 1: 1, 3: 3, 4: 2, 5: 2, 7: 1, 8: 2, 9: 8}),
        "rebalance": one(rebalance_ms),
        "session": one(*profile.sessions_ms[:-1]),
        "protocols": one(0),
    }
    named = identity(some)
    of_generation = named | {"generation": GENERATION}
    return {
        "advance": kind(40, advance),
        "join": kind(
            8,
            advance,
            named,
            protocols=number(0, len(PROTOCOLS) - 1),
            meta=one("m", "m", "n"),
            type=often({"consumer": 20, "connect": 1, "": 1}),
            session=one(*profile.sessions_ms),
        ),
        "sync": kind(
            5,
            of_generation,
            version=number(0, 5),
            protocol=often({"own": 10, "other": 1, None: 1}),
        ),
        "heartbeat": kind(5, of_generation, version=number(0, 4)),
        "leave": kind(7, named, version=number(0, 5)),
        "batch": kind(
            2,
            version=number(3, 5),
            members=lambda rng: [
                (some(rng), rng.choice(["own", "instance", "odd"]))
                for _ in range(rng.randint(1, 3))
            ],
        ),
        "commit": kind(8, of_generation, {"*": _commit}, version=number(2, 9)),
        "offset_delete": kind(3),
        "delete": kind(2),
        "list": kind(  # has all groups of the broker
            0.4,
            version=number(0, 5),
            states=maybe(0.3, one(["Stable"], ["empty", "Dead"], ["no state"]), []),
            types=maybe(0.3, one(["consumer"], ["Classic"], ["share", ""]), []),
        ),
        "restart": kind(3, forgets=often({True: 7, False: 3})),
    }
