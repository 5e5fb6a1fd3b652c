"""Checks of every event against the schema's own tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kohort.broker.events.fields import Field
from kohort.broker.events.schema import BY_NAME, COMMON, ROWS

BY_THE_STREAM = {"schema", "run", "labels", "node", "sequence", "wall_ns"}
"""Fields that are not the coordinator's."""

PLAIN: Mapping[str, type] = {
    "string": str,
    "int": int,
    "long": int,
    "boolean": bool,
    "map": dict,
}


def check(event: Mapping[str, Any]) -> None:
    """The fields are those of the kind, all of them and no other, of their types."""
    kind = BY_NAME[event["kind"]]
    common = [f for f in COMMON if f.name not in BY_THE_STREAM or "run" in event]
    fields = {field.name: field for field in (*common, *kind.fields)}
    assert event.keys() == fields.keys(), event["kind"]
    for name, value in event.items():
        _check_field(fields[name], value)
    if kind.causes:
        assert event["cause"] in kind.causes, event["kind"]
    else:
        assert event["cause"] is None, event["kind"]


def _check_field(field: Field, value: object) -> None:
    if value is None:
        assert field.may_be_null, field.name
    elif field.type.startswith("["):
        assert type(value) is list, field.name
        for each in value:
            _check_value(field.type[1:-1], each)
    else:
        _check_value(field.type, value)


def _check_value(type_: str, value: object) -> None:
    if type_ in ROWS:
        assert isinstance(value, dict)
        rows = {field.name: field for field in ROWS[type_]}
        assert value.keys() == rows.keys()
        for name, each in value.items():
            _check_field(rows[name], each)
    else:
        assert type(value) is PLAIN[type_], (type_, value)
