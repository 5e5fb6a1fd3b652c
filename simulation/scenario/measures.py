"""Measures of a run, from the accounts of its events and from the simulated truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, Final

from kohort.broker.events.seen import Seen
from kohort.protocol.slotted import slotted
from kohort.simulation.world.pod import PodState
from kohort.simulation.world.world import World

QUIET_NS: Final = 10_000_000_000
"""A group is stable again when 10 s pass without a rebalance."""


@slotted
class Measures:
    """Measures of one run.

    Attributes:
        rebalances: their number by cause, as ``rebalance_account`` has it.
        unread_s: partition-seconds without a reader.
        again_certain: records that were handled and delivered again.
        again_possible: records that were delivered again, and perhaps handled before.
        skipped: records that no member was sent.
        unstable_s: the longest time until a group was stable: from a rebalance to the
            end of the last one that began within 10 s of the end of another.
        refusals: joins that were refused, by cause.
        commits_refused: commits that the coordinator refused.
        expiries: sessions that expired.
        false_expiries: those of them whose process was alive.
        failed: pods that ended because their consumer failed.
        records: records that were processed.
        wire_bytes: bytes of JoinGroup, SyncGroup, LeaveGroup, ConsumerGroupHeartbeat.
        cpu_s: CPU time of these requests and of the coordinators' timers. It depends on
            the machine.
        settled: members with an assignment at the end.
        alive: pods that ran at the end.
    """

    rebalances: Mapping[str, int]
    unread_s: float
    again_certain: int
    again_possible: int
    skipped: int
    unstable_s: float
    refusals: Mapping[str, int]
    commits_refused: int
    expiries: int
    false_expiries: int
    failed: int
    records: int
    wire_bytes: int
    cpu_s: float
    settled: int
    alive: int

    @property
    def rebalance_count(self) -> int:
        """The number of all rebalances."""
        return sum(self.rebalances.values())

    def as_json(self) -> dict[str, Any]:
        """The measures by name."""
        return {name: getattr(self, name) for name in Measures.__annotations__}


class Meter:
    """Measures a world while it goes on: a listener of its events."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rebalances: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        # By group: the begin and the end of its present unrest, and the longest one.
        self._unrest: dict[str, tuple[int, int]] = {}
        self._unstable_ns = 0
        self._settled = self._alive = 0
        self._handlers: Mapping[str, Callable[[Seen], None]] = {
            "rebalance_account": self._rebalance,
            "unread_account": self._unread,
            "delivery_account": self._delivery,
            "member_refused": self._refused,
            "commit_refused": self._commit_refused,
            "member_expired": self._expired,
        }

    def add(self, seen: Seen) -> None:
        """Takes an event."""
        handler = self._handlers.get(seen.notice.kind)
        if handler is not None:
            handler(seen)

    def _unread(self, seen: Seen) -> None:
        event: Mapping[str, Any] = seen.event
        self._counts["unread_ns"] += event["unread_ns"]

    def _rebalance(self, seen: Seen) -> None:
        self._unread(seen)
        event: Mapping[str, Any] = seen.event
        self._rebalances[event["cause"]] += 1
        group, started, ended = event["group"], event["started_ns"], event["ended_ns"]
        begin, end = self._unrest.get(group, (started, started))
        if started - end > QUIET_NS:
            begin = started
        self._unrest[group] = begin, ended
        self._unstable_ns = max(self._unstable_ns, ended - begin)

    def _delivery(self, seen: Seen) -> None:
        event: Mapping[str, Any] = seen.event
        for key in ("again_certain", "again_possible", "skipped"):
            self._counts[key] += event[key]

    def _refused(self, seen: Seen) -> None:
        event: Mapping[str, Any] = seen.event
        self._refusals[event["cause"]] += 1

    def _commit_refused(self, _: Seen) -> None:
        self._counts["commits_refused"] += 1

    def _expired(self, seen: Seen) -> None:
        self._counts["expiries"] += 1
        who = seen.notice.who
        if who is not None and who.client is not None:
            pod = self._world.on_host.get(who.client.host.removeprefix("/"))
            if pod is not None and pod.is_alive:
                self._counts["false_expiries"] += 1

    def settle(self) -> None:
        """Looks at the pods at the end of the run, before the world is closed."""
        pods = self._world.pods.values()
        self._settled = sum(pod.is_settled for pod in pods)
        self._alive = sum(pod.is_alive for pod in pods)

    def measures(self) -> Measures:
        """The measures so far."""
        counts, pods = self._counts, self._world.pods.values()
        costs = self._world.brokers.costs
        return Measures(
            rebalances=dict(sorted(self._rebalances.items())),
            unread_s=counts["unread_ns"] / 1e9,
            again_certain=counts["again_certain"],
            again_possible=counts["again_possible"],
            skipped=counts["skipped"],
            unstable_s=self._unstable_ns / 1e9,
            refusals=dict(sorted(self._refusals.items())),
            commits_refused=counts["commits_refused"],
            expiries=counts["expiries"],
            false_expiries=counts["false_expiries"],
            failed=sum(pod.state is PodState.FAILED for pod in pods),
            records=sum(pod.handled for pod in pods),
            wire_bytes=costs.wire_bytes,
            cpu_s=costs.cpu_ns / 1e9,
            settled=self._settled,
            alive=self._alive,
        )


