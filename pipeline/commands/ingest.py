"""``kohort pipeline ingest``."""

from __future__ import annotations

import click

from kohort.pipeline.commands.options import spark_options
from kohort.pipeline.commands.work import Access


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@spark_options
def ingest(access: Access, *, paths: tuple[str, ...]) -> None:
    """Takes in events: files and folders of JSON lines or Parquet, patterns, URIs.

    Files that were taken in before are skipped, if they have not changed since; an
    event that is in several files is there once.
    """
    from kohort.pipeline.commands.output import rows, show

    with access.open() as lake:
        from kohort.pipeline import bronze

        done = bronze.ingest(lake, paths, access.progress.say)
    bad = sum(done.quarantined.values())
    numbers = ("files", "skipped", "events", "known before", "quarantined")
    cells = (done.files, done.skipped, done.events, done.known, bad)
    parts = [rows(numbers, [cells], numbers)]
    if bad:
        reasons = sorted(done.quarantined.items())
        parts += ["", rows(("in quarantine, for", "lines"), reasons, ("lines",))]
    show(*parts)
