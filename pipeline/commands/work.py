"""Runs a command on a thread, with Spark, and ends the process with its exit code.

The main thread only waits for signals: one that arrived during a call to Java would
leave that call's answer for the next call. So a signal makes Spark give up its jobs,
and the work ends on its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from kohort.pipeline.commands.progress import Progress
from kohort.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from types import FrameType

    from kohort.pipeline.lake import Lake

LOOK_S: Final = 0.25
"""Seconds between the main thread's checks for the end of the work."""
PATIENCE_S: Final = 30.0
"""Seconds that the work may take to end after a signal."""


@dataclass(slots=True)
class Access:
    """The lake and Spark, by the common options.

    Attributes:
        lake_path: the lake.
        master: Spark's; None: as it is by default.
        conf: Spark's settings.
        memory: of the driver.
        packages: of the connector; None: the usual.
        jars: more of them.
        progress: shows progress.
        stopping: set once the user wants an end.
        stopped_by: the signal that said so.
        lake: the lake, once Spark is there.
    """

    lake_path: str
    master: str | None
    conf: Mapping[str, str]
    memory: str | None
    packages: list[str] | None
    jars: list[str]
    progress: Progress
    stopping: threading.Event
    stopped_by: int = 0
    lake: Lake | None = None

    @contextlib.contextmanager
    def open(self, *, connector: bool = False) -> Iterator[Lake]:
        """The lake, with Spark, for as long as it is needed.

        Args:
            connector: whether Kafka's topics are to be read.
        """
        from kohort.pipeline.lake import Lake
        from kohort.pipeline.session import session, stop

        self.progress.say("Spark starts")
        spark = session(
            self.master,
            self.conf,
            connector=connector,
            packages=self.packages,
            jars=self.jars,
            driver_memory=self.memory,
        )
        try:
            self.progress.spark = spark
            self.lake = Lake(spark, self.lake_path)
            if self.stopping.is_set():
                raise InterruptedError
            yield self.lake
        finally:
            self.progress.say("Spark ends")
            self.progress.spark = self.lake = None
            stop(spark)

    def cancel(self) -> None:
        """Cancels Spark's jobs; a call that waits for one raises an error."""
        lake = self.lake
        if lake is not None:
            with contextlib.suppress(Exception):
                lake.spark.sparkContext.cancelAllJobs()

    def must_exist(self) -> None:
        """Raises if the folder is missing; starting Spark first would take long."""
        if "://" not in self.lake_path and not Path(self.lake_path).is_dir():
            raise PipelineError(
                f"{self.lake_path} is not there: `kohort pipeline ingest` and"
                " `kohort pipeline stream` make a lake; --lake says where it is"
            )


def fail(text: str, code: int) -> NoReturn:
    """Ends the command with one line on stderr, and this exit code."""
    click.echo(f"kohort: {text}", err=True)
    sys.exit(code)


# -- from the first line to the exit code


def perform(access: Access, work: Callable[[], int]) -> NoReturn:
    """Does the work, and ends the process with its exit code."""
    ended: list[int | BaseException] = []

    def labour() -> None:
        try:
            with access.progress.shown():
                ended.append(work())
        except BaseException as error:  # noqa: BLE001 - the main thread says it
            ended.append(error)

    thread = threading.Thread(target=labour, name="pipeline", daemon=True)
    with _signals(access):
        thread.start()
        while thread.is_alive() and not access.stopping.is_set():
            thread.join(LOOK_S)
        waited = 0.0
        while thread.is_alive() and waited < PATIENCE_S:
            # Again and again: between two jobs there is nothing to give up.
            access.cancel()
            thread.join(LOOK_S)
            waited += LOOK_S
    _end(access, ended[0] if ended else InterruptedError())


@contextlib.contextmanager
def _signals(access: Access) -> Iterator[None]:
    def stop(number: int, _: FrameType | None) -> None:
        if access.stopping.is_set():
            # Java ends with this process; the next build or ingest removes its files.
            os._exit(128 + number)
        access.stopped_by = number
        access.stopping.set()

    before = {n: signal.signal(n, stop) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(access: Access, how: int | BaseException) -> NoReturn:
    if isinstance(how, SystemExit):
        how = how.code if isinstance(how.code, int) else 1
    if isinstance(how, int):
        sys.exit(_flushed(how))
    if access.stopped_by:
        fail("interrupted", 128 + access.stopped_by)
    if isinstance(how, PipelineError):
        fail(str(how), how.code)
    if isinstance(how, BrokenPipeError):
        _mute()
        sys.exit(0)
    if isinstance(how, OSError):
        fail(str(how), 1)
    if is_sparks(how):
        fail(in_a_sentence(how), 1)
    raise how


def told(error: Exception) -> str:
    """An error in a sentence; errors of kohort itself are raised again.

    Raises:
        Exception: it is neither the user's nor Spark's.
    """
    if isinstance(error, PipelineError):
        return str(error)
    if is_sparks(error):
        return in_a_sentence(error)
    raise error


def is_sparks(error: BaseException) -> bool:
    """Whether Spark has raised it."""
    return type(error).__module__.startswith(("py4j.", "pyspark."))


def _flushed(code: int) -> int:
    """Flushes stdout. A closed pipe is no failure: ``head`` closes its own early."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _mute()
    return code


def _mute() -> None:
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def in_a_sentence(error: BaseException) -> str:
    """The first line of Spark's error, without Java's class names and stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    text = (causes[-1].removeprefix("Caused by: ") if causes else "") or next(
        (line for line in lines if not line.startswith("An error occurred")),
        type(error).__name__,
    )
    kind, colon, rest = text.partition(": ")
    is_class = colon and "." in kind and " " not in kind
    return f"Spark: {rest if is_class else text}"
