"""The command line of long runs: a seed, progress, and a folder of evidence."""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

SHOWN = 20


def parser_of(module: str, doc: str | None) -> argparse.ArgumentParser:
    """A parser for `python -m MODULE`, with the option --seed."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description=(doc or "").partition("\n")[0]
    )
    parser.add_argument("--seed", type=int, help="replays a run; random by default")
    return parser


class LongRun:
    """A run in a temporary folder, which is kept if there are violations.

    Args:
        name: a word for the folder.
        seed: of the run; None for a random one.

    Attributes:
        folder: for data, journals and logs.
        seed: of the run.
    """

    def __init__(self, name: str, seed: int | None) -> None:
        self.seed = random.randrange(1 << 32) if seed is None else seed
        self.folder = Path(tempfile.mkdtemp(prefix=f"kohort-{name}-"))
        self._began = time.monotonic()
        print(f"seed {self.seed}; everything is in {self.folder}", flush=True)

    def progress(self, line: str) -> None:
        """Prints a line after the seconds since the start."""
        print(f"{time.monotonic() - self._began:6.0f} s  {line}", flush=True)

    def finish(self, violations: Sequence[str], again: str) -> int:
        """Prints the violations; removes the folder if there are none.

        Args:
            violations: one sentence each.
            again: the command that repeats the run.

        Returns:
            The exit status.
        """
        print(f"violations: {len(violations)}")
        for each in violations[:SHOWN]:
            print(f"  {each}")
        if len(violations) > SHOWN:
            print(f"  and {len(violations) - SHOWN} more")
        if violations:
            print(f"kept: {self.folder}; again: {again}")
            return 1
        shutil.rmtree(self.folder)
        return 0
