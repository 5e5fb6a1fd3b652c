"""A stream that is read, and tables that are made of it meanwhile.

The stream writes events to bronze. A second query then reports the runs of the new
events, so that a build is due; the build itself finds the runs to compute.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from kohort.pipeline import bronze
from kohort.pipeline import build as builds
from kohort.pipeline.bronze import stream
from kohort.pipeline.build import Build, NoEventsError
from kohort.pipeline.commands import output
from kohort.pipeline.commands.progress import Progress
from kohort.pipeline.commands.work import told
from kohort.pipeline.lake import Lake, LakeError
from kohort.pipeline.quality import Rules
from kohort.pipeline.table_functions import Options
from kohort.pipeline.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_S: Final = 0.5
"""Seconds between two checks for new batches."""
MANY_FILES: Final = 200
"""Files of a stream that are compacted after a build: those of ten minutes or so."""
SILENCE_S: Final = 5.0
"""Seconds without an answer from the broker after which that is printed."""


@dataclass(slots=True)
class Counts:
    """A stream's progress, from the reports of its query about each batch.

    Attributes:
        events: events read since its start.
        quarantined: records that are no events.
        late: late events.
        lag: records of the topic behind the last one read, at its last report.
        rate: events per second, lately.
    """

    events: int = 0
    quarantined: int = 0
    late: int = 0
    lag: int = 0
    rate: float = 0.0
    seen: int = -1

    def look(self, query: StreamingQuery) -> None:
        """Takes the progress of a query's batches."""
        last = query.lastProgress
        if last is None:
            return
        is_next = last["batchId"] <= self.seen + 1
        # To ask for all that it remembers takes long.
        self.take([last] if is_next else query.recentProgress)

    def take(self, told: Sequence[Any]) -> None:
        """Takes progress of batches; those that were taken before count once."""
        for batch in told:
            if batch["batchId"] <= self.seen:
                continue
            self.lag = _lag(batch["sources"])
            observed = batch["observedMetrics"].get(stream.METRICS)
            # Spark reports a batch without records again and again.
            if not batch["numInputRows"]:
                self.rate = 0.0
                continue
            self.seen = batch["batchId"]
            self.rate = batch["processedRowsPerSecond"]
            if observed is not None:
                self.events += observed["events"]
                self.quarantined += observed["quarantined"]
                self.late += observed["late"]


def _lag(sources: Sequence[Any]) -> int:
    lag = 0
    for source in sources:
        ends, done = _offsets(source["latestOffset"]), _offsets(source["endOffset"])
        for topic, partitions in ends.items():
            for partition, end in partitions.items():
                lag += max(0, end - done.get(topic, {}).get(partition, 0))
    return lag


def _offsets(said: Any) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition, from Spark's JSON text; empty without one."""
    if isinstance(said, str):
        try:
            said = json.loads(said)
        except ValueError:  # for example "None", before the first batch
            return {}
    return said if isinstance(said, dict) else {}


@dataclass(slots=True)
class Silence:
    """A broker that does not answer, from looks at the query that asks it.

    Attributes:
        since: the first look of those that found the query asking.
        is_long: it has lasted for `SILENCE_S`.
    """

    since: float | None = None
    is_long: bool = False

    def look(self, now: float, *, is_asking: bool) -> bool:
        """Takes a look; returns true if a long silence begins or ends with it."""
        if not is_asking:
            self.since = None
        elif self.since is None:
            self.since = now
        was_long = self.is_long
        self.is_long = self.since is not None and now - self.since >= SILENCE_S
        return was_long != self.is_long


