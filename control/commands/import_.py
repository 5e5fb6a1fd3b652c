"""The command ``kohort import``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from kohort.control.commands.config import CONFIG_OPTIONS, load_config
from kohort.control.terminal import examples, fail


@click.command("import")
@click.argument("source", metavar="KAFKA_DIR", type=click.Path(path_type=Path))
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--topic",
    "topics",
    metavar="TOPIC",
    multiple=True,
    help="Imports only this topic. Can be given more than once. __consumer_offsets has "
    "the groups.",
)
@CONFIG_OPTIONS[0]
@CONFIG_OPTIONS[1]
@examples("kohort import /var/kafka-logs data", "kohort serve --data-dir data")
def import_(
    source: Path,
    target: Path,
    topics: tuple[str, ...],
    file: str | None,
    sets: tuple[str, ...],
) -> None:
    """Makes a data directory from Apache Kafka's log directory.

    KAFKA_DIR is the log directory of a stopped broker, a copy of it, or the folder of
    one partition. It is not changed. DIR is the new data directory.
    """
    from kohort.broker.log.store import DataDirError, StorageError
    from kohort.control.data_dir.importing import import_kafka

    config = load_config(file, sets)

    def progress(folder: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r\033[K{folder}", err=True, nl=False)

    try:
        imported = import_kafka(
            source,
            target,
            config,
            topics=topics,
            now_ms=int(time.time() * 1000),
            progress=progress,
        )
    except (DataDirError, StorageError, OSError) as error:
        fail(str(error), 1)
    for each in imported:
        click.echo(
            f"{each.topic}: {each.found} of {each.partitions} partitions, "
            f"{each.records} offsets"
        )
    click.echo(f"kohort serve --data-dir {target} serves it")
    damaged = [row for each in imported for row in each.damaged]
    for partition, size in damaged:
        text = f"kohort: {partition} is damaged: its last {size} bytes were left out"
        click.echo(text, err=True)
    sys.exit(1 if damaged else 0)
