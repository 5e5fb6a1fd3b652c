"""``kohort pipeline run``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kohort.pipeline.commands.build import built
from kohort.pipeline.commands.options import build_options, run_options, strict_option
from kohort.pipeline.commands.report import output_option, writable, written
from kohort.pipeline.commands.work import Access

if TYPE_CHECKING:
    from kohort.pipeline.quality import Rules
    from kohort.pipeline.table_functions import Options


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@output_option
@strict_option
@build_options
@run_options
def run(
    access: Access,
    *,
    paths: tuple[str, ...],
    output: str,
    is_strict: bool,
    options: Options,
    rules: Rules,
    keep: int,
) -> int:
    """Makes a report of event files: ingest, build and report in one.

    PATH is a file or folder of JSON lines or Parquet, a pattern, or a URI. Without
    --lake the tables are in a temporary lake, which is removed at the end. If a file
    cannot be read, it is named, the report is of the others, and the exit code is 3. If
    a check of the data fails, there is no report, and the exit code is 1.

    Example: kohort pipeline run events.jsonl -o report.html
    """
    from kohort.pipeline.commands.output import (
        last_line,
        name_unread,
        of_checks,
        of_ingest,
        show,
    )

    path = writable(output)
    with access.open(inputs=paths) as lake:
        from kohort.pipeline import bronze, quality

        done = bronze.ingest(lake, paths, access.progress.say, is_strict=is_strict)
        made = built(access, lake, options, rules, keep)
        if made.is_published:
            written(access, lake, path)
    bad = [each for each in made.checks if each.outcome != quality.PASSED]
    show(*of_ingest(done), "", *([of_checks(bad), ""] if bad else []), last_line(made))
    code = name_unread(done)
    if not made.is_published:
        return 1
    click.echo(output)
    return code
