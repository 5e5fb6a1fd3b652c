"""Both engines take the same events from files, and quarantine the same records."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.test_event_schema import SAMPLES
from tests.pipeline.test_stream import event

from kohort.pipeline.bronze import local_input, spark_input
from kohort.pipeline.bronze.inputs import UnreadError
from kohort.pipeline.files import File, LocalFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MUTATED = 400
"""Random lines: events of the samples with a few characters replaced."""

ODD = (
    *("nul", "null", "5", "[]", "{", "{}", "[{}]", '"a" "b"', "\t", "{]}", "{'a': 1}"),
    json.dumps(event(1, group=5, reason={"a": [1, None]}, client_id=True)),
    json.dumps(event(2, labels={"a": 1, "b": None})),
    json.dumps(event(3, members=["m", None, 7])),
    json.dumps(event(4, offsets=[{"topic": "t", "unknown": 1}, None])),
    json.dumps(event(5, offsets=[{"topic": "t", "partition": "0"}])),
    json.dumps(event(6, offsets={"topic": "t"})),
    json.dumps({**event(7), "sequence": 2**63}),
    json.dumps(event(8, node=2**31)),
    json.dumps(event(9, time_ns=1.0)),
    json.dumps(event(10, is_first="true")),
    json.dumps({**event(11, schema=2), "sequence": "x"}),
    json.dumps(event(12, schema="1")),
    json.dumps(event(13, reason='\u00e9\u2028\U0001f600 \\ " }  {')),
    json.dumps(event(14))[:-1] + ', "sequence": 15}',
    json.dumps(event(16)) + " and more",
    json.dumps(event(17))[:-7],
    "  " + json.dumps(event(18)) + "  ",
)


def taken(
    spark: SparkSession, folder: Path, files: list[File]
) -> dict[str, tuple[dict[str, int], Counter[str], Counter[str]]]:
    """By engine: the reasons, and the rows of events and of quarantine."""
    from kohort.pipeline.bronze.columns import bronze_schema, quarantine_schema

    found = {}
    for name in ("spark", "local"):
        base = folder / name
        if name == "spark":
            count, reasons = spark_input.take(spark, files, str(base), AT, print)
        else:
            count, reasons = local_input.take(files, str(base), AT, print)
        schemas = (bronze_schema(), quarantine_schema())
        rows = [
            Counter(
                str(row.asDict(recursive=True))
                for row in spark.read.schema(schema).parquet(str(base / part)).collect()
            )
            if (base / part).exists()
            else Counter[str]()
            for part, schema in zip(("events", "quarantine"), schemas, strict=True)
        ]
        assert rows[0].total() == count
        found[name] = (dict(reasons), rows[0], rows[1])
    return found


def mutated() -> list[str]:
    """Lines of the samples, each with up to three other characters; same seed.

    None is a closing brace: Spark passes over the text after an object, if that ends
    with a brace, too.
    """
    chance = random.Random(7)
    lines = (SAMPLES / "coordinator.jsonl").read_text().splitlines()
    made = []
    for _ in range(MUTATED):
        line = [*chance.choice(lines)]
        for _ in range(chance.randint(1, 3)):
            line[chance.randrange(len(line))] = chance.choice('{[]":,0a-. tfn')
        made.append("".join(line))
    return made


def test_both_engines_take_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """Odd lines, random ones, compressed ones, and Parquet of an older kohort."""
    lines = [*ODD, *mutated()]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "b.jsonl.gz").write_bytes(
        gzip.compress(b"\xef\xbb\xbf" + "\r\n".join(lines[:90]).encode())
    )
    files = LocalFiles().inputs(str(tmp_path / "[ab].jsonl*"))
    files += LocalFiles().inputs(str(SAMPLES))
    assert len(files) == 5
    found = taken(spark, tmp_path, files)
    for of_spark, of_local in zip(found["spark"], found["local"], strict=True):
        assert of_local == of_spark
    assert len(found["local"][0]) >= 6


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.jsonl.gz", b"no gzip", "it is no gzip file"),
        ("a.jsonl.gz", gzip.compress(b"{}" * 99, mtime=0)[:-9], "it is cut off"),
        ("a.parquet", b"PAR1 it is not", "it is no Parquet file, or is cut off"),
        ("a.parquet", b"", "it is no Parquet file, or is cut off"),
    ],
)
def test_a_broken_file_is_named(
    tmp_path: Path, name: str, data: bytes, why: str
) -> None:
    """The reason is in the same words as Spark's, see `test_real_failures`."""
    (tmp_path / name).write_bytes(data)
    (file,) = LocalFiles().inputs(str(tmp_path / name))
    with pytest.raises(UnreadError) as raised:
        local_input.take([file], str(tmp_path / "base"), AT, print)
    assert (raised.value.path, raised.value.why) == (str(tmp_path / name), why)
