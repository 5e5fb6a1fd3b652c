"""Ingesting files of events: each event is stored once, and each loss is reported."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.test_stream import event, told

from kohort.pipeline import bronze
from kohort.pipeline.event_schema import (
    CUT_OFF,
    NO_EVENT,
    NO_OBJECT,
    NOT_JSON,
    OTHER_VERSION,
    REASONS,
)
from kohort.pipeline.files import File
from kohort.pipeline.lake import Lake, LakeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def write(path: Path, *lines: object) -> str:
    """A file with these lines; values that are no text are written as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    data = "".join(f"{text}\n" for text in texts).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def numbers(lake: Lake, run: str = "r") -> list[int]:
    """The numbers of the events of a run."""
    return [
        each["sequence"] for each in told(bronze.events(lake)) if each["run"] == run
    ]


def reasons(lake: Lake) -> list[tuple[str, str]]:
    """The reason and the text of each line in quarantine."""
    rows = bronze.quarantine(lake).collect()
    return sorted((row["reason"], row["raw"]) for row in rows)


WHOLE = json.dumps(event(1))
BAD = {
    NOT_JSON: [
        "{]}",
        f"{WHOLE} {WHOLE}",
        f"{WHOLE}, {WHOLE}",
    ],
    CUT_OFF: [WHOLE[:-1], WHOLE[:40], "{", f"{WHOLE} and more"],
    NO_OBJECT: ["nul", '"a" "b', "5", "null", f"[{WHOLE}]"],
    NO_EVENT: [
        "{}",
        json.dumps({**event(2), "sequence": "2"}),
        json.dumps(event(2, node=2**31)),
        *(json.dumps({**event(2), n: None}) for n in ("run", "time_ns")),
    ],
    OTHER_VERSION: [json.dumps(event(2, schema=2)), json.dumps(event(2, schema=0))],
}
"""Lines that are no events, by reason."""


def test_lines_that_are_no_events(lake: Lake, tmp_path: Path) -> None:
    """Invalid lines are quarantined with the reason; events around them are stored."""
    assert {*BAD} | {"null"} == {*REASONS}
    odd = event(3, kind="of the future", new_field={"a": 1}, reason="}  { \u00e9")
    lines = ["", *(line for group in BAD.values() for line in group), odd, "  "]
    path = write(tmp_path / "a b+c%20[1]{2}\u00e9.jsonl", f"\ufeff{WHOLE}", *lines)
    done = bronze.ingest(lake, [path])
    assert done.quarantined == {reason: len(group) for reason, group in BAD.items()}
    assert (done.files, done.skipped, done.events, done.known) == (1, 0, 2, 0)
    assert reasons(lake) == sorted(
        (r, line) for r, group in BAD.items() for line in group
    )
    found = bronze.events(lake)
    assert [each["kind"] for each in told(found)] == ["heartbeat", "of the future"]
    assert [each.get("reason") for each in told(found)] == [None, "}  { \u00e9"]
    assert {row["source"] for row in found.collect()} == {path}
    assert {row["source"] for row in bronze.quarantine(lake).collect()} == {path}
    again = bronze.ingest(lake, [path])
    assert (again.files, again.skipped, again.events) == (0, 1, 0)


def test_fields_of_another_type_are_null(lake: Lake, tmp_path: Path) -> None:
    """Text takes any value, as its JSON; the events are there."""
    path = write(
        tmp_path / "a.jsonl",
        event(1, members="m", reason={"a": [1, 2.5]}),
        event(2, offsets=[{"topic": "t", "partition": "0"}], reason=5),
    )
    assert bronze.ingest(lake, [path]).events == 2
    first, second = told(bronze.events(lake))
    assert first["reason"] == '{"a":[1,2.5]}'
    assert (second["reason"], second["offsets"]) == ("5", [{"topic": "t"}])
    assert "members" not in first


