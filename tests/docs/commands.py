"""The command lines of the pages."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final
from unittest import mock

import click
from tests.docs.blocks import ROOT

from kohort.broker.config import Config
from kohort.control.cli import cli

HARMLESS: Final = {"cat", "curl", "echo", "eval", "printf"}
"""Programs that any machine has, and that may run in a test."""
TOOLS: Final = {".", "mypy", "pip", "pytest", "python3", "ruff", "sphinx-build"}
"""Programs of an environment for development; CI runs each of them."""
_OPERATORS: Final = {"&&", "||", "|", ";", "&"}
_REDIRECTIONS: Final = {">", ">>", "<"}


def lines_of(language: str, text: str) -> Iterator[tuple[str, list[str]]]:
    """The command lines of a block, each with the lines that the page shows after it.

    In a console block they follow a "$ "; all lines of a shell block are commands.
    """
    found: list[tuple[str, list[str]]] = []
    for line in text.replace("\\\n", "").splitlines():
        if language == "sh":
            found.append((line, []))
        elif line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        elif found:
            found[-1][1].append(line)
    yield from (each for each in found if each[0].partition("#")[0].strip())


def programs_of(line: str) -> Iterator[list[str]]:
    """The arguments of each program of a line, without variables and redirections."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    program: list[str] = []
    skips = False
    for word in [*words, ";"]:
        if skips:
            skips = False
        elif word in _OPERATORS:
            if program:
                yield program
            program = []
        elif word in _REDIRECTIONS:
            skips = True
        elif program or not re.match(r"[A-Z_]+=", word):
            program.append(word)


def check_kohort(arguments: list[str]) -> None:
    """Parses the arguments of a `kohort`, as far as it can be done without running it.

    Raises:
        click.UsageError: a command or option is unknown, or a value is invalid.
        ConfigError: so is a setting of the broker.
    """
    contexts: list[click.Context] = []
    with mock.patch.object(click.Command, "invoke", lambda _, it: contexts.append(it)):
        cli(arguments, prog_name="kohort", standalone_mode=False)
    for it in contexts:
        Config.load(it.params.get("sets", ()))


def check_module(arguments: list[str]) -> None:
    """Checks a `python -m` of this repository: the module and its options exist."""
    module, *rest = arguments
    path = ROOT / module.replace(".", "/")
    exists = path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()
    assert exists, f"there is no module {module}"
    folder = path if path.is_dir() else path.parent
    files = [*folder.glob("*.py")]
    if module.startswith("tests."):
        files.append(ROOT / "tests" / "long_runs" / "__init__.py")  # common options
    source = "\n".join(file.read_text() for file in files)
    for option in rest:
        name = option.partition("=")[0]
        if name.startswith("--"):
            assert f'"{name}"' in source, f"{module} has no {name}"
