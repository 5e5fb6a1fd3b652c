"""Runs a command on a thread, with an engine, and ends the process with its exit code.

The main thread only waits for signals: one that arrived during a call to Java would
leave that call's answer for the next call. So a signal makes Spark give up its jobs,
and the work ends on its own.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from kohort.pipeline import failures
from kohort.pipeline.commands.progress import Progress
from kohort.pipeline.engines import LOCAL
from kohort.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from types import FrameType

    from pyspark.sql import SparkSession

    from kohort.pipeline.lake import Lake

LOOK_S: Final = 0.25
"""Seconds between the main thread's checks for the end of the work."""
PATIENCE_S: Final = 30.0
"""Seconds that the work may take to end after a signal."""
OBJECTS: Final = 100_000
"""New objects after which Python looks for garbage. Its own 700 take a tenth of the CPU
of a small report: modules, plans and rows are no garbage."""


@dataclass(slots=True)
class Access:
    """The lake and the engine, by the common options.

    Attributes:
        lake_path: the lake; empty: a temporary one.
        engine: one of `kohort.pipeline.engine_choice.CHOICES`.
        master: Spark's; None: as it is by default.
        conf: Spark's settings.
        memory: of the driver.
        packages: of the connector; None: the usual.
        jars: more of them.
        remote: URL of a Spark Connect server; None: none.
        progress: shows progress.
        is_debug: prints the stack of an error.
        format: of the tables; None: that of the lake.
        stopping: set once the user wants an end.
        stopped_by: the signal that said so.
        lake: the lake, once the engine is there.
        java: the end of Spark's Java process in a sentence, if it was not ours.
        failure: an error in a sentence, from the time in which Java knew its text.
    """

    lake_path: str
    engine: str
    master: str | None
    conf: Mapping[str, str]
    memory: str | None
    packages: list[str] | None
    jars: list[str]
    remote: str | None
    progress: Progress
    is_debug: bool = False
    format: str | None = None
    stopping: threading.Event = field(default_factory=threading.Event)
    stopped_by: int = 0
    lake: Lake | None = None
    java: str | None = None
    failure: str | None = None

    @contextlib.contextmanager
    def open(
        self,
        *,
        connector: bool = False,
        inputs: Sequence[str] = (),
        reads_events: bool = True,
    ) -> Iterator[Lake]:
        """The lake, with an engine, for as long as it is needed.

        Args:
            connector: whether Kafka's topics are to be read.
            inputs: the paths and patterns that are ingested.
            reads_events: whether events are read, and not only tables.
        """
        from kohort.pipeline import engine_choice, iceberg, local_engine, session
        from kohort.pipeline.lake import ICEBERG, Lake, format_of

        work = engine_choice.Work(
            self.lake_path,
            inputs,
            reads_events,
            self._option(),
            connector,
            self.format or format_of(self.lake_path),
        )
        choice = engine_choice.choose(self.engine, work)
        is_local = choice.engine == LOCAL
        self.progress.say("starting" if is_local else "Spark starts")
        with self._lake_path() as path:
            spark = (
                local_engine.start(choice.cores)
                if is_local
                else self._spark(
                    connector, path if work.format == ICEBERG else None, choice.why
                )
            )
            try:
                self.progress.spark = spark
                self.lake = Lake(spark, path)
                iceberg.settle(self.lake, self.format)
                self.must_go_on()
                yield self.lake
            except Exception as error:
                self.failure = told(error, path)
                code = None if is_local else session.ended(spark)
                if code is not None:
                    memory = self.memory or session.DRIVER_MEMORY
                    self.java = failures.of_java(code, memory)
                raise
            finally:
                self.progress.say("stopping" if is_local else "stopping Spark")
                self.progress.spark = self.lake = None
                (local_engine if is_local else session).stop(spark)

    def _spark(self, connector: bool, iceberg: str | None, why: str) -> SparkSession:
        from kohort.pipeline.session import SparkProblem, connect, session

        if self.remote is not None:
            self._check_remote(connector)
            return connect(self.remote, self.conf, iceberg=iceberg)
        try:
            return session(
                self.master,
                self.conf,
                connector=connector,
                iceberg=iceberg,
                packages=self.packages,
                jars=self.jars,
                driver_memory=self.memory,
            )
        except SparkProblem as problem:
            if not why:
                raise
            raise SparkProblem(f"{problem} ({why})") from problem

    def _check_remote(self, connector: bool) -> None:
        if connector:
            raise PipelineError(
                "--remote: streams do not work over Spark Connect; use --master", 2
            )
        others = [name for name in self._given() if name not in ("--remote", "--conf")]
        if others:
            raise PipelineError(
                f"--remote and {others[0]} exclude each other: the server has them", 2
            )

    @contextlib.contextmanager
    def _lake_path(self) -> Iterator[str]:
        if self.lake_path:
            yield self.lake_path
            return
        with tempfile.TemporaryDirectory(prefix="kohort-lake-") as folder:
            self.lake_path = folder  # named if something fails in it
            yield folder

    def _option(self) -> str:
        """An option of Spark's that is given; empty: none is."""
        return next(self._given(), "")

    def _given(self) -> Iterator[str]:
        """The options of Spark's that are given."""
        options = {
            "--remote": self.remote,
            "--master": self.master,
            "--conf": self.conf,
            "--memory": self.memory,
            "--packages": self.packages is not None,
            "--jars": self.jars,
        }
        return (name for name, value in options.items() if value)

    def must_go_on(self) -> None:
        """Raises if the user wants an end."""
        if self.stopping.is_set():
            raise InterruptedError

    def cancel(self) -> None:
        """Cancels the engine's work; a call that waits for it raises an error."""
        lake = self.lake
        if lake is not None:
            with contextlib.suppress(Exception):
                lake.engine.cancel()

    def must_exist(self) -> None:
        """Raises if the folder is missing; starting Spark first would take long."""
        if "://" not in self.lake_path and not Path(self.lake_path).is_dir():
            raise PipelineError(
                f"{self.lake_path} does not exist: `kohort pipeline ingest` and"
                " `kohort pipeline stream` create a lake; --lake names its folder"
            )


