"""Streams events of a running broker into the lake, with the real connector."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.broker_thread import Event, Serving, serving

from kohort.pipeline import bronze, stream
from kohort.pipeline.event_schema import (
    CUT_OFF,
    NO_EVENT,
    NO_OBJECT,
    NOT_JSON,
    NULL,
    OTHER_VERSION,
)
from kohort.pipeline.lake import Lake
from kohort.pipeline.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SECOND = 1_000_000_000
IMPATIENT = {"kafka.default.api.timeout.ms": "4000", "kafka.request.timeout.ms": "2000"}


def without_nulls(value: Any) -> Any:
    """Drops null fields from events, as Spark does."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    return [without_nulls(v) for v in value] if isinstance(value, list) else value


def told(events: DataFrame) -> list[Event]:
    """Events of a table in the broker's format, in order of their numbers."""
    from pyspark.sql import functions as sql

    names = [name for name in events.columns if name not in {"source", "arrived"}]
    rows = events.select(sql.to_json(sql.struct(*names)).alias("event")).collect()
    found = [json.loads(row["event"]) for row in rows]
    return sorted(found, key=lambda e: (e["run"], e["node"], e["sequence"]))


def once(lake: Lake, served: Serving, **options: Any) -> Stream:
    """Reads the topic up to its current end."""
    reading = Stream(lake, served.address, **options)
    reading.read()
    return reading


def event(sequence: int, seconds_ago: float = 0, **fields: Any) -> Event:
    """An event of the run "r"."""
    now = time.time_ns() - round(seconds_ago * SECOND)
    return {
        "schema": 1,
        "run": "r",
        "labels": {},
        "node": 0,
        "sequence": sequence,
        "kind": "heartbeat",
        "time_ns": now,
        "wall_ns": now,
        **fields,
    }


@pytest.fixture(scope="module")
def spark(java: SparkSession) -> SparkSession:
    """Spark alone reads streams."""
    return java


def test_the_stream_has_what_the_broker_told(lake: Lake) -> None:
    """All events arrive unchanged, then the later ones, and nothing twice."""
    with serving() as served:
        served.group("a")
        served.commit(300)
        served.written()
        first = once(lake, served)
        expected = served.events()
        assert told(bronze.events(lake)) == without_nulls(expected)
        assert (first.events, first.known) == (len(expected), 0)
        served.commit(20)
        served.written()
        assert once(lake, served).events == 20
        expected = served.events()
        assert told(bronze.events(lake)) == without_nulls(expected)
        assert once(lake, served).events == 0


def test_late_records_and_such_that_come_twice_or_are_no_events(lake: Lake) -> None:
    """Late events are kept, duplicates dropped, and bad records get a reason."""
    with serving() as served:
        served.create("t")
        served.produce("t", event(3), event(1, seconds_ago=90_000), event(3))
        first = once(lake, served, topic="t")
        assert (first.events, first.known) == (2, 1)
        served.produce(
            "t", event(2, seconds_ago=200_000), event(1), event(5, kind="new")
        )
        served.produce("t", None, "{", "[1]", event(6, node="x"), event(7, schema=2))
        served.produce("t", event(8, kind=None), '{"schema":1}{"schema":1}')
        served.produce("t", event(9, kind="events_lost", first=8, last=9), event(9))
        second = once(lake, served, topic="t")
        assert (second.events, second.known, second.quarantined.total()) == (4, 1, 7)
    found = bronze.events(lake)
    assert [e["sequence"] for e in told(found)] == [1, 2, 3, 5, 9, 9]
    assert {row["source"] for row in found.collect()} == {"t"}
    (row,) = bronze.statistics(found).collect()
    assert (row["last"], row["rows"], row["numbers"]) == (9, 6, 6)
    assert (row["missing"], row["announced"]) == (4, 2)
    bad = {
        (r["reason"], r["source"].split()[-1])
        for r in bronze.quarantine(lake).collect()
    }
    reasons = (NULL, CUT_OFF, NO_OBJECT, NO_EVENT, OTHER_VERSION, NO_EVENT, NOT_JSON)
    assert bad == {(reason, str(6 + i)) for i, reason in enumerate(reasons)}


def test_a_topic_that_is_made_anew(lake: Lake) -> None:
    """A recreated topic starts with older events, and is read from its beginning.

    Each event counts once, also those that are in a file, too.
    """
    with serving() as served:
        served.commit(30)
        served.written()
        once(lake, served)
        served.delete("__kohort_events")
        with pytest.raises(
            stream.StreamError, match="kohort topics create __kohort_events"
        ):
            once(lake, served)
        served.create("__kohort_events")
        served.commit(5)
        served.written()
        assert once(lake, served).known >= 30
        expected = served.events()
    assert len(lake.names(stream.CHECKPOINTS)) == 2
    assert told(bronze.events(lake)) == without_nulls(expected)
    file = Path(lake.path).parent / "events.jsonl"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in expected))
    assert bronze.ingest(lake, [str(file)]).known == len(expected)
    assert told(bronze.events(lake)) == without_nulls(expected)


def test_a_broker_that_goes_and_comes_back(lake: Lake, tmp_path: Path) -> None:
    """A stream reports a missing broker, and continues once it is back with data."""
    with serving(tmp_path / "data") as served:
        served.commit(10)
        served.written()
        once(lake, served)
        first = served.events()
        gone = Stream(lake, served.address, options=IMPATIENT)
    with pytest.raises(stream.SilentError, match="no broker answers at"):
        gone.read()
    with serving(tmp_path / "data") as served:
        served.commit(10)
        served.written()
        once(lake, served)
        second = served.events()
    numbers = dict.fromkeys((first[0]["run"], second[0]["run"]), 0)
    for each in told(bronze.events(lake)):
        numbers[each["run"]] += 1
        assert numbers[each["run"]] == each["sequence"]
    assert numbers[first[0]["run"]] >= len(first)
    assert numbers[second[0]["run"]] == len(second)


def test_retention_that_was_faster(lake: Lake) -> None:
    """The stream fails with advice; with --skip-lost it reads the rest.

    The lost events count as missing.
    """
    with serving() as served:
        served.create("t")
        served.produce("t", event(1), event(2))
        once(lake, served, topic="t")
        for sequence in (3, 4, 5):
            served.produce("t", event(sequence))
        served.lose("t", 4)
        with pytest.raises(stream.StreamError, match="start it once with --skip-lost"):
            once(lake, served, topic="t")
        once(lake, served, topic="t", options=stream.SKIP_LOST)
    assert [each["sequence"] for each in told(bronze.events(lake))] == [1, 2, 5]
    (row,) = bronze.statistics(bronze.events(lake)).collect()
    assert (row["missing"], row["announced"]) == (2, 0)


@pytest.mark.parametrize(
    ("says", "advice"),
    [
        ("UnknownTopicOrPartitionException: gone", "the topic was deleted; start"),
        ("TimeoutException: Timed out", "b:1 does not answer any more"),
        ("\n IOException: disk full \n at x", "has ended: IOException: disk full"),
    ],
)
def test_the_end_of_a_stream_says_what_to_do(says: str, advice: str) -> None:
    """Advice depends on Spark's error; a `StreamError` is returned unchanged."""
    problem = stream.problem(RuntimeError(says), "b:1")
    assert advice in str(problem)
    assert stream.problem(problem) is problem
