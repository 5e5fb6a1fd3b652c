"""Fuzzes kohort, guided by coverage: needs atheris, which `kohort[dev]` installs.

    python -m tests.fuzz --seconds 300
    python -m tests.fuzz --seconds 60 --target decoders
    python -m tests.fuzz --target decoders --replay crash-0123abcd

Two targets run at a time. The exit code is 0 if nothing is found, else 1, and the
inputs are kept.
"""

from __future__ import annotations

import argparse
import base64
import os
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz import corpus
from tests.fuzz.atheris_process import Run, inputs_of, run

AT_ONCE = 2
"""Processes: more would share the cores of a CI machine."""
_SHOWN = 3000
"""Bytes of an input that are printed."""


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seconds", type=int, default=300, help="of all targets")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the mutations; by default a new one"
    )
    parser.add_argument("--target", help="only this one")
    parser.add_argument("--replay", type=Path, help="run this input, without atheris")
    parser.add_argument(
        "--keep", action="store_true", help="merge new inputs into the corpus"
    )
    return parser.parse_args()


def _replay(name: str, path: Path) -> int:
    os.environ["KOHORT_FROZEN"] = "1"
    from tests.fuzz.targets import TARGETS

    try:
        TARGETS[name].run(path.read_bytes())
    except Exception:
        traceback.print_exc()
        return 1
    print(f"{name} takes {path}")
    return 0


def _show(runs: list[Run], seconds: float) -> None:
    print(f"\n{'target':<12} {'runs':>10} {'per s':>7} {'coverage':>8} {'features':>8}")
    for each in runs:
        print(
            f"{each.name:<12} {each.runs:>10,} {each.per_second:>7,} "
            f"{each.coverage:>8,} {each.features:>8,}"
        )
    for each in runs:
        for path in each.finds:
            print(f"\n{each.name}: {each.reason}")
            print(
                f"  in base 64: {base64.b64encode(path.read_bytes()[:_SHOWN]).decode()}"
            )
            print(f"  again: python -m tests.fuzz --target {each.name} --replay {path}")
    total = sum(each.runs for each in runs)
    found = [f"{each.name}: {each.reason}" for each in runs if each.finds]
    print(f"\n{total:,} runs in {seconds:.0f} s, {'; '.join(found) or 'nothing found'}")


def main() -> int:
    """Fuzzes, and prints the results."""
    asked = _asked()
    from tests.fuzz.targets import TARGETS

    names = [asked.target] if asked.target else [*TARGETS]
    if asked.replay:
        return _replay(names[0], asked.replay)
    folder = Path(tempfile.mkdtemp(prefix="kohort-fuzz-"))
    print(f"everything is in {folder}", flush=True)
    began = time.monotonic()
    names.sort(key=lambda name: -TARGETS[name].weight)
    total = sum(TARGETS[name].weight for name in names)
    seconds = asked.seconds * min(AT_ONCE, len(names))

    def one(name: str) -> Run:
        target = TARGETS[name]
        share = max(1, seconds * target.weight // total)
        done = run(name, folder / name, share, target, asked.seed)
        print(f"{time.monotonic() - began:6.0f} s  {done}", flush=True)
        return done

    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = list(pool.map(one, names))
    _show(runs, time.monotonic() - began)
    if asked.keep:
        for name in names:
            inputs = [*inputs_of(folder / name), *corpus.stored(name)]
            corpus.store(name, corpus.needed(TARGETS[name], inputs))
    return 1 if any(each.finds for each in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
