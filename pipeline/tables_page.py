"""The page that says what every table and column means, in the documents.

    python -m kohort.pipeline.tables_page

writes ``docs/pipeline-tables.md`` anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kohort.pipeline import quality, tables
from kohort.pipeline.tables import TABLES, Table
from kohort.pipeline.tables import table as words

PAGE: Final = Path("docs/pipeline-tables.md")
_MARK: Final = "<!-- made by: python -m kohort.pipeline.tables_page -->"
_PATHS: Final = (
    "Silver says what groups did, gold what a platform team decides by. In SQL a table"
    ' is called by its layer and its name: `kohort pipeline query "SELECT * FROM'
    ' gold_hours"`. In a build it is a folder of Parquet files, `gold/hours`. See'
    " [the pipeline](pipeline.md)."
)


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from ("# The pipeline's tables", "", _MARK, "", _PATHS, "")
    yield from ("## Terms", "", *_terms(), "")
    for table in TABLES:
        yield from _table(table)
    yield from ("## Checks", "")
    yield "What `gold/quality` has. A share above the threshold marks the run, or fails"
    yield "the build, which is not published then."
    yield from (
        "",
        "| check | counts | threshold | else |",
        "| --- | --- | --- | --- |",
    )
    for name, rule in quality.CHECKS.items():
        yield f"| `{name}` | {rule.says} | {rule.threshold:g} | {rule.otherwise} |"


def _terms() -> list[str]:
    """The terms, which the package's docstring, or that of its tables, explains."""
    for said in (tables.__doc__, words.__doc__):
        _, found, terms = (said or "").partition("Terms:\n")
        if found:
            return terms.replace("``", "`").strip().splitlines()
    raise LookupError("the tables' docstrings have no terms")


def _table(table: Table) -> Iterator[str]:
    yield from (f"## `{table.path}`", "", table.says, "")
    yield from (f"Key: {', '.join(f'`{name}`' for name in table.key)}", "")
    yield from ("| column | type | means |", "| --- | --- | --- |")
    for column in table.columns:
        yield f"| `{column.name}` | `{column.type}` | {column.says} |"
    yield ""


def main() -> None:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
