"""The hooks and the fixture, which pytest loads in every test run.

This module imports nothing but pytest: other test suites in an environment with kohort
pay for this file alone.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kohort.testing.kohort import Kohort

MARKER = (
    "kohort(nodes=1, partitions=None, config={}, clock='real', faults=[], seed=None, "
    "data_dir=False): the broker of the fixture `kohort`: its nodes, partitions of a "
    "new topic, Kafka's configuration keys, 'real' or 'manual' clock, rules of faults, "
    "seed, and whether logs are in files"
)

_KOHORT = pytest.StashKey["Kohort"]()
_HAS_FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--kohort-artifacts``."""
    group = parser.getgroup("kohort", "kohort: a Kafka broker for each test")
    group.addoption(
        "--kohort-artifacts",
        metavar="DIR",
        type=Path,
        help="Folder for a timeline page of each failed test that used a broker.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.hookimpl(wrapper=True, trylast=True)  # before pytest-asyncio looks for marks
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class,
) -> Generator[None, Any, Any]:
    """Marks async tests with a broker for pytest-asyncio, whose mode may be strict.

    A test with the mark of another plugin for async tests is left to that one.
    """
    made = yield
    if made and collector.config.pluginmanager.hasplugin("asyncio"):
        for item in made if isinstance(made, list) else [made]:
            if _is_left_to_us(item):
                item.add_marker(pytest.mark.asyncio)
    return made


def _is_left_to_us(item: pytest.Item | pytest.Collector) -> bool:
    return (
        isinstance(item, pytest.Function)
        and iscoroutinefunction(item.obj)
        and "kohort" in item.fixturenames
        and "anyio_backend" not in item.fixturenames
        and not any(map(item.get_closest_marker, ("asyncio", "anyio", "trio")))
    )


@pytest.fixture(name="kohort")
def kohort_fixture(request: pytest.FixtureRequest) -> Iterator[Kohort]:
    """A Kafka broker of this test, and power over its groups; see `Kohort`."""
    kohort = _started(request)
    node: pytest.Item = request.node
    node.stash[_KOHORT] = kohort
    node.stash[_HAS_FAILED] = False  # a plugin may run the test again
    try:
        yield kohort
    finally:
        kohort.close()
    # A test that has failed may have been left before it could await a call.
    if not node.stash[_HAS_FAILED]:
        forgotten = kohort.forgotten()
        if forgotten:
            pytest.fail(f"not awaited: {', '.join(forgotten)}", pytrace=False)


def _started(request: pytest.FixtureRequest) -> Kohort:
    from kohort.testing.starting import start

    try:
        return start(request)
    except ValueError as error:
        why = str(error)
    # The marker is wrong: a traceback would say nothing about it.
    pytest.fail(why, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds each group's story, faults and processes to the report of a failed test."""
    report = yield
    kohort = item.stash.get(_KOHORT, None)
    if kohort is not None and report.failed and not item.stash[_HAS_FAILED]:
        from kohort.testing.report import sections

        item.stash[_HAS_FAILED] = True
        artifacts: Path | None = item.config.getoption("--kohort-artifacts")
        report.sections += sections(kohort, item.nodeid, artifacts)
    return report
