"""A disk that loses power: the possible states of a POSIX file system after some calls.

A call is one of the operations below. Files and folders have numbers, as inodes do;
names are entries of folders. Synced data survives. Any other data may have reached the
disk or not, whole or in part, in an order that depends on the kind of file system:

    journal   Names change in the order of the calls, in all folders: a prefix of the
              changes survives. A sync of any file or folder has the disk keep all
              changes of names before it. As ext4, XFS and btrfs do.
    folders   Names change in order within each folder, but folders do not wait for
              each other. Only a sync of the folder keeps its names; that of a new
              file does not keep its entry.
    strict    As `folders`, and the names of one folder change in any order. All that
              POSIX promises, and less than any file system in use does.

The contents of a file are equally unsafe in all three: its writes survive in any order,
torn anywhere, dropped, or as zeroes, until the file itself is synced.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

Kind = Literal["journal", "folders", "strict"]
KINDS: Final[tuple[Kind, ...]] = ("journal", "folders", "strict")

ROOT: Final = 0
"""The number of the data directory itself."""
SECTOR: Final = 512
"""Bytes that a disk writes as a whole, or not."""


@dataclass(frozen=True, slots=True)
class Link:
    """A new file or folder gets a name."""

    folder: int
    name: str
    number: int
    is_folder: bool
    path: str = ""


@dataclass(frozen=True, slots=True)
class Unlink:
    """A name is removed."""

    folder: int
    name: str
    number: int


@dataclass(frozen=True, slots=True)
class Rename:
    """A name becomes another one, and replaces the file of that name."""

    folder: int
    name: str
    new_folder: int
    new_name: str
    number: int


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes are written at a position."""

    number: int
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file is cut off, or grows by zeroes."""

    number: int
    size: int


@dataclass(frozen=True, slots=True)
class Sync:
    """The disk keeps a file's contents, or a folder's names."""

    number: int
    path: str = ""


NameChange = Link | Unlink | Rename
Call = NameChange | Write | Truncate | Sync


@dataclass(slots=True)
class _File:
    kept: bytearray = field(default_factory=bytearray)
    waiting: list[Write | Truncate] = field(default_factory=list)


class Disk:
    """The disk after a sequence of calls.

    Args:
        kind: of the file system.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._files: dict[int, _File] = {}
        self._folders: dict[int, dict[str, int]] = {ROOT: {}}
        self._waiting: list[NameChange] = []

    def do(self, call: Call) -> None:
        """Performs the next call."""
        match call:
            case Write() | Truncate():
                self._files[call.number].waiting.append(call)
            case Sync():
                self._sync(call.number)
            case _:
                if isinstance(call, Link):
                    if call.is_folder:
                        self._folders[call.number] = {}
                    else:
                        self._files[call.number] = _File()
                self._waiting.append(call)

    def _sync(self, number: int) -> None:
        file = self._files.get(number)
        if file is not None:
            for call in file.waiting:
                _write(file.kept, call)
            file.waiting.clear()
        if self._kind == "journal":
            kept, self._waiting = self._waiting, []
        elif file is None:
            kept = [c for c in self._waiting if number in _folders_of(c)]
            self._waiting = [c for c in self._waiting if number not in _folders_of(c)]
        else:
            return
        for change in kept:
            _rename(self._folders, change)

    # -- after the cut

    def whole(self) -> dict[str, bytes | None]:
        """The result of all calls, without a power cut."""
        return self._image(self._waiting, lambda file: _all_of(file, file.waiting))

    def cut(self, draw: random.Random) -> dict[str, bytes | None]:
        """An image that a power cut may leave now: contents by path, None for a folder.

        Args:
            draw: random choices of the data that is kept.
        """
        fate = draw.random()
        if fate < 0.15:
            # Only the process was killed.
            return self.whole()
        if fate < 0.3:
            return self._image((), lambda file: bytes(file.kept))
        return self._image(
            self._surviving(draw),
            lambda file: _torn(file, draw) if file.waiting else bytes(file.kept),
        )

    def _surviving(self, draw: random.Random) -> list[NameChange]:
        waiting = self._waiting
        if self._kind == "journal":
            return waiting[: draw.randint(0, len(waiting))]
        if self._kind == "folders":
            left = {
                number: draw.randint(0, len(waiting))
                for number in sorted({n for c in waiting for n in _folders_of(c)})
            }
            return [
                change
                for index, change in enumerate(waiting)
                if all(index < left[number] for number in _folders_of(change))
            ]
        share = draw.choice((0.1, 0.5, 0.9))
        return [change for change in waiting if draw.random() < share]

    def _image(
        self, changes: Iterable[NameChange], contents: Callable[[_File], bytes]
    ) -> dict[str, bytes | None]:
        folders = {number: dict(names) for number, names in self._folders.items()}
        for change in changes:
            _rename(folders, change)
        image: dict[str, bytes | None] = {}
        waiting = [("", ROOT)]
        while waiting:
            path, folder = waiting.pop()
            for name, number in folders[folder].items():
                if number in folders:
                    image[path + name] = None
                    waiting.append((f"{path}{name}/", number))
                else:
                    image[path + name] = contents(self._files[number])
        return image


