"""Events of a running broker into the lake, over the real connector."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.broker_thread import Event, Serving, serving

from kohort.pipeline import bronze
from kohort.pipeline.bronze import stream
from kohort.pipeline.event_schema import (
    NO_EVENT,
    NOT_JSON,
    NULL,
    OTHER_VERSION,
    WRONG_TYPE,
)
from kohort.pipeline.lake import Lake, LakeError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

SECOND = 1_000_000_000
IMPATIENT = {"kafka.default.api.timeout.ms": "4000", "kafka.request.timeout.ms": "2000"}


def without_nulls(value: Any) -> Any:
    """An event as Spark writes it: what is null is not there."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    return [without_nulls(v) for v in value] if isinstance(value, list) else value


def told(events: DataFrame) -> list[Event]:
    """The events of a table, by their numbers, in the broker's own words."""
    from pyspark.sql import functions as sql

    names = [name for name in events.columns if name not in {"source", "arrived"}]
    rows = events.select(sql.to_json(sql.struct(*names)).alias("event")).collect()
    found = [json.loads(row["event"]) for row in rows]
    return sorted(found, key=lambda e: (e["run"], e["node"], e["sequence"]))


def once(lake: Lake, served: Serving, **options: Any) -> StreamingQuery:
    """Reads what is in the topic now."""
    query = stream.start(lake, served.address, once=True, **options)
    query.awaitTermination()
    return query


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


def test_the_stream_has_what_the_broker_told(lake: Lake) -> None:
    """All of it, word for word; then what came since; and followers hear of the run."""
    heard: list[list[str]] = []

    def follow() -> None:
        following = stream.follow(
            lake, "live", lambda _, runs: heard.append([*runs]), once=True
        )
        following.awaitTermination()

    with serving() as served:
        served.group("a")
        served.commit(300)
        served.written()
        query = once(lake, served)
        assert query.name == "live"
        expected = served.events()
        assert told(bronze.events(lake)) == without_nulls(expected)
        follow()
        served.commit(20)
        served.written()
        query = once(lake, served)
        assert query.lastProgress is not None
        counted = query.lastProgress["observedMetrics"][stream.METRICS]
        assert (counted["events"], counted["quarantined"], counted["late"]) == (
            20,
            0,
            0,
        )
        expected = served.events()
        assert told(bronze.events(lake)) == without_nulls(expected)
        follow()
        once(lake, served)
        follow()
    assert heard == [[served.broker.events.run]] * 2


def test_late_records_and_such_that_come_twice_or_are_no_events(lake: Lake) -> None:
    """Nothing is left out for being late; each is there once; the rest says why."""
    with serving() as served:
        served.create("t")
        served.produce("t", event(3), event(1, seconds_ago=90_000), event(3))
        query = once(lake, served, topic="t", known_for="1 second")
        assert query.lastProgress is not None
        counted = query.lastProgress["observedMetrics"][stream.METRICS]
        assert (counted["events"], counted["late"]) == (2, 1)
        assert counted["behind_ms"] >= 90_000_000
        served.produce(
            "t", event(2, seconds_ago=200_000), event(1), event(5, kind="new")
        )
        served.produce("t", None, "{", "[1]", event(6, node="1"), event(7, schema=2))
        served.produce("t", event(8, kind=None), '{"schema":1}{"schema":1}')
        # Longer than a number is known: the stream takes it, the reader does not.
        served.produce("t", event(9, kind="events_lost", first=8, last=9), event(9))
        once(lake, served, topic="t", known_for="1 second")
        once(lake, served, topic="t", known_for="1 second")
    found = bronze.events(lake)
    assert [e["sequence"] for e in told(found)] == [1, 2, 3, 5, 9]
    assert [e["kind"] for e in told(found)][-2:] == ["new", "heartbeat"]
    assert {row["source"] for row in found.collect()} == {"t"}
    (row,) = bronze.identities(lake).collect()
    assert (row["first"], row["last"], row["events"]) == (1, 9, 5)
    assert (row["missing"], row["announced"]) == (4, 2)
    bad = {
        (r["reason"], r["source"].split()[-1])
        for r in bronze.quarantine(lake).collect()
    }
    reasons = (
        NULL,
        "cut off",
        "no object",
        WRONG_TYPE,
        OTHER_VERSION,
        NO_EVENT,
        NOT_JSON,
    )
    assert bad == {(reason, str(6 + i)) for i, reason in enumerate(reasons)}


