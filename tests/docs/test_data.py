"""Files that the pages show can be read, and code of other languages is tested code."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Final

import yaml
from tests.docs.blocks import BLOCKS, ROOT, Block, blocks, each

from kohort.broker.config import Config
from kohort.broker.faults.plan import parse_plan
from kohort.simulation.scenario import happenings
from kohort.simulation.scenario.model import parse
from kohort.simulation.sweep import grid as sweep

RUN: Final = {"console", "python", "sh"}
READ: Final = {"json", "toml", "yaml"}
TESTED: Final = {"go", "java", "javascript", "js"}
OUTPUT: Final = {"", "text"}
MOST_NOT_RUN: Final = 20
INTEROP: Final = (ROOT / "tests/examples/test_other_languages.py").read_text()
SOURCES: Final = [
    path.read_text()
    for folder in ("examples", "tests/clients_table/reproductions")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".go", ".java", ".js"} and "node_modules" not in path.parts
]


def is_in(code: str, source: str) -> bool:
    """Returns whether the source has the code's lines in order; "..." is a gap."""
    lines = iter([line.strip() for line in source.splitlines()])
    wanted = (line.strip() for line in code.splitlines())
    return all(line in lines for line in wanted if line not in {"", "..."})


@each(blocks(*READ))
def test_data(block: Block, tmp_path: Path) -> None:
    """It can be read by the program that it is for."""
    if block.language == "yaml":
        assert yaml.safe_load(block.text)
    elif block.language == "json":
        assert json.loads(block.text)
    elif "[[fault]]" in block.text:
        parse_plan(tomllib.loads(block.text))
    elif "[grid]" in block.text:
        assert sweep.parse("sweep", tomllib.loads(block.text), tmp_path).goals
    elif "[groups." in block.text:
        happenings.read(parse("scenario", tomllib.loads(block.text)))
    else:
        file = tmp_path / "kohort.toml"
        file.write_text(block.text)
        Config.load(file=file)


@each(blocks(*TESTED))
def test_other_languages(block: Block) -> None:
    """The lines stand in a file that is tested, in this order.

    Or `tests.examples` takes the code from the page, and runs it.
    """
    if Path(block.page).name not in INTEROP:
        assert any(is_in(block.text, source) for source in SOURCES)


def test_each_language_has_a_runner() -> None:
    """A block in another language would not be tested."""
    known = {*RUN, *READ, *TESTED, *OUTPUT}
    assert not [str(block) for block in BLOCKS if block.language not in known]


def test_few_blocks_are_not_run() -> None:
    """Each has a reason. This number may become smaller."""
    not_run = [block for block in BLOCKS if block.not_run]
    assert all(block.language not in OUTPUT for block in not_run)
    assert len(not_run) <= MOST_NOT_RUN, [str(block) for block in not_run]
