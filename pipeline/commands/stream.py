"""``kohort pipeline stream``."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from kohort.pipeline.commands.build import built
from kohort.pipeline.commands.options import build_options, spark_options
from kohort.pipeline.commands.work import Access, fail, told

if TYPE_CHECKING:
    from kohort.pipeline.build import Build
    from kohort.pipeline.lake import Lake
    from kohort.pipeline.quality import Rules
    from kohort.pipeline.stream import Stream
    from kohort.pipeline.table_functions import Options

MASTER: Final = "local[*]"
"""Spark alone reads streams."""
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _seconds(text: str) -> float:
    """A duration: 30s, 1m, 2h."""
    found = _DURATION.fullmatch(text.strip())
    seconds = float(found[1]) * _SECONDS[found[2] or "s"] if found else 0.0
    if not seconds:
        fail(f"--build-every {text!r}: must be a time like 30s, 5m or 1h", 2)
    return seconds


@click.command()
@click.option(
    "-b",
    "--bootstrap",
    "--bootstrap-server",
    "bootstrap",
    metavar="HOST:PORT[,...]",
    envvar="KOHORT_BOOTSTRAP_SERVERS",
    show_envvar=True,
    default="localhost:9092",
    help="Bootstrap servers.",
)
@click.option(
    "--topic",
    default="__kohort_events",
    help="Topic of the events.",
)
@click.option(
    "--name",
    default="live",
    help="Name of the stream; a restart continues the stream of the same name. Use one"
    " name per broker.",
)
@click.option(
    "--once", is_flag=True, help="Reads the events up to now, builds, and exits."
)
@click.option(
    "--build-every",
    metavar="TIME",
    default="1m",
    help="How often events are read, and tables built if there are new ones.",
)
@click.option("--no-build", is_flag=True, help="Builds no tables.")
@click.option(
    "--skip-lost",
    is_flag=True,
    help="For one start: continues although retention removed unread records.",
)
@build_options
@spark_options
def stream(
    access: Access,
    *,
    bootstrap: str,
    topic: str,
    name: str,
    once: bool,
    build_every: str,
    no_build: bool,
    skip_lost: bool,
    options: Options,
    rules: Rules,
    keep: int,
) -> int:
    """Copies events from a broker's topic into the lake, until Ctrl-C.

    It reads without a consumer group, so it causes no rebalance. After a kill it
    continues where it was, and stores each event once. After each round it builds the
    tables, if there were new events. It needs Spark; without --master that is local[*].

    Example: kohort pipeline stream --bootstrap-server 127.0.0.1:9092
    """
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*", name):
        fail(f"--name {name!r}: letters, digits, - and _ are allowed", 2)
    every = _seconds(build_every)
    access.master = access.master or MASTER
    try:
        with access.open(connector=True) as lake, lake.lock(f"stream-{name}", name):
            from kohort.pipeline.stream import SKIP_LOST, Stream

            lost = SKIP_LOST if skip_lost else {}
            reading = Stream(lake, bootstrap, name, topic, lost)
            live = Live(access, lake, reading, options, rules, keep, not no_build)
            click.echo(f"reads {topic} of {bootstrap} into {lake.path}")
            return live.once() if once else live.run(every)
    except InterruptedError:  # also while Spark starts
        if once:
            raise
        return 0


@dataclass(slots=True)
class Live:
    """A stream at work, and the builds after its rounds.

    Attributes:
        access: says when to stop.
        lake: takes the events.
        reading: the stream.
        options: of the tables.
        rules: of the checks.
        keep: builds that are left.
        builds: whether tables are built.
        say: prints a line.
        last: the last build, published or not.
    """

    access: Access
    lake: Lake
    reading: Stream
    options: Options
    rules: Rules
    keep: int
    builds: bool
    say: Callable[[str], None] = click.echo
    last: Build | None = None

    def once(self) -> int:
        """Reads the events up to now, and builds; returns the exit code."""
        started = time.monotonic()
        try:
            self._read()
            if self.builds:
                self._build()
        except Exception:
            self.access.must_go_on()
            raise
        self._summary(time.monotonic() - started)
        return 1 if self.last is not None and not self.last.is_published else 0

    def run(self, every: float) -> int:
        """Reads and builds in rounds until it is to stop; returns the exit code."""
        started = time.monotonic()
        is_due, is_first = self.builds, True
        while not self.access.stopping.is_set():
            begun = time.monotonic()
            try:
                before = self.reading.events
                if self._answers(is_first=is_first):
                    is_due |= self.builds and self.reading.events > before
                if is_due:
                    is_due = not self._try_to_build()
            except Exception:
                # A stop cancels Spark's running jobs, which raises here.
                if not self.access.stopping.is_set():
                    raise
            is_first = False
            self.access.stopping.wait(max(0.0, every - (time.monotonic() - begun)))
        self._summary(time.monotonic() - started)
        return 0

    def _read(self) -> None:
        self.reading.read(self._show)
        self._show()

    def _answers(self, *, is_first: bool) -> bool:
        """Reads a round; false: the broker did not answer, and the next may do."""
        from kohort.pipeline.stream import SilentError

        try:
            self._read()
        except SilentError as error:
            if is_first:
                raise
            self.say(f"{error}: the next round tries again")
            return False
        return True

    def _try_to_build(self) -> bool:
        """Builds; false: it did not work, this time, and reading goes on."""
        try:
            self._build()
        except Exception as error:  # noqa: BLE001 - reading goes on, whatever it was
            self.access.must_go_on()
            self.say(f"no build: {told(error, self.lake.path)}")
            return False
        return True

    def _build(self) -> None:
        from kohort.pipeline.build import NoEventsError
        from kohort.pipeline.commands.output import last_line

        try:
            made = built(self.access, self.lake, self.options, self.rules, self.keep)
        except NoEventsError:
            return
        finally:
            self.access.progress.tables(0)
        self.last = made
        self.say(last_line(made))

    def _show(self) -> None:
        parts = [
            f"{self.reading.events:,} events",
            f"{self.reading.quarantined.total():,} in quarantine",
        ]
        if self.last is not None:
            parts.append(f"build {self.last.id} {self.last.outcome}")
        self.access.progress.say("  ".join(parts))

    def _summary(self, seconds: float) -> None:
        from kohort.pipeline.commands.output import rows, show

        columns = ("events", "known before", "quarantined", "seconds", "last build")
        cells = (
            self.reading.events,
            self.reading.known,
            self.reading.quarantined.total(),
            round(seconds, 1),
            None if self.last is None else f"{self.last.id} ({self.last.outcome})",
        )
        show(rows(columns, [cells], columns[:4]))
