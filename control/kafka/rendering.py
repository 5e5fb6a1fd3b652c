"""Records as bytes to print: by a format, or as JSON."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from kohort.client.consuming.chunks import ConsumerRecord
from kohort.client.offsets import TopicPartition
from kohort.control.kafka.times import shown_time
from kohort.control.terminal import printable, ranges

Render = Callable[[ConsumerRecord], bytes]

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_PARTS = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{2}|.?)|([^%\\]+)", re.DOTALL)
_FIELDS = {"topic", "partition", "offset", "timestamp", "key", "value", "headers"}


def shown_bytes(data: bytes, *, is_terminal: bool) -> bytes:
    r"""Bytes as UTF-8, with ``\xff`` for invalid ones."""
    text = data.decode("utf-8", "backslashreplace")
    return (printable(text, kept="\n\t") if is_terminal else text).encode()


class Format:
    """The format of printed records, as in kcat.

    Args:
        text: text with escapes, and ``%`` and a letter for parts of the record.
        null: the text for null.
        shown: makes keys, values and headers fit to be printed.

    Raises:
        ValueError: it has something in it that is not known.
    """

    def __init__(self, text: str, null: bytes, shown: Callable[[bytes], bytes]) -> None:
        self._null = null
        self._shown = shown
        self._parts: list[bytes | Render] = []
        for percent, escape, plain in _PARTS.findall(text):
            self._parts.append(self._part(percent, escape, plain, text))

    def __call__(self, record: ConsumerRecord) -> bytes:
        """The bytes to print."""
        return b"".join(
            part if isinstance(part, bytes) else part(record) for part in self._parts
        )

    def _part(self, percent: str, escape: str, plain: str, text: str) -> bytes | Render:
        if plain:
            return plain.encode()
        if percent == "%":
            return b"%"
        if percent in _LETTERS and percent:
            return _LETTERS[percent](self)
        if escape.startswith("x") and len(escape) == 3:
            return bytes.fromhex(escape[1:])
        if escape in _ESCAPES and escape:
            return _ESCAPES[escape]
        wrong = f"\\{escape}" if escape else f"%{percent}"
        raise ValueError(
            f"{text!r} has {wrong!r}; known are %{' %'.join(_LETTERS)} %% "
            r"and \n \t \r \0 \\ \xff"
        )

    def value(self, record: ConsumerRecord) -> bytes:
        """The value."""
        return self._null if record.value is None else self._shown(record.value)

    def key(self, record: ConsumerRecord) -> bytes:
        """The key."""
        return self._null if record.key is None else self._shown(record.key)

    def headers(self, record: ConsumerRecord) -> bytes:
        """The headers, as in ``a=1,b=2``."""
        return b",".join(
            self._shown(name.encode())
            + b"="
            + (self._null if value is None else self._shown(value))
            for name, value in record.headers
        )


def _number(of: Callable[[ConsumerRecord], object]) -> Callable[[Format], Render]:
    return lambda _: lambda record: str(of(record)).encode()


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


_LETTERS: dict[str, Callable[[Format], Render]] = {
    "t": _number(lambda r: r.topic),
    "p": _number(lambda r: r.partition),
    "o": _number(lambda r: r.offset),
    "k": lambda rendered: rendered.key,
    "K": _number(lambda r: _size(r.key)),
    "s": lambda rendered: rendered.value,
    "v": lambda rendered: rendered.value,
    "S": _number(lambda r: _size(r.value)),
    "h": lambda rendered: rendered.headers,
    "T": _number(lambda r: r.timestamp),
    "D": _number(lambda r: shown_time(r.timestamp)),
}


def as_json_line(record: ConsumerRecord) -> bytes:
    """A record as a line of JSON, without loss; `from_json` reads it."""
    headers = [{"name": name, **_field("value", v)} for name, v in record.headers]
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": None if record.timestamp < 0 else record.timestamp,
        **_field("key", record.key),
        **_field("value", record.value),
        "headers": headers,
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def _field(name: str, data: bytes | None) -> dict[str, Any]:
    """Bytes under a name; under another name where they are no text."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def from_json(line: bytes) -> dict[str, Any]:
    """The arguments of a `Producer.send` in a line of JSON, the topic aside.

    Raises:
        ValueError: it is no record.
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError("is not a JSON object")  # noqa: TRY004 - of the line's text
    rest = dict(fields)
    found: dict[str, Any] = {name: _bytes(rest, name) for name in ("key", "value")}
    headers = rest.pop("headers", None)
    if headers is not None:
        found["headers"] = _headers(headers)
    for name, argument in (("partition", "partition"), ("timestamp", "timestamp_ms")):
        number = rest.pop(name, None)
        if number is not None and (type(number) is not int or number < 0):
            raise ValueError(f"{name}: {number!r} must be a number from 0 on")
        if number is not None:
            found[argument] = number
    unknown = rest.keys() - _FIELDS
    if unknown:
        raise ValueError(f"{min(unknown)}: unknown field")
    return found


def _bytes(fields: dict[str, Any], name: str) -> bytes | None:
    """Takes a field out, in either of its forms."""
    text, coded = fields.pop(name, None), fields.pop(f"{name}_base64", None)
    if text is not None and coded is not None:
        raise ValueError(f"{name}_base64: there is {name} already")
    if coded is not None:
        try:
            return base64.b64decode(coded, validate=True)
        except (ValueError, TypeError):
            raise ValueError(f"{name}_base64: is not base64") from None
    if text is not None and not isinstance(text, str):
        raise ValueError(f"{name}: is not a string")
    try:
        return None if text is None else text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name}: has an incomplete character") from None


def _headers(rows: object) -> list[tuple[str, bytes | None]]:
    """An object of names and values, or a list of them as `as_json_line` writes it."""
    if isinstance(rows, dict):
        rows = [{"name": name, "value": value} for name, value in rows.items()]
    if not isinstance(rows, list):
        raise ValueError("headers: is neither a list nor an object")  # noqa: TRY004 - as above
    found = []
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("name"), str):
            raise ValueError("headers: a header has no name")  # noqa: TRY004 - as above
        fields = dict(row)
        found.append((fields.pop("name"), _bytes(fields, "value")))
        if fields:
            raise ValueError(f"headers: {min(fields)}: unknown field")
    return found


def shown_places(places: Iterable[tuple[str, int]]) -> str:
    """Partitions in brief: "orders 0-5,7; payments 0"."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(TopicPartition(*place) for place in places):
        topics.setdefault(topic, []).append(partition)
    return "; ".join(f"{topic} {ranges(rows)}" for topic, rows in topics.items())
