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
    help="Compacts streams and tables with at least this many files.",
)
@spark_options
def compact(access: Access, *, least: int) -> None:
    """Rewrites the many small files of streams and Iceberg tables to few.

    A stream may go on meanwhile; a build or an ingest may not. No event is lost or
    doubled, also if it is killed. A stream that builds compacts by itself.

    Example: kohort pipeline compact
    """
    from kohort.pipeline.commands.output import of_compaction, of_rewriting, show

    access.must_exist()
    with access.open() as lake:
        from kohort.pipeline import bronze, iceberg
        from kohort.pipeline import build as builds
        from kohort.pipeline.lake import ICEBERG

        access.progress.say("compacts")
        done = bronze.compact(lake, least)
        current = builds.current(lake) if lake.format == ICEBERG else None
        said = None if current is None else builds.about(lake, current)
        rewritten = [] if said is None else iceberg.compact(lake, said, least)
    show(*map(of_compaction, done), *map(of_rewriting, rewritten))
    if not done and not rewritten:
        show(f"no stream or table has {least} files that were not compacted")
