"""The clients of a run: worker processes that outlive every broker."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.long_runs import RunError
from tests.long_runs.cluster_queries import ClusterQueries
from tests.long_runs.witness import Witness
from tests.workers import process
from tests.workers.libraries import Library
from tests.workers.process import Line

LIMIT_S = 150.0
"""Limit for a worker's answer: a flush or a close needs a running broker."""
PACE_MS = 50
"""Pause of members between two polls. It waits for nothing: the pause limits the load,
so that a small machine can still run the broker."""
HEARTBEAT_MS = 300
ASSIGNMENT_MS = 300
"""Shortest time between two target assignments: kills hit groups that wait for one."""


def consumer_config(session_ms: int) -> dict[str, str]:
    """Keys of the broker for consumer groups; it sets their members' timeouts.

    Args:
        session_ms: session timeout.
    """
    return {
        "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "group.consumer.min.session.timeout.ms": str(session_ms),
        "group.consumer.session.timeout.ms": str(session_ms),
        "group.consumer.assignment.interval.ms": str(ASSIGNMENT_MS),
    }


class WorkerError(RunError):
    """A client failed unexpectedly."""


class Worker(process.Worker):
    """One process, and the clients in it.

    Args:
        argv: its command.
        folder: for its stderr.
        name: of that file, and in errors.
        witness: takes its lines.
        group: of its members; "" if its clients are none.

    Attributes:
        told: by client, the latest answer to `tell`.
        commits: by client, the number of acknowledged commits.
    """

    def __init__(
        self,
        argv: Sequence[str],
        folder: Path,
        name: str,
        witness: Witness,
        group: str = "",
    ) -> None:
        self.name = name
        self.told: dict[str, dict[str, Any]] = {}
        self.commits: Counter[str] = Counter()
        self._witness = witness
        self._group = group
        self._begun: dict[str, tuple[str, dict[str, object]]] = {}
        self._said: Counter[tuple[str, str]] = Counter()
        self._sent: dict[str, Any] = {}
        stderr = folder / f"{name}.stderr"
        super().__init__(argv, stderr, witness.changed)

    def take(self, line: Line) -> None:
        """Remembers what was said last; the witness takes the rest."""
        kind, client = line.kind, line.client
        if kind == "owns" and line.event["why"] == "told":
            kind = "told"
        self._said[kind, client] += 1
        if kind == "told":
            self.told[client] = line.event
        elif kind == "left":
            self._sent[client] = line.event.get("sent")
        elif kind == "error":
            self.lines.append(line)
        elif kind == "committed":
            self.commits[client] += 1
        self._witness.take(self._group or client, line)

    def check(self) -> None:
        """Checks that it works.

        Raises:
            WorkerError: it failed, or ended.
        """
        if self.error is not None:
            raise WorkerError(f"{self.name}: {self.error}\n{self.logged()}")

    def begin_client(self, verb: str, client: str, **words: object) -> None:
        """Makes a client, whose name is also its client id."""
        self._begun[client] = verb, {"as": client, "client": client, **words}
        self._begin(client)

    def _begin(self, client: str) -> None:
        verb, words = self._begun[client]
        self.send(verb, **words)

    def tell(self) -> dict[str, dict[str, Any]]:
        """The state according to its clients, and all that they have said before."""
        self._answered("tell", "told", [*self._begun])
        return self.told

    def bounce(self, number: int) -> None:
        """Replaces a client, without waiting for it."""
        client = [*self._begun][number]
        self.send("leave", **{"as": client})
        self._begin(client)

    def ask(self, verb: str, answer: str, client: str, **words: object) -> None:
        """Sends another command to a client, and waits for its answer."""
        self._answered(verb, answer, [client], **words)

    def finish(self, *, together: bool = False) -> dict[str, Any]:
        """Makes its clients finish; returns the records that each stream has sent.

        One after the other by default, static members first: a member that leaves makes
        the others rejoin, and aiokafka does not close while its JoinGroup waits for a
        static member that has closed.
        """
        clients = [*self._begun]
        for some in [clients] if together else [[each] for each in clients]:
            self._answered("leave", "left", some)
        self.stop()
        return self._sent

    def until_ready(self) -> None:
        """Waits until it is loaded."""
        self._until("ready", lambda: self._said["ready", ""] > 0)

    def _answered(
        self, verb: str, answer: str, clients: Sequence[str], **words: object
    ) -> None:
        with self.changed:
            before = self._said.copy()
        for client in clients:
            self.send(verb, **{"as": client}, **words)

        def have() -> bool:
            keys = [(answer, client) for client in clients]
            return all(self._said[key] > before[key] for key in keys)

        self._until(answer, have)

    def _until(self, what: str, holds: Callable[[], bool]) -> None:
        """Waits for a line.

        Raises:
            WorkerError: it failed, ended, or was silent for LIMIT_S.
        """
        with self.changed:
            self.changed.wait_for(lambda: holds() or self.error is not None, LIMIT_S)
            is_there = holds()
        self.check()
        if not is_there:
            self.stop(signal.SIGABRT)
            late = f"{self.name}: no `{what}` in {LIMIT_S:.0f} s"
            raise WorkerError(f"{late}\n{self.logged()}")


