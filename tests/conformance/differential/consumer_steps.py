"""Random sequences of requests to groups of KIP-848, alone and with classic members.

The first step creates topics. Each actor is a process of one of the protocols, and once
in a while does a step of the other one.

How partitions are divided can depend on the order of ids, which brokers draw at random:
those of classic members, and those of topics. Then brokers may differ, and the rest of
the sequence is not compared (`lockstep.FREE`). So most sequences leave no such choice:
those of one topic and no classic member, and those whose members all ask for the
assignor `range`, which goes by the order of member ids: a broker's ids begin with the
client's.
"""

from __future__ import annotations

import random
import string
from collections.abc import Collection
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
from tests.conformance.differential.group_steps import (
    ACTORS,
    METADATA,
    TOO_LARGE,
    identity,
    member_kinds,
    paced,
    some_of,
)
from tests.conformance.differential.profiles import TIMER_MS, Profile
from tests.conformance.differential.sequence import Sequence, Step

TOPICS = ["x", "y", "z"]
"""Topics of a sequence; the last one is created later, if at all."""
UNKNOWN = "unknown"
RANGE = "range"
LEAST, MOST = -(1 << 31), (1 << 31) - 1
SESSION_MS = 25_000
"""The shortest timer of a sequence without short ones: it takes less than that."""
PATTERN_MS = 10_000
"""Kafka resolves the patterns of a group at most that often."""

PATTERNS = [
    "{x}",
    "{x}",
    "{y}|{x}",
    "{run}-.*",
    "{run}-.*",
    "{run}-0[12]",
    "{run}-0[^1]",
    "^{x}$",
    "(?i){X}",
    r"\Q{x}\E",
    r"{run}-\d+",
    r"{run}-\d{{2}}",
    r"{run}\b.*1",
    "(?P<n>{x})",
    "(?<n>{x})",
    "(?:{x}|{y})?",
    "no-such.*",
    "{x}.",
    "",
    "",
]
INVALID_PATTERNS = [
    *("[", "(", "*", "(?!{x})", r"\1", r"{x}\C", "x**", "x{{1001}}", "a{{2,1}}"),
    "(?P<n>{x})|(?<n>{y})",
]

_CONSUMER = ("go_on", "beat", "quit")
_CLASSIC = ("advance", "join", "sync", "heartbeat", "leave")
_ANY = (
    *("consumer_commit", "consumer_fetch", "transact", "end", "offset_delete"),
    *("batch", "describe", "delete", "list", "restart", "together"),
)
_SHARED = ("heartbeat", "leave", "batch", "delete", "restart", "offset_delete")
"""Kinds of steps that are those of groups of the classic protocol."""
_TOPIC = ("create", "grow", "drop")
_NEVER_TOGETHER = {*_TOPIC, "transact", "end", "together", "restart"}


def sequence(rng: random.Random, profile: Profile) -> Sequence:
    """A sequence for the profile."""
    is_quick = rng.random() < profile.quick
    has_patterns = not is_quick and rng.random() < 0.3
    actors = rng.sample(ACTORS, rng.choice([2, 3, 4, 5]))
    classic = _classic_actors(rng, profile, actors)
    # What is left of a member that is gone depends on the moment, but for range.
    has_range = is_quick or rng.random() < (0.75 if classic else 0.5)
    topics = TOPICS if has_range or rng.random() < 0.3 else TOPICS[:1]
    rebalance_ms = TIMER_MS if is_quick and rng.random() < 0.7 else 60_000
    kinds = Kinds(
        **_kinds(
            profile,
            actors,
            rebalance_ms,
            topics,
            has_range=has_range,
            has_patterns=has_patterns,
            is_cooperative=rng.random() < 0.5,
        ),
        together=kind(4, steps=lambda rng: some_of(rng, step)),
    )

    def step(rng: random.Random, but: Collection[str] = ()) -> Step:
        actor = rng.choice(actors)
        is_classic = (actor in classic) ^ (bool(classic) and rng.random() < 0.05)
        among = {*(_CLASSIC if is_classic else _CONSUMER), *_ANY}
        among |= set() if is_quick else {*_TOPIC}
        but = {*but, *(_NEVER_TOGETHER if but else ())}
        return kinds.step(rng, one(actor), sorted(among), but)

    played = paced(rng, profile, actors, step, is_quick=is_quick)
    begin = {
        "do": "begin",
        "actor": actors[0],
        "salt": "".join(rng.choices(string.ascii_lowercase, k=3)),
        "topics": {name: rng.choice([2, 3, 4]) for name in topics[:2]},
        "session": TIMER_MS if is_quick else None,
        "range": has_range,
    }
    if not has_patterns:
        return Sequence([begin, *played.steps], played.timers_ms or (SESSION_MS,))
    steps = [*played.steps]
    if has_range and not classic and rng.random() < 0.3:
        # Patterns are matched again, in heartbeats; no session ends meanwhile.
        alive = rng.sample(actors, rng.randint(1, len(actors)))
        wait = {"do": "wait", "actor": alive[0], "alive": alive}
        steps.insert(rng.randint(1, len(steps)), wait)
    return Sequence([begin, *steps], (PATTERN_MS,))


