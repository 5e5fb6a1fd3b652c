"""Plays scenarios against a broker, several at a time."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import AsyncIterator, Iterable
from typing import Any, NamedTuple

from tests.conformance.connection import Connection, ScenarioError
from tests.conformance.env import Env, SkipError, Target
from tests.conformance.registry import Scenario

SCENARIO_LIMIT_S = 60.0
JOBS = 12
_LOADING = {14, 15, 16}  # in progress, not available, not coordinator


class Played(NamedTuple):
    """A scenario that was played.

    Attributes:
        scenario: the scenario.
        events: of its transcript, as `Transcript.render` returns them.
        skipped: why it was skipped; empty if it was played.
        seconds: it took.
    """

    scenario: Scenario
    events: list[dict[str, Any]]
    skipped: str
    seconds: float


async def probe(host: str, port: int) -> Target:
    """Asks for the API ranges, and waits until the coordinator serves groups.

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
        # Enough names to touch every partition of the offsets topic, which a
        # real broker creates and loads on first use.
        for i in range(256):
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


async def play(target: Target, scenario: Scenario) -> Played:
    """Plays one scenario; what goes wrong is the last event of its transcript."""
    env = Env(target)
    skipped = ""
    start = time.monotonic()
    try:
        await asyncio.wait_for(scenario.function(env), SCENARIO_LIMIT_S)
    except SkipError as error:
        skipped = str(error)
    except TimeoutError:
        env.transcript.add(error=f"scenario not finished after {SCENARIO_LIMIT_S:g} s")
    except (ScenarioError, ConnectionError) as error:
        env.transcript.add(error=f"{type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001 - of a scenario; the others go on
        env.transcript.add(error=f"{type(error).__name__}: {error}")
        traceback.print_exc()
    finally:
        await env.close()
    events = env.transcript.render()
    return Played(scenario, events, skipped, time.monotonic() - start)


async def play_all(
    target: Target, scenarios: Iterable[Scenario], jobs: int = JOBS
) -> AsyncIterator[Played]:
    """Plays scenarios, each as soon as one of `jobs` is free, in the order they end."""
    slots = asyncio.Semaphore(jobs)

    async def one(scenario: Scenario) -> Played:
        async with slots:
            return await play(target, scenario)

    for played in asyncio.as_completed([one(each) for each in scenarios]):
        yield await played
