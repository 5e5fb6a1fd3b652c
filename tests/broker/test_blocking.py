"""``with Broker(...)``: a broker for blocking code, in a separate thread."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import unittest
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S
from tests.wire.client import connected

from kohort.broker.config import ConfigError
from kohort.broker.server import Broker
from kohort.broker.thread import StoppedError


def threads() -> list[str]:
    """The names of the running broker threads."""
    return [each.name for each in threading.enumerate() if each.name == "kohort"]


def can_connect(broker: Broker) -> bool:
    """Returns whether its port accepts connections."""
    try:
        socket.create_connection((broker.host, broker.port), 10).close()
    except ConnectionRefusedError:
        return False
    return True


def test_it_runs_until_the_end_of_the_block() -> None:
    """After the block neither its port nor its thread exists."""
    with Broker({"group.max.size": 3}, nodes=2) as broker:
        assert can_connect(broker)
        assert broker.bootstrap_servers.count(",") == 1
        assert threads() == ["kohort"]
    assert not can_connect(broker)
    assert threads() == []


def test_its_methods_are_called_in_its_thread() -> None:
    """`call` takes functions, `run` coroutines; both return results, or raise."""
    with Broker(nodes=2) as broker:
        assert broker.call(threading.current_thread).name == "kohort"
        broker.run(broker.stop_node(2))
        assert broker.call(lambda: broker.cluster.running) == [1]
        with pytest.raises(Exception, match="there is no node 9"):
            broker.run(broker.stop_node(9))


def test_an_error_of_the_block_is_raised() -> None:
    """An error of the block is raised after the broker has stopped."""
    broker = Broker()
    with pytest.raises(KeyboardInterrupt), broker:
        raise KeyboardInterrupt
    assert not can_connect(broker)


def test_it_can_be_started_again() -> None:
    """It can be started again on the same port, but not while it is running."""
    with Broker() as broker:
        port = broker.port
        with pytest.raises(RuntimeError, match="running already"):
            broker.__enter__()
        assert can_connect(broker)
    with broker:
        assert broker.port == port
        assert can_connect(broker)


def test_an_address_in_use_is_an_error_of_the_start() -> None:
    """An address in use fails the start, and leaves no thread."""
    with Broker() as first, pytest.raises(OSError), Broker(port=first.port):  # noqa: PT011 - the system's words
        pass
    assert threads() == []


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"config": {"group.max.siz": 3}}, "group.max.siz=3 .*group.max.size?"),
        ({"config": {"group_max_size": 3}}, "group_max_size=3 .*group.max.size?"),
        ({"config": {"group.max.size": "x"}}, "group.max.size=x .*whole number"),
        ({"config": {"group.id": "g"}}, "group.id=g .*a consumer's setting"),
        ({"advertise": "broker"}, "advertise='broker': must be host:port"),
        ({"port": 65536}, "port=65536: ports are 0 to 65535"),
        ({"port": 65535, "nodes": 2}, "port=65535: ports are 0 to 65535"),
    ],
)
def test_a_wrong_setting_fails_in_the_constructor(
    options: dict[str, Any], why: str
) -> None:
    """The message names the wrong setting, and the one that was probably meant."""
    with pytest.raises(ConfigError, match=why):
        Broker(**options)


def test_call_and_run_need_a_block() -> None:
    """`call` and `run` raise if the broker has no thread."""
    broker = Broker()
    with pytest.raises(StoppedError, match="in no `with` block"):
        broker.call(print)
    with pytest.raises(StoppedError, match="in no `with` block"):
        broker.run(asyncio.sleep(0))


async def test_it_works_beside_a_running_loop() -> None:
    """Its start and stop block a running loop for some milliseconds."""
    with Broker() as broker:
        async with connected(broker) as client:
            await client.is_served()


def test_an_unseen_error_is_raised_at_the_end() -> None:
    """An error of kohort in a callback is raised at the end of the block."""

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as found, Broker() as broker:
        broker.call(lambda: asyncio.get_running_loop().call_soon(fail))
    assert found.group_contains(ZeroDivisionError)


PROGRAM = """
from kohort.broker.server import Broker
with Broker() as broker:
    print(broker.port, flush=True)
    input()
"""


def test_ctrl_c_ends_a_program() -> None:
    """KeyboardInterrupt ends the program, as without a broker."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ,
        text=True,
    ) as program:
        assert program.stdout is not None
        assert int(program.stdout.readline())
        for _ in range(60):
            # One that comes just before `input` reads does not end the reading.
            program.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(timeout=1)
                break
        _, said = program.communicate(timeout=PATIENCE_S)
    assert said.endswith("KeyboardInterrupt\n")
    assert program.returncode != 0


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "broker-in-a-program.md"
BLOCKS = [each.partition("```")[0] for each in PAGE.read_text().split("```python")[1:]]


@pytest.mark.parametrize(
    "code", BLOCKS, ids=["kafka-python", "methods", "unittest", "verbs"]
)
def test_the_page_s_code_works(code: str) -> None:
    """The page's code works as printed; its TestCase passes."""
    names: dict[str, Any] = {"__name__": "page"}
    exec(code, names)
    for each in names.values():
        if isinstance(each, type) and issubclass(each, unittest.TestCase):
            result = unittest.TestResult()
            unittest.defaultTestLoader.loadTestsFromTestCase(each).run(result)
            assert result.testsRun == 1
            assert result.wasSuccessful()
    assert threads() == []
