"""The command ``kohort demo``."""

from __future__ import annotations

import sys

import click

from kohort.control.terminal import examples, fail

MOST_PARTITIONS = 48
"""Partitions that fit in one line of 80 columns."""


@click.command()
@click.option(
    "--members",
    type=click.IntRange(2, 8),
    default=4,
    help="The group's maximum size (group.max.size).",
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
    help="The assignor. All but cooperative-sticky are eager.",
)
@click.option(
    "--pace",
    type=click.FloatRange(0, 100),
    default=1.0,
    help="Length of the pauses between steps: 2 is twice as long, 0 is none.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="The broker's port, so that other clients can join. 0 picks a free one.",
)
@click.option(
    "--stay",
    is_flag=True,
    help="Keeps running after the last scene, so that you can join with your client.",
)
@click.option(
    "--plain",
    is_flag=True,
    help="Prints lines of text, as it does if stdout is not a terminal.",
)
@examples("kohort demo", "kohort demo --assignor range --stay --port 9092")
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

    It starts a broker and some consumers. They join and rebalance; one crashes, one is
    refused because the group is full, one leaves. The picture is drawn from the
    broker's answers to DescribeGroups and from the consumers themselves.
    """
    # Only this command needs these modules.
    from kohort.control.demo.run import run
    from kohort.control.demo.script import DemoError
    from kohort.control.demo.state import Setup

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
