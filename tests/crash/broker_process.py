"""`kohort serve` on one directory: started, killed, and started again."""

from __future__ import annotations

import os
import re
import resource
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

START_S = 60.0
"""Nothing starts for so long, on a busy machine either."""
STOP_S = 60.0


class BrokerError(Exception):
    """The broker did what it must not: it ended, or did not start."""


def free_ports(count: int) -> int:
    """The first of so many neighbours that are free.

    Below those that the system gives to outgoing connections: while the broker is
    down, its clients must not get its own port to call from.
    """
    limits = Path("/proc/sys/net/ipv4/ip_local_port_range")
    lowest = int(limits.read_text().split()[0]) if limits.exists() else 32_768
    span = lowest - 10_000 - count
    start = os.getpid() * 37 % span
    for step in range(span):
        first = 10_000 + (start + step * count) % span
        if all(_is_free(first + i) for i in range(count)):
            return first
    raise BrokerError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class BrokerProcess:
    """A broker in a process of its own.

    Args:
        folder: for what it logs: `broker.stderr`, one file for all starts.
        nodes: of its cluster.
        arguments: of `kohort serve`, besides ports and nodes.

    Attributes:
        ports: of its nodes, the same ones at each start.
        start_s: how long the last start took that was waited for.
        longest_start_s: the longest of them.
    """

    def __init__(self, folder: Path, nodes: int, arguments: Sequence[str]) -> None:
        first = free_ports(nodes)
        self.ports = list(range(first, first + nodes))
        self.start_s = self.longest_start_s = 0.0
        self._stderr = folder / "broker.stderr"
        self._argv = [sys.executable, "-m", "kohort", "serve", f"--port={first}"]
        if nodes > 1:
            self._argv.append(f"--nodes={nodes}")
        self._argv += arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._seen = 0

    @property
    def bootstrap(self) -> str:
        """What clients take as `bootstrap.servers`."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process

    @property
    def pid(self) -> int:
        """Its process."""
        return self._running.pid

    def start(self) -> None:
        """Starts the process; `until_ready` waits for it."""
        assert self._process is None, "started twice"
        environment = {
            n: v for n, v in os.environ.items() if not n.startswith("KOHORT_")
        }
        self._started_at = time.monotonic()
        with self._stderr.open("ab") as stderr:
            self._process = subprocess.Popen(
                self._argv,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )

    def until_ready(self) -> str:
        """Waits for the line that it accepts connections; returns all that it said."""
        process = self._running
        assert process.stdout is not None
        said = b""
        deadline = time.monotonic() + START_S
        while not re.search(rb"accepts connections on .*\n", said):
            left = deadline - time.monotonic()
            with selectors.DefaultSelector() as selector:  # any file descriptor
                selector.register(process.stdout, selectors.EVENT_READ)
                readable = selector.select(max(0.0, left))
            piece = os.read(process.stdout.fileno(), 65_536) if readable else b""
            if not piece:
                what = "did not start" if readable else f"not ready in {START_S:.0f} s"
                raise BrokerError(f"the broker {what}: {self.logged()}")
            said += piece
        self.start_s = time.monotonic() - self._started_at
        self.longest_start_s = max(self.longest_start_s, self.start_s)
        return said.decode()

    def runs_for(self, seconds: float) -> None:
        """Returns when the time is over.

        Raises:
            BrokerError: at once, if the broker ends meanwhile.
        """
        try:
            code = self._running.wait(seconds)
        except subprocess.TimeoutExpired:
            return
        raise BrokerError(f"the broker ended by itself, {code}: {self.logged()}")

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM)

    def until_killed(self) -> None:
        """Waits until another process has killed the broker.

        Raises:
            BrokerError: the broker exited without a kill.
        """
        code = self._end(0)
        if code != -signal.SIGKILL:
            raise BrokerError(f"the broker ended by itself, {code}: {self.logged()}")

    def fill_disk(self, room: int) -> None:
        """Limits the size of every file that the broker writes."""
        limits = room, resource.RLIM_INFINITY
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, limits)

    def _end(self, number: int) -> int:
        process = self._running
        process.send_signal(number)
        try:
            code = process.wait(STOP_S)
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
            self._process = None
        return code

    def close(self) -> None:
        """Leaves no process behind, whatever happened."""
        if self._process is not None:
            self._end(signal.SIGKILL)

    def logged(self) -> str:
        """The end of what it wrote to stderr."""
        if not self._stderr.exists():
            return ""
        return self._stderr.read_text(errors="replace")[-4_000:]

    def faults(self) -> list[str]:
        """Lines that it logged since the last call about faults of its own."""
        if not self._stderr.exists():
            return []
        with self._stderr.open("rb") as file:
            file.seek(self._seen)
            whole, _, _ = file.read().rpartition(b"\n")
        self._seen += len(whole) + 1 if whole else 0
        lines = whole.decode(errors="replace").split("\n")
        return [line for line in lines if "Traceback (most recent" in line]
