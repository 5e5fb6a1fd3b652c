"""One crash test: load, kills, restarts, and violations."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.schedule import Moment, moments
from tests.long_runs import hold, oracle, play
from tests.long_runs.broker_process import BrokerProcess
from tests.long_runs.harness import Harness, LoadReport, Snapshot
from tests.long_runs.load import Group, Load, consumer_config
from tests.long_runs.observations import inspected
from tests.workers.libraries import AIOKAFKA, CONFLUENT, KAFKA_PYTHON
from tests.workers.lines import text_of

TOPIC = "load"
OWNERS = ("ann", "bob")
PARTITIONS = 6
SESSION_MS = 120_000
"""No session may end while the broker is down."""
BRIEF_MS = 20_000
"""The session timeout of members that leave. If the broker is killed before it has
written that they left, it waits for them this long."""
SERVING_S = 3.0
"""The longest time that a broker may serve before it is killed."""
SOON_S = 0.5
"""The same, once the target of the kill exists."""
QUICK = 3
"""Kills in quick succession."""
ROOM = 200_000
"""Maximum bytes of a file on a disk that is almost full."""
FULL_S = 1.0
"""The longest time with a full disk."""
DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    **consumer_config(BRIEF_MS),
    # Small, so that logs roll and are cleaned during kills.
    "log.segment.bytes": "1048576",
    "offsets.topic.segment.bytes": "1048576",
    "log.cleaner.backoff.ms": "1000",
    # Often, so that hourly work is hit by kills, too.
    "log.retention.check.interval.ms": "700",
    "log.flush.offset.checkpoint.interval.ms": "500",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a run.

    Attributes:
        kills: number of kills.
        seed: of the schedule and of all random choices.
        nodes: of the cluster.
        config: keys of `kohort serve`, in addition to DEFAULTS.
        folder: for the data directory and logs; stays.
        tamper: called with the data directory after each kill; the test of this test
            damages it.
    """

    kills: int
    seed: int
    nodes: int
    folder: Path
    config: Mapping[str, str] = field(default_factory=dict)
    tamper: Callable[[Path], None] = lambda _: None


@dataclass(slots=True)
class Report(LoadReport):
    """Result of a run.

    Attributes:
        kills: by moment.
        resumed: how often a group that was Stable at the kill had the same generation,
            members and assignments afterwards.
        steps: acknowledged ones of topic owners.
        longest_start_s: until the broker accepted connections.
    """

    kills: Counter[Moment] = field(default_factory=Counter)
    resumed: int = 0
    steps: int = 0
    longest_start_s: float = 0.0


def start_load(load: Load, seed: int, *, have_owners: bool) -> None:
    """Starts all clients."""
    in_flight = "max.in.flight.requests.per.connection"
    load.produce(
        CONFLUENT,
        lz4=_stream("lz4", 30, {in_flight: 5, "batch.num.messages": 2}),
        gzip=_stream("gzip", 12, {in_flight: 3}),
        zstd=_stream("zstd", 6, {in_flight: 1}),
    )
    load.produce(
        AIOKAFKA,
        snappy={"window": 12, "compression_type": "snappy"},
        none={"window": 6},
    )
    load.commit(CONFLUENT, "committer-confluent", seed)
    load.commit(KAFKA_PYTHON, "committer-python", seed)
    static = [{"instance": f"instance-{number}"} for number in range(2)]
    leaves = {"session": BRIEF_MS}
    load.consume(
        *(CONFLUENT, "consumer", "uniform"),
        is_consumer=True,
        c0=leaves | static[0],
        c1=leaves,
        c2=leaves,
    )
    stays = {"session": SESSION_MS}
    load.consume(
        *(AIOKAFKA, "static", "range"),
        s0=stays | static[0],
        s1=stays | static[1],
        s2=stays,
    )
    load.consume(
        *(CONFLUENT, "changing", "cooperative-sticky"),
        x0=leaves | static[0],
        x1=leaves,
        x2=leaves,
    )
    if have_owners:
        load.own(*((name, f"{seed}-{name}") for name in OWNERS))


