"""The command ``kohort clock``: shows and moves the broker's time, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kohort.control.clock_verbs import ClockVerbs
from kohort.control.commands.of_verbs import add_verbs
from kohort.control.commands.over_http import command_of
from kohort.control.terminal import examples, json_option

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


add_verbs(clock, ClockVerbs)
