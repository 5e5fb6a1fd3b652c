"""Compiled templates are kept, and compiled again if they have changed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from jinja2 import Environment, FileSystemLoader

from kohort.pipeline.report.compiled import Compiled

pytestmark = pytest.mark.spark


class Counting(Environment):
    """Counts the templates that it compiles."""

    compiled = 0

    def _generate(self, *arguments: object, **more: object) -> str:
        self.compiled += 1
        return super()._generate(*arguments, **more)  # type: ignore[arg-type]


def environment(folder: Path, *, autoescape: bool = True) -> Counting:
    """An environment of another process, as it has loaded nothing yet."""
    made = Counting(loader=FileSystemLoader(folder), autoescape=autoescape)
    made.bytecode_cache = Compiled(made, folder)
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a template, and room for compiled ones."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "a.html").write_text("{{ name }}")
    return tmp_path


def rendered(made: Counting) -> tuple[str, int]:
    """The text of the template, and the number of templates compiled for it."""
    return made.get_template("a.html").render(name="<b>"), made.compiled


def test_a_template_is_compiled_once(folder: Path) -> None:
    """The second process finds it."""
    assert rendered(environment(folder)) == ("&lt;b&gt;", 1)
    assert len([*(folder / "__pycache__").iterdir()]) == 1
    assert rendered(environment(folder)) == ("&lt;b&gt;", 0)


def test_changes_count(folder: Path) -> None:
    """Of the text, and of the settings."""
    rendered(environment(folder))
    assert rendered(environment(folder, autoescape=False)) == ("<b>", 1)
    rendered(environment(folder))
    (folder / "a.html").write_text("new {{ name }}")
    assert rendered(environment(folder)) == ("new &lt;b&gt;", 1)


@pytest.mark.parametrize("left", [0, 10, 30, 100])
def test_half_a_file(folder: Path, left: int) -> None:
    """It is compiled again."""
    rendered(environment(folder))
    (file,) = (folder / "__pycache__").iterdir()
    file.write_bytes(file.read_bytes()[:left])
    assert rendered(environment(folder)) == ("&lt;b&gt;", 1)
    assert rendered(environment(folder)) == ("&lt;b&gt;", 0)


def test_without_a_place_for_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is compiled each time, and nothing is left."""
    (folder / "__pycache__").write_text("a file")
    for _ in range(2):
        assert rendered(environment(folder)) == ("&lt;b&gt;", 1)
    (folder / "__pycache__").unlink()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    rendered(environment(folder))
    assert [each.name for each in folder.iterdir()] == ["a.html"]
