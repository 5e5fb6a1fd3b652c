"""Topic owners: they create, fill, truncate, grow, configure and delete topics.

Each has separate topics and groups and performs one operation at a time, so it knows
their state. An operation in progress at a kill may have happened or not. When the
broker is back, the owner checks that all acknowledged operations are there, and reports
violations.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.long_runs.wire import LATER
from tests.power import client
from tests.power.client import RefusedError
from tests.power.findings import Found, check
from tests.power.model import Step, World
from tests.power.resending import carries_on
from tests.power.steps import Scope, Steps
from tests.wire.blocking import BlockingClient
from tests.workers.lines import PACE_S, Client, Say, Words, serve

from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.errors import ErrorCode

ROLLED = {"segment.ms": "250"}
KINDS: tuple[dict[str, str], ...] = (
    ROLLED,
    ROLLED | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    ROLLED | {"retention.bytes": "2000"},
    ROLLED | {"retention.ms": "1500"},
    {},
)
LIMIT_S = 60.0
"""By then a broker is back, and has loaded its groups."""
# Retention may come between two requests.
PASSING = LATER | {ErrorCode.OFFSET_OUT_OF_RANGE}
WRONG_SHOWN = 5


class KilledError(Exception):
    """The broker was killed by the request."""


class Remote(client.Client):
    """A connection to a broker that may be killed.

    Args:
        port: the broker's.

    Attributes:
        victim: the process to kill during the next request; 0 for none.
    """

    def __init__(self, port: int) -> None:
        self._wire = BlockingClient(port)
        self.victim = 0

    def call(self, api_name: str, version: int, message: object) -> Any:
        """Sends a request; kills the victim, if there is one, during it."""
        if self.victim:
            self._wire.send(api_name, version, message)
            # From a fraction of the time in which the broker reads it, to the end of
            # everything.
            time.sleep(10 ** random.uniform(-4.5, -2))
            os.kill(self.victim, signal.SIGKILL)
            raise KilledError
        return self._wire.call(api_name, version, message)

    def close(self) -> None:
        """Closes it."""
        self._wire.close()


class Owner(Client):
    """One owner: `own bootstrap= client= seed=`.

    Its other commands: `kill pid=` kills the process during the next change of a topic;
    `spare topics=` makes it delete topics from now on (0), or none (1), and is answered
    by `spared`.
    """

    def __init__(self, words: Words, say: Say) -> None:
        self._port = int(words["bootstrap"].rpartition(":")[2])
        self._say = say
        name = words["client"]
        self._topics = (
            f"{name}-orders",
            f"{name}-{'l' * 186}1",
            f"{name}-{'l' * 186}2",
            f"{name}-{'x' * 246}",
        )
        self._groups = tuple(f"{name}-group-{number}" for number in range(4))
        self._world = World(flushes_all=True, has_own_time=True)
        self._step: Step | None = None
        self._steps = Steps(
            Scope(self._topics, self._groups, KINDS),
            self._world,
            random.Random(words["seed"]),
            lambda: int(time.time() * 1000),
            self._taking,
        )
        self._remote: Remote | None = None
        self.victim = 0
        self.spares_topics = False
        self.done = 0

    @contextlib.contextmanager
    def _taking(self, step: Step) -> Iterator[None]:
        self._step = step
        yield
        self._world.took(step)
        self._step = None
        self.done += 1

    def step(self) -> None:
        """Does one step, or checks all topics after a kill."""
        if self._remote is None:
            self._look()
        try:
            assert self._remote is not None
            self._remote.victim = self.victim
            self._steps.may_delete_topics = not self.spares_topics
            if self.victim:
                self._steps.change_topics()
            else:
                self._steps.take()
        except KilledError:
            self.victim = 0
            self._lost()
        except (OSError, RefusedError):
            self._lost()
        time.sleep(PACE_S / 2)

    def _lost(self) -> None:
        if self._remote is not None:
            self._remote.close()
            self._remote = None

    def _look(self) -> None:
        """Waits for the broker, and checks its topics and groups."""
        found = self._found()
        wrong = check(self._world, self._step, found)
        self._step = None
        self._steps.producers.clear()
        if not wrong:
            with contextlib.suppress(OSError, RefusedError):
                wrong = carries_on(self._steps.client, self._world)
        if wrong:
            self._say("error", text="; ".join(wrong[:WRONG_SHOWN]))

    def _found(self) -> Found:
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                self._remote = self._steps.client = Remote(self._port)
                for group in self._groups:
                    # Creates `__consumer_offsets`.
                    request = FindCoordinatorRequest(group)
                    self._remote.call("FindCoordinator", 3, request)
                return self._remote.found(self._groups, self._topics.__contains__)
            except (OSError, RefusedError) as error:
                is_known = isinstance(error, OSError) or error.code in PASSING
                self._lost()
                if not is_known or time.monotonic() > deadline:
                    raise
                time.sleep(PACE_S)

    def obey(self, verb: str, words: Words, wait: Callable[[], object]) -> None:
        """Takes a victim, or spares topics."""
        if verb == "kill":
            self.victim = int(words["pid"])
        else:
            self.spares_topics = words["topics"] == "1"
            self._say("spared")

    def close(self) -> dict[str, object]:
        """Checks everything once more."""
        self._lost()
        self._look()
        self._lost()
        return {"sent": self.done}


if __name__ == "__main__":
    serve({"own": Owner})
