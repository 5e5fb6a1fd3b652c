"""Fixtures: the broker, and a scene on it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.interop.scene import PARTITIONS, Scene

from kohort.broker.server import Broker
from kohort.testing import Kohort

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from tests.workers.libraries import Library

PLAYED = pytest.StashKey[list[Scene]]()
RUNNING = os.environ.get("KOHORT_INTEROP_BOOTSTRAP")


@pytest.fixture
def nodes() -> int:
    """Nodes of the broker; `THREE_NODES` overrides it."""
    return 1


@pytest.fixture
def here(
    request: pytest.FixtureRequest, tmp_path: Path, nodes: int
) -> Iterator[Kohort | None]:
    """A broker in this process; None if KOHORT_INTEROP_BOOTSTRAP names a running one.

    With several nodes it has a data directory. The fixture's parameter is the rest of
    its configuration.
    """
    if RUNNING:
        yield None
        return
    config = {"group.initial.rebalance.delay.ms": 0, **getattr(request, "param", {})}
    folder = tmp_path / "data" if nodes > 1 else None
    kohort = Kohort(Broker(config, nodes=nodes, data_dir=folder))
    try:
        yield kohort
    finally:
        kohort.close()


@pytest.fixture
def bootstrap(here: Kohort | None) -> str:
    """The broker's bootstrap addresses."""
    return RUNNING or "" if here is None else here.bootstrap_servers


@pytest.fixture
def play(
    request: pytest.FixtureRequest, bootstrap: str, here: Kohort | None, tmp_path: Path
) -> Iterator[Callable[..., None]]:
    """Plays with a library and an assignor, on a separate topic and group."""
    scenes = request.node.stash.setdefault(PLAYED, [])

    def played(
        library: Library,
        assignor: str,
        told: Callable[[Scene], None],
        partitions: int = PARTITIONS,
        protocol: str | None = None,
    ) -> None:
        scene = Scene(
            library, assignor, bootstrap, tmp_path, here, partitions, protocol
        )
        scenes.append(scene)
        told(scene)

    yield played
    for scene in scenes:
        scene.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds each process's events and commands to the report of a failed play."""
    report = yield
    if report.failed and call.when == "call":
        for scene in item.stash.get(PLAYED, []):
            report.sections += [
                (f"history of {each.name}", each.story()) for each in scene.everybody
            ]
    return report
