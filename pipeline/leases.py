"""Locks on file systems that have none: HDFS, and object stores.

Such a store lists each file that was written before, so of two processes that write a
file and then list its folder, at least one sees the other. That is enough for a lock:

1. A process writes a claim, a file in the folder of the lock. Names sort by time.
2. It lists the folder. It gives up if a claim there holds the lock, or has an earlier
   name.
3. If there are only later claims, it looks again: a process that has not seen this
   claim takes the lock, and one that has seen it gives up.
4. Without another claim it takes the lock: its claim says so from now on.
5. A thread renews the claim. One that was not renewed for `LIFE_S` is of a process that
   was killed: any other removes it. Both times are the store's, so that the clocks of
   machines do not matter.

A process that stood still for longer may find that its claim is gone, or that another
one holds the lock: `Lease.is_held`. It must ask before it changes what others see.
"""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from kohort.pipeline.files import Files

LIFE_S: Final = 120
"""Seconds without a sign of life after which a process counts as killed. A store may
not answer for a minute, and Java may collect garbage for half of one."""
RENEWED_S: Final = 20.0
"""Seconds between signs of life."""
LOOK_S: Final = 0.5
"""Seconds between looks at claims that are about to end."""


@dataclass(frozen=True, slots=True)
class _Claim:
    name: str
    holds: bool
    who: str


class Lease:
    """A lock that a process holds for as long as it shows signs of life.

    Args:
        files: the file system.
        folder: path of the lock's folder.
        who: the process, for the errors of others.
    """

    def __init__(self, files: Files, folder: str, who: str) -> None:
        self._files = files
        self._folder = folder
        self._who = who
        self._name = f"{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}-{uuid.uuid4().hex[:8]}.json"
        self._path = f"{folder}/{self._name}"
        self._holds = False
        self._mutex = threading.Lock()
        self._over = threading.Event()

    def take(self) -> str | None:
        """Takes the lock; returns None, or the process that has it or was earlier.

        In any case `release` must follow.
        """
        self._write()
        while others := [*self._others()]:
            first = min(others, key=lambda each: (not each.holds, each.name))
            if first.holds or first.name < self._name:
                return first.who
            self._over.wait(LOOK_S)
            self._write()
        self._holds = True
        self._write()
        threading.Thread(target=self._renew, name="lease", daemon=True).start()
        return None

    def is_held(self) -> bool:
        """True if no other process has taken the lock meanwhile."""
        with self._mutex:
            if not self._files.exists(self._path):
                return False
            self._write()
            return not any(each.holds for each in self._others())

    def release(self) -> None:
        """Gives the lock back."""
        self._over.set()
        with self._mutex:
            self._files.remove(self._path)

    def _write(self) -> None:
        said = {"holds": self._holds, "who": self._who}
        self._files.write_text(self._path, json.dumps(said))

    def _renew(self) -> None:
        while not self._over.wait(RENEWED_S):
            # A store that does not answer now may answer the next time.
            with contextlib.suppress(Exception), self._mutex:
                if self._over.is_set() or not self._files.exists(self._path):
                    return
                self._write()

    def _others(self) -> Iterator[_Claim]:
        """The claims of other processes; removes those of killed ones."""
        found = {
            each.path.rpartition("/")[2]: each
            for each in self._files.inputs(self._folder)
        }
        own = found.pop(self._name, None)
        for name, file in found.items():
            if not name.endswith(".json"):  # it is being written
                continue
            if own and own.modified_ms - file.modified_ms > LIFE_S * 1000:
                self._files.remove(file.path)
                continue
            text = self._files.read_text(file.path)
            if text is not None:
                said = json.loads(text)
                yield _Claim(name, said["holds"], said["who"])
