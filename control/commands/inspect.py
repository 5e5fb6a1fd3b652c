"""The command ``kohort inspect``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kohort.control.terminal import examples, fail, json_option


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--group", metavar="GROUP", help="Shows only this group.")
@json_option
@examples("kohort inspect data", "kohort inspect data --group billing")
def inspect(directory: Path, group: str | None, *, as_json: bool) -> None:
    """Prints the groups and offsets in a data directory.

    DIR is a data directory of kohort or of Apache Kafka, the folder of one partition,
    or one segment. A broker may be using it. Exits 1 if something is damaged.
    """
    from kohort.control.data_dir.inspection import InspectError
    from kohort.control.data_dir.inspection_output import write_inspection

    try:
        code = write_inspection(directory, group=group, as_json=as_json, out=sys.stdout)
    except InspectError as error:
        fail(str(error), 1)
    sys.exit(code)
