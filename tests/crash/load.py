"""The clients of a run: worker processes that outlive every broker."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.crash.cluster_queries import ClusterQueries
from tests.crash.witness import Witness
from tests.long_runs import RunError

ROOT = Path(__file__).parent.parent.parent
LIMIT_S = 150.0
"""Limit for a worker's answer: a flush or a close needs a running broker."""


class WorkerError(RunError):
    """A client failed unexpectedly."""


class Worker:
    """One process.

    Args:
        module: in `tests.crash.workers`.
        folder: for its journal and its stderr.
        name: of both.
        wanted: its arguments; the path of the journal is added.
    """

    def __init__(
        self, module: str, folder: Path, name: str, wanted: dict[str, Any]
    ) -> None:
        self.name = name
        self.journal = folder / f"{name}.journal"
        self._stderr = folder / f"{name}.stderr"
        told = json.dumps({**wanted, "journal": str(self.journal)})
        with self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"tests.crash.workers.{module}", told],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin: IO[str] = self._process.stdin
        self._events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._bounces = 0
        self._error = ""
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), daemon=True
        )
        self._reader.start()

    def _read(self, stdout: IO[str]) -> None:
        with stdout:
            for line in stdout:
                event = json.loads(line)
                if event["event"] == "error":
                    self._error = self._error or event["text"]
                self._events.put(event)
        self._error = self._error or "it ended"
        self._events.put({"event": "error", "text": self._error})

    def check(self) -> None:
        """Checks that it works.

        Raises:
            WorkerError: it failed, or ended.
        """
        if self._error:
            raise WorkerError(f"{self.name}: {self._error}\n{self._stderr_end()}")

    def _stderr_end(self) -> str:
        return self._stderr.read_text(errors="replace")[-8_000:]

    def send(self, *words: object) -> None:
        """Writes one command."""
        self.check()
        self._stdin.write(" ".join(map(str, words)) + "\n")
        self._stdin.flush()

    def expect(self, event: str) -> dict[str, Any]:
        """Waits for an event with this name.

        Raises:
            WorkerError: it failed, ended, or was silent for LIMIT_S.
        """
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                got = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                self._process.send_signal(signal.SIGABRT)
                self._process.wait()
                late = f"{self.name}: no `{event}` in {LIMIT_S:.0f} s"
                raise WorkerError(f"{late}\n{self._stderr_end()}") from None
            if got["event"] == "bounced":
                self._bounces -= 1
            if got["event"] == "error":
                self.check()
            if got["event"] == event:
                return got

    def tell(self) -> list[dict[str, Any] | None]:
        """The state according to its clients; None for one that is being replaced."""
        self.send("tell")
        clients: list[dict[str, Any] | None] = self.expect("told")["clients"]
        return clients

    def bounce(self, number: int) -> None:
        """Replaces a client, without waiting for it; only one at a time."""
        self.until_bounced()
        self._bounces += 1
        self.send("bounce", number)

    def until_bounced(self) -> None:
        """Waits until the client is replaced, if that is in progress."""
        while self._bounces:
            self.expect("bounced")

    def stop(self) -> dict[str, Any]:
        """Makes it finish its work; returns the records that it has sent."""
        self.until_bounced()
        self.send("stop")
        sent: dict[str, Any] = self.expect("done")["sent"]
        self.close()
        return sent

    def close(self) -> None:
        """Ends the process, if it still runs."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        try:
            self._stdin.close()
        except OSError:  # its buffer has no reader
            return


@dataclass(frozen=True, slots=True)
class Group:
    """A group; all its members are clients of one worker."""

    name: str
    worker: Worker


class Load:
    """All workers of a run.

    Args:
        folder: for journals.
        queries: the cluster, which has the topic.
        common: arguments of all workers: topic, partitions, bootstrap, linger_ms.
    """

    def __init__(
        self, folder: Path, queries: ClusterQueries, common: dict[str, Any]
    ) -> None:
        self._folder = folder
        self._queries = queries
        self._common = common
        self.producers: list[Worker] = []
        self.committers: list[Worker] = []
        self.committing: list[str] = []
        self.groups: list[Group] = []
        self.owners: Worker | None = None

    def _start(self, module: str, name: str, **wanted: Any) -> Worker:
        return Worker(module, self._folder, name, {**self._common, **wanted})

    def produce(self, name: str, *producers: dict[str, Any]) -> None:
        """A worker of producers."""
        self.producers.append(self._start("producers", name, producers=producers))

    def commit(self, name: str, *committers: dict[str, Any]) -> None:
        """A worker of committers."""
        self.committers.append(self._start("committers", name, committers=committers))
        self.committing += [each["group"] for each in committers]

    def consume(self, name: str, *members: dict[str, Any]) -> None:
        """A worker with the members of the named group."""
        self._queries.begin(name, self._common["topic"], self._common["partitions"])
        settings = [{**each, "group": name} for each in members]
        worker = self._start("members", name, members=settings)
        self.groups.append(Group(name, worker))

    def own(self, *owners: dict[str, Any]) -> None:
        """A worker of topic owners."""
        self.owners = self._start("owners", "owners", owners=owners)

    @property
    def workers(self) -> list[Worker]:
        """All workers."""
        members = [group.worker for group in self.groups]
        owners = [] if self.owners is None else [self.owners]
        return [*self.producers, *self.committers, *members, *owners]

    def until_ready(self) -> Witness:
        """Waits until all are loaded; returns the reader of their journals."""
        for worker in self.workers:
            worker.expect("ready")
        return Witness([worker.journal for worker in self.workers])

    def stop_producers(self) -> dict[str, list[int]]:
        """Stops them; returns the records that each sent to each partition."""
        sent: dict[str, list[int]] = {}
        for worker in self.producers:
            sent |= worker.stop()
        return sent

    def close(self) -> None:
        """Ends all processes."""
        for worker in self.workers:
            worker.close()
