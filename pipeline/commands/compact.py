"""``kohort pipeline compact``."""

from __future__ import annotations

import click

from kohort.pipeline.commands.options import spark_options
from kohort.pipeline.commands.work import Access


@click.command()
@click.option(
    "--least",
    metavar="N",
    type=click.IntRange(min=1),
    default=32,
    help="Compacts streams with at least this many files.",
)
@spark_options
def compact(access: Access, *, least: int) -> None:
    """Rewrites the many small files of streams to few.

    A stream may go on meanwhile; a build or an ingest may not. No event is lost or
    doubled, also if it is killed. A stream that builds compacts by itself.

    Example: kohort pipeline compact
    """
    from kohort.pipeline.commands.output import of_compaction, show

    access.must_exist()
    with access.open() as lake:
        from kohort.pipeline import bronze

        access.progress.say("compacts")
        done = bronze.compact(lake, least)
    show(*(of_compaction(each) for each in done))
    if not done:
        show(f"no stream has {least} files that were not compacted")
