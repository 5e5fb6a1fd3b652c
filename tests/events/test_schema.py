"""The schema in all its forms, and a real broker's events held against it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Literal, assert_type

from jsonschema import Draft202012Validator
from tests.events.checks import check
from tests.groups.test_reasons import join, sync
from tests.wire.client import connected

from kohort.broker.events import types
from kohort.broker.events.formats import (
    json_schema,
    page,
    python_types,
    spark_schema,
    wide,
)
from kohort.broker.events.schema import BY_NAME, COMMON, KINDS, ROWS
from kohort.broker.events.types import Event
from kohort.broker.server import Broker

DOCS = Path(__file__).parents[2] / "docs" / "reference"


def test_the_json_schema_in_the_documents_is_the_schema() -> None:
    """`python -m kohort.broker.events.formats` writes it."""
    text = (DOCS / "events.schema.json").read_text(encoding="utf-8")
    assert json.loads(text) == json_schema()


def test_the_tables_in_the_documents_are_the_schema() -> None:
    """The same program writes them."""
    text = (DOCS / "events.md").read_text(encoding="utf-8")
    assert page(text) == text
    for kind in KINDS:
        assert f"### `{kind.name}`" in text


def test_the_types_are_the_schema() -> None:
    """The same program writes them."""
    assert Path(types.__file__).read_text(encoding="utf-8") == python_types()


async def test_the_kind_tells_a_type_checker_the_fields() -> None:
    """A wrong field, kind or cause is an error of mypy, which checks this file."""
    async with Broker() as broker:
        (event,) = [e for e in broker.events.recent() if e["kind"] == "node_started"]
        assert_type(event, types.NodeStarted)
        assert event["node"] == 1
        for each in broker.events.recent():
            if each["kind"] == "rebalance_started":
                assert_type(each["culprits"], list[str])
                each["culprit"]  # type: ignore[typeddict-item]
            elif each["kind"] == "rebalance_ended":  # type: ignore[comparison-overlap]
                raise AssertionError
            elif each["kind"] == "member_left":
                assert_type(each["cause"], Literal["left", "removed"])


def test_a_field_is_the_same_wherever_it_is() -> None:
    """A field has one type in all events, so that they fit into one table."""
    types: dict[str, set[str]] = {}
    for fields in (COMMON, *(kind.fields for kind in KINDS)):
        for field in fields:
            types.setdefault(field.name, set()).add(field.type)
    assert {name for name, each in types.items() if len(each) > 1} == set()
    assert [field.name for field in wide()] == [*types]
    assert len(BY_NAME) == len(KINDS)


def test_the_table_in_spark() -> None:
    """Columns of Spark's own types; those of kinds may be null."""
    fields = {field["name"]: field for field in spark_schema()["fields"]}
    assert fields["sequence"]["type"] == "long"
    assert fields["sequence"]["nullable"] is False
    assert fields["labels"]["type"]["keyType"] == "string"
    assert fields["is_first"] == {
        "name": "is_first",
        "type": "boolean",
        "nullable": True,
        "metadata": {"comment": "false: it was a member already"},
    }
    waits = fields["waits"]["type"]
    assert (waits["type"], waits["containsNull"]) == ("array", False)
    assert [f["name"] for f in waits["elementType"]["fields"]] == [
        field.name for field in ROWS["wait"]
    ]
    owned = fields["owned"]["type"]["elementType"]["fields"][1]["type"]
    assert owned == {"type": "array", "elementType": "integer", "containsNull": False}
    json.dumps(spark_schema())


async def play() -> list[Event]:
    """A broker's life, all of it: two nodes, a group, a move, a node that stops."""
    config = {
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 2,
        "group.max.size": 1,
    }
    broker = Broker(config, nodes=2, labels={"seed": "7"}, events_heartbeats=True)
    with broker.events.subscribe() as reader:
        async with broker:
            node_id = broker.coordinator_of("g")
            (other,) = broker.cluster.nodes.keys() - {node_id}
            async with connected(broker, node_id) as client:
                await sync(client, await join(client, "starting"))
                await join(client, "one too many")
            broker.move_coordinator("g", other)
            await broker.stop_node(other)
            await broker.start_node(other)
        return reader.take()


async def test_a_brokers_events(tmp_path: Path) -> None:
    """Each event matches the schema; numbers have no gaps, per node."""
    events = await play()
    numbers: dict[int, list[int]] = {}
    for event in events:
        check(event)
        assert json.loads(json.dumps(event)) == event
        numbers.setdefault(event["node"], []).append(event["sequence"])
    assert len(numbers) == 2
    for each in numbers.values():
        assert each == [*range(1, len(each) + 1)]
    assert len({event["run"] for event in events}) == 1
    assert {event["labels"]["seed"] for event in events} == {"7"}
    kinds = Counter(event["kind"] for event in events)
    assert (kinds["node_started"], kinds["node_stopped"]) == (3, 3)
    assert kinds["shard_loaded"] == kinds["shard_unloaded"] >= 3
    # The group is found again by the node that it moved to, and by the next.
    assert kinds["group_loaded"] == 2
    assert (kinds["member_refused"], kinds["assignment_made"]) == (1, 1)
    causes = [e["cause"] for e in events if e["kind"] == "shard_unloaded"]
    assert {*causes} == {"moved", "stopped"}
    assert events[-1]["kind"] == "shard_unloaded"


async def test_every_start_is_a_run() -> None:
    """Ids of runs differ, even if a seed makes all other ids the same."""
    runs = set()
    for _ in range(2):
        broker = Broker(seed=1)
        for _ in range(2):
            async with broker:
                runs.add(broker.events.run)
    assert len(runs) == 4


async def test_a_validator_agrees() -> None:
    """JSON Schema as others read it says the same of these events."""
    validator = Draft202012Validator(json_schema())
    validator.check_schema(json_schema())
    events = await play()
    for event in events:
        validator.validate(event)
    for change in ({"cause": "no cause"}, {"state": 3}, {"node": "one"}):
        event = next(e for e in events if e["kind"] == "group_loaded")
        wrong = next(e for e in events if e["kind"] == "shard_unloaded")
        event = wrong if "cause" in change else event
        assert not validator.is_valid({**event, **change}), change
