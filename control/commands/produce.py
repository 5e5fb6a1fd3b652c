"""The command ``kohort produce``: its options. `producing` does the work."""

from __future__ import annotations

import click

from kohort.control.kafka.options import Access, client_options, run
from kohort.control.terminal import examples, fail


@click.command()
@click.argument("topic")
@click.argument("values", metavar="[VALUE]...", nargs=-1)
@client_options
@click.option(
    "--file",
    "files",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    multiple=True,
    help="Sends the lines of this file; - is stdin. Can be given more than once.",
)
@click.option("-k", "--key", help="Key of all records.")
@click.option(
    "-K",
    "--key-separator",
    metavar="TEXT",
    help="Text between key and value in each line.",
)
@click.option(
    "-H",
    "--header",
    "headers",
    metavar="NAME=VALUE",
    multiple=True,
    help="A header of all records. Can be given more than once.",
)
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(min=0),
    help="Partition of all records. By default the key selects it.",
)
@click.option(
    "--timestamp",
    metavar="TIME",
    help="Timestamp of all records: 2026-01-31T12:00:00 (UTC), or milliseconds.",
)
@click.option(
    "--null", metavar="TEXT", help="Sends keys and values with this text as null."
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Reads lines of JSON, as printed by kohort consume --json.",
)
@click.option(
    "-z",
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    help="Compresses the records.",
)
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "all"]),
    help="Acknowledgement to wait for: none, the leader's, or all in-sync replicas'.",
)
@click.option(
    "--transactional-id",
    metavar="ID",
    help="Sends all records in one transaction, or none if one of them fails.",
)
@click.option("-q", "--quiet", is_flag=True, help="Prints only errors.")
@examples(
    "kohort produce orders one two three",
    "kohort produce orders --key alice '{\"amount\": 3}'",
    "kohort produce orders --file orders.txt --key-separator :",
)
def produce(
    access: Access,
    /,
    *,
    topic: str,
    values: tuple[str, ...],
    files: tuple[str, ...],
    key: str | None,
    key_separator: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    timestamp: str | None,
    null: str | None,
    as_json: bool,
    compression: str | None,
    acks: str | None,
    transactional_id: str | None,
    quiet: bool,
) -> None:
    """Sends records to a topic.

    Each VALUE is a record; without VALUE, each line of stdin or of --file is one. It
    stops at the first record that is not delivered, with exit code 1.
    """
    if values and files:
        fail("--file: not with VALUE", 2)
    if key is not None and key_separator is not None:
        fail("--key: not with --key-separator", 2)
    if key_separator == "":
        fail("--key-separator: is empty", 2)
    if as_json and any(
        each is not None for each in (key, key_separator, null, timestamp, partition)
    ):
        names = "--key, --key-separator, --null, --timestamp or --partition"
        fail(f"--json: not with {names}", 2)

    from kohort.control.kafka import producing

    template = producing.template_of(
        key=key,
        separator=key_separator,
        headers=headers,
        partition=partition,
        timestamp=timestamp,
        null=null,
        as_json=as_json,
    )
    config = producing.config_of(
        access,
        compression_type=compression,
        acks=acks,
        transactional_id=transactional_id,
    )
    run(producing.produce(config, topic, values, files, template, is_quiet=quiet))
