"""Options that several commands have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from kohort.pipeline.commands.progress import Progress
from kohort.pipeline.commands.work import Access, fail, perform

if TYPE_CHECKING:
    from kohort.pipeline.quality import Rules

LAKE: Final = "./lake"

strict_option = click.option(
    "--strict",
    "is_strict",
    is_flag=True,
    help="Ingests nothing if a file cannot be read.",
)
_LAKE = click.option(
    "--lake",
    metavar="DIR",
    envvar="KOHORT_LAKE",
    default=LAKE,
    show_envvar=True,
    help="Folder or URI of the lake.",
)
_LAKE_TO_KEEP = click.option(
    "--lake",
    metavar="DIR",
    default="",
    help="Folder of a lake that keeps the events and tables.  [default: none]",
)
_ENGINE_OPTIONS = (
    click.option(
        "--master",
        metavar="URL",
        help="Runs on Spark: local[*], local[4], spark://host:7077, yarn, k8s://...;"
        " for clusters, and for more than some 3 million events.  [default: no Spark]",
    ),
    click.option(
        "--remote",
        metavar="URL",
        help="A Spark Connect server, sc://host:port, in place of a master. A local"
        " lake must have the same path here and there.",
    ),
    click.option(
        "--conf",
        "confs",
        metavar="KEY=VALUE",
        multiple=True,
        help="A Spark setting; can be given again.",
    ),
    click.option(
        "--memory",
        metavar="SIZE",
        help="Memory of Spark's Java process, for example 4g.  [default: 2g]",
    ),
    click.option(
        "--packages",
        metavar="COORDINATES",
        help="Maven coordinates, in place of that of the Kafka connector for PySpark"
        " 4.0.0; empty: none.",
    ),
    click.option(
        "--jars",
        metavar="PATH[,...]",
        help="More jars, for example the connector's if there is no network.",
    ),
    click.option(
        "--debug",
        "is_debug",
        is_flag=True,
        envvar="KOHORT_DEBUG",
        show_envvar=True,
        help="Also prints the stack of an error, in Python and Java.",
    ),
)


def spark_options(command: Callable[..., int | None]) -> Callable[..., None]:
    """Adds the options of the engine and the lake; the command gets an `Access`.

    The command returns its exit code (None: 0), and ends when `Access.stopping` is
    set.
    """
    return _with_engine(command, _LAKE)


def run_options(command: Callable[..., int | None]) -> Callable[..., None]:
    """The same; without a lake there is a temporary one."""
    return _with_engine(command, _LAKE_TO_KEEP)


def _with_engine(
    command: Callable[..., int | None], lake_option: Callable[..., Any]
) -> Callable[..., None]:
    @functools.wraps(command)
    def run(
        *,
        lake: str,
        master: str | None,
        remote: str | None,
        confs: tuple[str, ...],
        memory: str | None,
        packages: str | None,
        jars: str | None,
        is_debug: bool,
        **arguments: Any,
    ) -> None:
        if not lake and lake_option is _LAKE:
            fail("--lake '': must be a folder", 2)
        access = Access(
            lake,
            master,
            remote,
            parse_pairs("--conf", confs),
            memory,
            None if packages is None else _list(packages),
            _list(jars or ""),
            Progress(),
            is_debug,
        )
        perform(access, lambda: command(access, **arguments) or 0)

    for option in reversed((lake_option, *_ENGINE_OPTIONS)):
        run = option(run)
    return run


def parse_pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """The values of an option that is given as KEY=VALUE, once or several times."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            fail(f"{option} {text!r}: must be KEY=VALUE", 2)
        if name in found:
            fail(f"{option} {name}: given twice", 2)
        found[name] = value
    return found


def _list(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


# -- options of a build


def build_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of a build; the command gets `options`, `rules` and `keep`."""

    @functools.wraps(command)
    def run(
        *args: Any,
        storm_rebalances: int,
        storm_seconds: float,
        thresholds: tuple[str, ...],
        fails: tuple[str, ...],
        marks: tuple[str, ...],
        **arguments: Any,
    ) -> Any:
        from kohort.pipeline.table_functions import Options

        options = Options(storm_rebalances, storm_seconds)
        rules = _rules(thresholds, fails, marks)
        return command(*args, options=options, rules=rules, **arguments)

    for option in reversed(_BUILD_OPTIONS):
        run = option(run)
    return run


_BUILD_OPTIONS = (
    click.option(
        "--storm-rebalances",
        metavar="K",
        type=click.IntRange(min=2),
        default=5,
        help="Rebalances that count as a storm ...",
    ),
    click.option(
        "--storm-seconds",
        metavar="T",
        type=click.FloatRange(min=0, min_open=True),
        default=60.0,
        help="... when they start within this many seconds.",
    ),
    click.option(
        "--threshold",
        "thresholds",
        metavar="CHECK=SHARE",
        multiple=True,
        help="Share, 0 to 1, above which a check does not pass.",
    ),
    click.option(
        "--fail",
        "fails",
        metavar="CHECK",
        multiple=True,
        help="A check that does not pass fails the build; can be given again.",
    ),
    click.option(
        "--mark",
        "marks",
        metavar="CHECK",
        multiple=True,
        help="A check that does not pass marks the run; can be given again.",
    ),
    click.option(
        "--keep",
        metavar="N",
        type=click.IntRange(min=1),
        default=3,
        help="Number of published builds to keep.",
    ),
)


def _rules(
    thresholds: tuple[str, ...], fails: tuple[str, ...], marks: tuple[str, ...]
) -> Rules:
    from kohort.pipeline import quality

    shares: dict[str, float] = {}
    for name, text in parse_pairs("--threshold", thresholds).items():
        try:
            shares[_check("--threshold", name)] = share = float(text)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            fail(f"--threshold {name}={text}: must be a share, 0 to 1", 2)
    otherwise = {_check("--mark", name): quality.MARKED for name in marks}
    for name in fails:
        if name in otherwise:
            fail(f"{name}: --fail and --mark exclude each other", 2)
        otherwise[_check("--fail", name)] = quality.FAILED
    return quality.Rules(shares, otherwise)


def _check(option: str, name: str) -> str:
    from kohort.pipeline.quality import CHECKS

    if name not in CHECKS:
        fail(f"{option} {name}: unknown check; the checks are: {', '.join(CHECKS)}", 2)
    return name
