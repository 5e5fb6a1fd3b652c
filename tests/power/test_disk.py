"""The disk that loses power: data that must survive, and data that may not."""

from __future__ import annotations

import random

import pytest
from tests.power.disk import (
    KINDS,
    ROOT,
    Call,
    Disk,
    Kind,
    Link,
    Rename,
    Sync,
    Truncate,
    Unlink,
    Write,
)

CUTS = 300


def images(kind: Kind, *calls: Call) -> list[dict[str, bytes | None]]:
    """The possible images of many power cuts after some calls."""
    disk = Disk(kind)
    for call in calls:
        disk.do(call)
    draw = random.Random(1)
    return [disk.cut(draw) for _ in range(CUTS)]


@pytest.mark.parametrize("kind", KINDS)
def test_synced_data_survives(kind: Kind) -> None:
    """A file survives as it was when it and its folder were synced."""
    calls: list[Call] = [
        Link(ROOT, "a", 1, False),
        Write(1, 0, b"kept"),
        Sync(1),
        Sync(ROOT),
        Write(1, 4, b" and lost"),
    ]
    found = {image["a"] for image in images(kind, *calls)}
    assert all(data is not None and data.startswith(b"kept") for data in found)
    assert {b"kept", b"kept and lost"} < found


def test_a_write_is_torn_and_dropped() -> None:
    """Data that was not synced is whole, a part, zeroes, or nothing."""
    calls: list[Call] = [
        Link(ROOT, "a", 1, False),
        Sync(ROOT),
        Write(1, 0, b"1" * 512),
        Write(1, 512, b"2" * 512),
        Truncate(1, 700),
    ]
    found = {image["a"] for image in images("journal", *calls)}
    assert {
        b"",
        b"1" * 512,
        b"1" * 512 + b"2" * 188,
        bytes(512) + b"2" * 512,
        b"1" * 512 + bytes(188),
    } <= found
    assert any(data and len(data) < 512 for data in found)


def test_names_change_in_order_in_a_journal() -> None:
    """Each change of a name survives only with all earlier ones, in all folders."""
    calls: list[Call] = [
        Link(ROOT, "f", 1, True),
        Link(1, "a", 2, False),
        Link(ROOT, "b", 3, False),
        Unlink(ROOT, "b", 3),
    ]
    found = {frozenset(image) for image in images("journal", *calls)}
    assert found == {
        frozenset(),
        frozenset({"f"}),
        frozenset({"f", "f/a"}),
        frozenset({"f", "f/a", "b"}),
    }


def test_a_sync_of_a_file_keeps_its_name_in_a_journal_only() -> None:
    """Elsewhere a new file that was synced may have no name after the cut."""
    calls: list[Call] = [Link(ROOT, "a", 1, False), Write(1, 0, b"x"), Sync(1)]
    assert all(image == {"a": b"x"} for image in images("journal", *calls))
    for kind in ("folders", "strict"):
        found = [tuple(image.items()) for image in images(kind, *calls)]
        assert set(found) == {(), (("a", b"x"),)}


def test_folders_do_not_wait_for_each_other() -> None:
    """In a journal the rename comes first; elsewhere the removal may survive alone."""
    calls: list[Call] = [
        Link(ROOT, "f", 1, True),
        Link(1, "a", 2, False),
        Sync(1),
        Sync(ROOT),
        Rename(ROOT, "f", ROOT, "g", 1),
        Unlink(1, "a", 2),
    ]
    assert {"f": None} not in images("journal", *calls)
    assert {"f": None} in images("folders", *calls)


def test_names_of_a_folder_change_in_any_order_if_strict() -> None:
    """The second of two new files may survive without the first."""
    calls: list[Call] = [Link(ROOT, "a", 1, False), Link(ROOT, "b", 2, False)]
    assert {"b": b""} in images("strict", *calls)
    assert {"b": b""} not in images("folders", *calls)


def test_a_cut_is_drawn_from_a_seed() -> None:
    """The same seed gives the same image."""
    calls: list[Call] = [
        Link(ROOT, str(n), n, False) if n % 2 else Write(n - 1, 0, b"x" * n)
        for n in range(1, 40)
    ]
    assert images("strict", *calls) == images("strict", *calls)
