"""The pytest examples are copied to a folder of their own, without any settings."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

EXAMPLE: Final = (
    Path(__file__).parents[2] / "examples/pytest/test_commits_before_revocation.py"
)
MIXED: Final = """
    import asyncio
    import pytest
    import trio

    async def test_plain(kohort):
        assert asyncio.get_running_loop()

    class TestClass:
        async def test_method(self, kohort):
            assert asyncio.get_running_loop()

    @pytest.fixture
    def anyio_backend():
        return "trio"

    @pytest.mark.anyio
    async def test_of_anyio(kohort):
        assert trio.lowlevel.current_task()
"""


def test_an_async_example_runs_in_an_empty_folder(pytester: pytest.Pytester) -> None:
    """pytest-asyncio's mode is strict there."""
    (pytester.path / EXAMPLE.name).write_text(EXAMPLE.read_text())
    pytester.runpytest_subprocess("--strict-markers").assert_outcomes(passed=2)


def test_each_plugin_runs_its_tests(pytester: pytest.Pytester) -> None:
    """A test with the mark of anyio is left to anyio."""
    pytester.makepyfile(MIXED)
    pytester.runpytest_subprocess("--strict-markers").assert_outcomes(passed=3)
