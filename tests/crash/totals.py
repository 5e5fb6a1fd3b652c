"""Common results of runs under a load, and the violations that end them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.crash.broker_process import BrokerProcess
from tests.crash.cluster_queries import ClusterQueries
from tests.crash.load import Load
from tests.crash.witness import Witness


class ViolationError(Exception):
    """Ends a run; `found` has one sentence for each violation."""

    def __init__(self, found: list[str]) -> None:
        super().__init__("\n".join(found))
        self.found = found


def hold(found: list[str]) -> None:
    """Ends the run if there are violations."""
    if found:
        raise ViolationError(found)


@dataclass(slots=True)
class Totals:
    """Results of a run.

    Attributes:
        violations: one sentence each; none if the broker lost nothing.
        records: acknowledged ones.
        commits: acknowledged ones, each of one partition.
        consumed: records that members got.
        seconds: duration of the run.
    """

    violations: list[str] = field(default_factory=list)
    records: int = 0
    commits: int = 0
    consumed: int = 0
    seconds: float = 0.0

    def count(self, witness: Witness) -> None:
        """Adds the clients' results."""
        self.records = len(witness.produced) + len(witness.unplaced)
        self.commits = sum(witness.commits.values())
        self.consumed = sum(
            poll.count for polls in witness.consumed.values() for poll in polls
        )


def until_commits(
    names: list[str], load: Load, witness: Witness, queries: ClusterQueries
) -> None:
    """Waits until each of these groups has a commit."""
    witness.read()
    before = witness.commits.copy()

    def committed() -> bool | None:
        witness.read()
        for worker in load.workers:
            worker.check()
        return True if all(witness.commits[n] > before[n] for n in names) else None

    queries.until(f"{', '.join(names)} commit", committed)


def stop_cleanly(served: BrokerProcess) -> None:
    """Sends SIGTERM; checks that the exit code is 0 and no defect was logged."""
    code = served.stop()
    found = [f"the broker exited {code} on SIGTERM"] if code else []
    hold([*found, *served.faults()])
