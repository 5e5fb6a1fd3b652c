"""``kohort pipeline ingest``."""

from __future__ import annotations

import click

from kohort.pipeline.commands.options import spark_options, strict_option
from kohort.pipeline.commands.work import Access


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@strict_option
@spark_options
def ingest(access: Access, *, paths: tuple[str, ...], is_strict: bool) -> int:
    """Copies events from files into the lake.

    PATH is a file or folder of JSON lines or Parquet, a pattern, or a URI. Files that
    were ingested before are skipped unless they have changed. An event that is in
    several files is stored once. If a file cannot be read, it is named, the others
    are ingested, and the exit code is 3.

    Example: kohort pipeline ingest events.jsonl
    """
    from kohort.pipeline.commands.output import name_unread, of_ingest, show

    with access.open(inputs=paths) as lake:
        from kohort.pipeline import bronze

        done = bronze.ingest(lake, paths, access.progress.say, is_strict=is_strict)
    show(*of_ingest(done))
    return name_unread(done)
