"""Events that tasks of Spark make themselves: straight into bronze.

A task is a text, and a function makes lines of events and a result of it, on an
executor. The events of some tasks become an ingest. The results come back, and with
them the caller knows that the events count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from kohort.pipeline.bronze import LOCK, SOURCE, Taking
from kohort.pipeline.event_schema import parsed
from kohort.pipeline.lake import Lake, local_rows

if TYPE_CHECKING:
    import pyarrow as pa

EVENT: Final = "event"
AT_ONCE: Final = 2_000
"""Lines that a task hands over together."""

Player = Callable[[str], Iterator[tuple[str, str]]]
"""Makes lines of a task, each with its kind: `EVENT`, or another one for results."""


def played(
    lake: Lake, tasks: Sequence[str], play: Player, source: str, *, keeps: bool
) -> list[str]:
    """Plays tasks on the executors, at the same time.

    Args:
        lake: gets the events, each once.
        tasks: texts.
        play: a function of a module that the executors have.
        source: of the events.
        keeps: whether the events are wanted; if not, only results are.

    Returns:
        The results, in any order.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructType

    schema = StructType().add("task", "string")
    rows = local_rows(lake.spark, [{"task": task} for task in tasks], schema)
    rows = rows.repartition(len(tasks))
    lines = rows.mapInArrow(partial(_lines, play, keeps), "kind string, text string")
    if not keeps:
        return [row["text"] for row in lines.collect()]
    lines = lines.persist()  # or all would be played twice
    try:
        with lake.lock(LOCK, "sweep"):
            taking = Taking(lake)
            events = lines.where(sql.col("kind") == EVENT)
            texts = events.select("text", sql.lit(source).alias(SOURCE))
            taking.add(parsed(texts, "text"))
            results = lines.where(sql.col("kind") != EVENT).collect()
            taking.settle()
    finally:
        lines.unpersist()
    return [row["text"] for row in results]


def _lines(
    play: Player, keeps: bool, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        for task in batch.column("task").to_pylist():
            made = (line for line in play(task) if keeps or line[0] != EVENT)
            while some := [*islice(made, AT_ONCE)]:
                kinds, texts = zip(*some, strict=True)
                columns = [pa.array(kinds), pa.array(texts)]
                yield pa.RecordBatch.from_arrays(columns, ["kind", "text"])
