"""Starts the broker that a test's markers ask for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kohort.broker.server import Broker
from kohort.testing.kohort import Kohort
from kohort.testing.marker import Settings, merged

if TYPE_CHECKING:
    import pytest


def start(request: pytest.FixtureRequest) -> Kohort:
    """Starts a broker for the test of a request.

    Raises:
        MarkerError: a marker is invalid.
        ConfigError: a configuration key is unknown, or its value invalid.
        FaultError: a rule is invalid.
        DataDirError: the data directory cannot be used.
    """
    settings = merged(request.node.iter_markers("kohort"))
    broker = Broker(
        settings.broker_config(),
        nodes=settings.nodes,
        seed=settings.seed,
        clock=settings.clock,
        data_dir=_data_dir(settings, request),
        labels={"test": request.node.nodeid},
        watch_fetches=True,
    )
    if isinstance(settings.faults, str | Path):
        broker.faults.load(request.path.parent / settings.faults)
    else:
        for rule in settings.faults:
            broker.faults.add(rule)
    return Kohort(broker)


def _data_dir(settings: Settings, request: pytest.FixtureRequest) -> Path | None:
    if settings.data_dir is True:
        tmp_path: Path = request.getfixturevalue("tmp_path")
        return tmp_path / "kohort"
    return Path(settings.data_dir) if settings.data_dir else None