def test_a_file_that_grows(lake: Lake, tmp_path: Path) -> None:
    """New lines are ingested, and so is the line that was cut off before."""
    path = tmp_path / "events.jsonl"
    last = json.dumps(event(3))
    write(path, event(1), event(2), event(2), "not JSON", last[:50])
    done = bronze.ingest(lake, [str(path)])
    assert (done.events, done.known) == (2, 1)
    assert [reason for reason, _ in reasons(lake)] == [CUT_OFF, NO_OBJECT]
    write(
        path,
        event(1),
        event(2),
        event(2),
        "not JSON",
        last,
        event(4),
        event(1, run="s"),
    )
    done = bronze.ingest(lake, [str(path)])
    assert (done.skipped, done.events, done.known) == (0, 3, 3)
    assert reasons(lake) == [(NO_OBJECT, "not JSON")]
    assert (numbers(lake), numbers(lake, "s")) == ([1, 2, 3, 4], [1])
    # Back to an older state of it, as an rsync or a backup may do: nothing is new.
    write(path, event(1))
    assert bronze.ingest(lake, [str(path)]).events == 0
    assert bronze.ingest(lake, [str(path)]).skipped == 1
    assert numbers(lake) == [1, 2, 3, 4]


def test_folders_patterns_and_what_is_in_them(lake: Lake, tmp_path: Path) -> None:
    """Lines, plain and compressed, and Parquet of older and of newer kohorts."""
    write(tmp_path / "in" / "a.jsonl", event(1))
    write(tmp_path / "in" / "deep" / "b.ndjson.gz", event(2), event(1))
    write(tmp_path / "in" / "README.txt", "no event")
    write(tmp_path / "in" / "_temporary" / "c.jsonl", event(9))
    older = "schema int, run string, node int, sequence long, kind string, time_ns long"
    parquet = lake.spark.createDataFrame(
        [(1, "r", 0, 3, "heartbeat", 5), (1, "r", 0, 4, None, 5)], older
    )
    parquet.coalesce(1).write.parquet(str(tmp_path / "in" / "older"))
    newer = parquet.selectExpr("*", "5 as `from the future`").filter("sequence = 3")
    newer.replace(3, 5).coalesce(1).write.parquet(str(tmp_path / "in" / "newer"))
    done = bronze.ingest(lake, [str(tmp_path / "in")])
    assert (done.files, done.events, done.known) == (4, 4, 1)
    assert done.quarantined == {NO_EVENT: 1}
    assert numbers(lake) == [1, 2, 3, 5]
    ((_, raw),) = reasons(lake)
    assert json.loads(raw)["sequence"] == 4
    write(tmp_path / "x1.log", event(6))
    write(tmp_path / "x2.log", event(7))
    with pytest.raises(bronze.BronzeError, match=r"x\*\.log: no such file, or"):
        bronze.ingest(lake, [str(tmp_path / "x*.log")])
    assert (
        bronze.ingest(lake, [str(tmp_path / "x1.log"), str(tmp_path / "in")]).files == 1
    )
    write(tmp_path / "broken.parquet", "PAR1 it is not")
    with pytest.raises(bronze.BronzeError, match=r"broken\.parquet"):
        bronze.ingest(lake, [str(tmp_path / "broken.parquet")])
    assert numbers(lake) == [1, 2, 3, 5, 6]
    nothing = Lake(lake.spark, tmp_path / "nothing")
    assert (bronze.events(nothing).count(), bronze.quarantine(nothing).count()) == (
        0,
        0,
    )
    assert bronze.statistics(bronze.events(nothing)).collect() == []


def test_files_that_cannot_be_read_do_not_stop_the_others(
    lake: Lake, tmp_path: Path
) -> None:
    """They are named, with the reason, and the next ingest tries them again."""
    write(tmp_path / "in" / "a.jsonl", event(1))
    whole = Path(write(tmp_path / "in" / "b c.jsonl.gz", event(2))).read_bytes()
    cut = tmp_path / "in" / "b c.jsonl.gz"
    cut.write_bytes(whole[:-12])
    write(tmp_path / "in" / "d.parquet", "PAR1 it is not")
    bad = {
        str(cut): "it is cut off",
        str(tmp_path / "in" / "d.parquet"): "it is no Parquet file, or is cut off",
    }
    with pytest.raises(bronze.BronzeError, match=r"^nothing was ingested: /.*: it is"):
        bronze.ingest(lake, [str(tmp_path / "in")], is_strict=True)
    with pytest.raises(bronze.BronzeError, match=r"cut off; .*d.parquet: it is no"):
        bronze.ingest(lake, [*bad])
    assert bronze.events(lake).count() == 0
    done = bronze.ingest(lake, [str(tmp_path / "in")])
    assert (done.files, done.events, done.unread) == (1, 1, bad)
    cut.write_bytes(whole)
    done = bronze.ingest(lake, [str(tmp_path / "in")])
    assert (done.files, done.skipped, done.events, len(done.unread)) == (1, 1, 1, 1)
    assert numbers(lake) == [1, 2]


