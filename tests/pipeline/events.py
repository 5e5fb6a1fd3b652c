"""Lists of events as frames, and tables as lists of rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.broker.events.account import Account, Accounts
from kohort.broker.events.formats import spark_schema
from kohort.broker.events.schema import COMMON
from kohort.pipeline.table_functions import EVENTS, Options, TableFunction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Event = Mapping[str, Any]
Row = dict[str, Any]


def frame(spark: SparkSession, folder: Path, events: Iterable[Event]) -> DataFrame:
    """Events as bronze has them: the wide table, source, and when they arrived.

    Args:
        spark: the session.
        folder: where a file of them may be written.
        events: as the broker writes them; what they lack is null.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    path = folder / "events.jsonl"
    with path.open("w") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)
    return (
        spark.read.schema(StructType.fromJson(spark_schema()))
        .json(str(path))
        .withColumn("source", f.lit("test"))
        .withColumn("arrived", f.current_timestamp())
    )


def made(
    functions: Mapping[str, TableFunction],
    events: DataFrame,
    folder: Path,
    only: Sequence[str] | None = None,
) -> dict[str, DataFrame]:
    """The tables, each read back from its files before the next one is made.

    Args:
        functions: by path, each after those that it reads.
        events: as `frame` makes them.
        folder: where the tables are written.
        only: the paths of those that are wanted, and of what they read; None: all.
    """
    frames = {EVENTS: events}
    for path, function in functions.items():
        if only is None or path in only:
            table = str(folder / path)
            function(frames, Options()).write.parquet(table)
            frames[path] = events.sparkSession.read.parquet(table)
    return frames


def rows(table: DataFrame) -> list[Row]:
    """Everything that is in a table."""
    return [row.asDict(recursive=True) for row in table.collect()]


def counted(table: Iterable[Row]) -> Counter[str]:
    """Rows, whatever the order."""
    return Counter(repr(sorted(row.items())) for row in table)


def as_run(events: Iterable[Event], run: str, group: str | None = None) -> list[Row]:
    """The same events of another run, and perhaps of another group."""
    named = {"run": run} if group is None else {"run": run, "group": group}
    return [
        {**event, **(named if event.get("group") is not None else {"run": run})}
        for event in events
    ]


def with_accounts(events: Iterable[Event]) -> list[Event]:
    """The events of a run in order, and the accounts of its rebalances among them.

    An account has a number behind all others of its node.
    """
    accounts, found = Accounts(), list[Event]()
    ordered = in_order(events)
    numbers = Counter[int]()
    for event in ordered:
        numbers[event["node"]] = max(numbers[event["node"]], event["sequence"])
    for event in ordered:
        found.append(event)
        for account in accounts.take(event):
            numbers[account.node] += 1
            found.append(_account_event(account, event, numbers[account.node]))
    return found


def _account_event(account: Account, latest: Event, sequence: int) -> Event:
    common = {field.name: getattr(account, field.name, None) for field in COMMON}
    return {
        **common,
        **{name: latest[name] for name in ("schema", "labels", "time_ns", "wall_ns")},
        "sequence": sequence,
        "kind": "rebalance_account",
        **account.own_fields(),
    }


def in_order(events: Iterable[Event]) -> list[Event]:
    """As `kohort.pipeline.tables` says it."""
    return sorted(events, key=lambda e: (e["time_ns"], e["node"], e["sequence"]))
