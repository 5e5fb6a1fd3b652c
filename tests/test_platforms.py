"""Modules that Windows lacks: kohort does without them, but for data directories."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

WINDOWS = """
import asyncio, importlib, os, signal, subprocess, sys
import aiohttp.web, click, prometheus_client, pytest, rich.live, structlog
sys.platform = "win32"
for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty", "uvloop"):
    sys.modules[name] = None
for name in ("fork", "getpgrp", "killpg", "pread", "pwrite", "pwritev", "tcgetpgrp"):
    delattr(os, name)
def refuse(*_):
    raise NotImplementedError
asyncio.SelectorEventLoop.add_signal_handler = refuse
"""
"""As far as Linux can play it: without the modules, functions and signals."""

IMPORTS = """
for folder in ("broker", "client", "control", "protocol", "testing"):
    for path, _, files in os.walk(os.path.join(sys.argv[1], folder)):
        for file in files:
            if file.endswith(".py"):
                name = os.path.relpath(os.path.join(path, file), sys.argv[1])
                name = name.removesuffix(".py").replace(os.sep, ".")
                importlib.import_module(f"kohort.{name}".removesuffix(".__init__"))
"""

GROUP = """
from kohort.broker.log.store import DataDirError
from kohort.broker.server import Broker
from kohort.client import Consumer, Producer

async def main(address):
    async with Producer(bootstrap_servers=address) as producer:
        await producer.send_and_wait("orders", b"one")
    settings = {"group_id": "g", "auto_offset_reset": "earliest"}
    async with Consumer("orders", bootstrap_servers=address, **settings) as consumer:
        print((await consumer.getone()).value)

with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
    asyncio.run(main(broker.bootstrap_servers))
try:
    with Broker(data_dir=sys.argv[1]):
        pass
except DataDirError as error:
    print(error)
"""


def run(code: str, argument: Path) -> str:
    """Runs a program without these modules; returns its output."""
    command = [sys.executable, "-c", WINDOWS + code, str(argument)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_modules_can_be_imported_on_windows() -> None:
    """Modules of the broker, the client, the commands and the plugin need no Unix."""
    assert run(IMPORTS, ROOT) == ""


@pytest.mark.long
def test_a_broker_in_memory_works_on_windows(tmp_path: Path) -> None:
    """A consumer group reads from it; a data directory is refused in one line."""
    assert run(GROUP, tmp_path).splitlines() == [
        "b'one'",
        f"{tmp_path}: data directories do not work on Windows; leave them out",
    ]
