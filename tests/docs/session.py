"""A user's terminal: the commands of one page, one after the other, in one folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final, Self, cast

from tests.commands import environment, serving
from tests.docs import stage
from tests.patience import PATIENCE_S

INTERRUPTED_S: Final = 3
"""Time until ^C."""
INTERRUPTED: Final = 130
"""The exit code of a program that ^C ended."""


class Terminal:
    """Runs commands; `kohort serve` goes on until the page ends, on free ports.

    A broker has the topic "orders" and the group "billing" with the member billing-1,
    so that commands find something.

    Args:
        folder: the folder in which they run.
        transacts: whether the producer "orders-1" has an open transaction.
    """

    def __init__(self, folder: Path, *, transacts: bool = False) -> None:
        self._folder = folder
        self._transacts = transacts
        self._stack = contextlib.ExitStack()
        self._variables: dict[str, str] = {}
        program = folder / "bin" / "kohort"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kohort "$@"\n')
        program.chmod(0o755)
        (folder / ".curlrc").write_text("silent\n")
        self._path = f"{program.parent}:{os.environ['PATH']}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def serve(self, *arguments: str, **variables: str) -> str:
        """Starts a broker, and ends the one before; returns the line that it prints."""
        self._stack.close()
        replaced = {"--port": "0", "--http": "0"}
        words = list(arguments)
        for number, word in enumerate(arguments[:-1]):
            words[number + 1] = replaced.get(word, words[number + 1])
        if "--http" not in words:
            words += ["--http", "0"]
        variables = {"KOHORT_GROUP_INITIAL_REBALANCE_DELAY_MS": "0", **variables}
        with contextlib.chdir(self._folder):
            broker = self._stack.enter_context(
                serving(*words, **cast("Any", variables))
            )
        member = Member(broker.address, transacts=self._transacts)
        self._stack.callback(member.stop)
        assert member.has_committed.wait(PATIENCE_S)
        assert broker.http is not None
        self._variables = {
            "KOHORT_BOOTSTRAP_SERVERS": broker.address,
            "KOHORT_HTTP": broker.http,
            **variables,
        }
        return broker.line

    def run(self, line: str) -> tuple[int, str]:
        """The exit code and the output of a command line.

        A command that would go on is interrupted, which is no failure.
        """
        words = shlex.split(line, comments=True)
        variables = dict(w.split("=", 1) for w in words if re.match(r"[A-Z_]+=", w))
        words = words[len(variables) :]
        if words[:2] == ["kohort", "serve"]:
            return 0, self.serve(*[w for w in words[2:] if w != "&"], **variables)
        if not self._variables:
            self.serve("--nodes", "3")
        for printed in stage.ADDRESSES:
            line = line.replace(printed, self._variables["KOHORT_BOOTSTRAP_SERVERS"])
        line = re.sub(r"http://[\w.]+:9080", self._variables["KOHORT_HTTP"], line)
        if is_endless(words):
            # In the foreground: else it also signals its group, and so kohort twice.
            timeout = "timeout --foreground --preserve-status --signal=INT"
            line = f"{timeout} {INTERRUPTED_S} {line}"
        own = {"PATH": self._path, "HOME": str(self._folder)}
        ended = subprocess.run(
            ["bash", "-c", line],
            cwd=self._folder,
            env=environment(**self._variables) | own,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        code = ended.returncode
        return 0 if is_endless(words) and code == INTERRUPTED else code, ended.stdout


def is_endless(words: list[str]) -> bool:
    """Returns whether a command ends only when it is interrupted."""
    if words[:2] == ["kohort", "consume"]:
        return "--until-end" not in words
    return words[:2] == ["curl", "-N"]


class Member(threading.Thread):
    """The member billing-1 of the group "billing", until `stop`."""

    def __init__(self, address: str, *, transacts: bool) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._transacts = transacts
        self.has_committed = threading.Event()
        self._stopping = threading.Event()
        self.start()

    def run(self) -> None:
        """Consumes."""
        asyncio.run(self._main())

    async def _main(self) -> None:
        await stage.fill(self._address)
        async with contextlib.AsyncExitStack() as stack:
            if self._transacts:
                await stage.begin(stack, self._address)
            consumer = stage.consumer(self._address, stage.MEMBERS[0])
            await stack.enter_async_context(consumer)
            while not self._stopping.is_set():
                records = await consumer.getmany(timeout_ms=50)
                if records and not self.has_committed.is_set():
                    await consumer.commit()
                    self.has_committed.set()

    def stop(self) -> None:
        """Ends it."""
        self._stopping.set()
        self.join()
