"""An afternoon of three groups of real clients, recorded as events.

    python -m bench.afternoon --minutes 30 --events FOLDER/afternoon.jsonl

A separate `kohort serve`, three groups over three client libraries, records that are
written all the while, and the incidents of `bench.afternoon.plan`: rolling restarts, a
crash loop, a stalled pod, a full group. The actions that were really done are written
to `FOLDER/afternoon.script.jsonl`, with times, to compare with a report on the events.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import IO

import confluent_kafka
from bench.afternoon.plan import (
    BACKOFF_S,
    GROUP_MAX_SIZE,
    MINUTES,
    PARTITIONS,
    RESTART_S,
    STALL_S,
    TEAMS,
    WRITTEN,
    Act,
    Team,
    acts,
)

from kohort.client import Admin, NewTopic

STOP_S = 20.0
"""A pod that takes longer over its SIGTERM is killed."""


class Script:
    """Log of actions with their times: JSON lines.

    Args:
        file: to write to.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def say(self, do: str, **more: object) -> None:
        """Writes a line: time (ns since the epoch, by the machine), action, target."""
        line = json.dumps({"time_ns": time.time_ns(), "do": do, **more})
        print(line, file=self._file, flush=True)


class Pod:
    """A pod that is started again when its process ends.

    Args:
        team: whose.
        number: from 0.
        bootstrap: where the broker is.
        script: logs the actions on it.
        log: gets its stderr.
    """

    def __init__(
        self, team: Team, number: int, bootstrap: str, script: Script, log: IO[bytes]
    ) -> None:
        self.name = f"{team.group}-{number}"
        self._team = team
        self._script = script
        self._log = log
        self._argv = [
            *(sys.executable, "-m", "bench.afternoon.pod", team.library, bootstrap),
            *(team.group, self.name, team.assignor),
            *(str(n) for n in (team.session_ms, team.heartbeat_ms, team.speed)),
        ]
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None
        self._alone = asyncio.Lock()
        self._is_over = False

    def _say(self, do: str, **more: object) -> None:
        self._script.say(do, group=self._team.group, pod=self.name, **more)

    async def do(self, wanted: Act) -> None:
        """One act, once the one before is through."""
        does: dict[str, Callable[[str], Awaitable[None]]] = {
            "start": self._start,
            "stop": self._stop,
            "restart": self._restart,
            "crash": self._crash,
            "stall": self._stall,
        }
        async with self._alone:
            if not self._is_over:
                await does[wanted.do](wanted.why)

    async def end(self) -> None:
        """Ends the afternoon; acts in progress finish."""
        self._is_over = True
        async with self._alone:
            await self._stop("the afternoon is over")

    async def _start(self, why: str) -> None:
        """Starts it, and restarts it later if it exits on its own."""
        if self._is_over:
            return
        self._process = await asyncio.create_subprocess_exec(
            *self._argv, stdin=asyncio.subprocess.DEVNULL, stderr=self._log
        )
        self._say("start", why=why, pid=self._process.pid)
        self._watching = asyncio.create_task(self._watch(self._process))

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        if process is not self._process or self._alone.locked():
            return  # it did not end by itself
        self._say("ended by itself", code=code)
        await asyncio.sleep(BACKOFF_S)
        async with self._alone:
            if process is self._process:
                await self._start("it had ended by itself")

    def _taken(self) -> asyncio.subprocess.Process | None:
        """Its process, which is not started again from now on; None: it is down."""
        process, self._process = self._process, None
        return None if process is None or process.returncode is not None else process

    async def _stop(self, why: str) -> None:
        """SIGTERM, and waits until it is gone."""
        process = self._taken()
        self._say("stop", why=why, was_down=process is None)
        if process is None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            self._say("killed", why="it did not stop")
            process.kill()
        self._say("stopped", code=await process.wait())

    async def _restart(self, why: str) -> None:
        """SIGTERM, and started again once it is gone."""
        await self._stop(why)
        await self._start(why)

    async def _crash(self, why: str) -> None:
        """SIGKILL, and started again a little later."""
        process = self._taken()
        self._say("crash", why=why, was_down=process is None)
        if process is not None:
            process.kill()
            await process.wait()
        await asyncio.sleep(RESTART_S)
        await self._start(why)

    async def _stall(self, why: str) -> None:
        """SIGSTOP, and SIGCONT when its session is over."""
        process = self._process
        self._say("stall", why=why, seconds=STALL_S, was_down=process is None)
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(STALL_S)
        process.send_signal(signal.SIGCONT)
        self._say("goes on", why=why)


@contextlib.asynccontextmanager
async def served(events: Path, log: IO[bytes]) -> AsyncIterator[str]:
    """Runs a broker in a separate process; yields its address."""
    settings = [f"--set=group.max.size={GROUP_MAX_SIZE}"]
    labels = ["--label=scenario=afternoon", f"--label=group.max.size={GROUP_MAX_SIZE}"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kohort", "serve", "--port=0", f"--events={events}"),
        *settings,
        *labels,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=log,
    )
    try:
        said = (await process.stdout.readline()).decode() if process.stdout else ""
        found = re.search(r"accepts connections on (\S+:\d+)", said)
        if found is None:
            sys.exit(f"the broker did not start: {said}")
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def write(bootstrap: str) -> None:
    """Records at a steady rate to each topic, until it is cancelled."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    pause_s = 0.25
    started = time.monotonic()
    for tick in itertools.count(1):
        for number in range(int(WRITTEN * pause_s)):
            for team in TEAMS:
                producer.produce(team.group, b"a record", b"%d.%d" % (tick, number))
        producer.poll(0)
        await asyncio.sleep(max(0.0, started + tick * pause_s - time.monotonic()))


async def act(wanted: Act, pod: Pod, at: float) -> None:
    """Waits until its time (of the loop), and does it."""
    await asyncio.sleep(at - asyncio.get_running_loop().time())
    await pod.do(wanted)


async def play(bootstrap: str, minutes: float, script: Script, log: IO[bytes]) -> None:
    """Plays the afternoon on a running broker."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topics([NewTopic(team.group, PARTITIONS) for team in TEAMS])
    pods = {
        (team.group, number): Pod(team, number, bootstrap, script, log)
        for team in TEAMS
        for number in range(team.pods)
    }
    now = asyncio.get_running_loop().time()
    minute_s = 60.0 * minutes / MINUTES
    writing = asyncio.create_task(write(bootstrap))
    doing = [
        asyncio.create_task(
            act(each, pods[each.group, each.pod], now + each.at * minute_s)
        )
        for each in acts()
    ]
    await asyncio.sleep(minutes * 60.0 - (asyncio.get_running_loop().time() - now))
    # Acts under way come to their end, so that nothing that they start is left over.
    await asyncio.gather(*(pod.end() for pod in pods.values()))
    await asyncio.gather(*doing)
    writing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await writing  # raises its error, if it ended before


async def record(minutes: float, events: Path) -> None:
    """All of it."""
    script_path = events.with_suffix(".script.jsonl")
    log_path = events.with_suffix(".stderr")
    with script_path.open("a") as file, log_path.open("ab") as log:
        script = Script(file)
        script.say("begin", minutes=minutes, group_max_size=GROUP_MAX_SIZE)
        async with served(events, log) as bootstrap:
            await play(bootstrap, minutes, script, log)
        script.say("end")


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=MINUTES, help="how long")
    parser.add_argument(
        "--events", type=Path, required=True, help="the file of events, to append to"
    )
    given = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(path or "." for path in sys.path)
    asyncio.run(record(given.minutes, given.events))


if __name__ == "__main__":
    main()