def test_a_topic_that_is_made_anew(lake: Lake) -> None:
    """It begins with what is remembered: another folder has it, and all are there once.

    A run that is in a file, too, has no event twice either.
    """
    with serving() as served:
        served.commit(30)
        served.written()
        assert once(lake, served).name == "live"
        served.delete("__kohort_events")
        with pytest.raises(
            stream.StreamError, match="kohort topics create __kohort_events"
        ):
            once(lake, served)
        served.create("__kohort_events")
        served.commit(5)
        served.written()
        assert once(lake, served).name == "live.2"
        expected = served.events()
    (row,) = bronze.identities(lake).collect()
    assert (row["events"], row["missing"]) == (len(expected), 0)
    assert row["rows"] >= row["events"] + 30
    file = Path(lake.path).parent / "events.jsonl"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in expected))
    assert bronze.ingest(lake, [str(file)]).known == len(expected)
    assert told(bronze.events(lake)) == without_nulls(expected)


def test_a_broker_that_goes_and_comes_back(lake: Lake, tmp_path: Path) -> None:
    """The stream says that it is gone; with its data it goes on where it was."""
    with serving(tmp_path / "data") as served:
        served.commit(10)
        served.written()
        query = stream.start(lake, served.address, every="0 seconds", options=IMPATIENT)
        query.processAllAvailable()
        with pytest.raises(LakeError, match=r"stream live: .* process \d+"):
            stream.start(lake, served.address)
        first = served.events()
        gone = served.address
        served.commit(10)
    query.stop()
    with pytest.raises(stream.StreamError, match=f"no broker answers at {gone}"):
        stream.start(lake, gone, options=IMPATIENT)
    with serving(tmp_path / "data") as served:
        served.commit(10)
        served.written()
        assert once(lake, served).name == "live"
        second = served.events()
    numbers = dict.fromkeys((first[0]["run"], second[0]["run"]), 0)
    for each in told(bronze.events(lake)):
        numbers[each["run"]] += 1
        assert numbers[each["run"]] == each["sequence"]
    assert numbers[first[0]["run"]] >= len(first)
    assert numbers[second[0]["run"]] == len(second)


def test_a_session_without_the_connector(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told what its maker has to do."""
    monkeypatch.setattr(stream, "ADMIN", "org.apache.nowhere.AdminClient")
    with pytest.raises(stream.StreamError, match=r"session\(connector=True\)"):
        stream.start(lake, "127.0.0.1:1")


def test_retention_that_was_faster(lake: Lake) -> None:
    """The stream ends, and says what to do; it goes on with the rest if it is told to.

    What is gone is missing, in as many words.
    """
    from pyspark.errors import StreamingQueryException

    with serving() as served:
        served.create("t")
        served.produce("t", event(1), event(2))
        once(lake, served, topic="t")
        for sequence in (3, 4, 5):
            served.produce("t", event(sequence))
        served.lose("t", 4)
        with pytest.raises(StreamingQueryException) as caught:
            once(lake, served, topic="t")
        assert "start it once with --skip-lost" in str(stream.problem(caught.value))
        once(lake, served, topic="t", options=stream.SKIP_LOST)
    assert [each["sequence"] for each in told(bronze.events(lake))] == [1, 2, 5]
    (row,) = bronze.identities(lake).collect()
    assert (row["missing"], row["announced"]) == (2, 0)


@pytest.mark.parametrize(
    ("says", "advice"),
    [
        ("UnknownTopicOrPartitionException: gone", "the topic was deleted; start"),
        ("TimeoutException: Timed out", "b:1 does not answer any more: start"),
        ("\n IOException: disk full \n at x", "has ended: IOException: disk full"),
    ],
)
def test_the_end_of_a_stream_says_what_to_do(says: str, advice: str) -> None:
    """By what Spark says; an error that says it already stays."""
    problem = stream.problem(RuntimeError(says), "b:1")
    assert advice in str(problem)
    assert stream.problem(problem) is problem


def test_a_clock_that_went_back(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """New records would be late by the watermark, and be dropped: it does not start."""
    with serving() as served:
        served.commit(1)
        served.written()
        once(lake, served)
        once(lake, served)
        past = time.time() - 3600
        monkeypatch.setattr(time, "time", lambda: past)
        served.commit(1)
        served.written()
        with pytest.raises(
            stream.StreamError, match="clock is more than 5 minutes behind"
        ):
            once(lake, served)
