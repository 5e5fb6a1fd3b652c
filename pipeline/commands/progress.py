"""One line on the terminal: the tables in progress, and Spark's stages."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PER_SECOND: Final = 4
"""Refreshes per second."""
_SHOWN: Final = 3
"""Tables in progress that are named."""


class Progress:
    """Shows progress in one line, on a terminal only.

    Its methods may be called from any thread.

    Attributes:
        spark: the session, once there is one: its stages are shown.
    """

    def __init__(self) -> None:
        self.spark: SparkSession | None = None
        self._console = Console(stderr=True, markup=False, highlight=False)
        self._text = ""
        self._making: dict[str, None] = {}
        self._done = 0
        self._of = 0
        self._since = time.monotonic()
        self._spinner = Spinner("dots")

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Shows it meanwhile."""
        if not sys.stderr.isatty():
            yield
            return
        live = Live(
            console=self._console,
            get_renderable=self._rendered,
            refresh_per_second=PER_SECOND,
            transient=True,
        )
        with live:
            yield

    def say(self, text: str) -> None:
        """Sets the text of the current work."""
        self._text = text

    def tables(self, count: int) -> None:
        """Sets the number of tables to make."""
        self._making, self._done, self._of = {}, 0, count

    def table(self, path: str, what: str) -> None:
        """Takes a `kohort.pipeline.build.Progress` report of a table."""
        if what == "begins":
            self._making[path] = None
            return
        self._making.pop(path, None)
        self._done += 1

    def _rendered(self) -> Spinner:
        parts = [self._text]
        if self._of:
            parts.append(f"{self._done} of {self._of} tables")
            parts.append(", ".join([*self._making][:_SHOWN]))
        with contextlib.suppress(Exception):  # Spark may be ending
            if self.spark is not None:
                parts.append(_stages(self.spark))
        parts.append(f"{time.monotonic() - self._since:.0f} s")
        line = "  ".join(part for part in parts if part)
        self._spinner.update(text=Text(line, overflow="ellipsis", no_wrap=True))
        return self._spinner


def _stages(spark: SparkSession) -> str:
    """The share of finished tasks in Spark's running stages; empty: unknown."""
    tracker = spark.sparkContext.statusTracker()
    found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    stages = [each for each in found if each is not None]
    if not stages:
        return ""
    done = sum(each.numCompletedTasks for each in stages)
    of = sum(each.numTasks for each in stages)
    return f"Spark: {len(stages)} stages, {done} of {of} tasks"
