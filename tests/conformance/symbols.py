"""Symbols in place of values that differ from run to run.

Two runs against conforming brokers give the same transcript.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from typing import Any

from kio.schema.errors import ErrorCode
from tests.conformance import kio_codec
from tests.conformance.consumer_protocol import read_simple_subscription


class Symbols:
    """Run-specific strings and UUIDs, and their symbols."""

    def __init__(self) -> None:
        self._strings: dict[str, str] = {}
        self._uuids: dict[uuid.UUID, str] = {}
        self._literals: set[str] = set()
        self._per_member: dict[str, int] = {}
        self._producers: dict[int, str] = {}

    def name(self, raw: str, symbol: str) -> None:
        """Names a string."""
        self._strings[raw] = symbol

    def name_uuid(self, raw: uuid.UUID, symbol: str) -> None:
        """Names a UUID."""
        self._uuids[raw] = symbol

    def name_member(self, raw: str, who: str) -> None:
        """Names a member id after the peer that got it first."""
        if not raw or raw in self._strings or raw in self._literals:
            return
        count = self._per_member[who] = self._per_member.get(who, 0) + 1
        self._strings[raw] = f"<{who}>" if count == 1 else f"<{who}.{count}>"

    def literal(self, raw: str) -> None:
        """Declares a string that the scenario itself invented."""
        if raw not in self._strings:
            self._literals.add(raw)

    def knows(self, raw: str) -> bool:
        """Returns whether a string has a symbol."""
        return raw in self._strings

    def for_text(self, raw: str) -> str:
        """A string with its symbols; long repetitions are cut."""
        if raw in self._strings:
            return self._strings[raw]
        for known, symbol in self._strings.items():
            if len(known) > 8:
                raw = raw.replace(known, symbol)
        if len(raw) > 120 and len(set(raw)) == 1:
            return f"{raw[:3]}... ({len(raw)} times)"
        return raw

    def for_member(self, raw: str) -> str:
        """The symbol of a member id."""
        if not raw or raw in self._literals:
            return raw
        if raw not in self._strings:
            self.name_member(raw, "member?")
        return self._strings[raw]

    def name_producer(self, raw: int) -> None:
        """Names a producer id; the first one is `<producer 1>`."""
        self._producers.setdefault(raw, f"<producer {len(self._producers) + 1}>")

    def for_producer(self, raw: int) -> int | str:
        """The symbol of a producer id; itself if it has none."""
        return self._producers.get(raw, raw)

    def for_uuid(self, raw: uuid.UUID) -> str:
        """The symbol of a UUID."""
        if raw not in self._uuids:
            self._uuids[raw] = f"<uuid:{len(self._uuids) + 1}>"
        return self._uuids[raw]

    def for_bytes(self, raw: bytes) -> str:
        """Bytes as text; a consumer's subscription is decoded."""
        if (subscription := read_simple_subscription(raw)) is not None:
            version, topics, user_data = subscription
            shown = [f"subscription v{version}"]
            if topics:
                shown.append(f"to {', '.join(self.for_text(t) for t in topics)}")
            if user_data is not None:
                shown.append(f"with {self._escaped(user_data)}")
            return " ".join(shown)
        return self._escaped(raw)

    def _escaped(self, raw: bytes) -> str:
        for known, symbol in self._strings.items():
            if len(known) > 8:
                raw = raw.replace(known.encode(), symbol.encode())
        return "".join(
            chr(b) if 0x20 <= b < 0x7F and b != 0x25 else f"%{b:02x}" for b in raw
        )


_MEMBER_KEYS = {"member_id", "leader"}
_PRODUCER_KEYS = {
    "producer_id",
    "producer_id_filters",
    "v3_and_below_producer_id",
}
_NODE_KEYS = {
    "node_id",
    "controller_id",
    "leader_id",
    "replica_nodes",
    "isr_nodes",
    "offline_replicas",
}
_ORDER_KEYS = (
    "group_id",
    "key",
    "name",
    "topic_id",
    "member_id",
    "instance_id",
    "group_instance_id",
    "partition_index",
    "api_key",
)


def _sort_key(rendered: Any) -> str:
    if isinstance(rendered, dict):
        return json.dumps([str(rendered.get(k)) for k in _ORDER_KEYS] + [rendered])
    return json.dumps(rendered)


def render(
    value: Any,
    symbols: Symbols,
    *,
    response: bool = False,
    ordered: bool = False,
    key: str = "",
) -> Any:
    """JSON-ready form of a message with symbols for all run-specific values.

    Arrays of responses are sorted unless `ordered`, as brokers may fill most of them in
    any order.
    """

    def shown(part: Any, key: str) -> Any:
        return render(part, symbols, response=response, ordered=ordered, key=key)

    if isinstance(value, dict):
        return {k: shown(v, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        items = [shown(v, key) for v in value]
        if not response or ordered:
            return items
        numbers = all(isinstance(v, int) for v in items)
        return sorted(items, key=None if numbers else _sort_key)
    if response and (placeholder := _placeholder(value, key)):
        return placeholder
    return _scalar(value, symbols, key)


_PLACEHOLDERS = {
    "error_message": "<text>",
    "batch_index_error_message": "<text>",
    "host": "<host>",
    "client_host": "<host>",
    "cluster_id": "<cluster-id>",
}


def _placeholder(value: Any, key: str) -> str | None:
    """Shown in place of a value that each broker may choose."""
    if isinstance(value, str) and value:
        return _PLACEHOLDERS.get(key)
    if isinstance(value, int) and value >= 0:
        if key in _NODE_KEYS:
            return "<node>"
        if key == "port":
            return "<port>"
    return None


def _scalar(value: Any, symbols: Symbols, key: str) -> Any:
    match value:
        case None | bool():
            shown: Any = value
        case ErrorCode():
            shown = kio_codec.error_name(value)
        case dt.datetime():
            shown = "<time>"
        case uuid.UUID():
            shown = symbols.for_uuid(value)
        case bytes() if value and key == "records":
            shown = "<records>"
        case bytes():
            shown = symbols.for_bytes(value)
        case int():
            number = int(value)
            shown = symbols.for_producer(number) if key in _PRODUCER_KEYS else number
        case str() if key in _MEMBER_KEYS:
            shown = symbols.for_member(value)
        case str():
            shown = symbols.for_text(value)
        case _:
            raise TypeError(f"cannot render {type(value)}")
    return shown


def note_literals(value: Any, symbols: Symbols, key: str = "") -> None:
    """Declares the member ids of a request as invented by the scenario."""
    if isinstance(value, dict):
        for k, v in value.items():
            note_literals(v, symbols, k)
    elif isinstance(value, (list, tuple)):
        for v in value:
            note_literals(v, symbols, key)
    elif isinstance(value, str) and key in _MEMBER_KEYS:
        symbols.literal(value)
