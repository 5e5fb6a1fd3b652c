"""How faithful the simulation is: scenarios on virtual time, and with real clients.

    python -m bench.faithful

Each scenario is played twice from the same seed: in the simulation, and by `kohort
serve` with processes of kohort's client, over TCP and on the real clock. The code of
what happens to the members is the same. Printed are the generations with their causes,
and the partition-seconds without a reader. A real run takes as long as its scenario.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from tests import commands
from tests.workers.process import Pool, Worker

from kohort.client import Admin, NewTopic
from kohort.simulation.scenario import happenings
from kohort.simulation.scenario.fleet import Fleet
from kohort.simulation.scenario.happenings import Stage
from kohort.simulation.scenario.model import PROTOCOLS, Scenario, parse
from kohort.simulation.scenario.play import Play
from kohort.simulation.world.pod import PodState
from kohort.simulation.world.scheduler import Scheduler
from kohort.simulation.world.world import World

TOPIC: Final = "orders"
GROUP: Final = "billing"
_COMMON: Final = """
[brokers.config]
"group.initial.rebalance.delay.ms" = 3000
"group.min.session.timeout.ms" = 1000
"group.consumer.session.timeout.ms" = 45000
[topics.orders]
partitions = 60
"""
_ROLL: Final = """
duration = "100s"
[groups.billing]
members = 10
start_every_ms = 220
protocol = "{protocol}"
static = {static}
[[happenings]]
at = "21500ms"
do = "roll"
down_s = 2
"""
SCENARIOS: Final[Mapping[str, str]] = {
    "rolling restart, eager": _ROLL.format(protocol="eager", static="false"),
    "rolling restart, cooperative": _ROLL.format(
        protocol="cooperative", static="false"
    ),
    "rolling restart, static": _ROLL.format(protocol="cooperative", static="true"),
    "30 members: 3 crash, 6 come": """
duration = "75s"
[groups.billing]
members = 30
start_every_ms = 50
protocol = "eager"
[groups.billing.settings]
"session.timeout.ms" = 10000
[[happenings]]
at = "15s"
do = "crash"
members = 3
[[happenings]]
at = "46s"
do = "start"
members = 6
""",
    "consumer protocol: 1 leaves, 3 come, 1 pauses": """
