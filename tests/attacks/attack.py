"""An attack, and its effect on the innocent clients beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field

from tests.attacks.brokers import BrokerProcess
from tests.attacks.innocent import MEMBERS, TOPIC, Innocent, Report
from tests.attacks.target import Target

Program = Generator[None, None, str]
"""Prepares the broker, yields once, attacks, and returns the broker's answers."""

QUIET_S = 3.0
AFTER_S = 1.0
"""Seconds for evicted members to notice it and rejoin."""
BACK_S = 60.0
LOOK_S = 0.1
BACK_RATIO = 3.0
"""Memory counts as released below three times that before: allocators keep some, and an
attack leaves topics and groups."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack.

    Attributes:
        name: for the command line.
        what: its requests, for the table.
        program: see `Program`.
        config: of the broker.
        data: whether the broker has a data directory.
        keeps_mb: memory that may stay: for groups, and the allocator's.
    """

    name: str
    what: str
    program: Callable[[Target], Program]
    config: Mapping[str, str] = field(default_factory=dict)
    data: bool = False
    keeps_mb: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of an attack.

    Attributes:
        quiet: the innocent clients before the attack.
        attacked: the innocent clients during the attack.
        answer: the broker's answers to the attacker.
        seconds: duration of the attack.
        memory: MB before, at the peak, and when it was released, or BACK_S after.
        sockets: of the broker before, and when they were closed, or BACK_S after.
        is_alive: whether the process still runs.
        faults: log lines about defects of the broker.
        keeps_mb: see `Attack`.
    """

    quiet: Report
    attacked: Report | None
    answer: str
    seconds: float
    memory: tuple[float, float, float]
    sockets: tuple[int, int]
    is_alive: bool
    faults: list[str]
    keeps_mb: float

    def found(self) -> list[str]:
        """The violated conditions, one sentence each."""
        out: list[str] = []
        if not self.is_alive:
            return ["the broker died"]
        if self.attacked is None:
            return ["the innocent was never answered again"]
        if self.attacked.evicted:
            out.append(f"{self.attacked.evicted} members were evicted")
        if self.attacked.rebalances:
            out.append(f"the group rebalanced {self.attacked.rebalances} times")
        if self.attacked.lost:
            out.append(f"{self.attacked.lost} connections of the innocent were closed")
        before, _, after = self.memory
        if after > before * BACK_RATIO + self.keeps_mb:
            out.append(f"{after:.0f} MB stay of {before:.0f} MB before")
        if self.sockets[1] > self.sockets[0]:
            out.append(f"{self.sockets[1] - self.sockets[0]} connections stay open")
        return out + self.faults


def play(
    attack: Attack,
    broker: BrokerProcess,
    *,
    quiet_s: float = QUIET_S,
    back_s: float = BACK_S,
) -> Outcome:
    """Attacks a broker beside the innocent clients, and measures both.

    Args:
        attack: of the broker.
        broker: a fresh one.
        quiet_s: seconds for which the innocent clients are measured before the attack.
        back_s: time limit for the release of memory and connections.
    """
    with Target(broker.port) as target, Innocent(broker.port) as innocent:
        target.create(TOPIC, MEMBERS)
        innocent.until_stable()
        program = attack.program(target)
        next(program)
        innocent.report()
        time.sleep(quiet_s)
        quiet = innocent.report()
        memory, sockets = broker.memory(), broker.sockets()
        broker.forget_peak()
        began = time.monotonic()
        answer = _struck(program)
        seconds = time.monotonic() - began
        target.close()
        time.sleep(AFTER_S)
        try:
            attacked = innocent.report() if broker.is_alive else None
        except TimeoutError:
            attacked = None
        _until(lambda: broker.sockets() <= sockets, back_s)
        limit = memory * BACK_RATIO + attack.keeps_mb
        _until(lambda: broker.memory() <= limit, back_s)
        return Outcome(
            quiet,
            attacked,
            answer,
            seconds,
            (memory, broker.peak(), broker.memory()),
            (sockets, broker.sockets()),
            broker.is_alive,
            broker.faults(),
            attack.keeps_mb,
        )


def _struck(program: Program) -> str:
    """The attack itself; it ends early if the broker dies."""
    try:
        next(program)
    except StopIteration as end:
        return str(end.value)
    except OSError as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("a program yields once")


def _until(holds: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(LOOK_S)
