"""The command ``kohort run``: runs another command with a broker."""

from __future__ import annotations

import os
import sys
from typing import Literal, NoReturn

import click

from kohort.broker import telemetry
from kohort.control.commands.config import CONFIG_OPTIONS, load_config
from kohort.control.commands.serve import (
    clock_option,
    faults_option,
    nodes_option,
    partitions_option,
    with_partitions,
)
from kohort.control.terminal import examples, fail

QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    # The pace of consumer groups (KIP-848) is the broker's: 5 s, and 1 s.
    "group.consumer.min.heartbeat.interval.ms": "1",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
}
"""Settings that are as quick as tests are, unless they are set."""


@click.command(context_settings={"allow_interspersed_args": False})
@nodes_option
@partitions_option
@clock_option
@faults_option
@CONFIG_OPTIONS[0]
@CONFIG_OPTIONS[1]
@click.option(
    "--artifacts",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Folder for timeline.html and events.jsonl if the command fails. The default "
    "is a new temporary folder.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@examples(
    "kohort run -- mvn test",
    "kohort run --nodes 3 --set group.max.size=2 -- go test ./...",
    "kohort run --artifacts target/kohort -- npm test",
)
def run(
    nodes: int,
    partitions: int | None,
    clock: Literal["real", "manual"],
    faults: str | None,
    file: str | None,
    sets: tuple[str, ...],
    artifacts: str | None,
    command: tuple[str, ...],
) -> NoReturn:
    """Runs a command, for example your tests, with a broker.

    It starts a broker on free ports, runs COMMAND, stops the broker, and exits with
    COMMAND's exit code. COMMAND finds the broker in its environment:
    KAFKA_BOOTSTRAP_SERVERS is "127.0.0.1:PORT", and KOHORT_HTTP is the URL of the HTTP
    port. If COMMAND fails, stderr has the history of each group and the path of a
    timeline page. New groups do not wait for the initial delay, and consumer groups
    have quick heartbeats, unless you set group.initial.rebalance.delay.ms,
    group.consumer.heartbeat.interval.ms or group.consumer.assignment.interval.ms.
    """
    from kohort.broker import loop
    from kohort.broker.config import DEFAULT_CONFIG
    from kohort.broker.server import Broker
    from kohort.control.commands.running import run_beside
    from kohort.control.serving import StartError, load_faults, raise_descriptors

    telemetry.configure(level="warning")
    sets = with_partitions(sets, partitions)
    config = load_config(file, sets)
    quick = [
        f"{key}={value}"
        for key, value in QUICK.items()
        if config.entry(key).source == DEFAULT_CONFIG
    ]
    config = load_config(file, (*sets, *quick))
    raise_descriptors()
    token = os.environ.get("KOHORT_HTTP_TOKEN")
    broker = Broker(config, nodes=nodes, clock=clock, watch_fetches=True)
    load_faults(broker, faults)
    try:
        code = loop.run(run_beside(broker, command, token, artifacts))
    except StartError as why:
        fail(str(why), 1)
    sys.exit(code)
