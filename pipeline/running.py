"""What the pipeline's commands share: their options, Spark, and how they end.

The work is done on a thread, and the main thread waits: a signal that came in the
middle of a call to Java would leave that call's answer for the next one. So it is
Spark that is told to stop, and the work ends by itself.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from kohort.pipeline.errors import PipelineError
from kohort.pipeline.progress import Progress

if TYPE_CHECKING:
    from types import FrameType

    from kohort.pipeline.lake import Lake

LAKE: Final = "./lake"
LOOK_S: Final = 0.25
"""How often somebody who waits looks around."""
PATIENCE_S: Final = 30.0
"""How long the work may take to end once it has been told to."""

_OPTIONS = (
    click.option(
        "--lake",
        metavar="DIR",
        envvar="KOHORT_LAKE",
        default=LAKE,
        show_envvar=True,
        show_default=True,
        help="The folder, or URI, with everything.",
    ),
    click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[*], local[4], spark://host:7077, yarn,"
        " k8s://...  [default: local[*]]",
    ),
    click.option(
        "--conf",
        "confs",
        metavar="KEY=VALUE",
        multiple=True,
        help="Sets one of Spark's settings; can be given again.",
    ),
    click.option(
        "--memory",
        metavar="SIZE",
        help="Of the Java process here, such as 4g.  [default: 2g]",
    ),
    click.option(
        "--packages",
        metavar="COORDINATES",
        help="Of the Kafka connector in Maven, in place of the one that goes with"
        " PySpark 4.0.0; empty: none.",
    ),
    click.option(
        "--jars",
        metavar="PATH[,...]",
        help="More jars, such as the connector's where there is no network.",
    ),
)


@dataclass(slots=True)
class Access:
    """What the common options say, and what is made of them.

    Attributes:
        lake_path: the lake.
        master: Spark's; None: as it is by default.
        conf: Spark's settings.
        memory: of the driver.
        packages: of the connector; None: the usual.
        jars: more of them.
        progress: shows what is going on.
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
        from kohort.pipeline.lake import Lake  # noqa: PLC0415 - only where needed
        from kohort.pipeline.session import session, stop  # noqa: PLC0415 - the same

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
        """Has Spark give up what it does; who waits for it gets an error."""
        lake = self.lake
        if lake is not None:
            with contextlib.suppress(Exception):
                lake.spark.sparkContext.cancelAllJobs()


def spark_options(command: Callable[..., int | None]) -> Callable[..., None]:
    """Gives a command the common options; it gets an `Access` for them.

    The command returns its exit code (None: 0), and is told to stop by
    `Access.stopping`.
    """

    @functools.wraps(command)
    def run(
        *,
        lake: str,
        master: str | None,
        confs: tuple[str, ...],
        memory: str | None,
        packages: str | None,
        jars: str | None,
        **arguments: Any,
    ) -> None:
        if not lake:
            fail("--lake '': must be a folder", 2)
        access = Access(
            lake,
            master,
            parse_pairs("--conf", confs),
            memory,
            None if packages is None else _list(packages),
            _list(jars or ""),
            Progress(),
            threading.Event(),
        )
        _perform(access, lambda: command(access, **arguments) or 0)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run


def fail(text: str, code: int) -> NoReturn:
    """Ends the command with one line on stderr, and this exit code."""
    click.echo(f"kohort: {text}", err=True)
    sys.exit(code)


def parse_pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """The values of an option that is given as KEY=VALUE, perhaps again and again."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            fail(f"{option} {text!r}: must be KEY=VALUE", 2)
        if name in found:
            fail(f"{option} {name}: is said twice", 2)
        found[name] = value
    return found


def _list(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


# -- from the first line to the exit code


def _perform(access: Access, work: Callable[[], int]) -> NoReturn:
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
            # Java ends when this process does; what it leaves, the next one removes.
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
    """What went wrong, in a sentence; whatever is a mistake of ours is raised.

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
    """That nobody reads what is printed is no failure: see ``head``."""
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
    """The first line of what Spark says, without Java's class names and stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    text = (causes[-1].removeprefix("Caused by: ") if causes else "") or next(
        (line for line in lines if not line.startswith("An error occurred")),
        type(error).__name__,
    )
    kind, colon, rest = text.partition(": ")
    is_class = colon and "." in kind and " " not in kind
    return f"Spark: {rest if is_class else text}"
