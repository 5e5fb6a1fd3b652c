"""docs/reference/faults.md lists every key of a rule, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kohort.broker.faults.plan import Faults
from kohort.broker.faults.rule import EFFECTS, SELECTORS, TRIGGERS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "faults.md").read_text()


@pytest.mark.parametrize(
    ("title", "keys"),
    [("Selectors", SELECTORS), ("Triggers", TRIGGERS), ("Effects", EFFECTS)],
)
def test_tables(title: str, keys: dict[str, object]) -> None:
    """The first column of each table has the keys."""
    (table,) = re.findall(rf"^## {title}\n(.*?)^## ", PAGE, re.DOTALL | re.MULTILINE)
    rows = re.findall(r"^\| `([a-z_]+)", table, re.MULTILINE)
    assert {*rows} == {*keys}


def test_methods() -> None:
    """The methods that the page names exist."""
    (table,) = re.findall(r"^\| method .*?\n\n", PAGE, re.DOTALL | re.MULTILINE)
    names = re.findall(r"`([a-z_]+)\(", table)
    assert len(names) == len(EFFECTS) + 1
    assert all(callable(getattr(Faults, name)) for name in names)
