"""kafka-clients and kohort assign new random groups in the same way."""

from __future__ import annotations

import random
import subprocess

import pytest
from tests.client.assignors.cases import DATA, Case, read
from tests.client.assignors.checks import check_complete, check_wanted
from tests.workers.libraries import HERE as INTEROP
from tests.workers.libraries import _build_java, _built, need

pytestmark = pytest.mark.interop

SMALL = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
TIMEOUT_S = 300.0


@pytest.fixture(scope="module")
def class_path() -> str:
    """kafka-clients, downloaded once."""
    need("java", "mvn")
    return f"{_built(INTEROP / 'java', _build_java) / 'target' / 'dependency'}/*"


def play(class_path: str, *arguments: object) -> str:
    """The output of Assignments.java."""
    program = str(DATA / "Assignments.java")
    done = subprocess.run(
        ["java", *SMALL, "-cp", class_path, program, *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("file", "runs"),
    [
        ("cases.jsonl", [(5, 400, 7, 3, 8), (10, 60, 16, 2, 16)]),
        ("bytes.jsonl", [("bytes",)]),
    ],
)
def test_the_recorded_groups_can_be_recorded_again(
    class_path: str, file: str, runs: list[tuple[object, ...]]
) -> None:
    """The files are exactly the output of the program."""
    printed = "".join(play(class_path, *arguments) for arguments in runs)
    assert printed == (DATA / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("size", [(20, 8, 30), (6, 4, 12), (60, 5, 40)])
def test_fresh_groups_are_divided_as_by_the_java_client(
    class_path: str, size: tuple[int, int, int]
) -> None:
    """All groups, except where the Java client assigns to unsubscribed members."""
    seed = random.randrange(1_000_000)
    cases = read(play(class_path, seed, 1000, *size).splitlines())
    excepted = [case for case in cases if case.has_lost_interest]
    assert len(excepted) < len(cases) / 10
    for case in cases:
        given = case.assign()
        if case not in excepted:
            assert given == case.java, f"{case.name} of {seed} 1000 {size}"
        elif case.assignor == "sticky":
            check_complete(given, case.cluster, case.subscriptions)
        else:
            check_wanted(given, case.subscriptions)


def test_a_group_that_the_java_client_cannot_divide(class_path: str) -> None:
    """It throws for some of the excepted groups; kohort assigns."""
    cases = read(play(class_path, 3, 1000, 20, 8, 30).splitlines())
    thrown: list[Case] = [case for case in cases if case.java is None]
    assert thrown
    for case in thrown:
        assert case.has_lost_interest
        check_wanted(case.assign(), case.subscriptions)