def fail(text: str, code: int) -> NoReturn:
    """Ends the command with one line on stderr, and this exit code."""
    click.echo(f"kohort: {text}", err=True)
    sys.exit(code)


# -- from the first line to the exit code


def perform(access: Access, work: Callable[[], int]) -> NoReturn:
    """Does the work, and ends the process with its exit code."""
    gc.set_threshold(OBJECTS)
    ended: list[int | BaseException] = []

    def labour() -> None:
        try:
            with access.progress.shown():
                ended.append(work())
        except BaseException as error:  # noqa: BLE001 - the main thread says it
            ended.append(error)

    thread = threading.Thread(target=labour, name="pipeline", daemon=True)
    with _signals(access), _silenced(access):
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


@contextlib.contextmanager
def _silenced(access: Access) -> Iterator[None]:
    """Keeps py4j from logging the stack of each call that finds no Java process."""
    nothing = logging.NullHandler()
    if not access.is_debug:
        logging.root.addHandler(nothing)
    try:
        yield
    finally:
        logging.root.removeHandler(nothing)


def _end(access: Access, how: int | BaseException) -> NoReturn:
    if isinstance(how, SystemExit):
        how = how.code if isinstance(how.code, int) else 1
    if isinstance(how, int):
        sys.exit(_flushed(how))
    if access.stopped_by:
        fail("interrupted", 128 + access.stopped_by)
    if access.is_debug:
        click.echo("".join(_stack(how)), err=True, nl=False)
    if access.java is not None:
        fail(access.java, 1)
    if isinstance(how, BrokenPipeError):
        _mute()
        sys.exit(0)
    text = access.failure or told(how, access.lake_path)
    fail(text, how.code if isinstance(how, PipelineError) else 1)


def told(error: BaseException, lake: str) -> str:
    """An error in a sentence, with advice.

    Args:
        error: any.
        lake: the path of the lake.
    """
    if isinstance(error, PipelineError):
        return str(error)
    where = lake if "://" in lake else str(Path(lake).absolute())
    if isinstance(error, OSError):
        return failures.of_system(error, where)
    if type(error).__module__.startswith(("grpc.", "py4j.", "pyspark.")):
        return failures.sentence(failures.text_of(error), where)
    return (
        f"a fault of kohort, {type(error).__name__}: {error}. Please report it, with"
        " the output of the same command with --debug"
    )


def _stack(error: BaseException) -> list[str]:
    """The stacks of an error, without those that Java took along as it ended."""
    try:
        return traceback.format_exception(error)
    except Exception:  # noqa: BLE001 - the connection to Java raises several kinds
        return traceback.format_tb(error.__traceback__)


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
