"""The streams that the page is tested with are what the schema says."""

from __future__ import annotations

from typing import Any

import pytest
from tests.timeline import streams

from kohort.broker.events.schema import BY_NAME, COMMON, ROWS, Field

TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "int": int,
    "long": int,
    "boolean": bool,
    "map": dict,
}


def fits(field: Field, value: Any) -> bool:
    """Whether a field may have this value."""
    if value is None:
        return field.may_be_null
    if field.type.startswith("["):
        row = Field(field.name, field.type[1:-1], "", may_be_null=False)
        return isinstance(value, list) and all(fits(row, each) for each in value)
    if field.type in ROWS:
        columns = ROWS[field.type]
        return set(value) <= {column.name for column in columns} and all(
            fits(column, value.get(column.name)) for column in columns
        )
    return isinstance(value, TYPES[field.type])


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(streams.story(), id="story"),
        pytest.param(streams.deployment(30), id="deployment"),
        pytest.param(streams.many(3000), id="many"),
    ],
)
def test_each_event_is_as_the_schema_has_it(events: list[streams.Event]) -> None:
    """No kind, field, type or cause that the schema does not know, and none missing."""
    for event in events:
        kind = BY_NAME[event["kind"]]
        fields = {field.name: field for field in (*COMMON, *kind.fields)}
        assert set(event) <= set(fields), event
        for name, field in fields.items():
            assert fits(field, event.get(name)), (name, event)
        assert event.get("cause") is None or event["cause"] in kind.causes, event
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))


def test_the_same_seed_makes_the_same_events() -> None:
    """What a test has seen can be seen again."""
    assert streams.story() == streams.story()
    assert len(streams.many(3000)) == 3000
