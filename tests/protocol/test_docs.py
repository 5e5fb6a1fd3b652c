"""docs/wire.md says what the code says."""

from __future__ import annotations

import doctest
from pathlib import Path

from kohort.protocol.registry import APIS, Api

WIRE = (Path(__file__).parents[2] / "docs" / "wire.md").read_text(encoding="utf-8")


def _row(api: Api) -> str:
    versions = f"{api.oldest} to {api.newest}"
    if api.oldest == api.newest:
        versions = str(api.oldest)
    flexible = "" if api.flexible is None else api.flexible
    return f"| {api.key} | {api.name} | {versions} | {flexible} |"


def test_the_table_of_apis_is_the_registry() -> None:
    """Every API with its versions, in order, and no other."""
    begin = WIRE.index("| key | API | versions | flexible from |")
    table = WIRE[begin:].split("\n\n")[0].splitlines()
    assert table[2:] == [_row(api) for api in APIS]


def test_the_examples_work() -> None:
    """What the page shows is what one gets."""
    page = WIRE.replace("```", "")
    test = doctest.DocTestParser().get_doctest(page, {}, "wire.md", None, 0)
    assert len(test.examples) == 7
    assert doctest.DocTestRunner().run(test).failed == 0