@dataclass(frozen=True, slots=True)
class Group:
    """A group; all its members are clients of one worker.

    Attributes:
        name: the group id.
        worker: its members.
        is_consumer: a consumer group (KIP-848), else a classic one.
    """

    name: str
    worker: Worker
    is_consumer: bool


class Load:
    """All workers of a run.

    Args:
        folder: for their stderr.
        queries: the cluster, which has the topic.
        topic: of all.
        partitions: of the topic.
        bootstrap: of the cluster.

    Attributes:
        witness: of their responses.
        producers: the workers of streams.
        committers: the workers of those that commit for a group.
        committing: their groups.
        groups: those whose members are in one worker each.
        members: the workers of members.
        names: the groups that have members.
        owners: the worker of topic owners.
    """

    def __init__(
        self,
        folder: Path,
        queries: ClusterQueries,
        topic: str,
        partitions: int,
        bootstrap: str,
    ) -> None:
        self._folder = folder
        self._queries = queries
        self._topic = topic
        self._partitions = partitions
        self._common = {"topic": topic, "bootstrap": bootstrap}
        self.witness = Witness()
        self.producers: list[Worker] = []
        self.committers: list[Worker] = []
        self.committing: list[str] = []
        self.groups: list[Group] = []
        self.members: list[Worker] = []
        self.names: list[str] = []
        self.owners: Worker | None = None

    def start(self, argv: Sequence[str], name: str, group: str = "") -> Worker:
        """A process."""
        return Worker(argv, self._folder, name, self.witness, group)

    def produce(self, library: Library, **streams: dict[str, Any]) -> None:
        """A worker of streams, by name: their `window`, and the library's settings."""
        worker = self.start(library.command(), f"producers-{library.name}")
        for name, settings in streams.items():
            worker.begin_client(
                "stream",
                name,
                partitions=self._partitions,
                window=settings.pop("window"),
                settings=json.dumps(settings, separators=(",", ":")),
                **self._common,
            )
        self.producers.append(worker)

    def commit(self, library: Library, group: str, seed: int) -> None:
        """A worker that commits for a group, without being a member."""
        worker = self.start(library.command(), group, group)
        words = {"group": group, "seed": seed, "partitions": self._partitions}
        worker.begin_client("commit", group, **words, **self._common)
        self.committers.append(worker)
        self.committing.append(group)

    def consume(
        self,
        library: Library,
        group: str,
        assignor: str,
        *,
        is_consumer: bool = False,
        **members: dict[str, Any],
    ) -> None:
        """A worker with the members of the named group: words of their `join`.

        Args:
            library: theirs.
            group: its id.
            assignor: of the clients; of the broker in a consumer group.
            is_consumer: it is a consumer group (KIP-848), see `consumer_config`.
            members: by name, words of their `join`.
        """
        common: dict[str, Any] = {"group": group, "assignor": assignor}
        if is_consumer:
            common["protocol"] = "consumer"
        self._queries.begin(group, self._topic, self._partitions)
        worker = self.start(library.command(), group, group)
        for name, words in members.items():
            self.join(worker, name, **common, **words)
        self.groups.append(Group(group, worker, is_consumer))
        self.members.append(worker)
        self.names.append(group)

    def join(self, worker: Worker, name: str, **words: object) -> None:
        """A member in a worker."""
        paced = {"heartbeat": HEARTBEAT_MS, "pace": PACE_MS, "patient": 1, **words}
        worker.begin_client("join", name, **paced, **self._common)

    def own(self, *owners: tuple[str, str]) -> None:
        """A worker of topic owners, by name and seed."""
        argv = [sys.executable, "-m", "tests.crash.owners"]
        self.owners = self.start(argv, "owners")
        for name, seed in owners:
            self.owners.begin_client("own", name, seed=seed, **self._common)

    @property
    def workers(self) -> list[Worker]:
        """All workers."""
        owners = [] if self.owners is None else [self.owners]
        return [*self.producers, *self.committers, *self.members, *owners]

    def until_ready(self) -> None:
        """Waits until all are loaded."""
        for worker in self.workers:
            worker.until_ready()

    def stop_producers(self) -> dict[str, list[int]]:
        """Stops them, and the committers.

        Returns:
            The records that each producer has sent to each partition.
        """
        sent: dict[str, list[int]] = {}
        while self.producers:
            sent |= self.producers.pop().finish()
        while self.committers:
            self.committers.pop().finish()
        return sent

    def close(self) -> None:
        """Ends all processes."""
        for worker in self.workers:
            worker.stop()
