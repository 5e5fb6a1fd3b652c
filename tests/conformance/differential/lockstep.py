"""Plays one sequence on one stage or several at once, a step at a time.

After each step all brokers have to agree within `AGREE_S` seconds on the answered
requests, the responses, and the state. Between the steps of a burst no timer fires, see
`Sequence.burst_s`; a wait lasts until no timer is left.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from collections.abc import Sequence as Several
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.differential.request import Request
from tests.conformance.differential.sequence import Sequence, Step
from tests.conformance.differential.side import Side
from tests.conformance.env import Stage
from tests.conformance.symbols import render

AGREE_S = 1.5
STILL = 5
"""Looks at a broker without any change after which no change is expected."""
LOOK_S = 0.025
BEAT_S = 0.4
BEATS_A_LOOK = 2
"""In waits. Looks are most of this process's work."""
WAIT_MOST_S = 30.0

SAME = "same"
DIFFERENT = "different"
FREE = "free"
"""Brokers have chosen different leaders after the previous one was removed, or have
divided the partitions of a consumer group in different ways, which the order of the ids
allows. The choice depends on random ids, so the rest cannot be compared."""
SLOW = "slow"
"""A burst was slow: timers may have fired in it."""

_CHOSEN = ("leader", "members", "skip_assignment")
"""Fields of a JoinGroup response that depend on the leader."""
_TARGET = "target_assignment"
_DIVIDED = (_TARGET, "assignment", "member_epoch", "group_state")
"""Fields of a consumer group's description that depend on its target assignment."""
NO_ANSWER = "no answer"


@dataclass
class Moment:
    """A step and its results: one item for each broker.

    Attributes:
        number: of the step, from 1.
        step: the step.
        sent: the requests, as text.
        answers: responses after it, by request; also to earlier ones.
        states: of the group, or the partition.
        orders: see `Side.order`.
    """

    number: int
    step: Step
    sent: list[str]
    answers: dict[str, list[Any]] = field(default_factory=dict)
    states: list[Any] = field(default_factory=list)
    orders: list[Any] = field(default_factory=list)

    def of(self, side: int) -> str:
        """The results on one broker."""
        answers = {
            label: shown[side]
            for label, shown in self.answers.items()
            if shown[side] != NO_ANSWER
        }
        return json.dumps([self.sent, answers, self.states[side]])

    @property
    def is_same(self) -> bool:
        """True if all brokers gave the same."""
        return len({self.of(side) for side in range(len(self.states))}) == 1

    @property
    def is_free(self) -> bool:
        """True if they differ only by a choice that random ids decide."""
        return self._divides_freely or self._has_other_leader

    @property
    def _divides_freely(self) -> bool:
        """True if they have other target assignments, and another order of ids."""
        targets = [_only(_TARGET, state) for state in self.states]
        bare = [_without(_DIVIDED, state) for state in self.states]
        return (
            self.orders.count(self.orders[0]) < len(self.orders)
            and targets.count(targets[0]) < len(targets)
            and bare.count(bare[0]) == len(bare)
        )

    @property
    def _has_other_leader(self) -> bool:
        found = False
        for shown in self.answers.values():
            if all(isinstance(each, dict) and "leader" in each for each in shown):
                bare = [
                    {k: v for k, v in each.items() if k not in _CHOSEN}
                    for each in shown
                ]
                leaders = {str(each["leader"]) for each in shown}
                if bare.count(bare[0]) == len(bare) and len(leaders) > 1:
                    found = True
                    continue
            if shown.count(shown[0]) != len(shown):
                return False
        return found and self.states.count(self.states[0]) == len(self.states)


@dataclass
class Played:
    """A play of a sequence.

    Attributes:
        verdict: `SAME`, `DIFFERENT`, `FREE` or `SLOW`.
        moments: of all steps up to the one that decided.
    """

    verdict: str
    moments: list[Moment]

    def outcome(self, side: int) -> tuple[str, ...]:
        """The results of one broker, a string for each step."""
        return tuple(moment.of(side) for moment in self.moments)

    @property
    def is_raced(self) -> bool:
        """True if requests were sent together."""
        return any(moment.step["do"] == "together" for moment in self.moments)


