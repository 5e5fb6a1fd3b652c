"""``kohort pipeline``: events in, tables and answers out.

Nothing here loads PySpark before it is needed: help and mistakes are told without it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kohort.pipeline.errors import PipelineError
from kohort.pipeline.running import (
    Access,
    fail,
    in_a_sentence,
    parse_pairs,
    spark_options,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kohort.pipeline.makers import Options
    from kohort.pipeline.quality import Rules

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SHOWN_ROWS: Final = 100
_BUILD_EVERY: Final = "1m"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def pipeline() -> None:
    """Makes tables and reports of events, by Spark.

    ingest and stream bring events into a lake, each once; build makes tables of them;
    report and query read those. Needs the extra: pip install 'kohort[pipeline]', and
    Java 17.
    """


def _build_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of whatever builds; it gets `options`, `rules` and `keep`."""
    import functools  # noqa: PLC0415 - loads late

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
        from kohort.pipeline.makers import Options  # noqa: PLC0415 - loads late

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
        show_default=True,
        help="So many rebalances are a storm,",
    ),
    click.option(
        "--storm-seconds",
        metavar="T",
        type=click.FloatRange(min=0, min_open=True),
        default=60.0,
        show_default=True,
        help="if they start within so many seconds.",
    ),
    click.option(
        "--threshold",
        "thresholds",
        metavar="CHECK=SHARE",
        multiple=True,
        help="The share, 0 to 1, above which a check does not pass.",
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
        show_default=True,
        help="So many published builds are kept.",
    ),
)


def _rules(
    thresholds: tuple[str, ...], fails: tuple[str, ...], marks: tuple[str, ...]
) -> Rules:
    from kohort.pipeline import quality  # noqa: PLC0415 - loads late

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
            fail(f"{name}: --fail and --mark say different things", 2)
        otherwise[_check("--fail", name)] = quality.FAILED
    return quality.Rules(shares, otherwise)


def _check(option: str, name: str) -> str:
    from kohort.pipeline.quality import CHECKS  # noqa: PLC0415 - loads late

    if name not in CHECKS:
        fail(f"{option} {name}: no such check; there are: {', '.join(CHECKS)}", 2)
    return name


def _seconds(text: str) -> float:
    """A duration: 30s, 1m, 2h."""
    found = _DURATION.fullmatch(text.strip())
    seconds = float(found[1]) * _SECONDS[found[2] or "s"] if found else 0.0
    if not seconds:
        fail(f"--build-every {text!r}: must be a time such as 30s, 5m or 1h", 2)
    return seconds


# -- ingest


@pipeline.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@spark_options
def ingest(access: Access, *, paths: tuple[str, ...]) -> None:
    """Takes in events: files and folders of JSON lines or Parquet, patterns, URIs.

    Files that were taken in before are skipped, if they have not changed since; an
    event that is in several files is there once.
    """
    from kohort.pipeline.shown import rows, show  # noqa: PLC0415 - loads late

    with access.open() as lake:
        from kohort.pipeline import bronze  # noqa: PLC0415 - loads PySpark

        done = bronze.ingest(lake, paths, access.progress.say)
    bad = sum(done.quarantined.values())
    numbers = ("files", "skipped", "events", "known before", "quarantined")
    cells = (done.files, done.skipped, done.events, done.known, bad)
    parts = [rows(numbers, [cells], numbers)]
    if bad:
        reasons = sorted(done.quarantined.items())
        parts += ["", rows(("in quarantine, for", "lines"), reasons, ("lines",))]
    show(*parts)


# -- build


@pipeline.command()
@_build_options
@spark_options
def build(access: Access, *, options: Options, rules: Rules, keep: int) -> int:
    """Makes all tables of the events anew, and publishes them.

    Readers have the tables of the build before until all are there. Where a check of
    the data fails, the build is not published, and the exit code is 1; what it has
    found can be looked at: query --build ID --name quality.
    """
    from kohort.pipeline.shown import of_build, show  # noqa: PLC0415 - loads late

    _must_exist(access)
    with access.open() as lake:
        from kohort.pipeline import build as builds  # noqa: PLC0415 - loads late
        from kohort.pipeline.tables import TABLES  # noqa: PLC0415

        access.progress.say("builds")
        access.progress.tables(len(TABLES))
        made = builds.build(
            lake, options, rules, keep=keep, progress=access.progress.table
        )
    show(*of_build(made))
    return 0 if made.is_published else 1


