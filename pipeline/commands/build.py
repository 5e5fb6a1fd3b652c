"""``kohort pipeline build``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kohort.pipeline.commands.options import build_options, spark_options
from kohort.pipeline.commands.work import Access

if TYPE_CHECKING:
    from kohort.pipeline.build import Build
    from kohort.pipeline.lake import Lake
    from kohort.pipeline.quality import Rules
    from kohort.pipeline.table_functions import Options


@click.command()
@build_options
@spark_options
def build(access: Access, *, options: Options, rules: Rules, keep: int) -> int:
    """Makes the tables from the events and publishes them.

    Readers see the previous build until the new one is complete. If a check of the
    data fails, the build is not published and the exit code is 1; the results of the
    checks: kohort pipeline query --build ID --name quality.

    Example: kohort pipeline build
    """
    from kohort.pipeline.commands.output import of_build, show

    access.must_exist()
    with access.open() as lake:
        made = built(access, lake, options, rules, keep)
    show(*of_build(made))
    return 0 if made.is_published else 1


def built(
    access: Access, lake: Lake, options: Options, rules: Rules, keep: int
) -> Build:
    """Builds all tables, with progress."""
    from kohort.pipeline import build as builds
    from kohort.pipeline.tables import TABLES

    access.progress.say("builds")
    access.progress.tables(len(TABLES))
    return builds.build(lake, options, rules, keep=keep, progress=access.progress.table)
