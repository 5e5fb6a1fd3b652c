"""Members of the group "billing", over each client library."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any

import pytest
from tests.scenes.players import LIBRARIES, Player
from tests.workers.libraries import AIOKAFKA, CONFLUENT, KAFKA_PYTHON, KOHORT
from tests.workers.process import Worker

from kohort.testing import Group, Kohort, in_thread

PROGRAMS = dict(
    zip(LIBRARIES, (KOHORT, AIOKAFKA, CONFLUENT, KAFKA_PYTHON), strict=True)
)


class Cast:
    """The members of a scene, all of one library.

    Attributes:
        kohort: their broker.
        group: their group.
        library: its name.
    """

    def __init__(self, kohort: Kohort, library: str) -> None:
        self.kohort = kohort
        self.group: Group = kohort.group("billing")
        self.library = library
        self._lives: dict[str, tuple[Player, contextlib.ExitStack]] = {}
        self.runs: dict[str, Future[None]] = {}

    def start(self, name: str, **settings: Any) -> Player:
        """Starts a member; `settings` are those of `Player`."""
        player = Player(self.library, self.kohort.bootstrap_servers, name, **settings)
        life = contextlib.ExitStack()
        self.runs[name] = life.enter_context(in_thread(player.run, stop=player.stop))
        self._lives[name] = player, life
        return player

    def close(self, name: str) -> None:
        """Closes a member: it leaves, unless it is static.

        Raises:
            Exception: its library's error, if it has failed.
        """
        _, life = self._lives.pop(name)
        life.close()

    def failed(self, *names: str) -> str:
        """Waits until one of these members has failed; returns its name."""
        runs = {self.runs[name]: name for name in names}
        done, _ = wait(runs, 10, FIRST_COMPLETED)
        (name,) = (runs[run] for run in done if run.exception() is not None)
        with pytest.raises(Exception):  # noqa: B017, PT011 - its library's own
            self.close(name)
        return name

    @property
    def causes(self) -> list[str]:
        """The causes of the group's rebalances, in order.

        kafka-python adds some: it forgets a response that comes between two polls.
        """
        return [each.cause for each in self.group.history().rebalances]

    @contextlib.contextmanager
    def killed_later(self, name: str) -> Iterator[Worker]:
        """A member in a separate process, which is killed at the end of the block."""
        with tempfile.TemporaryDirectory() as folder:
            argv = PROGRAMS[self.library].command()
            worker = Worker(argv, Path(folder) / "stderr")
            player = Player(self.library, self.kohort.bootstrap_servers, name)
            worker.send("join", **player.words())
            try:
                yield worker
            finally:
                worker.stop()

    def end(self) -> None:
        """Closes all members at the same time: remaining ones would rebalance."""
        with contextlib.ExitStack() as lives:
            for player, life in self._lives.values():
                player.stop()
                lives.push(life)


@pytest.fixture(params=LIBRARIES)
def cast(kohort: Kohort, request: pytest.FixtureRequest) -> Iterator[Cast]:
    """Members of one library."""
    found = Cast(kohort, request.param)
    try:
        yield found
    finally:
        found.end()
