"""The command ``kohort demo``."""

from __future__ import annotations

import sys

import click

MOST_PARTITIONS = 48
"""Partitions that fit in one line of 80 columns."""


@click.command()
@click.option(
    "--members",
    type=click.IntRange(2, 8),
    default=4,
    help="Most members of the group (group.max.size).",
)
@click.option(
    "--partitions",
    type=click.IntRange(1, MOST_PARTITIONS),
    default=12,
    help="Partitions of the topic.",
)
@click.option(
    "--assignor",
    type=click.Choice(["cooperative-sticky", "sticky", "range", "roundrobin"]),
    default="cooperative-sticky",
    help="The assignor; all but the first are eager.",
)
@click.option(
    "--pace",
    type=click.FloatRange(0, 100),
    default=1.0,
    help="The length of pauses for the reader: 2 is twice as long, 0 is none.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="The broker's port, for other clients to join; 0 picks a free one.",
)
@click.option(
    "--stay",
    is_flag=True,
    help="Goes on after the last scene, until Ctrl-C: join with your own client.",
)
@click.option(
    "--plain",
    is_flag=True,
    help="Lines of text, as if stdout were no terminal.",
)
def demo(
    *,
    members: int,
    partitions: int,
    assignor: str,
    pace: float,
    port: int,
    stay: bool,
    plain: bool,
) -> None:
    """Plays the life of a consumer group in this terminal.

    A broker and some consumers: they join, rebalance, one crashes, one is refused
    because the group is full, one leaves. The picture comes from the broker's answers
    to DescribeGroups and from the consumers themselves.
    """
    # Nothing else of kohort needs these: `kohort --help` does without.
    from kohort.control.demo.run import run
    from kohort.control.demo.script import DemoError
    from kohort.control.demo.state import Setup
    from kohort.control.terminal import fail

    setup = Setup(
        members=members,
        partitions=partitions,
        assignor=assignor,
        pace=pace,
        port=port,
        stays=stay,
    )
    try:
        run(setup, is_plain=plain or not sys.stdout.isatty())
    except DemoError as error:
        fail(str(error), 1)
