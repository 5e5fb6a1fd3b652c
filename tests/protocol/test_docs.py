"""docs/reference/wire.md agrees with the code."""

from __future__ import annotations

from pathlib import Path

from kohort.protocol.registry import APIS, Api

WIRE = (Path(__file__).parents[2] / "docs" / "reference" / "wire.md").read_text(
    encoding="utf-8"
)


def _row(api: Api) -> str:
    versions = f"{api.oldest} to {api.newest}"
    if api.oldest == api.newest:
        versions = str(api.oldest)
    flexible = "" if api.flexible is None else api.flexible
    return f"| {api.key} | {api.name} | {versions} | {flexible} |"


def test_the_table_of_apis_is_the_registry() -> None:
    """The table has every API with its versions, in order."""
    begin = WIRE.index("| key | API | versions | flexible from |")
    table = WIRE[begin:].split("\n\n")[0].splitlines()
    assert table[2:] == [_row(api) for api in APIS]
