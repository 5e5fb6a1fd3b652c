"""Settings and fixtures of all tests."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

# PYTHONDONTWRITEBYTECODE keeps folders clean, but compiling everything anew in each
# worker, and in each command that a test starts, takes longer than most tests.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    del os.environ["PYTHONDONTWRITEBYTECODE"]
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "pycache")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

# A shell starts what runs in the background without it, and children inherit that:
# tests send SIGINT to theirs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests use bench/, which `python -m` finds from the root.
sys.path.append(str(Path(__file__).parents[1]))

import pytest
from hypothesis import settings

# Before anything of kohort is imported: frozen values are enforced in tests, and cost
# nothing when served.
os.environ["KOHORT_FROZEN"] = "1"

# HYPOTHESIS_PROFILE=ci tries more examples. Deadlines would measure the machine.
settings.register_profile("kohort", deadline=None, max_examples=10)
settings.register_profile("ci", deadline=None, max_examples=30, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "kohort"))

# Before they are imported: their asserts should explain as much as those of a test.
pytest.register_assert_rewrite(
    "tests.client.sent_requests",
    "tests.client.stage",
    "tests.client.transactions.play",
    "tests.control.shell",
    "tests.coordinator.context",
    "tests.coordinator.driver",
    "tests.coordinator.member",
    "tests.events.consumers",
    "tests.interop.plays",
    "tests.interop.scene",
    "tests.timeline.browser_page",
)

from tests import jitter
from tests.control.shell import Shell
from tests.coordinator.context import Context

pytest_plugins = ["pytester"]

LONGER = {"fuzz", "interop", "long", "spark"}
"""Tests that start clusters and toolchains, or wait for real time."""
LONGEST_S = 900
"""Their limit: three times as long as the longest takes on two busy cores."""
LIMIT_S = 300
"""The limit of the others, their fixtures included."""
jitter.set_up(os.environ.get("KOHORT_JITTER"))


def pytest_xdist_auto_num_workers() -> int:
    """The number of workers of `-n auto`: two per core, at most two more than cores.

    Half of the time goes to scenes of real clients, which wait for one another.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    cores = cores or os.cpu_count() or 1
    return min(2 * cores, cores + 2)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Leaves modules and tests, which stay, out of garbage collections.

    Each full collection would visit them all again, for half a second of CPU time: it
    was an eighth of that of a test. Full ones are also rarer than Python's.
    """
    gc.disable()
    _import_in_another_order(session)
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(700, 10, 50)
        gc.enable()


def _import_in_another_order(session: pytest.Session) -> None:
    """Makes each worker of xdist import the modules in another order.

    Rewriting the asserts of a module takes longer than importing it. All workers
    collect at once: in the same order, each would rewrite all modules, in the first
    run.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args != session.config.getini("testpaths"):
        return
    paths = sorted(Path(__file__).parent.rglob("test_*.py"))
    number, count = int(worker["workerid"][2:]), int(worker["workercount"])
    start = number * len(paths) // count
    for path in [*paths[start:], *paths[:start]]:
        # A module that cannot be imported is reported when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            _ = pytest.Module.from_parent(session, path=path).obj


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives each test a time limit.

    Not by pyproject.toml: a user's own test in a checkout needs no pytest-timeout. By a
    thread: an alarm's exception would end in an asyncio task.
    """
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        limit = LONGEST_S if LONGER & marks else LIMIT_S
        if "timeout" not in marks:
            item.add_marker(pytest.mark.timeout(limit, method="thread"))


@pytest.fixture
def context() -> Context:
    """A fresh coordinator without initial delay, on virtual time."""
    return Context()


@pytest.fixture
def shell(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Shell:
    """Commands of a user without any settings."""
    for variable in [each for each in os.environ if each.startswith("KOHORT_")]:
        monkeypatch.delenv(variable)
    return Shell(capfd, tmp_path)