def _classic_actors(
    rng: random.Random, profile: Profile, actors: list[str]
) -> set[str]:
    """The actors that use the classic protocol."""
    if profile.makes == "consumers":
        return set()
    return {*rng.sample(actors, rng.randint(1, len(actors) - 1))}


def _kinds(
    profile: Profile,
    actors: list[str],
    rebalance_ms: int,
    topics: list[str],
    *,
    has_range: bool,
    has_patterns: bool,
    is_cooperative: bool,
) -> dict[str, tuple[float, Fields]]:
    some = one(*actors)
    usual = [topics[:1], topics[:2]]
    names = one(*usual, topics, topics[1:2], [], [*topics[:1], UNKNOWN], topics[:1] * 2)
    pattern = one(*PATTERNS, *INVALID_PATTERNS) if has_patterns else one(None)
    of_epoch = {
        "generation": often(
            {0: 16, "previous": 6, -1: 1, 1: 1, "none": 1, "least": 0.3, "most": 0.3}
        )
    }
    joining = {
        "names": one(*usual),
        "regex": maybe(0.4, one(*PATTERNS[:8]) if has_patterns else one(None)),
        "assignor": one(RANGE) if has_range else one(None, "uniform", "uniform", RANGE),
        "rebalance": one(rebalance_ms),
    }
    assignors: Draw = often({None: 12, "made-up": 1, "": 0.5, "Range": 0.5})
    if not has_range:
        assignors = often({None: 12, RANGE: 2, "uniform": 2, "made-up": 1})
    member = member_kinds(profile, actors, rebalance_ms)
    subscribed = {
        "topics": one(topics[:2]),
        "form": one(1 if is_cooperative else 0),
    }
    commit = (
        identity(some)
        | of_epoch
        | {"*": _commit, "topics": one(*usual, *usual, [*topics, UNKNOWN])}
    )
    any_names = maybe(0.3, names)
    return {
        **{name: member[name] for name in _SHARED},
        "list": kind(1, member["list"][1]),
        "advance": kind(30, member["advance"][1], subscribed, plan=one("even")),
        "join": kind(
            6,
            member["join"][1],
            subscribed,
            topics=names,
            form=often({0: 4, 1: 4, 2: 2, 3: 2, "": 0.3, "short": 0.3}),
            protocols=often({0: 12, 1: 1, 2: 2, 3: 2, 4: 1, 5: 1, 6: 0.5}),
        ),
        "sync": kind(
            4,
            member["sync"][1],
            plan=often(
                {"even": 8, "twice": 1, "unknown": 1, "bad": 0.5, "user data": 0.5}
            ),
        ),
        "go_on": kind(
            36,
            joining,
            version=one(1),
            full=often({True: 1, False: 5}),
            owned=often({"assigned": 12, "before": 2, None: 2}),
        ),
        "beat": kind(
            12,
            identity(some),
            of_epoch,
            version=often({0: 1, 1: 9}),
            names=any_names,
            regex=maybe(0.3, pattern),
            owned=often(
                {"assigned": 6, None: 4, "before": 2, "some": 2, "more": 1, "no": 1}
            ),
            assignor=assignors,
            rack=often({None: 10, "r1": 1, "r2": 1, "": 0.3}),
            rebalance=often({-1: 6, rebalance_ms: 4, rebalance_ms + 1: 1}),
            joins=often({True: 2, False: 8}),
        ),
        "quit": kind(
            4, identity(some), version=one(0, 1, 1), away=often({True: 4, False: 6})
        ),
        "consumer_commit": kind(
            10, commit, version=often({10: 4, 9: 5, 8: 1, 5: 0.5, 2: 0.5})
        ),
        "transact": kind(2, commit, version=often({5: 8, 3: 1, 0: 0.5})),
        "end": kind(1.5, commits=one(True, True, False)),
        "consumer_fetch": kind(
            5,
            identity(some),
            of_epoch,
            version=often({10: 3, 9: 6, 8: 2, 7: 1, 5: 1, 1: 1}),
            anonymous=one(True, False),
            topics=maybe(0.6, one(*usual, [*topics, UNKNOWN], [])),
            partitions=one([0], [0, 1], [9, 1], []),
            stable=one(True, False),
        ),
        "describe": kind(
            2,
            version=number(0, 1),
            groups=one(["own"], ["own", "own"], ["own", UNKNOWN], [""], []),
            authorized=one(True, False),
        ),
        "create": kind(1.5, topic=one(*topics), partitions=number(2, 4)),
        "grow": kind(1.5, topic=one(*topics), more=number(0, 2)),
        "drop": kind(1, topic=one(*topics)),
    }


def _commit(rng: random.Random) -> Step:
    """Partitions, and the length of their metadata; see `group_steps`."""
    partitions: list[int] = rng.sample([0, 1, 2, 9], rng.randint(1, 3))
    metadata = rng.choice(METADATA)
    if metadata == TOO_LARGE and 1 not in partitions:
        partitions.append(1)
    return {"partitions": partitions, "metadata": metadata}


def pattern_of(template: str, topics: dict[str, str], run: str) -> str:
    """A pattern of topics.

    Args:
        template: has the names of topics in braces, and `run` for their prefix.
        topics: their names.
        run: the prefix.
    """
    names: dict[str, Any] = dict(topics)
    names |= {name.upper(): raw.upper() for name, raw in topics.items()}
    return template.format(run=run, **names)
