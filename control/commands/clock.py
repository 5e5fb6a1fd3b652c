"""The command ``kohort clock``: shows and moves the broker's time, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kohort.control.commands.over_http import command_of
from kohort.control.terminal import counted, examples, fail, json_option

if TYPE_CHECKING:
    from kohort.control.remote import Remote

NS_PER_MS = 1_000_000


@click.group()
@examples("kohort clock advance 7d")
def clock() -> None:
    """Shows and moves the broker's clock.

    Needs a broker with an HTTP port: kohort serve --http 9080.
    """


@command_of(clock)
@json_option
@examples("kohort clock show")
def show(remote: Remote, *, as_json: bool) -> None:
    """Shows the broker's time and whether the clock runs."""
    from kohort.control.kafka.times import shown_time
    from kohort.control.tables import show_json

    found = remote.get("v1", "clock")
    if as_json:
        show_json(found)
        return
    click.echo(f"{shown_time(found['now_ns'] // NS_PER_MS)} ({found['mode']})")


@command_of(clock)
@click.argument("time", metavar="TIME")
@click.option(
    "--no-credit-heartbeats",
    "is_silent",
    is_flag=True,
    help="Lets sessions expire: members do not count as heard from meanwhile.",
)
@examples(
    "kohort clock advance 45 --no-credit-heartbeats",
    "kohort clock advance 7d",
)
def advance(remote: Remote, *, time: str, is_silent: bool) -> None:
    """Moves the broker's clock ahead, and fires the timers on the way.

    TIME is in seconds, or with a unit: 90s, 5m, 7d. Members with a live connection
    count as heard from, as if they had sent heartbeats.
    """
    from kohort.control.kafka.times import duration_ms

    try:
        text = f"{time}s" if time.replace(".", "", 1).isdigit() else time
        seconds = duration_ms(text) / 1000
    except ValueError as error:
        fail(str(error), 2)
    done = remote.post(
        "v1", "clock", "advance", seconds=seconds, credit_heartbeats=not is_silent
    )
    fired = counted(done["fired"], "timer")
    click.echo(f"moved the clock ahead by {seconds:.15g} s; {fired} fired")
