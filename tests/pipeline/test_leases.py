"""Locks on file systems that have none, here on folders of this machine."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kohort.pipeline.files import File, Files, LocalFiles
from kohort.pipeline.leases import LIFE_S, Lease

AT_ONCE = 8


class Store(LocalFiles):
    """Files whose listings are of one moment, as a store's are."""

    def __init__(self) -> None:
        self._moment = threading.Lock()

    def inputs(self, pattern: str) -> list[File]:
        """See `Files`."""
        with self._moment:
            return super().inputs(pattern)

    def remove(self, path: str) -> None:
        """See `Files`."""
        with self._moment:
            super().remove(path)


def lease(folder: Path, who: str = "me", files: Files | None = None) -> Lease:
    """A lock of a folder that is not taken yet."""
    return Lease(files or LocalFiles(), str(folder), who)


def claim(folder: Path) -> Path:
    """The only file of a lock."""
    (file,) = folder.iterdir()
    return file


def age(file: Path, seconds: float) -> None:
    """Makes a file older."""
    then = file.stat().st_mtime - seconds
    os.utime(file, (then, then))


def test_one_of_many_gets_a_lock(tmp_path: Path) -> None:
    """They all claim it before any has it; the next one gets it after its release."""
    barrier = threading.Barrier(AT_ONCE)
    store = Store()

    def take(number: int) -> Lease | None:
        mine = lease(tmp_path, str(number), store)
        barrier.wait()
        if mine.take() is None:
            return mine
        mine.release()
        return None

    with ThreadPoolExecutor(AT_ONCE) as pool:
        got = [each for each in pool.map(take, range(AT_ONCE)) if each is not None]
    assert len(got) == 1
    assert got[0].is_held()
    got[0].release()
    assert [*tmp_path.iterdir()] == []
    after = lease(tmp_path)
    assert after.take() is None
    after.release()


def test_a_killed_process_loses_its_lock(tmp_path: Path) -> None:
    """Only after its life; if it was not killed after all, it finds that out."""
    killed = lease(tmp_path, "killed")
    assert killed.take() is None
    left = claim(tmp_path)
    age(left, LIFE_S - 10)
    waiting = lease(tmp_path)
    assert waiting.take() == "killed"
    waiting.release()
    assert killed.is_held()
    age(left, LIFE_S + 10)
    following = lease(tmp_path)
    assert following.take() is None
    assert claim(tmp_path) != left
    assert following.is_held()
    assert not killed.is_held()
    killed.release()
    following.release()


class Turning(LocalFiles):
    """Files in which something happens before the second look at a folder."""

    def __init__(self, then: Callable[[], object]) -> None:
        self.looks = 0
        self._then = then

    def inputs(self, pattern: str) -> list[File]:
        """See `Files`."""
        self.looks += 1
        if self.looks == 2:
            self._then()
        return super().inputs(pattern)


@pytest.mark.parametrize("takes_it", [True, False])
def test_a_later_claim_is_waited_for(tmp_path: Path, *, takes_it: bool) -> None:
    """Its process takes the lock if it has not seen this claim, and else gives up."""
    later = tmp_path / "later.json"
    later.write_text('{"holds": false, "who": "later"}')

    def end() -> None:
        later.unlink()
        if takes_it:
            later.write_text('{"holds": true, "who": "later"}')

    files = Turning(end)
    mine = lease(tmp_path, files=files)
    assert mine.take() == ("later" if takes_it else None)
    assert files.looks == 2
    mine.release()
