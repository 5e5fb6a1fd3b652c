"""Plays scenarios against a broker, several at a time."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

from tests.conformance.connection import Connection, ScenarioError
from tests.conformance.env import Env, SkipError, Stage, Target
from tests.conformance.goldens import Events
from tests.conformance.registry import Scenario

SCENARIO_LIMIT_S = 60.0
JOBS = 12
_LOADING = {14, 15, 16}  # in progress, not available, not coordinator


class Played(NamedTuple):
    """A played scenario.

    Attributes:
        scenario: the scenario.
        runs: events of each run, as `Transcript.render` returns them.
        skipped: the reason why it was skipped; empty if it was played.
        seconds: its duration.
    """

    scenario: Scenario
    runs: list[Events]
    skipped: str
    seconds: float


async def probe(host: str, port: int, names: int = 256) -> Target:
    """Requests the API versions, and waits until the coordinator serves groups.

    Raises:
        ScenarioError: it does not become available.
    """
    connection = await Connection.open(host, port, "probe")
    try:
        call = await connection.send("ApiVersions", 0, {})
        ranges = {
            k["api_key"]: (k["min_version"], k["max_version"])
            for k in (await call.wait())["api_keys"]
        }
        # Enough names to use every partition of the offsets topic, which a real broker
        # creates and loads on first use.
        for i in range(names):
            await _until_loaded(connection, f"probe-{i}")
        return Target(host, port, ranges)
    finally:
        await connection.close()


async def _until_loaded(connection: Connection, group: str) -> None:
    for _ in range(300):
        call = await connection.send("FindCoordinator", 0, {"key": group})
        code = int((await call.wait())["error_code"])
        if code not in _LOADING:
            call = await connection.send(
                "Heartbeat",
                0,
                {"group_id": group, "generation_id": 0, "member_id": "nobody"},
            )
            code = int((await call.wait())["error_code"])
        if code not in _LOADING:
            return
        await asyncio.sleep(0.2)
    raise ScenarioError(f"the coordinator of {group} does not become available")


async def play(target: Stage, scenario: Scenario, run: int) -> tuple[Events, str]:
    """Plays one run; an error is the last event of its transcript.

    Returns:
        The events, and the reason why the scenario was skipped.
    """
    env = Env(target, ordered=scenario.ordered, run=run)
    skipped = ""
    try:
        await asyncio.wait_for(scenario.function(env), SCENARIO_LIMIT_S)
    except SkipError as error:
        skipped = str(error)
    except TimeoutError:
        env.transcript.add(error=f"scenario not finished after {SCENARIO_LIMIT_S:g} s")
    except (ScenarioError, ConnectionError) as error:
        env.transcript.add(error=f"{type(error).__name__}: {error}")
    except Exception as error:
        env.transcript.add(error=f"{type(error).__name__}: {error}")
        traceback.print_exc()
    finally:
        await env.close()
    return env.transcript.render(), skipped


async def play_all(
    target: Target,
    scenarios: Iterable[Scenario],
    jobs: int = JOBS,
    runs: int | None = None,
) -> AsyncIterator[Played]:
    """Plays scenarios, each as soon as one of `jobs` is free, in the order they end.

    Args:
        target: the broker.
        scenarios: to play.
        jobs: runs at a time.
        runs: of scenarios that are played more than once; their own number by default.
    """
    slots = asyncio.Semaphore(jobs)

    async def one(scenario: Scenario, run: int) -> tuple[Events, str, float]:
        async with slots:
            start = time.monotonic()
            events, skipped = await play(target, scenario, run)
            return events, skipped, time.monotonic() - start

    async def every(scenario: Scenario) -> Played:
        times = 1 if scenario.runs == 1 else runs or scenario.runs
        played = await asyncio.gather(*(one(scenario, run) for run in range(times)))
        events, skipped, seconds = zip(*played, strict=True)
        return Played(scenario, list(events), max(skipped), sum(seconds))

    for played in asyncio.as_completed([every(each) for each in scenarios]):
        yield await played
