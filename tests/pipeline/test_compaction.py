"""Small files of a stream become few; no event is lost or doubled, also by a kill."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from kohort.pipeline import bronze, lineage, sink_log
from kohort.pipeline.bronze.columns import sink_schema
from kohort.pipeline.bronze.stream_files import StreamFiles
from kohort.pipeline.lake import Lake

pytestmark = pytest.mark.spark

BATCHES = 10
"""As many as make the sink compact its own log."""
EACH = 3
"""Events of a batch; it has a record that is no event, too."""


def streamed(lake: Lake, batches: range) -> None:
    """Writes batches as a stream does, by Structured Streaming's file sink."""
    source = lake.uri("source")
    fixed = {
        "run": "concat('run-', id % 2)",
        "node": "0",
        "kind": "'heartbeat'",
        "sequence": "id",
        "time_ns": "id",
        "raw": "concat('line ', batch)",
        "why": "'no event'",
        "quarantined": "id < 0",
    }
    folder = Path(source)
    folder.mkdir(parents=True, exist_ok=True)
    for batch in batches:
        ids = [*range(batch * EACH, (batch + 1) * EACH), -1]
        table = pa.table({"id": ids, "batch": [batch] * len(ids)})
        parquet.write_table(table, folder / f"{batch}.parquet")
    reading = lake.spark.readStream.schema("id long, batch long")
    rows = (
        reading.option("maxFilesPerTrigger", "1")
        .parquet(source)
        .selectExpr(
            *(
                f"cast({fixed.get(each.name, 'null')} as"
                f" {each.dataType.simpleString()}) as `{each.name}`"
                for each in sink_schema()
            )
        )
    )
    query = (
        rows.writeStream.format("parquet")
        .partitionBy("quarantined")
        .option("checkpointLocation", lake.uri("checkpoints/live"))
        .trigger(availableNow=True)
        .start(lake.uri("bronze/stream/live"))
    )
    query.awaitTermination()


def assert_each_once(lake: Lake, batches: int) -> None:
    """Checks that each event is read once, and each quarantined record."""
    rows = StreamFiles.of(lake, "live").events().select("sequence").collect()
    assert sorted(row["sequence"] for row in rows) == [*range(batches * EACH)]
    bad = bronze.quarantine(lake).collect()
    assert len(bad) == len({row["raw"] for row in bad}) == batches


def stored(lake: Lake) -> int:
    """The number of Parquet files of the stream on the disk."""
    folder = Path(lake.path) / "bronze"
    return sum(1 for _ in folder.rglob("*.parquet"))


def test_many_files_become_few(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed as it removes files, it loses and doubles none; then the stream goes on.

    The next builds compute only the runs of later batches.
    """
    streamed(lake, range(BATCHES))
    assert_each_once(lake, BATCHES)
    before, inputs = stored(lake), lineage.inputs(lake)
    assert len(sink_log.files(lake, "live")) == before == 2 * BATCHES
    assert bronze.compact(lake, before + 1) == []

    # Between two removals of files that no longer count, as if killed; `test_kills` has
    # the moments before.
    removals = iter([lake.remove])

    def one(path: str) -> None:
        next(removals)(path)

    monkeypatch.setattr(lake, "remove", one)
    with pytest.raises(StopIteration):
        bronze.compact(lake, 1)
    monkeypatch.undo()
    assert_each_once(lake, BATCHES)
    assert stored(lake) > 2
    bronze.compact(lake, 1)
    assert_each_once(lake, BATCHES)
    assert stored(lake) == 2
    now = lineage.inputs(lake)
    assert bronze.changed_runs(lake, inputs.as_json(), now) == set()

    streamed(lake, range(BATCHES, BATCHES + 1))
    assert_each_once(lake, BATCHES + 1)
    later = lineage.inputs(lake)
    changed = bronze.changed_runs(lake, now.as_json(), later)
    assert changed == {"run-0", "run-1"}
    assert bronze.changed_runs(lake, later.as_json(), later) == set()
    (done,) = bronze.compact(lake, 1)
    assert (done.before, stored(lake)) == (4, done.after)
    assert_each_once(lake, BATCHES + 1)
    assert bronze.changed_runs(lake, now.as_json(), later) == {"run-0", "run-1"}
