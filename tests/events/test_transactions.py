"""Events of transactions, as coordinators and partitions publish them."""

from __future__ import annotations

from typing import Any

from tests.events.checks import check

from kohort.broker.events.bus import Events


def told(kind: str, **fields: Any) -> dict[str, Any]:
    """One event, published at second 2 by node 1, checked against the schema."""
    events = Events(wall=lambda: 0)
    events.begin("r")
    events.of(1).tell(kind, 2.0, **fields)
    (event,) = events.recent()
    check(event)
    return dict(event)


def test_a_transaction_began() -> None:
    """Partitions are rows by topic, in order; groups are sorted."""
    event = told(
        "transaction_state",
        transactional_id="orders-1",
        producer_id=4000,
        producer_epoch=3,
        old_state="Empty",
        state="Ongoing",
        cause="client_began",
        partitions={("b", 0), ("a", 2), ("a", 1), ("__consumer_offsets", 7)},
        groups={"h", "g"},
        started_ms=1_999,
        duration_ns=5,
        timeout_ms=60_000,
        client_id="app",
    )
    assert (event["previous_state"], event["state"]) == ("Empty", "Ongoing")
    assert event["partitions"] == [
        {"topic": "__consumer_offsets", "partitions": [7]},
        {"topic": "a", "partitions": [1, 2]},
        {"topic": "b", "partitions": [0]},
    ]
    assert (event["group_ids"], event["client_id"]) == (["g", "h"], "app")
    assert event["started_ns"] == 1_999_000_000


def test_a_producer_was_fenced() -> None:
    """By a partition, which knows the producer's id alone."""
    event = told(
        "transaction_fenced",
        transactional_id=None,
        producer_id=4000,
        producer_epoch=3,
        current_epoch=4,
        api="Produce",
        error="INVALID_PRODUCER_EPOCH",
        client_id="app",
    )
    assert (event["transactional_id"], event["group"]) == (None, None)


def test_a_marker_was_written() -> None:
    """Where a transaction has no record, the marker has no first offset."""
    for first, duration in ((17, 9), (None, None)):
        event = told(
            "transaction_ended_in_partition",
            topic="orders",
            partition=3,
            producer_id=4000,
            producer_epoch=3,
            is_commit=True,
            first_offset=first,
            end_offset=20,
            held_back=4,
            duration_ns=duration,
        )
        assert (event["partition"], event["first_offset"]) == (3, first)


def change(state: str, cause: str, transactional_id: str = "tx") -> dict[str, Any]:
    """The raw fields of a `transaction_state`."""
    return {
        "transactional_id": transactional_id,
        "producer_id": 1,
        "producer_epoch": 0,
        "old_state": None,
        "state": state,
        "cause": cause,
        "partitions": {("t", 0)},
        "groups": (),
        "started_ms": 0,
        "duration_ns": None,
        "timeout_ms": 1,
    }


class Remembering:
    """A stream that remembers 16 events, and two transactions of each sort."""

    def __init__(self) -> None:
        self.events = Events(remembered=16, wall=lambda: 0)
        self.events.begin("r")

    def change(self, state: str, cause: str, transactional_id: str = "tx") -> None:
        """A transactional id has another state."""
        fields = change(state, cause, transactional_id)
        self.events.of(1).tell("transaction_state", 1.0, **fields)

    def others(self) -> None:
        """Other events push out the latest ones."""
        for _ in range(16):
            self.events.of(1).tell("node_started", 2.0)

    def known(self, group: str = "g") -> list[tuple[str, str]]:
        """The id and the state of each event for an explanation of a group."""
        found = self.events.recent(group, transactions=True)
        return [
            (e["transactional_id"], e["state"])
            for e in found
            if e["kind"] == "transaction_state"
        ]


def test_open_transactions_are_remembered() -> None:
    """However old they are; the last event of each is enough."""
    scene = Remembering()
    scene.change("Ongoing", "client_began")
    scene.change("Ongoing", "client_began", "other")
    scene.change("CompleteCommit", "markers_written", "other")
    scene.others()
    assert scene.known() == [("tx", "Ongoing")]
    assert scene.events.recent("g") == []
    scene.change("PrepareCommit", "client_committed")
    assert scene.known() == [("tx", "PrepareCommit")]
    scene.others()
    scene.change("CompleteCommit", "markers_written")
    assert scene.known() == [("tx", "CompleteCommit")]
    scene.others()
    assert scene.known() == []


def test_bad_ends_are_remembered() -> None:
    """In order, and each event once."""
    scene = Remembering()
    scene.change("PrepareAbort", "timeout")
    scene.change("PrepareCommit", "client_committed", "other")
    scene.others()
    assert scene.known() == [("tx", "PrepareAbort"), ("other", "PrepareCommit")]


def test_the_memory_of_transactions_is_bounded() -> None:
    """Both the open ones and the bad ends; the oldest go."""
    scene = Remembering()
    for name in ("a", "b", "c"):
        scene.change("Ongoing", "client_began", name)
    scene.others()
    assert scene.known() == [("b", "Ongoing"), ("c", "Ongoing")]
    for name in ("a", "b", "c"):
        scene.change("PrepareAbort", "timeout", name)
        scene.change("CompleteAbort", "markers_written", name)
    scene.others()
    assert scene.known() == [("b", "PrepareAbort"), ("c", "PrepareAbort")]


def test_a_new_run_has_no_open_transaction() -> None:
    """Coordinators load those that go on."""
    scene = Remembering()
    scene.change("Ongoing", "client_began")
    scene.others()
    scene.events.begin("r2")
    assert scene.known() == []
