"""Measures how long each library survives a hold of its group, and its next request.

A held group answers no JoinGroup, or no SyncGroup. A member survives it until it sends
the request again: then it has given up the first one. Each library is measured with low
settings, with one of them raised at a time, and with its defaults. `Client.bears` has
the rules that they confirm.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.clients_table.evidence import MEMBERS
from tests.clients_table.play import LOW, Cell, Timeouts
from tests.clients_table.rows import REBALANCE, Row

if TYPE_CHECKING:
    from tests.workers.process import Worker

STATES = ("PreparingRebalance", "CompletingRebalance")
WAITS = {"PreparingRebalance": "join", "CompletingRebalance": "sync"}
PARKED_S = 30.0
# Requests of a member that no longer waits for its response.
AGAIN = {"JoinGroup", "SyncGroup", "FindCoordinator", "LeaveGroup"}

SETTINGS = {
    "low": LOW,
    "session raised": Timeouts(session=9_000),
    "poll raised": Timeouts(poll=14_000),
    "request raised": Timeouts(request=8_000),
}
LOW_LIMIT_S = 40.0
DEFAULT_LIMIT_S = 330.0  # more than 5 min, the longest default


@dataclass(frozen=True, slots=True)
class Held:
    """One hold.

    Attributes:
        state: the state in which the group was held.
        timeouts: the members' settings.
        borne_s: from when a member's request was parked until the first member gave up;
            None: none did, for `limit_s`.
        next: the first request of that member, or its error.
        is_back: the group was well within 30 s of its release.
    """

    state: str
    timeouts: Timeouts
    limit_s: float
    borne_s: float | None
    next: str
    is_back: bool


class HoldCell(Cell):
    """The play of one hold."""

    def __init__(
        self,
        workers: dict[str, Worker],
        assignor: str,
        state: str,
        timeouts: Timeouts,
        longest_s: float,
    ) -> None:
        row = Row(f"hold-{state}", "Holds", "", (("hold", {"state": state}), REBALANCE))
        super().__init__(row, workers, assignor, timeouts)
        self.state = state
        self.longest_s = longest_s
        self.borne_s: float | None = None
        self.next = ""

    async def _recover(self) -> None:
        parked = await self._until(self._are_parked, PARKED_S)
        if not parked:
            self.next = f"not parked: {self._state()}"
        await self._until(self._gave_up, self.longest_s)
        self.group.release()
        self.evidence.undone_ns = time.time_ns()
        await super()._recover()

    def _are_parked(self) -> bool:
        members = self.group.members
        # The leader's SyncGroup alone delays all others.
        waits = [each for each in members if each.waits_for == WAITS[self.state]]
        return len(waits) == len(MEMBERS) == len(members)

    def _gave_up(self) -> bool:
        """Checks the requests: the broker has 80 events a second."""
        if self.borne_s is not None:
            return True
        wanted = "JoinGroup" if self.state == STATES[0] else "SyncGroup"
        since: dict[str, int] = {}
        for row in self.broker.requests.find():
            client = row.client_id or ""
            if row.time_ns < self.evidence.done_ns or row.api not in AGAIN:
                continue
            if client in since:
                self.borne_s = (row.time_ns - since[client]) / 1e9
                self.next = row.api
                return True
            if row.api == wanted:
                since[client] = row.time_ns
        for name, worker in self.workers.items():
            if name in since:
                self._hear_of_end(worker, since[name])
        return self.borne_s is not None

    def _hear_of_end(self, worker: Worker, since_ns: int) -> None:
        """Its next request may wait at the broker behind the parked one."""
        ends = [
            line
            for line in worker.lines
            if line.kind == "log"
            and line.event["text"] in {"timed out: JoinGroup", "timed out: SyncGroup"}
        ]
        if ends:
            self.borne_s = (ends[0].at_ns - since_ns) / 1e9
            self.next = "a request that waits behind it"
        elif worker.error is not None:
            self.borne_s = (time.time_ns() - since_ns) / 1e9
            self.next = worker.error

    def held(self) -> Held:
        """The result, after the play."""
        return Held(
            self.state,
            self.timeouts,
            self.longest_s,
            None if self.borne_s is None else round(self.borne_s, 1),
            self.next,
            self.evidence.back_ns is not None,
        )
