"""Records as text and as JSON; points in time as people write them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.client.consuming.chunks import ConsumerRecord
from kohort.control.kafka.rendering import (
    Format,
    as_json_line,
    from_json,
    shown_bytes,
    shown_places,
)
from kohort.control.kafka.times import duration_ms, shown_time, time_ms
from kohort.control.tables import show, table
from kohort.control.terminal import printable


def record(**fields: Any) -> ConsumerRecord:
    """A record with something in every field."""
    usual: dict[str, Any] = {
        "topic": "t",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_700_000_000_123,
        "timestamp_type": 0,
        "key": b"k",
        "value": b"v",
        "headers": [("a", b"1"), ("a", None)],
        "leader_epoch": 0,
    }
    return ConsumerRecord(**(usual | fields))


def safe(data: bytes) -> bytes:
    """As a program gets it."""
    return shown_bytes(data, is_terminal=False)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (r"%t-%p@%o %k=%s\n", b"t-3@42 k=v\n"),
        (r"%v\t%K %S %h", b"v\t1 1 a=1,a=null"),
        (r"%T %D", b"1700000000123 2023-11-14T22:13:20.123Z"),
        (r"100%% \\ \x00\0\r|", b"100% \\ \0\0\r|"),
        ("ä\n", "ä\n".encode()),
        ("", b""),
    ],
)
def test_a_format(text: str, printed: bytes) -> None:
    """Letters of kcat stand for parts of a record, escapes for bytes."""
    assert Format(text, b"null", safe)(record()) == printed


def test_nothing_in_a_record() -> None:
    """Null is the user's text; sizes of null are -1, as in kcat."""
    nothing = record(key=None, value=None, headers=[], timestamp=-1)
    shown = Format("%k|%s|%h|%K|%S|%T|%D", b"NULL", safe)(nothing)
    assert shown == b"NULL|NULL||-1|-1|-1|"


@pytest.mark.parametrize("text", ["%q", "a%", "\\", r"\q", r"\x1", "% s"])
def test_a_format_that_is_none(text: str) -> None:
    """The error lists the letters."""
    with pytest.raises(ValueError, match="%t %p %o %k"):
        Format(text, b"", safe)


def test_bytes_that_are_no_text() -> None:
    """Programs get UTF-8 in any case; terminals nothing that moves their cursor."""
    data = b"\xff\xfe ok \x1b[2J \xc3\xa4\n\t"
    assert safe(data) == b"\\xff\\xfe ok \x1b[2J \xc3\xa4\n\t"
    on_terminal = shown_bytes(data, is_terminal=True)
    assert on_terminal == b"\\xff\\xfe ok \\x1b[2J \xc3\xa4\n\t"
    assert printable("a\x9b\u202eb") == "a\\x9b\\u202eb"


def test_a_name_of_several_lines_is_one_row(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Otherwise a client could add rows to any list."""
    show(table(("group", "state"), [["a\nb  Stable\r\tc", "Empty"]]))
    assert capsys.readouterr().out.splitlines() == [
        "GROUP              STATE",
        "a\\nb  Stable\\r\\tc  Empty",
    ]


binary = st.none() | st.binary(max_size=20)


@given(
    key=binary,
    value=binary,
    headers=st.lists(st.tuples(st.text(max_size=5), binary), max_size=3),
    timestamp=st.integers(-1, 2**62),
)
def test_records_survive_json(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    timestamp: int,
) -> None:
    """`produce` accepts the output of `consume`, without loss, one line each."""
    line = as_json_line(
        record(key=key, value=value, headers=headers, timestamp=timestamp)
    )
    assert line.count(b"\n") == 1
    found = from_json(line)
    assert (found["key"], found["value"]) == (key, value)
    assert [*found["headers"]] == headers
    assert found["partition"] == 3
    assert found.get("timestamp_ms", -1) == timestamp
    assert "offset" not in found


def test_json_for_programs() -> None:
    """Text is text, and other bytes are base64 under a name that says so."""
    assert json.loads(as_json_line(record(key=b"\xff", timestamp=-1))) == {
        "topic": "t",
        "partition": 3,
        "offset": 42,
        "timestamp": None,
        "key_base64": "/w==",
        "value": "v",
        "headers": [{"name": "a", "value": "1"}, {"name": "a", "value": None}],
    }


def test_json_by_hand() -> None:
    """All fields may be left out; headers may be an object."""
    assert from_json(b"{}") == {"key": None, "value": None}
    found = from_json(b'{"value": "x", "headers": {"a": "1", "b": null}}')
    assert found["headers"] == [("a", b"1"), ("b", None)]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"val": 1}', "val: unknown field"),
        (b'{"value": 1}', "value: is not a string"),
        (b'{"value": "\\ud800"}', "value: has an incomplete character"),
        (b'{"value": "a", "value_base64": "YQ=="}', "value_base64: there is value"),
        (b'{"key_base64": "?"}', "key_base64: is not base64"),
        (b'{"key_base64": 1}', "key_base64: is not base64"),
        (b'{"partition": -1}', "partition: -1 must be a number"),
        (b'{"timestamp": true}', "timestamp: True must be a number"),
        (b'{"headers": 1}', "headers: is neither a list"),
        (b'{"headers": [1]}', "headers: a header has no name"),
        (b'{"headers": [{"name": "a", "v": 1}]}', "headers: v: unknown field"),
    ],
)
def test_json_that_is_no_record(line: bytes, why: str) -> None:
    """The error names the field."""
    with pytest.raises(ValueError, match=why):
        from_json(line)


def test_partitions_in_brief() -> None:
    """Runs of numbers are short, in the order of names and numbers."""
    places = [("b", 0), ("a", 11), ("a", 2), ("a", 0), ("a", 1)]
    assert shown_places(places) == "a 0-2,11; b 0"
    assert shown_places([]) == ""


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("90s", 90_000),
        ("1.5h", 5_400_000),
        ("250ms", 250),
        ("2w", 1_209_600_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("PT15M", 900_000),
    ],
)
def test_a_duration(text: str, ms: int) -> None:
    """Short, or as Kafka's tools have it."""
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "5", "P", "PT", "-5s", "1y", "5 s", "٣s"])
def test_a_duration_that_is_none(text: str) -> None:
    """The error has examples."""
    with pytest.raises(ValueError, match="write 90s"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20.123", 1_700_000_000_123),
        ("2023-11-14T23:13:20.123+01:00", 1_700_000_000_123),
        ("1970-01-02", 86_400_000),
    ],
)
def test_a_point_in_time(text: str, ms: int) -> None:
    """In UTC unless it says something else, wherever the machine is."""
    assert time_ms(text) == ms


@pytest.mark.parametrize("text", ["", "yesterday", "1969-12-31", "-5", "٣"])
def test_a_point_in_time_that_is_none(text: str) -> None:
    """Before the epoch there are no records."""
    with pytest.raises(ValueError, match=r"is not a time|before 1970"):
        time_ms(text)


def test_times_beyond_the_calendar() -> None:
    """A producer may send any number."""
    assert shown_time(2**62) == str(2**62)
    assert shown_time(0) == "1970-01-01T00:00:00.000Z"
