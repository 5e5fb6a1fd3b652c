"""The command ``kohort consume``: its options. `consuming` does the work."""

from __future__ import annotations

import re

import click

from kohort.control.kafka.options import Access, client_options, run
from kohort.control.terminal import examples, fail


@click.command()
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@client_options
@click.option("-g", "--group", help="Joins this group. By default, joins none.")
@click.option(
    "--pattern",
    metavar="REGEX",
    help="Reads the topics that match, instead of TOPIC. Needs --group.",
)
@click.option(
    "--from-beginning",
    is_flag=True,
    help="Starts at the first record; in a group, only if no offset is committed.",
)
@click.option(
    "--offset",
    metavar="OFFSET",
    help="Start offset: earliest, latest, N, or -N for the last N records.",
)
@click.option(
    "--from-time",
    metavar="TIME",
    help="Start time: 2026-01-31T12:00:00 (UTC), milliseconds, or 15m for 15 minutes "
    "ago.",
)
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="Reads only this partition. Can be given more than once.",
)
@click.option(
    "-n",
    "--max-messages",
    "most",
    type=click.IntRange(min=1),
    help="Stops after this many records.",
)
@click.option(
    "-e",
    "--until-end",
    is_flag=True,
    help="Stops at the current end of the log. Starts at the beginning by default.",
)
@click.option(
    "-f",
    "--format",
    "text",
    help=r"Output format, for example '%t-%p@%o %k: %s\n': %t topic, %p partition, "
    "%o offset, %k key, %s value, %h headers, %T timestamp, %D date, %K and %S sizes.",
)
@click.option("--json", "as_json", is_flag=True, help="Prints a JSON object per line.")
@click.option(
    "--raw", is_flag=True, help="Prints bytes unchanged, even if they are not text."
)
@click.option("--null", default="null", help="Text for null keys and values.")
@click.option(
    "--group-instance-id", metavar="ID", help="Joins as a static member (KIP-345)."
)
@click.option(
    "--assignor",
    metavar="NAME[,...]",
    help="range, roundrobin, sticky or cooperative-sticky; the first is preferred.",
)
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    help="Whether to read records of open and aborted transactions.",
)
@click.option("-q", "--quiet", is_flag=True, help="Prints nothing on stderr.")
@examples(
    "kohort consume orders",
    "kohort consume orders --from-beginning --max-messages 10",
    "kohort consume orders --group billing",
)
def consume(
    access: Access,
    /,
    *,
    topics: tuple[str, ...],
    group: str | None,
    pattern: str | None,
    from_beginning: bool,
    offset: str | None,
    from_time: str | None,
    partitions: tuple[int, ...],
    most: int | None,
    until_end: bool,
    text: str | None,
    as_json: bool,
    raw: bool,
    null: str,
    group_instance_id: str | None,
    assignor: str | None,
    isolation_level: str | None,
    quiet: bool,
) -> None:
    """Prints the records of topics, until Ctrl-C.

    Without a group it reads new records of all partitions. In a group it shares the
    partitions with the other members, and commits the records that it has printed.
    """
    _check_topics(topics, pattern, group)
    starts = {"--offset": offset, "--from-time": from_time}
    if group is None:
        if group_instance_id is not None or assignor is not None:
            fail("--group-instance-id and --assignor: need --group", 2)
        starts["--from-beginning"] = "earliest" if from_beginning else None
        if sum(start is not None for start in starts.values()) > 1:
            fail(f"{', '.join(starts)}: only one of them", 2)
    else:
        for name, value in (*starts.items(), ("--partition", partitions or None)):
            if value is not None:
                fail(f"{name}: not in a group; see kohort groups reset-offsets", 2)
    if as_json and (text is not None or raw):
        fail("--json: not with --format or --raw", 2)

    from kohort.control.kafka import consuming

    begins = from_beginning or until_end
    config = consuming.config_of(
        access,
        reset="earliest" if begins else None,
        group_id=group,
        group_instance_id=group_instance_id,
        partition_assignment_strategy=assignor,
        isolation_level=isolation_level,
    )
    start = consuming.start_of(offset, from_time)
    wanted = consuming.Wanted(
        topics,
        pattern,
        frozenset(partitions),
        start,
        most,
        until_end,
        consuming.renderer(text, as_json=as_json, raw=raw, null=null),
        quiet,
    )
    run(consuming.consume(config, wanted))


def _check_topics(
    topics: tuple[str, ...], pattern: str | None, group: str | None
) -> None:
    if bool(topics) == (pattern is not None):
        fail("TOPIC: name one at least, or give --pattern with --group", 2)
    if pattern is None:
        return
    if group is None:
        fail("--pattern: needs --group", 2)
    try:
        re.compile(pattern)
    except re.error as error:
        fail(f"--pattern {pattern!r}: {error}", 2)
