"""A broker with a full disk, by a limit on the size of its files."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

from tests.commands import KOHORT, environment


class SmallDisk:
    """``kohort serve`` that cannot make a file longer than a limit.

    Attributes:
        process: the process; both outputs are pipes.
        port: its port.
        errors: its log.
    """

    def __init__(self, process: Process, port: int) -> None:
        assert process.stderr is not None
        self.process = process
        self.port = port
        self.errors = process.stderr

    async def until_logged(self, text: str, *, without: str | None = None) -> None:
        """Waits until a line with one text is logged, and none with another one."""
        while text not in (line := (await self.errors.readline()).decode()):
            assert line, "it has ended"
            assert without is None or without not in line

    def give_room(self) -> None:
        """Removes the limit."""
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, unlimited)

    async def end(self) -> str:
        """Stops it; returns the rest of its log."""
        self.process.terminate()
        _, errors = await self.process.communicate()
        assert self.process.returncode == 0
        return errors.decode()

    async def kill(self) -> str:
        """Kills it; returns the rest of its log."""
        self.process.kill()
        _, errors = await self.process.communicate()
        return errors.decode()


@contextlib.asynccontextmanager
async def on_a_small_disk(
    limit: int, *options: str, log: Path | None = None
) -> AsyncIterator[SmallDisk]:
    """Serves with a limit in bytes for each file, until the scene ends.

    Args:
        limit: see above.
        options: of `kohort serve`.
        log: a file on the disk that takes the log, too.
    """

    def make_the_disk_small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    command = [*KOHORT, "serve", "--port=0", "--log-format=json", *options]
    if log is not None:
        command = ["sh", "-c", f'exec "$@" 2>>{log}', "sh", *command]
    process = await asyncio.create_subprocess_exec(
        *command,
        "--set=group.initial.rebalance.delay.ms=0",
        # What it loads is not compiled to the small disk: a part of a file would stay.
        env=environment(PYTHONDONTWRITEBYTECODE="1"),
        stdout=PIPE,
        stderr=PIPE,
        preexec_fn=make_the_disk_small,
    )
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        assert "accepts" in line, (await process.communicate())[1].decode()
        yield SmallDisk(process, int(line.split("127.0.0.1:")[1].split(" ")[0]))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
