"""``kohort pipeline``: events in, tables and answers out.

PySpark is loaded only when it is needed: help and usage errors come without it.
"""

from __future__ import annotations

import click

from kohort.pipeline.commands.build import build
from kohort.pipeline.commands.ingest import ingest
from kohort.pipeline.commands.query import query
from kohort.pipeline.commands.report import report
from kohort.pipeline.commands.stream import stream


@click.group()
def pipeline() -> None:
    """Makes tables and reports of events, by Spark.

    ingest and stream bring events into a lake, each once; build makes tables of them;
    report and query read those. Needs the extra: pip install 'kohort[pipeline]', and
    Java 17.
    """


for command in (ingest, build, stream, report, query):
    pipeline.add_command(command)