def _folders_of(change: NameChange) -> set[int]:
    if isinstance(change, Rename):
        return {change.folder, change.new_folder}
    return {change.folder}


def _rename(folders: Mapping[int, dict[str, int]], change: NameChange) -> None:
    names = folders[change.folder]
    match change:
        case Link():
            names[change.name] = change.number
        case Unlink() if names.get(change.name) == change.number:
            del names[change.name]
        case Rename():
            if names.get(change.name) == change.number:
                del names[change.name]
            folders[change.new_folder][change.new_name] = change.number


def _write(data: bytearray, call: Write | Truncate) -> None:
    if isinstance(call, Truncate):
        del data[call.size :]
        data += bytes(call.size - len(data))
        return
    data += bytes(max(0, call.position - len(data)))
    data[call.position : call.position + len(call.data)] = call.data


def _all_of(file: _File, calls: Iterable[Write | Truncate]) -> bytes:
    data = bytearray(file.kept)
    for call in calls:
        _write(data, call)
    return bytes(data)


def _torn(file: _File, draw: random.Random) -> bytes:
    """The contents of a file that was not synced."""
    waiting = file.waiting
    match draw.randrange(6):
        case 0:
            return _all_of(file, waiting)
        case 1:
            return bytes(file.kept)
        case 2:
            return _all_of(file, _prefix(waiting, draw))
        case 3:
            # The size is right, some sectors are not.
            return _without_sectors(file, _all_of(file, waiting), draw)
        case 4:
            share = draw.choice((0.2, 0.8))
            return _all_of(file, [call for call in waiting if draw.random() < share])
        case _:
            some = _prefix(waiting, draw)
            return _without_sectors(file, _all_of(file, some), draw)


def _prefix(
    calls: list[Write | Truncate], draw: random.Random
) -> list[Write | Truncate]:
    """The first calls, and a part of the next one."""
    count = draw.randrange(len(calls))
    found = calls[:count]
    torn = calls[count]
    if isinstance(torn, Write) and torn.data:
        part = torn.data[: draw.randrange(len(torn.data))]
        found.append(Write(torn.number, torn.position, part))
    return found


def _without_sectors(file: _File, data: bytes, draw: random.Random) -> bytes:
    """Restores the previous state of some sectors that were not synced."""
    before = bytes(file.kept[: len(data)]).ljust(len(data), b"\0")
    share = draw.choice((0.2, 0.8))
    return b"".join(
        (before if draw.random() < share else data)[at : at + SECTOR]
        for at in range(0, len(data), SECTOR)
    )


def lay_out(image: Mapping[str, bytes | None], path: Path) -> None:
    """Creates a folder with the contents of an image."""
    path.mkdir(parents=True)
    for name, data in sorted(image.items()):
        if data is None:
            (path / name).mkdir()
        else:
            (path / name).write_bytes(data)
