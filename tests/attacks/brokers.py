"""Brokers to attack, each a process on 127.0.0.1, observed from outside."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests import apache_kafka
from tests.long_runs.broker_process import free_ports

START_S = 60.0
LOOK_S = 0.05
KOHORT = f"{shlex.quote(sys.executable)} -m kohort serve --port {{port}}"
NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}
LOGGED = 3_000
"""Characters of the end of a broker's log."""

_TRACE = "Traceback (most recent"


class BrokerProcess:
    """A broker's process.

    Args:
        port: its port.
        pid: the process.
        stderr: its log file, if we have it.
    """

    def __init__(self, port: int, pid: int, stderr: Path | None = None) -> None:
        self.port = port
        self.pid = pid
        self._stderr = stderr
        self._folder = Path(f"/proc/{pid}")

    @property
    def is_alive(self) -> bool:
        """True while the process runs; a zombie does not."""
        with contextlib.suppress(OSError):
            state = (self._folder / "stat").read_text().rpartition(")")[2].split()[0]
            return state not in "ZX"
        return False

    def memory(self) -> float:
        """Resident memory in MB; 0.0 if the process is gone."""
        return self._memory("VmRSS")

    def peak(self) -> float:
        """The most resident memory in MB since `forget_peak`."""
        return self._memory("VmHWM")

    def forget_peak(self) -> None:
        """Resets `peak`."""
        with contextlib.suppress(OSError):
            (self._folder / "clear_refs").write_text("5")

    def sockets(self) -> int:
        """Its open sockets, including those of lost connections."""
        count = 0
        with contextlib.suppress(OSError):
            for each in (self._folder / "fd").iterdir():
                with contextlib.suppress(OSError):
                    count += str(each.readlink()).startswith("socket:")
        return count

    def logged(self) -> str:
        """Its log."""
        if self._stderr is None:
            return ""
        return self._stderr.read_text(errors="replace")

    def faults(self) -> list[str]:
        """Logged defects of the broker."""
        lines = self.logged().splitlines()
        return [each for each in lines if "request_failed" in each or _TRACE in each]

    def _memory(self, name: str) -> float:
        with contextlib.suppress(OSError):
            for line in (self._folder / "status").read_text().splitlines():
                if line.startswith(f"{name}:"):
                    return int(line.split()[1]) / 1024
        return 0.0


@contextlib.contextmanager
def commanded(command: str, arguments: Sequence[str] = ()) -> Iterator[BrokerProcess]:
    """A broker started by its command line.

    Args:
        command: with `{port}` in it.
        arguments: appended to it; `{folder}` is one for its data.
    """
    port = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="kohort-attacks-") as name:
        folder = Path(name)
        log = folder / "log"
        argv = [each.format(port=port) for each in shlex.split(command)]
        argv += [each.format(folder=folder / "data") for each in arguments]
        environment = {n: v for n, v in os.environ.items() if n[:7] != "KOHORT_"}
        with (
            log.open("wb") as file,
            subprocess.Popen(
                argv,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            ) as process,
        ):
            try:
                made = BrokerProcess(port, process.pid, log)
                _until_served(made)
                yield made
            finally:
                process.kill()


def kohort(
    config: Mapping[str, str], *, data: bool = False, command: str = KOHORT
) -> contextlib.AbstractContextManager[BrokerProcess]:
    """`kohort serve`, without the delay of new groups.

    Args:
        config: as `--set`.
        data: whether it has a data directory.
        command: see `commanded`.
    """
    arguments = [
        f"--set={key}={value}" for key, value in {**NO_DELAY, **config}.items()
    ]
    return commanded(command, arguments + ["--data-dir={folder}"] * data)


@contextlib.contextmanager
def kafka(config: Mapping[str, str]) -> Iterator[BrokerProcess]:
    """Apache Kafka 4.3, see `tests.apache_kafka`."""
    with apache_kafka.running(config) as node:
        yield BrokerProcess(int(node.bootstrap_servers.rpartition(":")[2]), node.pid)


def _until_served(broker: BrokerProcess) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and broker.is_alive:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", broker.port), 1.0).close()
            return
        time.sleep(LOOK_S)
    raise ChildProcessError(f"the broker did not start: {broker.logged()[-LOGGED:]}")