duration = "90s"
[groups.billing]
members = 12
start_every_ms = 220
protocol = "consumer"
[[happenings]]
at = "21500ms"
do = "stop"
members = 1
[[happenings]]
at = "42s"
do = "start"
members = 3
[[happenings]]
at = "63s"
do = "pause"
members = 1
seconds = 8
""",
}


class Outcome(NamedTuple):
    """Result of a run.

    Attributes:
        generations: each rebalance: the generation before it, its cause and its end.
        unread_s: partition-seconds without a reader.
    """

    generations: Sequence[tuple[int, str, str]]
    unread_s: float

    @classmethod
    def of(cls, events: Iterable[Mapping[str, Any]]) -> Outcome:
        """That of a stream of events."""
        generations, unread_ns = [], 0
        for event in events:
            if event["kind"] in {"rebalance_account", "unread_account"}:
                unread_ns += event["unread_ns"]
            if event["kind"] == "rebalance_account":
                generations.append(
                    (event["previous_generation"], event["cause"], event["outcome"])
                )
        return cls(generations, unread_ns / 1e9)


# -- with real clients


class RealPod:
    """A process with a consumer, in place of a `kohort.simulation.world.pod.Pod`."""

    def __init__(self, pool: Pool, words: Mapping[str, object]) -> None:
        self.state = PodState.WAITING
        self._pool = pool
        self._words = words
        self._worker: Worker
        self._ending: asyncio.Future[bool] | None = None

    def start(self) -> None:
        """Makes a process a member."""
        self._worker = self._pool.take()
        self._worker.begin(lambda: None)
        self._worker.send("join", **self._words)
        self.state = PodState.RUNNING

    def stop(self, *, leaves: bool | None = None) -> None:
        """Makes it close its consumer."""
        assert leaves is None
        self.state = PodState.STOPPING
        loop = asyncio.get_running_loop()
        self._ending = loop.run_in_executor(None, self._pool.give_back, self._worker)

    def crash(self) -> None:
        """Kills it."""
        self._worker.stop()
        self.state = PodState.CRASHED

    def pause(self, seconds: float) -> None:
        """Stops the process for some time."""
        process = self._worker.process
        process.send_signal(signal.SIGSTOP)
        asyncio.get_running_loop().call_later(
            seconds, process.send_signal, signal.SIGCONT
        )

    async def ended(self) -> None:
        """Returns when the consumer is closed."""
        await asyncio.sleep(0)  # `stop` comes behind the start of this
        if self._ending is not None:
            await self._ending
        self.state = PodState.STOPPED

    @property
    def is_alive(self) -> bool:
        """True from its start to its end."""
        return self.state in {PodState.RUNNING, PodState.STOPPING}

    @property
    def is_settled(self) -> bool:
        """True once it has an assignment."""
        lines = [*self._worker.lines]
        return any(each.event.get("why") == "assigned" for each in lines)


class RealWorld:
    """The part of a `World` that a `Fleet` and the happenings use."""

    def __init__(self, seed: int, pool: Pool, bootstrap: str, protocol: str) -> None:
        self.scheduler = Scheduler(seed)  # for its randomness
        self._pool = pool
        self._bootstrap = bootstrap
        self._protocol = protocol

    def pod(
        self, _name: str, group: str, topics: Sequence[str], *_: object, **settings: Any
    ) -> RealPod:
        """A pod that has not started yet; see `World.pod`."""
        strategy = PROTOCOLS[self._protocol].get("partition_assignment_strategy")
        words = {
            "bootstrap": self._bootstrap,
            "topic": topics[0],
            "group": group,
            "client": settings["client_id"],
            "assignor": strategy or "uniform",
            "session": settings.get("session_timeout_ms", 45_000),
            "heartbeat": settings.get("heartbeat_interval_ms", 3_000),
            "instance": settings.get("group_instance_id"),
            "service": "auto",
            "protocol": None if strategy else "consumer",
        }
        return RealPod(self._pool, words)


async def _play(scenario: Scenario, world: RealWorld, bootstrap: str) -> None:
    """Plays it with the clients of a world."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        partitions = scenario.topics[TOPIC].partitions
        await admin.create_topics([NewTopic(TOPIC, partitions)])
    simulated = cast("World", world)
    fleets = {spec.name: Fleet(simulated, spec) for spec in scenario.groups.values()}
    stage = Stage(simulated, fleets)

    async def happen(at: float, act: Callable[[Stage], Any]) -> None:
        await asyncio.sleep(at)
        await act(stage)

    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(scenario.duration))
        for fleet in fleets.values():
            group.create_task(fleet.start_many(fleet.spec.members))
        for each in happenings.read(scenario):
            group.create_task(happen(each.at, each.act))


def real(scenario: Scenario, protocol: str, seed: int) -> Outcome:
    """Plays a scenario with processes, over TCP, on the real clock."""
    members = scenario.groups[GROUP].members
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder, "events.jsonl")
        argv = [sys.executable, "-m", "tests.workers.kohort"]
        pool = Pool(lambda: argv, Path(folder), "kohort")
        config = [f"--set={key}={value}" for key, value in scenario.config.items()]
        try:
            # Loaded before it begins: processes of pods start at once.
            for worker in [pool.take() for _ in range(members + 8)]:
                pool.give_back(worker)
            with commands.serving(f"--events={events}", *config) as broker:
                world = RealWorld(seed, pool, broker.address, protocol)
                asyncio.run(_play(scenario, world, broker.address))
                broker.end()
        finally:
            pool.stop()
        return Outcome.of(map(json.loads, events.read_text().splitlines()))


# -- both


def simulated(scenario: Scenario, seed: int) -> Outcome:
    """Plays a scenario in the simulation."""
    events: list[Mapping[str, Any]] = []
    Play(scenario, seed, lambda seen: events.append(seen.event)).run()
    return Outcome.of(events)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="a part of the scenarios' names")
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    rows = []
    for name, toml in SCENARIOS.items():
        if wanted.only not in name:
            continue
        values = tomllib.loads(toml + _COMMON)
        scenario = parse(name, values)
        protocol = values["groups"][GROUP]["protocol"]
        virtual = simulated(scenario, wanted.seed)
        clock = real(scenario, protocol, wanted.seed)
        is_same = virtual.generations == clock.generations
        if not is_same:
            print(f"{name}:\n  simulated {virtual.generations}")
            print(f"  real      {clock.generations}")
        rows.append(
            f"| {name} | {len(virtual.generations)} | {len(clock.generations)}"
            f" | {'same' if is_same else 'different'}"
            f" | {virtual.unread_s:.1f} | {clock.unread_s:.1f}"
            f" | {virtual.unread_s / clock.unread_s:.3f} |"
        )
        print(rows[-1], flush=True)
    print(
        "| scenario | rebalances, simulated | real | generations, causes"
        " | partition-seconds, simulated | real | ratio |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
