"""Apache Kafka 4.3, one KRaft node in a separate process, from Maven's jars.

The jars are downloaded once, see `tests.workers.libraries`. A node takes 3 to 5 s to
start and 350 MB, so tests share it: each scene uses its own names. Keys of groups, such
as `group.max.size`, cannot be altered while a node runs (it answers INVALID_REQUEST): a
test that needs other values starts another node.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.workers.libraries import _built, _run, need

from kohort.client.admin import Admin

SOURCE = Path(__file__).parent / "java" / "kafka"
START_S = 120.0
ATTEMPTS = 5
HEAP_MB = 384
CLUSTER_ID = "a29ob3J0LXRlc3Qta2Fma2E"  # any 16 bytes

# One compiler, for a short start on a small machine.
JAVA = [
    "java",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
]
STARTED = "Kafka Server started"
TAKEN = "Address already in use"

ALONE = {
    "node.id": 1,
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
"""The configuration of a cluster of one node."""


@dataclass(frozen=True, slots=True)
class Kafka:
    """A running node.

    Attributes:
        secured: the addresses of its other listeners, by security protocol.
    """

    bootstrap_servers: str
    pid: int
    secured: Mapping[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def running(
    config: Mapping[str, object],
    heap_mb: int = HEAP_MB,
    *,
    listeners: Sequence[str] = (),
    scram_users: Sequence[str] = (),
) -> Iterator[Kafka]:
    """Starts a node, and kills it in the end, with its files.

    Skips the test if Java or Maven is missing; fails it if ``CI=true``.

    Args:
        config: the broker's configuration, in addition to that of a single node.
        heap_mb: of Java. A request of 100 MB, the largest, needs more than usual.
        listeners: security protocols of more listeners, next to PLAINTEXT.
        scram_users: as `kafka-storage format --add-scram` takes them.
    """
    need("java", "mvn")
    jars = _built(SOURCE, _fetch) / "target" / "dependency"
    java = [*JAVA, f"-Xmx{heap_mb}m", "-cp", f"{jars}/*"]
    with contextlib.ExitStack() as stack:
        for attempt in range(ATTEMPTS):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            node = _Node(java, folder, config, listeners, scram_users)
            stack.callback(node.stop)
            if node.start():
                break
            # Another process may have taken one of the ports meanwhile.
            is_port_taken = TAKEN in node.story() and attempt < ATTEMPTS - 1
            assert is_port_taken, f"Apache Kafka has not started:\n{node.story()}"
        with ThreadPoolExecutor(1) as pool:  # there may be a loop in this thread
            pool.submit(asyncio.run, _has_coordinator(node.address)).result()
        assert node.process is not None
        yield Kafka(node.address, node.process.pid, node.secured)


def _fetch(folder: Path) -> None:
    _run(["mvn", "-B", "-q", "dependency:copy-dependencies"], folder)


async def _has_coordinator(address: str) -> None:
    """The first FindCoordinator makes Kafka create its topic."""
    async with Admin(bootstrap_servers=address) as admin:
        await admin.describe_consumer_groups(["nobody"])


class _Node:
    """A process of Apache Kafka.

    Args:
        java: the command, up to the class.
        folder: for its files.
        config: the broker's configuration.
        listeners: security protocols of more listeners.
        scram_users: see `running`.
    """

    def __init__(
        self,
        java: list[str],
        folder: Path,
        config: Mapping[str, object],
        listeners: Sequence[str],
        scram_users: Sequence[str],
    ) -> None:
        names = ["PLAINTEXT", "CONTROLLER", *listeners]
        addresses = {
            name: f"127.0.0.1:{port}"
            for name, port in zip(names, _free_ports(len(names)), strict=True)
        }
        self.address = addresses["PLAINTEXT"]
        self.secured = {name: addresses[name] for name in listeners}
        self.process: subprocess.Popen[str] | None = None
        self._java = java
        self._properties = folder / "server.properties"
        self._scram_users = scram_users
        self._said: list[str] = []
        self._decided = threading.Event()
        self._reader: threading.Thread
        all_of_it = {
            "listeners": ",".join(f"{name}://{addresses[name]}" for name in names),
            "listener.security.protocol.map": ",".join(
                [
                    "CONTROLLER:PLAINTEXT",
                    *(f"{n}:{n}" for n in ("PLAINTEXT", *listeners)),
                ]
            ),
            "controller.quorum.voters": f"1@{addresses['CONTROLLER']}",
            "log.dirs": folder / "data",
            **ALONE,
            **config,
        }
        lines = [f"{key}={value}\n" for key, value in all_of_it.items()]
        self._properties.write_text("".join(lines))

    def start(self) -> bool:
        """Starts it; returns whether it has started."""
        properties = str(self._properties)
        _run(
            [
                *("env", "LC_ALL=C.UTF-8"),  # in which Java reads its arguments
                *self._java,
                "kafka.tools.StorageTool",
                "format",
                *("--cluster-id", CLUSTER_ID),
                *("--config", properties),
                *(f"--add-scram={user}" for user in self._scram_users),
            ],
            self._properties.parent,
        )
        process = subprocess.Popen(
            [*self._java, "kafka.Kafka", properties],
            cwd=self._properties.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        self._reader = threading.Thread(
            target=self._read, args=(process.stdout,), daemon=True
        )
        self._reader.start()
        self.process = process
        self._decided.wait(START_S)
        return any(STARTED in line for line in self._said)

    def stop(self) -> None:
        """Kills it: its files are not needed."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self._reader.join()

    def story(self) -> str:
        """Its output."""
        return "".join(self._said)

    def _read(self, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                self._said.append(line)
                if STARTED in line:
                    self._decided.set()
        self._decided.set()


def _free_ports(count: int) -> list[int]:
    """Free ports: Kafka needs them before it starts."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
