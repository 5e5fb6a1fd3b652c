"""``kohort pipeline``: copies events into a lake, makes tables, and queries them.

Commands load PySpark only when they need it, so help and usage errors are quick.
"""

from __future__ import annotations

import click

from kohort.pipeline.commands.build import build
from kohort.pipeline.commands.compare import compare
from kohort.pipeline.commands.ingest import ingest
from kohort.pipeline.commands.query import query
from kohort.pipeline.commands.report import report
from kohort.pipeline.commands.run import run
from kohort.pipeline.commands.stream import stream


@click.group()
def pipeline() -> None:
    """Makes tables and reports from events.

    run makes a report of event files. Or step by step: ingest and stream copy each
    event into a lake once; build makes tables from the events; report, compare and
    query read the tables. Needs an extra: in a checkout of kohort, pip
    install '.[pipeline]', or '.[spark]', with Java 17, for streams, clusters and many
    events (--master).
    """


for command in (run, ingest, build, stream, report, compare, query):
    pipeline.add_command(command)
