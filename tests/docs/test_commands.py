"""The commands of the pages: their options exist, and they print what is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click
import pytest
from tests.docs.blocks import BLOCKS, Block, each
from tests.docs.commands import (
    HARMLESS,
    TOOLS,
    check_kohort,
    check_module,
    lines_of,
    programs_of,
)
from tests.docs.session import Terminal

from kohort.broker.config import ConfigError

SHELL: Final = [b for b in BLOCKS if b.language in {"sh", "console"}]
_COMMAND: Final = re.compile(
    r"^(?:\$ |kohort (?!accepts)\w|python -m |pip |curl |docker |mvn )", re.MULTILINE
)


@each(SHELL)
def test_the_commands_exist(block: Block) -> None:
    """Each `kohort` of a block is parsed; other programs are known, or not run."""
    for line, _ in lines_of(block.language, block.text):
        for program in programs_of(line):
            name = program[0].rpartition("/")[2]
            if name == "kohort":
                check_kohort(program[1:])
            elif program[:2] == ["python", "-m"]:
                check_module(program[2:])
            elif name not in HARMLESS | TOOLS:
                assert block.not_run, f"{name}: say why it is not run"


def test_commands_are_marked() -> None:
    """A block with a command says that it is one, so that the next scenes see it."""
    unmarked = [
        str(block)
        for block in BLOCKS
        if block.language in {"", "text"} and _COMMAND.search(block.text)
    ]
    assert not unmarked


@pytest.mark.parametrize(
    "line",
    ["serve --prot 1", "nope", "serve --nodes 0", "serve --set group.max.siez=1"],
)
def test_a_wrong_command_is_found(line: str) -> None:
    """Else the scenes above would prove nothing."""
    with pytest.raises((click.UsageError, ConfigError)):
        check_kohort(line.split())


def is_run(line: str) -> bool:
    """Returns whether a line needs kohort alone; other tests run the other lines."""
    elsewhere = {"demo", "pipeline", "run", "top"}
    return all(
        program[0] in HARMLESS
        or (program[0] == "kohort" and not elsewhere & {*program})
        for program in programs_of(line)
    )


def shape(output: str) -> set[str]:
    """The part of the output that no broker, time or load changes.

    The names of fields for JSON, and otherwise the first word of each line.
    """
    if output.startswith("{"):
        return set(re.findall(r'"(\w+)":', output))
    words = {line.split()[0] for line in output.splitlines() if line.strip()}
    varies = r"[\w-]+-[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT\S+|[\d.:]+"
    return {re.sub(varies, "#", word) for word in words}


@pytest.mark.long
@pytest.mark.parametrize("page", sorted({block.page for block in SHELL}))
def test_the_commands_of_a_page_run(page: str, tmp_path: Path) -> None:
    """One after the other, in one folder; they print what the page shows."""
    blocks = [block for block in SHELL if block.page == page]
    transacts = any("transactions" in block.text for block in blocks)
    with Terminal(tmp_path, transacts=transacts) as terminal:
        for block in blocks:
            if not block.not_run:
                for line, shown in lines_of(block.language, block.text):
                    if is_run(line):
                        check(terminal, line, [] if block.output else shown)


def check(terminal: Terminal, line: str, shown: list[str]) -> None:
    """Runs a command line. It fails if the page shows an error, and only then.

    A simulation whose output is not compared is played with one seed.
    """
    if not shown:
        line = re.sub(r"--seeds (\d+)\.\.\d+", r"--seeds \1..\1", line)
    code, output = terminal.run(line)
    text = "\n".join(shown)
    assert bool(code) == ("has no key" in text), (line, output)
    # Of a command that is interrupted only the beginning is sure.
    if "^C" in shown:
        text = shown[0]
    assert shape(text) <= shape(output), (line, output)