@slotted
class Number:
    """A number of a run.

    Attributes:
        name: in files and goals.
        title: in tables.
        of: takes it from measures.
        form: its format in tables.
        is_better_less: whether less is better; None: neither is.
    """

    name: str
    title: str
    of: Callable[[Measures], float]
    form: str = ",.0f"
    is_better_less: bool | None = True


def _per(measures: Measures, total: float) -> float:
    return total / max(1, measures.rebalance_count)


REBALANCES: Final = Number("rebalances", "rebalances", lambda m: m.rebalance_count)
CPU: Final = Number(
    "cpu_ms",
    "coordinator CPU ms per rebalance",
    lambda m: _per(m, m.cpu_s * 1000),
    ",.2f",
    None,
)
"""The one number that depends on the machine."""
NUMBERS: Final[Sequence[Number]] = (
    Number(
        "unread_s", "partition-seconds without a reader", lambda m: m.unread_s, ",.1f"
    ),
    Number(
        "unstable_s", "seconds until stable, longest", lambda m: m.unstable_s, ",.1f"
    ),
    Number("records", "records processed", lambda m: m.records, is_better_less=None),
    Number(
        "again_certain",
        "records delivered again, handled before",
        lambda m: m.again_certain,
    ),
    Number(
        "again_possible",
        "records delivered again, perhaps handled",
        lambda m: m.again_possible,
    ),
    Number("skipped", "records skipped", lambda m: m.skipped),
    Number("refused", "joins refused", lambda m: sum(m.refusals.values())),
    Number("commits_refused", "commits refused", lambda m: m.commits_refused),
    Number("expiries", "sessions expired", lambda m: m.expiries),
    Number(
        "false_expiries",
        "sessions of live processes expired",
        lambda m: m.false_expiries,
    ),
    Number("failed", "pods failed", lambda m: m.failed),
    Number(
        "settled",
        "members settled at the end",
        lambda m: m.settled,
        is_better_less=None,
    ),
    Number(
        "wire_kb",
        "kB per rebalance",
        lambda m: _per(m, m.wire_bytes / 1000),
        ",.1f",
        None,
    ),
)
"""The numbers of a run, without `REBALANCES` and `CPU`."""


def _by_cause(cause: str, measures: Measures) -> float:
    return measures.rebalances.get(cause, 0)


def numbers_of(runs: Sequence[Measures]) -> list[Number]:
    """The rows of a table of runs."""
    causes = sorted({cause for run in runs for cause in run.rebalances})
    by_cause = [
        Number(cause, f"  {cause}", partial(_by_cause, cause), is_better_less=None)
        for cause in causes
    ]
    return [REBALANCES, *by_cause, *NUMBERS, CPU]


def table_rows(runs: Sequence[Measures]) -> list[tuple[str, str]]:
    """A table of runs: names and values; of several runs the mean and the range."""
    found = []
    for each in numbers_of(runs):
        values = [each.of(run) for run in runs]
        shown = f"{values[0]:{each.form}}"
        if len(values) > 1:
            mean = f"{fmean(values):,.1f}"
            shown = f"{mean}  ({min(values):{each.form}} to {max(values):{each.form}})"
        found.append((each.title, shown))
    return found
