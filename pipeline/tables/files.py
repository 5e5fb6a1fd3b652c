"""Reads the definitions of tables: a file of SQL each, ``silver/runs.sql``.

A file begins with a comment: the meaning of a row, the key, and a line for each column
with its name, type and meaning. The query that makes the table follows; without one a
function does, see `kohort.pipeline.silver` and `kohort.pipeline.gold`. A word in braces
stands for the broker's words of that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from kohort.pipeline.event_schema import WORDS
from kohort.pipeline.tables.table import Column, Table

_COMMENT: Final = re.compile(r"\A(?:--.*\n)+")
_COLUMN: Final = re.compile(r"(\w+) (\S+): (.+)")
_KEY: Final = "key: "
_MORE: Final = re.compile(r"and those of (\w+)\.sql")


def read(path: str) -> Table:
    """The definition of a table."""
    layer, name = path.split("/")
    comment, sql = _parts(path)
    head, _, rest = comment.partition(_KEY)
    key, _, columns = rest.partition("\n")
    return Table(
        name,
        layer,
        " ".join(head.split()),
        tuple(each for each in key.split(", ") if each != "-"),
        tuple(_columns(columns, layer)),
        sql,
    )


def views() -> Mapping[str, str]:
    """Queries that several tables read, by the names of their views."""
    folder = files(__package__).joinpath("views")
    return MappingProxyType(
        {
            each.name.removesuffix(".sql"): each.read_text(encoding="utf-8")
            for each in sorted(folder.iterdir(), key=lambda file: file.name)
        }
    )


def _parts(path: str) -> tuple[str, str]:
    """The comment of a file, without its marks, and the query."""
    text = files(__package__).joinpath(f"{path}.sql").read_text(encoding="utf-8")
    found = _COMMENT.match(text)
    comment = found[0] if found else ""
    lines = (each.removeprefix("--").removeprefix(" ") for each in comment.splitlines())
    return "\n".join(lines), text.removeprefix(comment).strip()


def _columns(text: str, layer: str) -> Iterator[Column]:
    """The columns of lines; a line that is indented continues the one before."""
    for line in re.sub(r"\n +", " ", text).splitlines():
        if more := _MORE.fullmatch(line):
            yield from _columns(_parts(f"{layer}/{more[1]}")[0], layer)
        elif found := _COLUMN.fullmatch(line):
            name, type_, says = found.groups()
            yield Column(name, type_, re.sub(r"\{(\w+)\}", _words, says))


def _words(found: re.Match[str]) -> str:
    return ", ".join(WORDS[found[1]])
