"""The command ``kohort inspect``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kohort.control.terminal import fail, json_option


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--group", metavar="GROUP", help="Shows this one only.")
@json_option
def inspect(directory: Path, group: str | None, *, as_json: bool) -> None:
    """Prints the groups and offsets in a data directory, kohort's or Kafka's.

    DIR may also be one partition's folder, or one segment. A broker may be running
    on it. Exits 1 if something in it is damaged.
    """
    from kohort.control.data_dir.inspection import InspectError
    from kohort.control.data_dir.inspection_output import write_inspection

    try:
        code = write_inspection(directory, group=group, as_json=as_json, out=sys.stdout)
    except InspectError as error:
        fail(str(error), 1)
    sys.exit(code)
