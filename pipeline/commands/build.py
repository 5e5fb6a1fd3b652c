"""``kohort pipeline build``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kohort.pipeline.commands.options import build_options, spark_options
from kohort.pipeline.commands.work import Access

if TYPE_CHECKING:
    from kohort.pipeline.quality import Rules
    from kohort.pipeline.table_functions import Options


@click.command()
@build_options
@spark_options
def build(access: Access, *, options: Options, rules: Rules, keep: int) -> int:
    """Makes all tables of the events anew, and publishes them.

    Readers see the tables of the build before until all are there. If a check of the
    data fails, the build is not published, and the exit code is 1; to see the results
    of the checks: query --build ID --name quality.
    """
    from kohort.pipeline.commands.output import of_build, show

    access.must_exist()
    with access.open() as lake:
        from kohort.pipeline import build as builds
        from kohort.pipeline.tables import TABLES

        access.progress.say("builds")
        access.progress.tables(len(TABLES))
        made = builds.build(
            lake, options, rules, keep=keep, progress=access.progress.table
        )
    show(*of_build(made))
    return 0 if made.is_published else 1
