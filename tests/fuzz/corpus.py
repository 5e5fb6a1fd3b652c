"""The corpus: inputs that reach code which no seed reaches, one file per target.

Each line of a file is one input in base 64. Seeds are made by the targets and are
not stored.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"


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
