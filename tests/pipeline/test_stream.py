"""Streams events of a running broker into the lake, with the real connector."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.broker_thread import Event, Serving, serving

from kohort.pipeline import bronze, lineage, sink_log
from kohort.pipeline.bronze import stream
from kohort.pipeline.commands.stream_builds import Silence
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

LOOK_S = 1
SECOND = 1_000_000_000
PATIENT = {"kafka.default.api.timeout.ms": "15000", "kafka.request.timeout.ms": "5000"}
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


def once(lake: Lake, served: Serving, **options: Any) -> StreamingQuery:
    """Reads the topic up to its current end."""
    query = stream.start(lake, served.address, once=True, **options)
    query.awaitTermination()
    return query


def assert_files_count(lake: Lake) -> None:
    """Checks that the files of the stream's log are those that Spark reads."""
    read = lake.spark.read.parquet(lake.uri("bronze/stream/live")).inputFiles()
    found = sink_log.files(lake, "live")
    assert sorted("/".join(file.split("/")[-2:]) for file in read) == sorted(found)


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


def test_the_stream_has_what_the_broker_told(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All events arrive unchanged, then the later ones; callbacks get the run.

    With a clock that went back no stream starts: the watermark would drop new records.
    """
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
        assert_files_count(lake)
        before = lineage.inputs(lake)
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
        assert_files_count(lake)
        now = lineage.inputs(lake)
        assert bronze.changed_runs(lake, before.as_json(), now) == {expected[0]["run"]}
        assert bronze.changed_runs(lake, now.as_json(), now) == set()
        follow()
        once(lake, served)
        follow()
        past = time.time() - 3600
        monkeypatch.setattr(time, "time", lambda: past)
        with pytest.raises(stream.StreamError, match="is more than 5 minutes behind"):
            once(lake, served)
    assert heard == [[served.broker.events.run]] * 2


def test_late_records_and_such_that_come_twice_or_are_no_events(lake: Lake) -> None:
    """Late events are kept, duplicates dropped, and bad records get a reason."""
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
        # Outside the deduplication window: the stream stores it, the reader drops it.
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
    """A recreated topic starts with older events, in a new folder; each counts once.

    Events that are also in a file count once, too.
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
    """A stream reports a missing broker, and continues once it is back with data."""
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


def test_a_broker_that_is_gone_ends_the_stream(lake: Lake) -> None:
    """The silence is noticed, and the stream ends with advice after one attempt."""
    from pyspark.errors import StreamingQueryException

    with serving() as served:
        served.commit(10)
        served.written()
        query = stream.start(lake, served.address, every="0 seconds", options=PATIENT)
        query.processAllAvailable()
        gone = served.address
    silence = Silence()
    while not silence.is_long:
        assert not query.awaitTermination(LOOK_S)
        is_asking = query.status["message"].startswith(stream.ASKS)
        silence.look(time.monotonic(), is_asking=is_asking)
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination()
    said = str(stream.problem(raised.value, gone))
    assert said.startswith(f"{gone} does not answer any more: start the stream again")


def test_retention_that_was_faster(lake: Lake) -> None:
    """The stream fails with advice; with --skip-lost it reads the rest.

    The lost events count as missing.
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
    """Advice depends on Spark's error; a `StreamError` is returned unchanged."""
    problem = stream.problem(RuntimeError(says), "b:1")
    assert advice in str(problem)
    assert stream.problem(problem) is problem
