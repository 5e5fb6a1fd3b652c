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

from tests.long_runs import RunError

START_S = 60.0
"""No start takes this long, even on a busy machine."""
STOP_S = 60.0


class BrokerError(RunError):
    """The broker ended unexpectedly, or did not start."""


def free_ports(count: int) -> int:
    """The first of this many adjacent free ports.

    Below those that the system gives to outgoing connections: while the broker is down,
    its clients must not use the broker's port themselves.
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
    """A broker in a separate process.

    Args:
        folder: for its log: `broker.stderr`, one file for all starts.
        nodes: of its cluster.
        arguments: of `kohort serve`, except ports and nodes.
        program: what Python runs as `kohort`.

    Attributes:
        ports: of its nodes, the same ones at each start.
        start_s: duration of the last start that was waited for.
        longest_start_s: the longest of them.
    """

    def __init__(
        self,
        folder: Path,
        nodes: int,
        arguments: Sequence[str],
        program: Sequence[str] = ("-m", "kohort"),
    ) -> None:
        first = free_ports(nodes)
        self.ports = list(range(first, first + nodes))
        self.start_s = self.longest_start_s = 0.0
        self._stderr = folder / "broker.stderr"
        self._argv = [sys.executable, *program, "serve", f"--port={first}"]
        if nodes > 1:
            self._argv.append(f"--nodes={nodes}")
        self._argv += arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._seen = 0

    @property
    def bootstrap(self) -> str:
        """The `bootstrap.servers` of clients."""
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
        """Waits for the line that it accepts connections; returns all its output."""
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
        """Returns after the time.

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
        """Sends SIGTERM; returns the exit code."""
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
        """Kills the process, if it still runs."""
        if self._process is not None:
            self._end(signal.SIGKILL)

    def logged(self) -> str:
        """The end of its stderr."""
        if not self._stderr.exists():
            return ""
        return self._stderr.read_text(errors="replace")[-4_000:]

    def faults(self) -> list[str]:
        """Lines about its own defects since the last call."""
        if not self._stderr.exists():
            return []
        with self._stderr.open("rb") as file:
            file.seek(self._seen)
            whole, _, _ = file.read().rpartition(b"\n")
        self._seen += len(whole) + 1 if whole else 0
        lines = whole.decode(errors="replace").split("\n")
        return [line for line in lines if "Traceback (most recent" in line]