def _must_exist(access: Access) -> None:
    """A folder that is not there is told of before Spark starts, which takes long."""
    if "://" not in access.lake_path and not Path(access.lake_path).is_dir():
        raise PipelineError(
            f"{access.lake_path} is not there: `kohort pipeline ingest` and"
            " `kohort pipeline stream` make a lake; --lake says where it is"
        )


# -- stream


@pipeline.command()
@click.option(
    "-b",
    "--bootstrap",
    "--bootstrap-server",
    "bootstrap",
    metavar="HOST:PORT[,...]",
    envvar="KOHORT_BOOTSTRAP_SERVERS",
    show_envvar=True,
    default="localhost:9092",
    show_default=True,
    help="Brokers to begin with.",
)
@click.option(
    "--topic",
    default="__kohort_events",
    show_default=True,
    help="The topic that has the events.",
)
@click.option(
    "--name",
    default="live",
    show_default=True,
    help="Of the stream: by it a stream goes on where it was. One for each broker.",
)
@click.option("--once", is_flag=True, help="Reads what there is, builds, and ends.")
@click.option(
    "--build-every",
    metavar="TIME",
    default=_BUILD_EVERY,
    show_default=True,
    help="How often tables are made, if there is something new.",
)
@click.option("--no-build", is_flag=True, help="Makes no tables.")
@click.option(
    "--skip-lost",
    is_flag=True,
    help="For one start: goes on where retention has taken records that were not read.",
)
@_build_options
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
    """Takes in events from a broker's topic, until SIGINT or SIGTERM.

    Reads without a consumer group, so nothing rebalances for it. Killed, it goes on
    where it was, with each event once. Makes tables meanwhile: of the runs that have
    new events.
    """
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*", name):
        fail(f"--name {name!r}: letters, digits, - and _ are allowed", 2)
    every = None if no_build else _seconds(build_every)
    with access.open(connector=True) as lake:
        from kohort.pipeline.live import Live  # noqa: PLC0415 - loads late

        live = Live(
            lake,
            access.stopping,
            bootstrap,
            topic,
            name,
            every,
            options,
            rules,
            keep,
            access.progress,
            skips_lost=skip_lost,
        )
        return live.run(once=once)


# -- report and query


@pipeline.command()
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="report.html",
    show_default=True,
    type=click.Path(dir_okay=False, writable=True),
    help="Where it goes.",
)
@click.option(
    "--run",
    "runs",
    metavar="RUN",
    multiple=True,
    help="Only of this; can be given again.",
)
@click.option("--build", "build_id", metavar="ID", help="Of this build.")
@spark_options
def report(
    access: Access, *, output: str, runs: tuple[str, ...], build_id: str | None
) -> None:
    """Writes a report: one HTML file, which needs no network to be read.

    It says what happened, which groups suffer and why, what to change, and how sure
    that is; each number has the query that gave it.
    """
    path = Path(output)
    if not path.parent.is_dir():
        fail(f"--output {output}: there is no folder {path.parent}", 2)
    _must_exist(access)
    with access.open() as lake:
        from kohort.pipeline import build as builds  # noqa: PLC0415 - loads late
        from kohort.pipeline import report as reports  # noqa: PLC0415 - loads plotly
        from kohort.pipeline import views  # noqa: PLC0415

        found = views.register(lake, build_id)
        views.must_have(lake, runs)
        access.progress.say("writes the report")
        about = builds.about(lake, found) or {}
        reports.write(lake.spark, path, runs=[*runs] or None, about=about)
    click.echo(f"{output}: of build {found}")


