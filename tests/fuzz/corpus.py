"""The corpus: inputs that reach code which no seed reaches, one file per target.

Each line of a file is one input in base 64. The targets make seeds, which are not
stored.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.fuzz.target import Target

import kohort

FOLDER = Path(__file__).parent / "corpus"
MOST_BYTES = 20_000
"""Bytes of inputs stored for one target: seven of them stay below 200 KB."""

_KOHORT = str(Path(kohort.__file__).parent)
_GENERATED = "<"
Step = tuple[CodeType, int, int]
"""A step from one line of a function to another one."""


def stored(name: str) -> list[bytes]:
    """The inputs of a target."""
    path = FOLDER / f"{name}.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [base64.b64decode(line) for line in lines]


def store(name: str, inputs: Iterable[bytes]) -> None:
    """Replaces the inputs of a target."""
    lines = sorted({base64.b64encode(each).decode() for each in inputs})
    text = "".join(f"{line}\n" for line in sorted(lines, key=len))
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.txt").write_text(text)


def needed(target: Target, inputs: Iterable[bytes]) -> list[bytes]:
    """The inputs that make steps in kohort's code which no other input makes.

    Short ones come first, and the target's seeds always exist. Failing inputs are left
    out.
    """
    known: set[Step] = set()
    for data in target.seeds():
        known |= _steps(target.run, data)
    kept: list[bytes] = []
    left = MOST_BYTES
    for data in sorted(set(inputs), key=len):
        steps = _steps(target.run, data)
        if steps - known and len(data) <= left:
            known |= steps
            kept.append(data)
            left -= len(data)
    return kept


def _steps(run: Callable[[bytes], None], data: bytes) -> set[Step]:
    """The steps of a run in kohort's code; none if it fails."""
    steps: set[Step] = set()

    def called(frame: FrameType, _: str, __: Any) -> Any:
        code, last = frame.f_code, 0
        if not code.co_filename.startswith((_KOHORT, _GENERATED)):
            return None

        def went_on(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal last
            if event == "line":
                steps.add((code, last, frame.f_lineno))
                last = frame.f_lineno
            return went_on

        return went_on

    sys.settrace(called)
    try:
        run(data)
    except Exception:
        return set()
    finally:
        sys.settrace(None)
    return steps