def _stream(codec: str, window: int, settings: dict[str, object]) -> dict[str, object]:
    return {**settings, "window": window, "compression.type": codec}


class Run:
    """The harness: one broker after the other, one load.

    Args:
        settings: of the run.
        progress: called with a line now and then.
    """

    def __init__(self, settings: Settings, progress: Callable[[str], None]) -> None:
        self._settings = settings
        self._progress = progress
        self._draw = random.Random(settings.seed)
        self.report = Report()
        self._data = settings.folder / "data"
        arguments = [f"--data-dir={self._data}"]
        for name, value in {**DEFAULTS, **settings.config}.items():
            arguments.append(f"--set={name}={value}")
        self._served = BrokerProcess(settings.folder, settings.nodes, arguments)
        self._harness = Harness(self._served, settings.folder, TOPIC, PARTITIONS)
        self._load = self._harness.load
        self._snapshots: dict[str, Snapshot] = {}
        self._topic_ids: dict[str, bytes] = {}
        # Time of the first kill since the last check of the groups.
        self._away_since: float | None = None

    def play(self) -> Report:
        """Plays the whole run; violations are in the report."""
        play(self.report, self._play, self._harness.close)
        self.report.longest_start_s = self._served.longest_start_s
        return self.report

    def _play(self) -> None:
        settings = self._settings
        self._served.start()
        self._served.until_ready()
        replicas = min(3, settings.nodes)
        self._harness.queries.create_topic(TOPIC, PARTITIONS, replicas)
        # Owners use the only node.
        start_load(self._load, settings.seed, have_owners=settings.nodes == 1)
        self._harness.begin()
        self._same_topics()
        self._settle()
        schedule = moments(settings.kills, self._draw)
        for done, moment in enumerate(schedule, 1):
            self._kill_at(moment, fresh=done > 1)
            if done % max(1, settings.kills // 20) == 0 or done == settings.kills:
                witness = self._harness.witness
                self._progress(
                    f"{done} kills: {len(witness.produced)} records and "
                    f"{sum(witness.commits.values())} commits acknowledged"
                )
        self._served.until_ready()
        self._check_back()
        self._finish()

    # -- kills

    def _kill_at(self, moment: Moment, *, fresh: bool) -> None:
        """Waits for a moment, kills the broker, and starts the next one.

        The exact time is random: only here does the test wait for time to pass.
        """
        if moment in {Moment.START_UP, Moment.QUICK}:
            for _ in range(QUICK if moment is Moment.QUICK else 1):
                self._served.runs_for(self._draw.uniform(0, self._served.start_s))
                self._killed(moment)
                self._served.start()
            return
        if fresh:
            self._served.until_ready()
        # As in Kafka, commits for a deleted topic stay on a full disk: there is no room
        # for their tombstones.
        self._spare(is_spared=moment is Moment.FULL_DISK)
        if moment is Moment.SERVING:
            self._served.runs_for(self._draw.uniform(0, SERVING_S))
        else:
            self._check_back()
        if moment is Moment.STABLE:
            self._settle()
            self._served.runs_for(self._draw.uniform(0, SOON_S))
        elif moment is Moment.REBALANCE:
            self._unsettle()
            self._served.runs_for(self._draw.uniform(0, SOON_S))
        elif moment is Moment.FULL_DISK:
            self._served.fill_disk(self._draw.randrange(ROOM))
            self._served.runs_for(self._draw.uniform(0, FULL_S))
        if moment is Moment.TOPICS and self._load.owners is not None:
            owner = self._draw.choice(OWNERS)
            self._load.owners.send("kill", pid=self._served.pid, **{"as": owner})
            self._served.until_killed()
        self._killed(moment)
        self._served.start()

    def _spare(self, *, is_spared: bool) -> None:
        if self._load.owners is not None:
            for owner in OWNERS:
                self._load.owners.ask("spare", "spared", owner, topics=int(is_spared))

    def _killed(self, moment: Moment) -> None:
        """Kills the broker, if it still runs."""
        for worker in self._load.workers:
            worker.check()
        if self._away_since is None:
            self._away_since = time.monotonic()
        self._served.close()
        self._harness.queries.forget()
        hold(self._served.faults())
        self.report.kills[moment] += 1
        self._settings.tamper(self._data)

    def _unsettle(self) -> None:
        """Makes a member of one group leave and rejoin, and replaces a producer.

        The new producer needs an unused id, also after kills.
        """
        self._draw.choice(self._load.producers).bounce(0)
        changing = self._draw.choice(self._changing)
        self._snapshots.pop(changing.name, None)
        number = self._draw.randrange(3)
        if number == 0:  # static: it leaves and returns without a change of state
            changing.worker.bounce(number)
        else:
            self._harness.unsettle(changing, number)

    def _settle(self) -> None:
        """Waits until all groups are Stable and commit; Stable ones must not change."""
        for name, found in self._harness.settle().items():
            known = self._snapshots.setdefault(name, found)
            if found != known:
                hold([f"{name} was not to change: {known} became {found}"])
        self._harness.until_members_commit()
        self._harness.until_commits(self._load.committing)

    # -- checks

    def _check_back(self) -> None:
        """Checks a broker that has just come back."""
        witness, queries = self._harness.witness, self._harness.queries
        acked, ends = witness.now_acked(), witness.now_ended()
        committed = self._harness.committed(self._everybody)
        for worker in self._load.committers:
            worker.tell()  # then the witness knows what they had sent
        hold(
            [
                *oracle.offsets(acked, committed),
                *oracle.committers(witness, committed, text_of),
                *oracle.ends(ends, queries.ends(TOPIC)),
                *self._same_topics(),
                *self._same_groups(),
            ]
        )

    @property
    def _everybody(self) -> list[str]:
        """All groups, of committers and of members."""
        return [*self._load.committing, *self._harness.names]

    @property
    def _changing(self) -> list[Group]:
        """The groups whose members leave and rejoin: a consumer and a classic group."""
        return [self._load.groups[0], self._load.groups[-1]]

    def _same_topics(self) -> list[str]:
        now = self._harness.queries.ids(TOPIC, "__consumer_offsets")
        known = self._topic_ids = self._topic_ids or now
        return [] if now == known else [f"topics made anew: {known} became {now}"]

    def _same_groups(self) -> list[str]:
        found = []
        away_s = time.monotonic() - (self._away_since or time.monotonic())
        self._away_since = None
        if away_s > BRIEF_MS / 2 / 1000:
            # On a slow machine these sessions may end in the clients, which then come
            # back as other members.
            for group in self._changing:
                self._snapshots.pop(group.name, None)
        for group in self._load.groups:
            known = self._snapshots.get(group.name)
            if known is None:
                continue
            now = self._harness.describe(group)
            found_now = now.state, now.protocol, now.members
            if found_now != ("Stable", known.protocol, known.members):
                found.append(f"{group.name} was {known}, came back as {now}")
            found += self._harness.strangers(group, known, now)
            self.report.resumed += 1
        return found

    def _finish(self) -> None:
        """Ends the load, kills the broker once more, and checks everything."""
        sent = self._harness.stop_producers()
        self._served.kill()
        self._harness.queries.forget()
        self._settings.tamper(self._data)
        seen = inspected(self._data)
        self._served.start()
        self._served.until_ready()
        self._check_back()
        everybody = self._everybody
        seen = {place: each for place, each in seen.items() if place[0] in everybody}
        hold(oracle.inspected(seen, self._harness.committed(everybody)))
        if self._load.owners is not None:
            self.report.steps = sum(self._load.owners.finish().values())
        self._harness.stop_members()
        self._harness.end(sent, self.report)
