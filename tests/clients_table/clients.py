"""The client libraries of the table, their versions, and pairs of their workers."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING

import confluent_kafka
from tests.clients_table.evidence import MEMBERS
from tests.workers import libraries
from tests.workers.libraries import HERE, Library
from tests.workers.process import Pool, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Bound:
    """The longest hold that a library survives.

    Attributes:
        rule: in words of its settings.
        default_s: with its defaults.
        seconds: from the settings session, poll and request, in seconds.
    """

    rule: str
    default_s: float
    seconds: Callable[[float, float, float], float]


JOIN = "PreparingRebalance"
SYNC = "CompletingRebalance"


@dataclass(frozen=True, slots=True)
class Client:
    """A library in the table.

    Attributes:
        name: of the column.
        library: its worker.
        assignor: one of its usual ones, eager if it has both.
        version: the installed one.
        session_ms: its default session timeout.
        poll_ms: its default rebalance timeout, if a worker has to set it.
        bears: by the state in which a group is held, the longest hold, as a rule.
    """

    name: str
    library: Library
    assignor: str
    version: Callable[[], str]
    session_ms: int = 45_000
    poll_ms: int | None = None
    bears: Mapping[str, Bound] = field(default_factory=dict)


def _found(file: str, pattern: str) -> Callable[[], str]:
    def find() -> str:
        found = re.search(pattern, (HERE / file).read_text())
        assert found is not None, f"{file} has no {pattern}"
        return found[1]

    return find


def _kafkajs() -> str:
    package = json.loads((HERE / "node/package.json").read_text())
    return str(package["dependencies"]["kafkajs"])


def _of_poll(rule: str, default_s: float) -> Bound:
    return Bound(
        rule, default_s, lambda _session, poll, request: max(request, poll + 5)
    )


CLIENTS = (
    Client(
        "librdkafka",
        libraries.CONFLUENT,
        "range",
        lambda: confluent_kafka.libversion()[0],
        bears={
            JOIN: Bound(
                "`max.poll.interval.ms` + 3 s",
                303,
                lambda _session, poll, _request: poll + 3,
            ),
            SYNC: Bound(
                "the smaller of `socket.timeout.ms` and `session.timeout.ms` + 3 s",
                48,
                lambda session, _poll, request: min(request, session + 3),
            ),
        },
    ),
    Client(
        "kafka-clients",
        libraries.JAVA,
        "range",
        _found("java/pom.xml", r"kafka-clients</artifactId>\s*<version>([^<]+)"),
        bears={
            JOIN: _of_poll(
                "the larger of `request.timeout.ms` and `max.poll.interval.ms` + 5 s",
                305,
            ),
            # Its heartbeats wait behind the SyncGroup, on the same connection.
            SYNC: Bound(
                "the smaller of `request.timeout.ms` and `session.timeout.ms`",
                30,
                lambda session, _poll, request: min(request, session),
            ),
        },
    ),
    Client(
        "aiokafka",
        libraries.AIOKAFKA,
        "range",
        lambda: version("aiokafka"),
        session_ms=10_000,
        bears={
            state: Bound(
                "`request_timeout_ms`", 40, lambda _session, _poll, request: request
            )
            for state in (JOIN, SYNC)
        },
    ),
    Client(
        "kafka-python",
        libraries.KAFKA_PYTHON,
        "range",
        lambda: version("kafka-python"),
        bears={
            JOIN: _of_poll(
                "the larger of `request_timeout_ms` and `max_poll_interval_ms` + 5 s",
                305,
            ),
            SYNC: Bound(
                "`request_timeout_ms`", 30, lambda _session, _poll, request: request
            ),
        },
    ),
    Client(
        "franz-go",
        libraries.FRANZ_GO,
        "range",
        _found("go/go.mod", r"twmb/franz-go v(\S+)"),
        bears={
            JOIN: Bound(
                "`RebalanceTimeout` + `RequestTimeoutOverhead`",
                70,
                lambda _session, poll, request: poll + request,
            ),
            SYNC: Bound(
                "`RebalanceTimeout`", 60, lambda _session, poll, _request: poll
            ),
        },
    ),
    Client(
        "kafkajs",
        libraries.KAFKAJS,
        "roundrobin",
        _kafkajs,
        session_ms=30_000,
        poll_ms=60_000,
        bears={
            JOIN: _of_poll(
                "the larger of `requestTimeout` and `rebalanceTimeout` + 5 s", 65
            ),
            SYNC: Bound(
                "`requestTimeout`", 30, lambda _session, _poll, request: request
            ),
        },
    ),
)


class Pair:
    """Two workers of a library, replaced when they cannot be used any more."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.workers: dict[str, Worker] = {}
        self._pool = Pool(client.library.command, folder, client.name)

    async def ready(self) -> dict[str, Worker]:
        """Both, by client id."""
        for name in MEMBERS:
            known = self.workers.get(name)
            if known is None or not known.is_reusable or known.code is not None:
                if known is not None:
                    await asyncio.to_thread(known.stop)
                self.workers[name] = await asyncio.to_thread(self._pool.take)
        return self.workers

    async def stop(self) -> None:
        """Stops both workers."""
        await asyncio.to_thread(self._pool.stop)
        self.workers.clear()
