"""Consumers of other libraries read ``__kohort_events`` and commit."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # no __all__
from jsonschema import Draft202012Validator
from tests.interop.scene import Member, Scene
from tests.patience import PATIENCE_S
from tests.workers.libraries import (
    AIOKAFKA,
    CONFLUENT,
    FRANZ_GO,
    JAVA,
    KAFKA_GO,
    KAFKA_PYTHON,
    KAFKAJS,
    KOHORT,
)

if TYPE_CHECKING:
    from tests.workers.libraries import Library
    from tests.workers.lines import Record

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        "KOHORT_INTEROP_BOOTSTRAP" in os.environ, reason="that broker may be another's"
    ),
]

TOPIC = "__kohort_events"
SCHEMA = (
    Path(__file__).parent.parent.parent / "docs" / "reference" / "events.schema.json"
)
READERS: dict[Library, str] = {
    JAVA: "range",
    FRANZ_GO: "cooperative-sticky",
    KAFKA_GO: "range",
    KAFKAJS: "roundrobin",
    AIOKAFKA: "range",
    CONFLUENT: "cooperative-sticky",
    KAFKA_PYTHON: "roundrobin",
}


class Reading(Scene):
    """A watched group, and other groups that read its events."""

    def read(self, library: Library, assignor: str) -> Member:
        """A reader in a separate group, which commits after each batch."""
        reader = self.prepare(f"{library.name} reads", library)
        reader.send(
            "join",
            bootstrap=self.bootstrap,
            topic=TOPIC,
            group=f"reader-{library.name}",
            client=library.name,
            assignor=assignor,
            session=30_000,
            heartbeat=300,
        )
        return reader

    def play(self, name: str) -> None:
        """A member of the watched group joins, consumes, and leaves."""
        member = self.start(name)
        self.until_settled()
        self.produce(50)
        self.until_consumed()
        self.close(member)

    def until_read(self, reader: Member, name: str) -> None:
        """Waits for the event that the member has left."""
        self.until(
            f"{reader.name} has read that {name} left",
            lambda: any(
                (event["kind"], event["client_id"]) == ("member_left", name)
                for event in events_of(reader.records)
            ),
        )


def events_of(records: list[Record]) -> list[dict[str, Any]]:
    """Returns the events in the records, in order."""
    return [json.loads(value) for _, _, _, value in records]


def test_who_commits_does_not_read_of_it(bootstrap: str, tmp_path: Path) -> None:
    """All readers get all events in order, and none about their own commits."""
    scene = Reading(KOHORT, "range", bootstrap, tmp_path)
    try:
        scene.admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(PATIENCE_S)
        scene.play("first")
        readers = [scene.read(library, how) for library, how in READERS.items()]
        for reader in readers:
            scene.until_read(reader, "first")
        # They commit meanwhile: if they read events about that, they would never end.
        scene.play("second")
        for reader in readers:
            scene.until_read(reader, "second")
        # They go on reading: the comparison uses copies.
        check([[*reader.records] for reader in readers], scene.group)
    finally:
        scene.stop()


def check(read: list[list[Record]], watched: str) -> None:
    """Checks that all readers have read the same stream, complete and valid."""
    validator = Draft202012Validator(json.loads(SCHEMA.read_text()))
    longest = max((events_of(records) for records in read), key=len)
    for event in longest:
        validator.validate(event)
    for records in read:
        assert events_of(records) == longest[: len(records)]
        for (_, offset, key, _), event in zip(records, longest, strict=False):
            assert key == (event["group"] or "")
            assert longest[offset] == event
    of_readers = [e for e in longest if str(e["group"]).startswith("reader-")]
    # Made before the broker knew the topics that these groups read.
    assert {e["kind"] for e in of_readers} <= {"group_state", "member_id_given"}
    assert len(of_readers) <= 2 * len(read)
    commits = [e for e in longest if e["kind"] == "offsets_committed"]
    assert {e["group"] for e in commits} == {watched}
    for node in {event["node"] for event in longest}:
        numbers = [event["sequence"] for event in longest if event["node"] == node]
        assert numbers == sorted({*numbers})
        assert numbers[0] == 1
