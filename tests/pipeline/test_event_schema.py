"""The schema is the broker's, and events of older kohorts are read.

    python -m tests.pipeline.test_event_schema

writes ``pipeline/event_schema.json`` anew.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest
from tests.pipeline.test_stream import told, without_nulls

from kohort.broker.events import words
from kohort.broker.events.formats import spark_schema
from kohort.broker.events.schema import BY_NAME, SCHEMA_VERSION
from kohort.pipeline import bronze, event_schema
from kohort.pipeline.lake import Lake

SAMPLES = Path(__file__).parent / "samples"
"""Events of a kohort whose commits have no ``end_offset``: the events file of a broker
with two nodes; a scene for each cause of each kind, from a coordinator alone; and both
as Parquet, with the columns of that time."""


def text() -> str:
    """The file: the wide table, the kinds, and the words."""
    more = {"kinds": sorted(BY_NAME), "words": words.as_json()}
    return json.dumps({**spark_schema(), **more}, indent=1) + "\n"


def test_the_file_is_the_broker_s_schema() -> None:
    """The pipeline reads data, never the broker's code: so it has a copy."""
    file = files("kohort.pipeline").joinpath(event_schema.FILE)
    kept = file.read_text(encoding="utf-8")
    assert kept == text()
    assert event_schema.VERSION == SCHEMA_VERSION
    assert set(event_schema.UPGRADES) == {*range(1, event_schema.VERSION)}


def sample_events() -> list[dict[str, object]]:
    """The events of both files, in the order of their identities."""
    lines = [
        json.loads(line)
        for name in ("broker.jsonl", "coordinator.jsonl")
        for line in (SAMPLES / name).read_text().splitlines()
    ]
    return sorted(lines, key=lambda e: (e["run"], e["node"], e["sequence"]))


def test_the_samples_are_older() -> None:
    """They lack the new fields, and have all kinds but those of the stream itself."""
    events = sample_events()
    kinds = {str(each["kind"]) for each in events}
    new = {"append_failed", "commanded", "fault_struck", "finding"}
    new |= {"rebalance_account", "clock_advanced", "delivery_account"}
    new |= {"offsets_went_back", "offsets_unchecked", "unread_account"}
    new |= {"member_disconnected", "member_fenced", "member_reconciled"}
    new |= {"group_converted"}
    new |= {kind for kind in BY_NAME if kind.startswith("transaction_")}
    assert BY_NAME.keys() - kinds <= {"heartbeat", "events_lost"} | new
    assert "end_offset" not in json.dumps(events)
    assert "end_offset" in text()


@pytest.mark.spark
def test_events_of_an_older_kohort(lake: Lake, tmp_path: Path) -> None:
    """As lines and as Parquet; missing fields are null."""
    done = bronze.ingest(lake, [str(SAMPLES / "*.jsonl")])
    expected = without_nulls(sample_events())
    assert (done.events, done.known, done.quarantined) == (len(expected), 0, {})
    found = bronze.events(lake)
    assert told(found) == expected
    assert "end_offset" in found.schema["offsets"].simpleString()
    again = bronze.ingest(lake, [str(SAMPLES)])
    assert (again.skipped, again.files, again.known) == (2, 1, len(expected))
    other = Lake(lake.spark, tmp_path / "other")
    bronze.ingest(other, [str(SAMPLES / "events.parquet")])
    assert told(bronze.events(other)) == expected


if __name__ == "__main__":
    Path("pipeline", event_schema.FILE).write_text(text(), encoding="utf-8")
