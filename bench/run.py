"""The cost of requests in this tree next to another revision's.

    python -m bench.run --vs main
    python -m bench.run --vs HEAD~3 --rows commit produce --cpu --rounds 20
    python -m bench.run --instructions --check
    python -m bench.run --vs HEAD --serve="--http 127.0.0.1:0"

Starts a broker of each revision, sends both the same requests in turns, and prints for
each row the least cost of all rounds, the span of the rounds, and the change. Without
`--vs` the other revision is the last commit, if code of kohort was changed since then,
or the one before the last commit that changed code of kohort.

Instructions vary by about one percent; CPU time varies with other work of the machine.
Instructions are those of the process only: the kernel's work for it, two thirds of a
fetch's cost, is in its CPU time.

`--check` fails if a row takes over 5 % more instructions, unless a commit since the
other revision has a line `Slower: ROW: reason`. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.counted import ROWS, CountedBroker, Counter, CountError, available

ROOT = Path(__file__).parents[1]
PRODUCT = ("broker", "client", "control", "protocol", "testing", "pyproject.toml")
"""The paths whose changes are compared with the state before them."""
LIMIT = 5.0
"""Percent that a row may grow by with `--check`."""
ROUNDS_COUNTED = 4
ROUNDS_CPU = 10
HERE = "working tree"

Rounds = dict[str, dict[str, list[float]]]
"""Costs of all rounds, by row and by tree."""


class UsageError(Exception):
    """The revision, or a line of a commit message, is unknown."""


# -- revisions


def git(tree: Path, *arguments: str) -> str:
    """The output of a command of git.

    Raises:
        UsageError: it failed.
    """
    argv = ["git", "-C", str(tree), *arguments]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise UsageError(ran.stderr.strip() or f"{' '.join(argv)} failed")
    return ran.stdout.strip()


def resolved(tree: Path, revision: str) -> str:
    """The commit that a revision names.

    Raises:
        UsageError: there is none.
    """
    try:
        return git(tree, "rev-parse", "-q", "--verify", f"{revision}^{{commit}}")
    except UsageError:
        raise UsageError(f"{tree} has no revision {revision!r}") from None


def before_last_change(tree: Path) -> str | None:
    """The commit that the code of a tree is compared with by default.

    Merges count as changes of their first parent.

    Returns:
        None if there is none: in a shallow clone, or after the first commit.
    """
    if git(tree, "status", "--porcelain", "--untracked-files=no", "--", *PRODUCT):
        return resolved(tree, "HEAD")
    last = git(tree, "rev-list", "-1", "--first-parent", "HEAD", "--", *PRODUCT)
    try:
        return resolved(tree, f"{last}^1")
    except UsageError:
        return None


@contextlib.contextmanager
def checked_out(tree: Path, commit: str) -> Iterator[Path]:
    """A temporary worktree of a commit."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tree"
        git(tree, "worktree", "add", "--detach", str(path), commit)
        try:
            yield path
        finally:
            git(tree, "worktree", "remove", "--force", str(path))


# -- measuring


def measure(
    trees: Mapping[str, Path],
    rows: Sequence[str],
    counter: Counter,
    rounds: int,
    options: Sequence[str] = (),
) -> Rounds:
    """The costs of all rounds.

    Where time is measured the brokers take turns, and each is the first one as often as
    the other. Where callgrind counts they run side by side. `options` of `kohort serve`
    are for this tree's broker.
    """
    found: Rounds = {row: {name: [] for name in trees} for row in rows}
    with (
        contextlib.ExitStack() as stack,
        ThreadPoolExecutor(len(trees) if counter == "callgrind" else 1) as pool,
    ):

        def start(name: str) -> CountedBroker:
            own = options if name == HERE else ()
            broker = CountedBroker(name, trees[name], counter, own)
            stack.callback(broker.close)
            broker.warm_up()
            return broker

        names = list(trees)
        brokers = dict(zip(names, pool.map(start, names), strict=True))
        for _ in range(rounds):
            for row in rows:
                costs = [pool.submit(brokers[name].cost, row) for name in names]
                for name, cost in zip(names, costs, strict=True):
                    found[row][name].append(cost.result())
            names.reverse()
    return found


def growth(costs: Mapping[str, Sequence[float]]) -> float:
    """The change from the other revision to this tree, in percent of least costs."""
    before, now = (min(costs[name]) for name in costs)
    return (now / before - 1) * 100


