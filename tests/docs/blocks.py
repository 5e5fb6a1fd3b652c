"""The code blocks of all pages.

A page can say three things about the block that follows, in comments that readers do
not see:

    <!-- not run: it takes minutes -->
    <!-- broker: nodes=3 group.max.size=1 -->
    <!-- output: of a group that crashed -->

The first one excludes the block, with the reason. The second one has the broker that a
Python block needs: `nodes`, `clock`, and configuration keys. The third one says why the
output that the page shows is not compared.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
]
_BLOCK: Final = re.compile(
    r"(?P<comments>(?:^ *<!--.*-->\n+)*)"
    r"^(?P<indent> *)```(?P<language>\S*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"<!-- (not run|broker|output): (.*?) -->")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page.

    Attributes:
        page: the page's path from the root of the repository.
        line: the line of the page in which the text begins, from 1 on.
        language: "" if it has none.
        text: the code, without the indentation of the block.
        not_run: the reason, or "" if it is to be run.
        broker: the broker that it needs, as words.
        output: why its output is not compared, or "".
    """

    page: str
    line: int
    language: str
    text: str
    not_run: str
    broker: str
    output: str

    def __str__(self) -> str:
        """The place, as an editor takes it."""
        return f"{self.page}:{self.line}"


def blocks_of(page: Path) -> Iterator[Block]:
    """The blocks of a page; directives of Sphinx are none."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        comments = dict(_COMMENT.findall(found["comments"]))
        if not found["language"].startswith("{"):
            yield Block(
                str(page.relative_to(ROOT)),
                text.count("\n", 0, found.start("text")) + 1,
                found["language"],
                textwrap.dedent(found["text"]),
                comments.get("not run", ""),
                comments.get("broker", ""),
                comments.get("output", ""),
            )


BLOCKS: Final = [block for page in PAGES for block in blocks_of(page)]


def blocks(*languages: str) -> list[Block]:
    """The blocks in these languages that are to be run."""
    return [b for b in BLOCKS if b.language in languages and not b.not_run]


def each(blocks: list[Block]) -> pytest.MarkDecorator:
    """A test for each of the blocks."""
    return pytest.mark.parametrize("block", blocks, ids=str)