def _only(name: str, value: Any) -> list[Any]:
    """The values of a field, wherever it is."""
    if isinstance(value, list):
        return [found for each in value for found in _only(name, each)]
    if not isinstance(value, dict):
        return []
    return [v for k, v in value.items() if k == name] + [
        found for each in value.values() for found in _only(name, each)
    ]


def _without(names: Several[str], value: Any) -> Any:
    """A value without some fields."""
    if isinstance(value, list):
        return [_without(names, each) for each in value]
    if not isinstance(value, dict):
        return value
    return {k: _without(names, v) for k, v in value.items() if k not in names}


MakeSide = Callable[[Stage], Side]


async def play(
    targets: Several[Stage],
    make: MakeSide,
    sequence: Sequence,
    gate: asyncio.Semaphore,
    order: random.Random | None = None,
) -> Played:
    """Plays a sequence, up to the first difference.

    Args:
        targets: the brokers.
        make: makes a side for one.
        sequence: to play.
        gate: limits the number of sequences at work; any number may wait.
        order: shuffles requests that are sent together; by default they keep their
            order.
    """
    run = _Run([make(target) for target in targets], sequence, gate, order)
    try:
        verdict = await run.steps()
        return Played(verdict, run.moments)
    finally:
        await asyncio.gather(*(side.end() for side in run.sides))


