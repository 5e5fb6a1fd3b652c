"""Kinds of events and their fields: the classes, and fields of several kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kohort.broker.events.words import Words

Type = str
"""``string``, ``int``, ``long``, ``boolean``, ``map`` (of strings to strings), or the
name of a row of the schema; in brackets where there are several: ``[wait]``."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of events.

    Attributes:
        name: the key of the JSON object.
        type: see `Type`.
        says: its meaning, with the unit.
        may_be_null: whether it may be null or missing.
        words: the values of a string that is one of a few, and their meanings.
    """

    name: str
    type: Type
    says: str
    may_be_null: bool = True
    words: Words = field(default_factory=dict)


def always(name: str, type_: Type, says: str, words: Words | None = None) -> Field:
    """A field that is never null or missing."""
    return Field(name, type_, says, may_be_null=False, words=words or {})


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of event: its occasion, its causes, and its fields beyond `COMMON`."""

    name: str
    says: str
    fields: tuple[Field, ...] = ()
    causes: Mapping[str, str] = field(default_factory=dict)


# Fields of kinds about several subjects.
STATE = always("state", "string", "the group's state after the event")
PREVIOUS_STATE = always("previous_state", "string", "the group's state before it")
ERROR = always("error", "string", "Kafka's name of the error")
SILENT = Field(
    "silent_ns",
    "long",
    "time since the broker last heard from the member; null: unknown",
)
