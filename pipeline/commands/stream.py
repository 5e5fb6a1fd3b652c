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
        fail(f"--build-every {text!r}: must be a time such as 30s, 5m or 1h", 2)
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
    help="Brokers to begin with.",
)
@click.option(
    "--topic",
    default="__kohort_events",
    help="The topic that has the events.",
)
@click.option(
    "--name",
    default="live",
    help="Of the stream: by it a stream goes on where it was. One for each broker.",
)
@click.option("--once", is_flag=True, help="Reads what there is, builds, and ends.")
@click.option(
    "--build-every",
    metavar="TIME",
    default=_BUILD_EVERY,
    help="How often tables are made, if there is something new.",
)
@click.option("--no-build", is_flag=True, help="Makes no tables.")
@click.option(
    "--skip-lost",
    is_flag=True,
    help="For one start: goes on where retention has taken records that were not read.",
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
    """Takes in events from a broker's topic, until SIGINT or SIGTERM.

    Reads without a consumer group, so nothing rebalances for it. Killed, it goes on
    where it was, with each event once. Makes tables meanwhile: of the runs that have
    new events.
    """
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*", name):
        fail(f"--name {name!r}: letters, digits, - and _ are allowed", 2)
    every = None if no_build else _seconds(build_every)
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
