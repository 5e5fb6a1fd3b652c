"""Converts lists of events to frames, and tables to lists of rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.events.build import own_fields

from kohort.broker.events.account import Account, UnreadAccount
from kohort.broker.events.accounting import count_records
from kohort.broker.events.findings.finding import MOST_EVIDENCE
from kohort.broker.events.findings.fold import Folding
from kohort.broker.events.formats import spark_schema
from kohort.broker.events.schema import COMMON
from kohort.broker.events.sources import LogEnd
from kohort.control.why.history import histories
from kohort.pipeline.bronze import bronze_schema
from kohort.pipeline.lake import Lake
from kohort.pipeline.table_functions import EVENTS, Frames, Options, TableFunction
from kohort.pipeline.tables import BY_PATH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Event = Mapping[str, Any]
Row = dict[str, Any]


def frame(spark: SparkSession, folder: Path, events: Iterable[Event]) -> DataFrame:
    """Events in bronze's form: the wide table, the source, and the arrival time.

    Args:
        spark: the session.
        folder: receives a file with the events.
        events: in the broker's format; missing fields are null.
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
    """Computes tables; each is read back from its files before the next one.

    Args:
        functions: table functions by path, each after the tables that it reads.
        events: from `frame`.
        folder: receives the tables.
        only: paths of the tables to compute, with their inputs; None: all.
    """
    lake = Lake(events.sparkSession, folder)
    frames, found = Frames(lake.spark), {EVENTS: events}
    frames[EVENTS] = events
    for path, function in functions.items():
        if only is None or path in only:
            schema = BY_PATH[path].schema()
            lake.write(function(frames, Options()), schema, path)
            frames[path] = found[path] = lake.read(schema, path)
    return found


def stored(lake: Lake, events: DataFrame) -> None:
    """Makes rows the events of a lake; columns that they do not have are null."""
    from pyspark.sql import functions as f

    names = events.columns
    schema = bronze_schema()
    if "labels" in names:
        events = events.withColumn("labels", f.map_entries("labels"))
    rows = events.select(
        *(
            f.col(each.name)
            if each.name in names
            else f.lit(None).cast(each.dataType).alias(each.name)
            for each in schema
        )
    )
    lake.remove("bronze/events")
    lake.append(rows, "bronze/events/given/0")


def rows(table: DataFrame) -> list[Row]:
    """All rows of a table."""
    return [row.asDict(recursive=True) for row in table.collect()]


def counted(table: Iterable[Row]) -> Counter[str]:
    """Counts equal rows, so that tables compare in any order, and so do their maps."""
    return Counter(repr(_in_order(row)) for row in table)


def _in_order(value: Any) -> Any:
    """The value; maps, and those in lists, are sorted lists."""
    if isinstance(value, Mapping):
        return sorted((key, _in_order(each)) for key, each in value.items())
    return [*map(_in_order, value)] if isinstance(value, list) else value


def as_run(events: Iterable[Event], run: str, group: str | None = None) -> list[Row]:
    """Copies events to another run and, if given, another group."""
    named = {"run": run} if group is None else {"run": run, "group": group}
    return [
        {**event, **(named if event.get("group") is not None else {"run": run})}
        for event in events
    ]


def with_accounts(
    events: Iterable[Event], log_end: LogEnd | None = None
) -> list[Event]:
    """The events of a run in order, with the accounts of its rebalances among them.

    Accounts get sequence numbers after all others of their node. The ends of logs are
    unknown without `log_end`.
    """
    folding, found = Folding(), list[Event]()
    ordered = in_order(events)
    numbers = Counter[int]()
    for event in ordered:
        numbers[event["node"]] = max(numbers[event["node"]], event["sequence"])
    for event in ordered:
        found.append(event)
        for account in folding.take(event):
            numbers[account.node] += 1
            own = own_fields(account, folding)
            found.append(_account_event(account, own, event, numbers[account.node]))
            if log_end is not None:
                for row in found[-1]["unread"]:
                    count_records(row, log_end)
    return found


def with_findings(
    events: Iterable[Event], log_end: LogEnd | None = None
) -> list[Event]:
    """The same, with the findings that the broker publishes when it stops."""
    found = with_accounts(events, log_end)
    last, sequence = found[-1], max(each["sequence"] for each in found)
    told = [
        (group, finding)
        for group, history in histories(found).items()
        for finding in history.findings
    ]
    for number, (group, finding) in enumerate(told, sequence + 1):
        common = {field.name: None for field in COMMON}
        kept = {n: last[n] for n in ("schema", "run", "labels", "node", "time_ns")}
        own = {"kind": "finding", "group": group, "sequence": number}
        revision = {"revision": 1, "is_withdrawn": False, "wall_ns": last["wall_ns"]}
        found.append(
            {**common, **kept, **own, **revision, **finding.as_json(MOST_EVIDENCE)}
        )
    return found


def _account_event(
    account: Account | UnreadAccount, own: Event, latest: Event, sequence: int
) -> Event:
    common = {field.name: getattr(account, field.name, None) for field in COMMON}
    return {
        **common,
        **{name: latest[name] for name in ("schema", "labels", "time_ns", "wall_ns")},
        "sequence": sequence,
        "kind": account.kind,
        **own,
    }


def in_order(events: Iterable[Event]) -> list[Event]:
    """Sorts events by the order that `kohort.pipeline.tables` defines."""
    return sorted(events, key=lambda e: (e["time_ns"], e["node"], e["sequence"]))
