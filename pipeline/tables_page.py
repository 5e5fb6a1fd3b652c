"""The page of the documents with all tables and columns, and their meanings.

    python -m kohort.pipeline.tables_page

writes ``docs/reference/pipeline-tables.md`` anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kohort.pipeline import quality
from kohort.pipeline.tables import TABLES, Table, table

PAGE: Final = Path("docs/reference/pipeline-tables.md")
_MARK: Final = "<!-- made by: python -m kohort.pipeline.tables_page -->"
_PATHS: Final = (
    "Silver has the activity of groups, gold the numbers for decisions. In SQL, a table"
    ' is named after its layer and itself: `kohort pipeline query "SELECT * FROM'
    ' gold_hours"`. In a build it is a folder of Parquet files, `gold/hours`. See'
    " [the pipeline](pipeline.md)."
)


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from ("# The pipeline's tables", "", _MARK, "", _PATHS, "")
    yield from ("## Terms", "", *_terms(), "")
    for each in TABLES:
        yield from _table(each)
    yield from ("## Checks", "")
    yield "The rows of `gold/quality`. A share above the threshold marks the run, or"
    yield "fails the build, which is then not published."
    yield from (
        "",
        "| check | counts | threshold | outcome above |",
        "| --- | --- | --- | --- |",
    )
    for name, rule in quality.CHECKS.items():
        yield f"| `{name}` | {rule.says} | {rule.threshold:g} | {rule.otherwise} |"


def _terms() -> list[str]:
    """The terms, from the docstring of `kohort.pipeline.tables.table`."""
    terms = (table.__doc__ or "").partition("Terms:\n")[2]
    return terms.replace("``", "`").strip().splitlines()


def _table(each: Table) -> Iterator[str]:
    yield from (f"## `{each.path}`", "", each.says, "")
    yield from (f"Key: {', '.join(f'`{name}`' for name in each.key)}", "")
    yield from ("| column | type | meaning |", "| --- | --- | --- |")
    for column in each.columns:
        yield f"| `{column.name}` | `{column.type}` | {column.says} |"
    yield ""


def main() -> None:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