@dataclass(slots=True)
class Live:
    """A stream at work.

    Attributes:
        lake: takes the events.
        stopping: set to end it.
        bootstrap: brokers to begin with.
        topic: the topic.
        name: the stream's.
        every: seconds between builds; None for no builds.
        options: of the tables.
        rules: of the checks.
        keep: builds that are left.
        progress: shows progress.
        say: prints a line.
        skips_lost: goes on where records that were not read are gone from the topic.
        counts: records and lag so far.
        touched: runs that have got events since a build was last begun.
        last: the last build, published or not.
    """

    lake: Lake
    stopping: threading.Event
    bootstrap: str
    topic: str
    name: str
    every: float | None
    options: Options
    rules: Rules
    keep: int
    progress: Progress
    say: Callable[[str], None] = click.echo
    skips_lost: bool = False
    counts: Counts = field(default_factory=Counts)
    touched: set[str] = field(default_factory=set)
    last: Build | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, *, once: bool = False) -> int:
        """Reads until it is to stop, or with `once` until it has read all; exit code.

        Raises:
            PipelineError: the stream has ended on its own.
        """
        started = time.monotonic()
        reading = stream.start(
            self.lake,
            self.bootstrap,
            name=self.name,
            topic=self.topic,
            once=once,
            options=stream.SKIP_LOST if self.skips_lost else {},
        )
        following: StreamingQuery | None = None
        self.say(f"reads {self.topic} of {self.bootstrap} into {self.lake.path}")
        try:
            if self.every is not None and not once:
                following = stream.follow(self.lake, self.name, self._follow)
            self._watch(reading, following)
            if once and self.every is not None and not self.stopping.is_set():
                self.build()
        except Exception:
            # A stop cancels Spark's running jobs, which raises here.
            if not self.stopping.is_set():
                raise
        finally:
            for query in (following, reading):
                if query is not None:
                    query.stop()
            stream.release(self.lake, self.name)
        self._summary(time.monotonic() - started)
        if once and self.stopping.is_set():
            raise InterruptedError
        is_bad = self.last is not None and not self.last.is_published
        return 1 if once and is_bad else 0

    def _follow(self, _: int, runs: Sequence[str]) -> None:
        with self._lock:
            self.touched.update(runs)

    def _watch(self, reading: StreamingQuery, following: StreamingQuery | None) -> None:
        """Builds when it is time, until the stream ends, or is to."""
        due = time.monotonic()
        silence = Silence()
        while not self.stopping.is_set():
            self.stopping.wait(LOOK_S)
            is_over = not reading.isActive
            self.counts.look(reading)
            self._show()
            self._complain(reading)
            self._mind_silence(reading, silence)
            if following is not None:
                self._complain(following)
            if is_over:
                return
            if self.every is None or not self.touched or time.monotonic() < due:
                continue
            self._try_to_build()
            due = time.monotonic() + self.every
            silence = Silence()

    def _mind_silence(self, reading: StreamingQuery, silence: Silence) -> None:
        is_asking = reading.status["message"].startswith(stream.ASKS)
        if not silence.look(time.monotonic(), is_asking=is_asking):
            return
        if silence.is_long:
            self.say(
                f"{self.bootstrap} does not answer: the stream waits for it, up to"
                f" {2 * stream.PATIENCE_MS // 1000} s"
            )
        else:
            self.say(f"{self.bootstrap} answers again")

    def _complain(self, query: StreamingQuery) -> None:
        error = query.exception()
        if error is not None:
            raise stream.problem(error, self.bootstrap, self.lake.path)

    def _try_to_build(self) -> None:
        """Builds; that it does not work, this time, is no reason to stop reading."""
        with self._lock:
            touched = set(self.touched)
            self.touched.clear()
        try:
            self.build()
        except Exception as error:
            if self.stopping.is_set():
                raise
            with self._lock:
                self.touched |= touched
            self.say(f"no build: {told(error, self.lake.path)}")

    def build(self) -> None:
        """Makes the tables, and prints the result."""
        self.progress.tables(len(TABLES))
        try:
            made = builds.build(
                self.lake,
                self.options,
                self.rules,
                keep=self.keep,
                progress=self.progress.table,
            )
        except NoEventsError:
            return
        finally:
            self.progress.tables(0)
        self.last = made
        self.say(output.last_line(made))
        self._compact()

    def _compact(self) -> None:
        """Compacts the lake's streams if they have many files."""
        # Another process is ingesting or building: the next build is early enough.
        with contextlib.suppress(LakeError):
            for done in bronze.compact(self.lake, MANY_FILES):
                self.say(output.of_compaction(done))

    def _show(self) -> None:
        counts = self.counts
        parts = [
            f"{counts.events:,} events ({counts.rate:,.0f}/s)",
            f"{counts.quarantined:,} in quarantine",
            f"lag {counts.lag:,}",
        ]
        if self.last is not None:
            parts.append(f"build {self.last.id} {self.last.outcome}")
        self.progress.say("  ".join(parts))

    def _summary(self, seconds: float) -> None:
        counts = self.counts
        columns = ("events", "per second", "late", "quarantined", "lag", "last build")
        cells = (
            counts.events,
            round(counts.events / max(seconds, 0.001), 1),
            counts.late,
            counts.quarantined,
            counts.lag,
            None if self.last is None else f"{self.last.id} ({self.last.outcome})",
        )
        output.show(output.rows(columns, [cells], columns[:5]))