def test_numbers_that_are_missing(lake: Lake, tmp_path: Path) -> None:
    """They are counted; one that was lost in a file, and is in another, is there."""
    lost: dict[str, Any] = {"kind": "events_lost", "first": 2, "last": 40_000}
    write(tmp_path / "a.jsonl", event(1), event(40_000, **lost), event(40_002))
    bronze.ingest(lake, [str(tmp_path / "a.jsonl")])
    (row,) = bronze.statistics(bronze.events(lake)).collect()
    assert (row["last"], row["rows"], row["numbers"]) == (40_002, 3, 3)
    assert (row["announced"], row["missing"]) == (39_999, 40_000)
    write(tmp_path / "b.jsonl", event(40_000), event(40_001, node=1), event(1))
    done = bronze.ingest(lake, [str(tmp_path / "b.jsonl")])
    assert (done.events, done.known) == (2, 1)
    rows = {r["node"]: r for r in bronze.statistics(bronze.events(lake)).collect()}
    assert (rows[0]["rows"], rows[0]["numbers"], rows[0]["missing"]) == (4, 4, 39_999)
    assert (rows[1]["rows"], rows[1]["missing"]) == (1, 40_000)
    write(tmp_path / "c.jsonl", event(40_000, **lost), event(40_000))
    done = bronze.ingest(lake, [str(tmp_path / "c.jsonl")])
    assert (done.events, done.known) == (0, 2)


def test_files_have_some_of_each_other_s_events(lake: Lake, tmp_path: Path) -> None:
    """Bronze has a row of each, in one ingest and in several."""
    write(tmp_path / "a.jsonl", *(event(n) for n in range(1, 6)))
    write(tmp_path / "b.jsonl", *(event(n) for n in range(3, 9)), "no event")
    write(tmp_path / "c.jsonl", *(event(n) for n in range(7, 12)), event(1, run="s"))
    first = bronze.ingest(lake, [str(tmp_path / f"{name}.jsonl") for name in "ab"])
    assert (first.events, first.known, first.quarantined) == (8, 3, {NO_OBJECT: 1})
    second = bronze.ingest(lake, [str(tmp_path / "c.jsonl")])
    assert (second.events, second.known) == (4, 2)
    rows = lake.spark.read.parquet(f"{lake.path}/{bronze.EVENTS}/*/*")
    assert rows.where("why is null").count() == 12
    assert numbers(lake) == [*range(1, 12)]
    assert [reason for reason, _ in reasons(lake)] == [NO_OBJECT]


def test_what_a_killed_ingest_leaves_does_not_count(lake: Lake, tmp_path: Path) -> None:
    """It is in another folder; the next one cleans up, and takes the file again."""
    path = write(tmp_path / "a.jsonl", event(1))
    taking = bronze.Taking(lake)
    taking.read([File(path)])
    assert bronze.events(lake).count() == 0
    with lake.lock(bronze.LOCK, "ingest"), pytest.raises(LakeError) as caught:
        bronze.ingest(Lake(lake.spark, lake.path), [path])
    assert f"process {os.getpid()}" in str(caught.value)
    assert bronze.ingest(lake, [path]).events == 1
    assert lake.names(bronze.NEW) == []
    assert numbers(lake) == [1]


def test_a_lake_is_a_folder(spark: SparkSession) -> None:
    """A path that Spark would read as a pattern is refused before any write."""
    for name in ("x[1]", "x\\y"):
        with pytest.raises(LakeError, match=f"/{re.escape(name)}: the path of a lake"):
            Lake(spark, name)
