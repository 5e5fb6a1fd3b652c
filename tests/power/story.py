"""A life of a broker: random steps, and their calls."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.power.disk import Call, Link, Sync
from tests.power.model import Start, Step, World
from tests.power.recorder import recording
from tests.power.serving import Serving
from tests.power.steps import Scope, Steps
from tests.wire.requests import EARLIEST

from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest

NAMES = ("orders", "o", "l" * 195 + "1", "l" * 195 + "2", "x" * 249)
"""Folders of long names are near the limit of 255 bytes."""
GROUPS = ("alpha", "beta", "gamma", "delta")
KINDS: tuple[dict[str, str], ...] = (
    {},
    {"cleanup.policy": "compact", "delete.retention.ms": "1000"},
    {"retention.bytes": "900"},
    {"retention.ms": "4000"},
    {"segment.ms": "300"},
)
SCOPE = Scope(NAMES, GROUPS, KINDS)
PAUSE_S = 0.1
LONG_PAUSE_S = 4.0


@dataclass(frozen=True, slots=True)
class Began:
    """Marks the beginning of a step."""

    step: Step


@dataclass(frozen=True, slots=True)
class Ended:
    """Marks the response to a step."""

    step: Step


Entry = Call | Began | Ended


class Life:
    """The life of a broker on a data directory, from start to stop.

    Args:
        path: the data directory.
        world: its contents, updated with the steps.
        config: the broker's.
        now: the time at its start.
        seed: of all random choices.

    Attributes:
        entries: steps and calls, in order.
        now: the time at its end.
        step: the last one that began.
    """

    def __init__(
        self,
        path: Path,
        world: World,
        config: Mapping[str, object],
        now: float,
        seed: str,
    ) -> None:
        self.entries: list[Entry] = []
        self.now = now
        self.step = Step()
        self._path = path
        self._config = config
        self._draw = random.Random(seed)
        self._world = world
        self._steps = Steps(SCOPE, world, self._draw, self._now_ms, self._taking)
        self._serving: Serving

    def live(self, steps: int) -> None:
        """Starts, takes the steps, and stops cleanly."""
        with recording(self._path, self.entries):
            self._starts()
            for _ in range(steps):
                self._steps.take(
                    (10, lambda: self._pass(LONG_PAUSE_S)), (1.5, self._restart)
                )
                self._pass(PAUSE_S * self._draw.choice((0.01, 1, 3)))
            self._stops()

    def _starts(self) -> None:
        with self._taking(Step("start")):
            self._serving = Serving(self._path, self._config, self.now)
            self._steps.client = self._serving
            # Creates `__consumer_offsets`.
            self._serving.call("FindCoordinator", 3, FindCoordinatorRequest("alpha"))

    def _stops(self) -> None:
        with self._taking(Step("stop")):
            self._serving.close()
        self.now = self._serving.clock.now()

    def _restart(self) -> None:
        self._stops()
        self._starts()
        self._steps.producers.clear()

    def _now_ms(self) -> int:
        return int(self._serving.clock.now() * 1000)

    def _taking(self, step: Step) -> _Taking:
        self.step = step
        return _Taking(step, self.entries, self._world)

    def _pass(self, seconds: float) -> None:
        """Lets time pass, with housekeeping: retention, compaction, checkpoints."""
        step = Start("time passes")
        with self._taking(step):
            self._serving.advance(seconds * self._draw.uniform(0.5, 1.5))
            for name, topic in self._world.topics.items():
                for index in range(len(topic.parts)):
                    start = self._serving.offset(name, index, EARLIEST)
                    if start != topic.parts[index].start:
                        step.starts[name, index] = start


class _Taking:
    """The time that a step takes."""

    def __init__(self, step: Step, entries: list[Entry], world: World) -> None:
        self._step = step
        self._entries = entries
        self._world = world
        entries.append(Began(step))
        self._since = len(entries)

    def __enter__(self) -> None:
        """The call is made."""

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if failure is None:
            for entry in self._entries[self._since :]:
                follow(entry, self._world)
            self._entries.append(Ended(self._step))
            self._world.took(self._step)


def follow(entry: Entry, world: World) -> None:
    """Updates a world by the calls to the disk."""
    if isinstance(entry, Sync) and entry.path:
        world.synced(entry.path)
    elif isinstance(entry, Link) and entry.path:
        world.linked(entry.path)
    elif isinstance(entry, Ended):
        world.took(entry.step)
