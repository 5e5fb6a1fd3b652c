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
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.files import absolute, is_local

if TYPE_CHECKING:
    from types import FrameType

    from kohort.pipeline.lake import Lake

LOOK_S: Final = 0.25
"""Seconds between the main thread's checks for the end of the work."""
PATIENCE_S: Final = 30.0
"""Seconds that the work may take to end after a signal."""
FEW_BYTES: Final = 8 << 20
"""Bytes of events for which one core is best: to divide the work costs more than it
saves."""
OBJECTS: Final = 100_000
"""New objects after which Python looks for garbage. Its own 700 take a tenth of the CPU
of a small report: modules, plans and rows are no garbage."""


@dataclass(slots=True)
class Access:
    """The lake and the engine, by the common options.

    Attributes:
        lake_path: the lake; empty: a temporary one.
        master: Spark's; None: no Spark of this machine.
        remote: URL of a Spark Connect server; None: none.
        conf: Spark's settings.
        memory: of the driver.
        packages: of the connector; None: the usual.
        jars: more of them.
        progress: shows progress.
        is_debug: prints the stack of an error.
        stopping: set once the user wants an end.
        stopped_by: the signal that said so.
        lake: the lake, once the engine is there.
        java: the end of Spark's Java process in a sentence, if it was not ours.
        failure: an error in a sentence, from the time in which Java knew its text.
    """

    lake_path: str
    master: str | None
    remote: str | None
    conf: Mapping[str, str]
    memory: str | None
    packages: list[str] | None
    jars: list[str]
    progress: Progress
    is_debug: bool = False
    stopping: threading.Event = field(default_factory=threading.Event)
    stopped_by: int = 0
    lake: Lake | None = None
    java: str | None = None
    failure: str | None = None

    @contextlib.contextmanager
    def open(
        self, *, connector: bool = False, inputs: Sequence[str] = ()
    ) -> Iterator[Lake]:
        """The lake, with an engine, for as long as it is needed.

        Args:
            connector: whether Kafka's topics are to be read.
            inputs: the paths and patterns that are ingested.
        """
        from kohort.pipeline import session
        from kohort.pipeline.lake import Lake

        self._check(connector, inputs)
        is_spark = bool(self.master or self.remote)
        self.progress.say("Spark starts" if is_spark else "starting")
        with self._lake_path() as path:
            spark = session.session(
                self.master,
                self.conf,
                remote=self.remote,
                connector=connector,
                packages=self.packages,
                jars=self.jars,
                driver_memory=self.memory,
                cores=1 if _bytes(path, inputs) <= FEW_BYTES else 0,
            )
            try:
                self.progress.spark = spark
                self.lake = Lake(spark, path)
                self.must_go_on()
                yield self.lake
            except Exception as error:
                self.failure = told(error, path)
                code = session.ended(spark)
                if code is not None:
                    memory = self.memory or session.DRIVER_MEMORY
                    self.java = failures.of_java(code, memory)
                raise
            finally:
                self.progress.say("stopping Spark" if is_spark else "stopping")
                self.progress.spark = self.lake = None
                session.stop(spark)

    def _check(self, connector: bool, inputs: Sequence[str]) -> None:
        """Raises if options do not go together, before an engine starts."""
        given = {
            "--master": self.master,
            "--memory": self.memory,
            "--packages": self.packages is not None,
            "--jars": self.jars,
        }
        others = [name for name, value in given.items() if value]
        if self.remote is not None:
            if connector:
                text = "--remote: streams do not work over Spark Connect; use --master"
                raise PipelineError(text, 2)
            if others:
                text = (
                    f"--remote and {others[0]} exclude each other: the server has them"
                )
                raise PipelineError(text, 2)
            return
        if self.master is not None:
            return
        if self.conf or others:
            option = "--conf" if self.conf else others[0]
            text = f"{option} is an option of Spark: give --master, too"
            raise PipelineError(text, 2)
        elsewhere = [p for p in (self.lake_path, *inputs) if not is_local(p)]
        if elsewhere:
            text = f"{elsewhere[0]} is on another file system, which needs --master"
            raise PipelineError(text, 2)

    @contextlib.contextmanager
    def _lake_path(self) -> Iterator[str]:
        if self.lake_path:
            yield self.lake_path
            return
        with tempfile.TemporaryDirectory(prefix="kohort-lake-") as folder:
            self.lake_path = folder  # named if something fails in it
            yield folder

    def must_go_on(self) -> None:
        """Raises if the user wants an end."""
        if self.stopping.is_set():
            raise InterruptedError

    def cancel(self) -> None:
        """Cancels the engine's work; a call that waits for it raises an error."""
        lake = self.lake
        if lake is not None:
            with contextlib.suppress(Exception):
                lake.spark.interruptAll()

    def must_exist(self) -> None:
        """Raises if the folder is missing; starting Spark first would take long."""
        if "://" not in self.lake_path and not Path(self.lake_path).is_dir():
            raise PipelineError(
                f"{self.lake_path} does not exist: `kohort pipeline ingest` and"
                " `kohort pipeline stream` create a lake; --lake names its folder"
            )


def _bytes(lake: str, inputs: Sequence[str]) -> int:
    """The bytes of events on this machine, in a lake and in files."""
    from kohort.pipeline import files

    paths = [Path(absolute(lake), "bronze"), *map(absolute, inputs)]
    return sum(
        file.size
        for path in paths
        if is_local(str(path))
        for file in files.inputs(str(path))
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