@pipeline.command()
@click.argument("sql", required=False)
@click.option("--name", help="A query of the report, by its name; see --names.")
@click.option("--names", "is_names", is_flag=True, help="Lists those.")
@click.option(
    "--tables",
    "is_tables",
    is_flag=True,
    help="Lists the tables; with a table in place of SQL: its columns.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
@click.option("--csv", "as_csv", is_flag=True, help="As CSV, with a header.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    default=_SHOWN_ROWS,
    show_default=True,
    help="So many rows are shown; JSON and CSV have all.",
)
@click.option(
    "--run",
    "runs",
    metavar="RUN",
    multiple=True,
    help="With --name: only of this; can be given again.",
)
@click.option("--build", "build_id", metavar="ID", help="Of this build.")
@spark_options
def query(
    access: Access,
    *,
    sql: str | None,
    name: str | None,
    runs: tuple[str, ...],
    is_names: bool,
    is_tables: bool,
    as_json: bool,
    as_csv: bool,
    limit: int,
    build_id: str | None,
) -> None:
    """Asks the tables: SQL as Spark has it, or a query of the report by its name.

    kohort pipeline query "SELECT `group`, rebalances FROM gold_groups"
    """
    if is_tables:
        _list_tables(sql)
        return
    if is_names:
        _list_names()
        return
    if (sql is None) == (name is None):
        fail("query: needs SQL, or --name", 2)
    if runs and name is None:
        fail("query: --run needs --name; in SQL it is WHERE run = '...'", 2)
    if as_json and as_csv:
        fail("query: --json and --csv say different things", 2)
    text = sql if name is None else _named(name, [*runs] or None)
    _must_exist(access)
    with access.open() as lake:
        from kohort.pipeline import views  # noqa: PLC0415 - loads late

        views.register(lake, build_id)
        views.must_have(lake, runs)
        access.progress.say("asks")
        _print(_asked(lake.spark, text or ""), as_json, as_csv, limit)


def _list_tables(name: str | None) -> None:
    from kohort.pipeline.shown import of_tables, show  # noqa: PLC0415 - loads late
    from kohort.pipeline.tables import TABLES  # noqa: PLC0415
    from kohort.pipeline.views import meant, view  # noqa: PLC0415

    if name is None:
        show(*of_tables())
    elif name in map(view, TABLES):
        show(*of_tables([name]))
    else:
        fail(f"there is no table {name}: {meant(name)}", 2)


def _list_names() -> None:
    from kohort.pipeline.report import QUERIES  # noqa: PLC0415 - loads late

    for name in QUERIES:
        click.echo(name)


def _named(name: str, runs: Sequence[str] | None) -> str:
    from kohort.pipeline import report as reports  # noqa: PLC0415 - loads late

    if name not in reports.QUERIES:
        there = ", ".join(reports.QUERIES)
        fail(f"--name {name}: there is none; there are: {there}", 2)
    return str(reports.sql(name, runs))


def _asked(spark: SparkSession, text: str) -> DataFrame:
    """What a query gives; mistakes in it are told in a sentence."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - takes long

    from kohort.pipeline.views import meant  # noqa: PLC0415

    try:
        return spark.sql(text)
    except PySparkException as error:
        condition = error.getCondition() or ""
        said = error.getMessageParameters() or {}
        if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
            name = str(said.get("relationName", "")).replace("`", "")
            raise PipelineError(f"there is no table {name}: {meant(name)}", 2) from None
        raise PipelineError(_mistake(error), 2) from None


def _mistake(error: BaseException) -> str:
    """What Spark says of a query, without its name for that, and the plan."""
    text = in_a_sentence(error).removeprefix("Spark: ")
    text = re.sub(r"^\[[A-Z_.0-9]+\] ", "", text)
    return re.sub(r"\s*SQLSTATE: \w+", "", text)


def _print(found: DataFrame, as_json: bool, as_csv: bool, limit: int) -> None:
    from kohort.pipeline import shown  # noqa: PLC0415 - loads late

    if as_json or as_csv:
        for piece in shown.as_json(found) if as_json else shown.as_csv(found):
            sys.stdout.write(piece)
        return
    shown.show(*shown.answer(found, limit))