class _Run:
    def __init__(
        self,
        sides: list[Side],
        sequence: Sequence,
        gate: asyncio.Semaphore,
        order: random.Random | None,
    ) -> None:
        self.sides = sides
        self.moments: list[Moment] = []
        self._sequence = sequence
        self._gate = gate
        self._order = order
        self._loop = asyncio.get_running_loop()
        self._burst_began = 0.0
        self._open: dict[str, list[Request]] = {}
        """Unanswered requests, one for each side, by label."""

    async def steps(self) -> str:
        """Plays all steps; returns the verdict."""
        await self._gate.acquire()
        self._burst_began = self._loop.time()
        try:
            return await self._steps()
        finally:
            self._gate.release()

    async def _steps(self) -> str:
        for number, step in enumerate(self._sequence.steps, 1):
            if step["do"] == "wait":
                await self._wait(step)
                self._burst_began = self._loop.time()
                moment = Moment(number, step, [f"wait; heartbeats of {step['alive']}"])
            elif self._elapsed_s > self._sequence.burst_s:
                return SLOW
            else:
                moment = await self._send(number, step)
                if not moment.sent:
                    continue
            self.moments.append(moment)
            moment.states = await self._settled(
                step["do"] == "together" or len(self.sides) == 1
            )
            self._collect(moment)
            moment.orders = [side.order for side in self.sides]
            if step["do"] == "begin":  # before there are members, and timers
                self._burst_began = self._loop.time()
            if self._elapsed_s > self._sequence.calm_s:
                return SLOW
            if not moment.is_same:
                return FREE if moment.is_free else DIFFERENT
        return SAME

    @property
    def _elapsed_s(self) -> float:
        """Since the burst began."""
        return self._loop.time() - self._burst_began

    # -- sending

    async def _send(self, number: int, step: Step) -> Moment:
        parts = step["steps"] if step["do"] == "together" else [step]
        if step["do"] == "restart":
            for side in self.sides:
                await side.connections.drop(step["actor"])
                side.restart(step)
            self._open = {
                label: requests
                for label, requests in self._open.items()
                if requests[0].who != step["actor"]
            }
            what = "starts again" if step["forgets"] else "connects again"
            return Moment(number, step, [f"{step['actor']} {what}"])
        of_sides = [_planned(side, parts) for side in self.sides]
        told = [
            f"{each.who} {each.api} v{each.version} {_told(self.sides[0], each)}"
            for each in of_sides[0]
        ]
        turns = list(range(len(told)))
        if self._order:
            self._order.shuffle(turns)
        for side, planned in zip(self.sides, of_sides, strict=True):
            await side.connections.send(*(planned[turn] for turn in turns))
        for position, requests in enumerate(zip(*of_sides, strict=True)):
            letter = "abc"[position] if len(of_sides[0]) > 1 else ""
            first = requests[0]
            label = f"{number}{letter} {first.who} {first.api} v{first.version}"
            self._open[label] = list(requests)
        return Moment(number, step, told)

    async def _wait(self, step: Step) -> None:
        """Waits until nothing has changed for `quiet_s`: then no timer is left."""
        self._gate.release()
        now = changed = self._loop.time()
        end = now + WAIT_MOST_S
        before: Any = None
        await self._keep_alive(step)
        while True:
            for _ in range(BEATS_A_LOOK):
                await asyncio.sleep(BEAT_S)
                await self._keep_alive(step)
            seen = await self._look()
            now = self._loop.time()
            if seen != before:
                before, changed = seen, now
            is_over = now - changed > self._sequence.quiet_s or now > end
            # Members that are kept alive need heartbeats in front of the gate, too.
            if is_over and not self._gate.locked():
                await self._gate.acquire()
                return

    async def _keep_alive(self, step: Step) -> None:
        await asyncio.gather(*(side.keep_alive(step) for side in self.sides))

    # -- results

    async def _look(self) -> tuple[list[Any], list[list[bool]]]:
        states = await asyncio.gather(*(side.state() for side in self.sides))
        answered = [
            [requests[i].is_answered for requests in self._open.values()]
            for i in range(len(self.sides))
        ]
        return list(states), answered

    async def _settled(self, is_together: bool) -> list[Any]:
        """The states, as soon as all brokers agree, or the time is over.

        Requests that were sent together may end in different ways. Then the brokers
        need not agree, and the step ends when nothing changes any more.
        """
        calm_until = self._burst_began + self._sequence.calm_s - LOOK_S
        deadline = min(self._loop.time() + AGREE_S, calm_until)
        before: Any = None
        still = 0
        while True:
            states, answered = seen = await self._look()
            still = still + 1 if seen == before else 0
            is_even = all(
                both.count(both[0]) == len(both) for both in (states, answered)
            )
            is_open = any(
                not each.waits and not each.is_answered
                for requests in self._open.values()
                for each in requests
            )
            if is_even and not is_open and (still or not is_together):
                return states
            if is_together and not is_open and still >= STILL:
                return states
            # The first look may have overtaken the request on a busy machine.
            if self._loop.time() > deadline and (still or self._sequence.timers_ms):
                return states
            before = seen
            await asyncio.sleep(LOOK_S)

    def _collect(self, moment: Moment) -> None:
        """Collects the responses so far, and updates the sides from them."""
        done = {
            label: requests
            for label, requests in self._open.items()
            if any(each.is_answered for each in requests)
        }
        for label, requests in done.items():
            del self._open[label]
            for side, each in zip(self.sides, requests, strict=True):
                if each.is_answered:
                    side.absorb(each)
        for label, requests in done.items():
            moment.answers[label] = [
                side.shown(each) if each.is_answered else NO_ANSWER
                for side, each in zip(self.sides, requests, strict=True)
            ]


def _planned(side: Side, parts: list[Step]) -> list[Request]:
    """The requests of some steps; later ones know of the earlier ones."""
    planned = []
    for part in parts:
        requests = side.requests(part)
        for each in requests:
            side.plan(each)
        planned += requests
    return planned


_UNTOLD = {
    "replica_id": -1,
    "rack_id": "",
    "group_id": "<group>",
    "generation_id_or_member_epoch": -1,
}
"""Fields that mean nothing to the reader, or nearly always have this value."""


def _told(side: Side, request: Request) -> str:
    """The fields of a request that are worth showing."""
    fields = request.sent_fields if request.told is None else request.told
    shown = render(fields, side.env.symbols, response=False)
    kept = {k: v for k, v in shown.items() if v not in (None, [], _UNTOLD.get(k, ""))}
    return json.dumps(kept)
