"""Time, CPU, memory and disk of an ingest and a build, on two cores.

    python -m bench.pipeline.synthetic --events 20000000 --out DIR
    python -m bench.pipeline.measure DIR --engine sail

With ``--by-table`` the tables are made once more, one after the other, to see the cost
of each.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from bench.pipeline.watch import Phase, watched
from bench.pipeline.work import SAIL, SCRATCH, SPARK


def _measured(
    work: str, events: Path, out: Path, memory: str, engine: str
) -> list[Phase]:
    print(f"{work}:", flush=True)
    arguments = [work, str(events), str(out), memory, engine]
    phases = watched("bench.pipeline.work", arguments, out / SCRATCH)
    return [*phases, _all(phases)]


def _all(phases: Sequence[Phase]) -> Phase:
    return Phase(
        "all",
        sum(each.wall_s for each in phases),
        sum(each.cpu_s for each in phases),
        max(each.memory for each in phases),
        max(each.disk for each in phases),
    )


def _print(phases: Sequence[Phase]) -> None:
    print("| | minutes | CPU seconds | memory, GB | scratch, GB |")
    print("| --- | --- | --- | --- | --- |")
    for each in phases:
        print(
            f"| {each.name} | {each.wall_s / 60:.1f} | {each.cpu_s:.0f}"
            f" | {each.memory / 1e9:.1f} | {each.disk / 1e9:.1f} |"
        )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("events", type=Path, metavar="DIR")
    parser.add_argument("--engine", choices=(SAIL, SPARK), default=SAIL)
    parser.add_argument("--by-table", action="store_true")
    parser.add_argument("--memory", default="3g", help="of the JVM's heap")
    parser.add_argument("--out", type=Path, help="kept; otherwise nothing is")
    wanted = parser.parse_args()
    out = wanted.out or Path(tempfile.mkdtemp(prefix="measure-"))
    try:
        print(
            f"{platform.platform()}, Python {platform.python_version()},"
            f" pyspark {metadata.version('pyspark')}"
        )
        for work in ("build", "tables") if wanted.by_table else ("build",):
            to = out / work
            _print(_measured(work, wanted.events, to, wanted.memory, wanted.engine))
    finally:
        if wanted.out is None:
            shutil.rmtree(out)


if __name__ == "__main__":
    main()
