"""The pages about testing: the tutorial passes, and the reference is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kohort.testing import Group, Kohort, Process, ScriptedMember
from kohort.testing.marker import NAMES, TEST_CONFIG

DOCS = Path(__file__).parents[2] / "docs"


def section(heading: str) -> str:
    """A section of the reference."""
    page = (DOCS / "reference" / "testing-reference.md").read_text()
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def named(heading: str) -> set[str]:
    """The names in the first columns of a section's tables."""
    cells = re.findall(r"^\| (`.*?) \|", section(heading), re.MULTILINE)
    return {code for cell in cells for code in re.findall(r"`(\w+)[^`]*`", cell)}


@pytest.mark.parametrize(
    ("heading", "cls"), [("A group", Group), ("A program", Process)]
)
def test_the_reference_names_what_exists(heading: str, cls: type) -> None:
    """Each public name of a class is there, and no other."""
    public = {name for name in dir(cls) if not name.startswith("_")}
    unlisted = {"group_id", "is_done", "name", "pid", "arguments", "result"}
    assert named(heading) <= public
    assert public - named(heading) <= unlisted


def test_the_reference_has_the_whole_marker() -> None:
    """All keywords, and the configuration that differs from Kafka's."""
    assert named("The marker") == set(NAMES)
    assert all(key in section("The marker") for key in TEST_CONFIG)


def test_the_reference_has_the_whole_fixture(kohort: Kohort) -> None:
    """All public names of the fixture, and of a scripted member."""
    public = {name for name in dir(kohort) if not name.startswith("_")}
    text = section("The fixture `kohort`")
    unlisted = {"close", "forgotten", "misses", "processes"}
    assert {name for name in public if f"`{name}" not in text} == unlisted
    member = {name for name in dir(ScriptedMember) if not name.startswith("_")}
    text = section("A scripted member")
    assert {name for name in member if f"`{name}" not in text} == set()
