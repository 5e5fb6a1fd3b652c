"""Checks the settings and the missing APIs in docs/reference/differences.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kohort.broker.config import Config
from kohort.protocol.registry import BY_NAME

DOCS = Path(__file__).parents[1] / "docs" / "reference"
TEXT = (DOCS / "differences.md").read_text()
OPEN = ("none: ", "not yet")
"""Beginnings of the last cell if no setting removes a difference."""


def rows(text: str) -> list[list[str]]:
    """The cells of all tables, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [line[2:-2].split(" | ") for line in lines]
    return [row for row in cells if row[0] not in {"difference", "---"}]


REMOVED = sorted({row[-1] for row in rows(TEXT) if not row[-1].startswith(OPEN)})


def test_each_row_has_three_cells() -> None:
    """The difference, kohort's behaviour, and the setting or a reason."""
    assert {len(row) for row in rows(TEXT)} == {3}
    assert len(REMOVED) > 1


@pytest.mark.parametrize("cell", REMOVED)
def test_the_setting_exists(cell: str) -> None:
    """A key of the broker with a valid value, or an option of the command."""
    found = re.match(r"`(--)?([^`=]+)=?([^`]*)`", cell)
    assert found is not None
    option, name, value = found.groups()
    if option:
        assert f"| `--{name} " in (DOCS / "command-line.md").read_text()
    else:
        assert name in Config({name: value} if value else {})


def test_missing_apis_are_missing() -> None:
    """An API that kohort has is not in the table."""
    section = TEXT.partition("## Missing APIs\n")[2].partition("\n## ")[0]
    lists = [row[0].rpartition(": ")[2] for row in rows(section)]
    missing = {name for names in lists for name in names.split(", ")}
    assert "ShareGroupDescribe" in missing
    assert all(re.fullmatch("[A-Z][A-Za-z]+", name) for name in missing)
    assert not missing & BY_NAME.keys()
