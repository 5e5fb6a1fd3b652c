"""Makes random sequences of group requests."""

from __future__ import annotations

import random
from collections.abc import Callable

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

_WEIGHTS = {
    "advance": 40,
    "join": 8,
    "sync": 5,
    "heartbeat": 5,
    "leave": 7,
    "batch": 2,
    "commit": 8,
    "fetch": 2,
    "offset_delete": 3,
    "delete": 2,
    "list": 0.4,  # has all groups of the broker
    "restart": 3,
    "together": 5,
}
_NEVER_TOGETHER = {"restart", "together"}


def sequence(rng: random.Random, profile: Profile) -> Sequence:
    """A sequence for the profile."""
    is_quick = rng.random() < profile.quick
    make = _Maker(rng, profile, is_quick)
    if not is_quick:
        return Sequence([make.any_step() for _ in range(rng.randint(8, 40))])
    steps: list[Step] = []
    for _ in range(rng.randint(2, 5)):
        steps += [make.any_step() for _ in range(rng.randint(2, BURST))]
        steps.append(make.wait())
    timers = {TIMER_MS, profile.delay_ms} - {0}
    return Sequence(steps, tuple(sorted(timers)))


class _Maker:
    """Makes steps for one sequence.

    Args:
        rng: makes the choices.
        profile: of the brokers.
        is_quick: whether timers fire.
    """

    def __init__(self, rng: random.Random, profile: Profile, is_quick: bool) -> None:
        self.rng = rng
        self.profile = profile
        self.actors = rng.sample(ACTORS, rng.choice([2, 3, 4, 5]))
        self.rebalance_ms = TIMER_MS if is_quick and rng.random() < 0.7 else 60_000

    def any_step(self, but: frozenset[str] | set[str] = frozenset()) -> Step:
        """A step of any kind, or of any except these."""
        kinds = {k: w for k, w in _WEIGHTS.items() if k not in but}
        (kind,) = self.rng.choices(list(kinds), list(kinds.values()))
        step: Step = {"do": kind, "actor": self.rng.choice(self.actors)}
        made: Callable[[], Step] | None = getattr(self, f"_{kind}", None)
        return step | made() if made else step

    def wait(self) -> Step:
        """A wait for all timers, except those of members that keep heartbeating."""
        alive = self.rng.sample(self.actors, self.rng.randint(0, len(self.actors)))
        return {"do": "wait", "actor": alive[0] if alive else "", "alive": alive}

    # -- the fields of each kind

    def _together(self) -> Step:
        count = self.rng.choice([2, 2, 3])
        return {"steps": [self.any_step(_NEVER_TOGETHER) for _ in range(count)]}

    def _restart(self) -> Step:
        return {"forgets": self.rng.random() < 0.7}

    def _named(self) -> Step:
        """The member fields of a request: 1 in 4 is unusual."""
        odd = self.rng.random() < 0.25
        return {
            "id": self.rng.choice(["", "made-up", "old", "other"]) if odd else "own",
            "other": self.rng.choice(self.actors),
            "instance": self.rng.choices(
                ["own", "none", "i-S", "i-unknown"], [12, 2, 1, 1]
            )[0],
        }

    def _generation(self) -> int | str:
        kinds: list[int | str] = [0, -1, 1, "none"]
        return self.rng.choices(kinds, [12, 1, 1, 1])[0]

    def _advance(self) -> Step:
        version = self.rng.choices([0, 1, 3, 4, 5, 7, 8, 9], [1, 1, 3, 2, 2, 1, 2, 8])[
            0
        ]
        return {
            "version": version,
            "rebalance": self.rebalance_ms,
            "session": self.rng.choice(self.profile.sessions_ms[:-1]),
            "protocols": 0,
        }

    def _join(self) -> Step:
        return (
            self._advance()
            | self._named()
            | {
                "protocols": self.rng.randrange(len(PROTOCOLS)),
                "meta": self.rng.choice(["m", "m", "n"]),
                "type": self.rng.choices(["consumer", "connect", ""], [20, 1, 1])[0],
                "session": self.rng.choice(self.profile.sessions_ms),
            }
        )

    def _sync(self) -> Step:
        return self._named() | {
            "generation": self._generation(),
            "version": self.rng.randint(0, 5),
            "protocol": self.rng.choices(["own", "other", None], [10, 1, 1])[0],
        }

    def _heartbeat(self) -> Step:
        version = self.rng.randint(0, 4)
        return self._named() | {"generation": self._generation(), "version": version}

    def _commit(self) -> Step:
        partitions = self.rng.sample([0, 1, 9], self.rng.randint(1, 2))
        metadata = self.rng.choice(METADATA)
        if metadata == TOO_LARGE and 1 not in partitions:
            # Kafka creates a group for a commit even if it refuses all offsets, and
            # shows it after a record of any other group in the same partition.
            partitions.append(1)
        return self._named() | {
            "generation": self._generation(),
            "version": self.rng.randint(2, 9),
            "partitions": partitions,
            "metadata": metadata,
        }

    def _leave(self) -> Step:
        return self._named() | {"version": self.rng.randint(0, 5)}

    def _batch(self) -> Step:
        members = [
            (self.rng.choice(self.actors), self.rng.choice(["own", "instance", "odd"]))
            for _ in range(self.rng.randint(1, 3))
        ]
        return {"version": self.rng.randint(3, 5), "members": members}

    def _list(self) -> Step:
        return {"version": self.rng.randint(0, 5)}
