"""A cluster, and commands to it by the command line or HTTP."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tests.long_runs import RunError
from tests.long_runs.broker_process import BrokerProcess

COMMAND_S = 60.0


class MoveError(RunError):
    """The cluster refused a command, or failed."""


class Cluster:
    """Three nodes in one process, and the sender of commands to them.

    Args:
        folder: for the broker's log.
        draw: chooses the way of each command.
        config: of the broker.
        arguments: more of `kohort serve`.
        program: see `BrokerProcess`.

    Attributes:
        served: the process.
        ways: the number of commands each way.
    """

    def __init__(
        self,
        folder: Path,
        draw: random.Random,
        config: dict[str, str],
        arguments: Sequence[str] = (),
        program: Sequence[str] = ("-m", "kohort"),
    ) -> None:
        settings = (f"--set={name}={value}" for name, value in config.items())
        self.served = BrokerProcess(
            folder, 3, ["--http=0", *settings, *arguments], program
        )
        self.ways = {"command line": 0, "HTTP": 0}
        self._draw = draw
        self._url = ""

    def start(self) -> None:
        """Starts it, and waits until it is ready."""
        self.served.start()
        said = self.served.until_ready()
        found = re.search(r"http://\S+", said)
        if found is None:
            raise MoveError(f"no HTTP address in {said!r}")
        self._url = found.group()

    def move_group(self, group: str, node: int) -> None:
        """Moves the coordinator of a group, and its neighbours, to a node."""
        words = ["move-group", group, str(node)]
        self._told(words, f"groups/{group}/move", {"node": node})

    def move_partition(self, topic: str, partition: int, node: int) -> None:
        """Moves a partition to another leader."""
        words = ["move", topic, str(partition), str(node)]
        self._told(words, f"partitions/{topic}/{partition}/move", {"node": node})

    def stop_node(self, node: int) -> None:
        """Stops a node; the others take over its partitions."""
        self._told(["stop", str(node)], f"nodes/{node}/stop")

    def start_node(self, node: int) -> None:
        """Starts a node, at its old address."""
        self._told(["start", str(node)], f"nodes/{node}/start")

    def _told(
        self, words: list[str], path: str, body: dict[str, object] | None = None
    ) -> None:
        """Sends a command by the command line or by HTTP."""
        if self._draw.random() < 0.5:
            self.ways["command line"] += 1
            self._command(words)
        else:
            self.ways["HTTP"] += 1
            self._post(path, body or {})

    def _command(self, words: list[str]) -> None:
        command = [sys.executable, "-m", "kohort", "cluster", *words]
        done = subprocess.run(
            [*command, f"--http={self._url}"],
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        if done.returncode:
            raise MoveError(f"kohort cluster {' '.join(words)}: {done.stderr}")

    def _post(self, path: str, body: dict[str, object]) -> None:
        request = urllib.request.Request(
            f"{self._url}/v1/{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=COMMAND_S):
                pass
        except urllib.error.HTTPError as error:
            with error:
                raise MoveError(f"POST {path}: {error.read().decode()}") from None