def table(rounds: Rounds, unit: str) -> Iterator[str]:
    """Lines of a table in Markdown; costs in thousands."""
    names = list(next(iter(rounds.values())))
    yield f"| {unit} | {' | '.join(names)} | change |"
    yield "| --- |" + " ---: |" * (len(names) + 1)
    for row, costs in rounds.items():
        cells = " | ".join(
            f"{min(each) / 1e3:,.4g} ({min(each) / 1e3:,.4g}..{max(each) / 1e3:,.4g})"
            for each in costs.values()
        )
        yield f"| {row}, per {ROWS[row][1]} | {cells} | {growth(costs):+.1f} % |"


# -- judging


def reasons(messages: str) -> dict[str, str]:
    """The rows that may be slower, with the reasons, from messages of commits.

    Raises:
        UsageError: a line names no row, or no reason.
    """
    found = {}
    for line in re.findall(r"^Slower:.*$", messages, re.MULTILINE):
        _, row, reason = (*line.split(":", 2), "", "")[:3]
        if row.strip() not in ROWS or not reason.strip():
            raise UsageError(
                f"{line!r} is not `Slower: ROW: reason`; rows are {', '.join(ROWS)}"
            )
        found[row.strip()] = reason.strip()
    return found


def judge(
    rounds: Rounds, limit: float, allowed: Mapping[str, str], say: Callable[[str], Any]
) -> bool:
    """Prints the rows that grew more than a limit; returns whether all are allowed."""
    passed = True
    for row, costs in rounds.items():
        change = growth(costs)
        if change <= limit:
            continue
        text = f"{row}: {change:+.1f} %, more than {limit:g} %"
        if row in allowed:
            say(f"{text}; allowed: {allowed[row]}")
        else:
            passed = False
            say(f"{text}. If that is right, add to a commit: Slower: {row}: <reason>")
    return passed


# -- the program


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vs", metavar="REV", help="the other revision")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument(
        "--rounds", type=int, help=f"{ROUNDS_COUNTED}; of CPU time {ROUNDS_CPU}"
    )
    parser.add_argument(
        "--serve",
        type=shlex.split,
        default=[],
        metavar="OPTIONS",
        help="options of `kohort serve` for this tree's broker only: their cost",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--instructions", action="store_true", help="no CPU time")
    kind.add_argument("--cpu", action="store_true", help="no instructions")
    parser.add_argument("--json", type=Path, help="write all rounds to this file, too")
    parser.add_argument(
        "--check",
        type=float,
        nargs="?",
        const=LIMIT,
        metavar="PERCENT",
        help="fail if the instructions of a row grow by more (%(const)s)",
    )
    asked = parser.parse_args(argv)
    if asked.check is not None and asked.cpu:
        parser.error("--check judges instructions: it does not go with --cpu")
    return asked


def run(asked: argparse.Namespace) -> int:
    """Measures, and prints; returns the exit status."""
    commit = resolved(ROOT, asked.vs) if asked.vs else before_last_change(ROOT)
    if commit is None:
        print("Nothing to compare with: the repository has no earlier commit.")
        return 0
    allowed = reasons(git(ROOT, "log", "--format=%B", f"{commit}..HEAD"))
    counters: list[Counter] = [] if asked.cpu else [available()]
    counters += [] if asked.instructions else ["cpu"]
    results: dict[str, Any] = {"vs": commit}
    passed = True
    with checked_out(ROOT, commit) as other:
        trees = {commit[:9]: other, HERE: ROOT}
        for counter in counters:
            count = asked.rounds or (ROUNDS_CPU if counter == "cpu" else ROUNDS_COUNTED)
            began = time.monotonic()
            rounds = measure(trees, asked.rows, counter, count, asked.serve)
            took = time.monotonic() - began
            results[counter] = rounds
            unit = "CPU us" if counter == "cpu" else f"1,000 instructions ({counter})"
            print("\n".join(table(rounds, unit)))
            print(
                f"\nthe least of {count} rounds (least..most); Python "
                f"{platform.python_version()}, {platform.machine()}; {took:.0f} s\n",
                flush=True,
            )
            if counter != "cpu" and asked.check is not None:
                passed = judge(rounds, asked.check, allowed, print)
    if asked.json:
        asked.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0 if passed else 1


def main() -> int:
    """Runs the command line; messages of errors go to stderr."""
    try:
        return run(arguments())
    except (CountError, UsageError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
