"""The tables of the client's page match the code."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from kohort.client import Admin, Producer, errors
from kohort.client.config import (
    AdminConfig,
    CommonConfig,
    ConsumerConfig,
    ProducerConfig,
)
from kohort.client.errors import BrokerError, KohortError, error_of
from kohort.protocol.errors import ErrorCode

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "client.md"
DOCUMENT = PAGE.read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its two head lines."""
    _, _, text = DOCUMENT.partition(f"{heading}\n")
    text = re.split(r"^#", text, maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in text.splitlines() if line[:1] == "|"]
    assert lines, f"no table under {heading!r}"
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


def default(value: object) -> str:
    """A default in the notation of the page."""
    if isinstance(value, tuple):
        value = ", ".join(value)
    elif isinstance(value, bool):
        value = str(value).lower()
    return f"`{value}`" if value != "" else '`""`'


@pytest.mark.parametrize(
    ("heading", "config", "others"),
    [
        ("### All clients", CommonConfig, None),
        ("### Consumer", ConsumerConfig, CommonConfig),
        ("### Producer", ProducerConfig, CommonConfig),
    ],
)
def test_the_settings_are_those_of_the_code(
    heading: str, config: type[CommonConfig], others: type[CommonConfig] | None
) -> None:
    """Names and defaults, in the order of the code, each with a meaning."""
    above = {each.name for each in dataclasses.fields(others)} if others else set()
    documented = rows(heading)
    assert [row[:2] for row in documented] == [
        [f"`{each.name}`", default(each.default)]
        for each in dataclasses.fields(config)
        if each.name not in above
    ]
    assert all(row[2] for row in documented)


def test_an_admin_client_has_no_settings_of_its_own() -> None:
    """As the page says."""
    assert "Also `AdminConfig`, which has no others." in DOCUMENT
    names = {each.name for each in dataclasses.fields(CommonConfig)}
    assert {each.name for each in dataclasses.fields(AdminConfig)} == names


def test_the_errors_are_those_of_the_code() -> None:
    """All classes, and whether they are retriable."""
    made: dict[str, set[bool]] = {}
    for code in ErrorCode:
        if code > 0:
            error = error_of(code)
            made.setdefault(type(error).__name__, set()).add(error.retriable)
    expected = {}
    for name, cls in vars(errors).items():
        if isinstance(cls, type) and issubclass(cls, KohortError):
            is_parent = cls in (KohortError, BrokerError)
            found = made.get(name, {cls("").retriable})
            expected[f"`{name}`"] = (
                "depends"
                if is_parent
                else " or ".join("yes" if r else "no" for r in found)
            )
    assert {row[0]: row[1] for row in rows("## Errors")} == expected


def test_the_calls_of_the_admin_client_are_those_of_the_code() -> None:
    """Each call is in the table, and each one in the table exists."""
    documented = re.findall(
        r"`(\w+)`", " ".join(r[1] for r in rows("## The admin client"))
    )
    public = {name for name in dir(Admin) if not name.startswith("_")}
    assert sorted(documented) == sorted(public - {"start", "close", "cluster"})


def test_a_producer_shows_only_what_the_page_has() -> None:
    """Calls of its sender and of its transactions are not its own."""
    public = {name for name in dir(Producer) if not name.startswith("_")}
    told = {name for name in public if re.search(rf"[`.]{name}\b", DOCUMENT)}
    assert public == told
