"""``kohort pipeline stream``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import click

from kohort.pipeline.commands.options import build_options, spark_options
from kohort.pipeline.commands.work import Access, fail

if TYPE_CHECKING:
    from kohort.pipeline.quality import Rules
    from kohort.pipeline.table_functions import Options

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_BUILD_EVERY: Final = "1m"


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
    default=_BUILD_EVERY,
    help="How often tables are built if there are new events.",
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
    continues where it was, and stores each event once. Meanwhile it builds the tables
    of the runs that have new events.

    Example: kohort pipeline stream --bootstrap-server 127.0.0.1:9092
    """
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*", name):
        fail(f"--name {name!r}: letters, digits, - and _ are allowed", 2)
    every = None if no_build else _seconds(build_every)
    try:
        with access.open(connector=True) as lake:
            from kohort.pipeline.commands.stream_builds import Live

            live = Live(
                lake=lake,
                stopping=access.stopping,
                bootstrap=bootstrap,
                topic=topic,
                name=name,
                every=every,
                options=options,
                rules=rules,
                keep=keep,
                progress=access.progress,
                skips_lost=skip_lost,
            )
            return live.run(once=once)
    except InterruptedError:  # also while Spark starts
        if once:
            raise
        return 0
