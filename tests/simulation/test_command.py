"""The command ``kohort simulate``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.simulation.test_scenario import SMALL
from tests.swarm.bugs import plant

from kohort.control.cli import cli


def simulate(*arguments: str) -> Result:
    """Runs the command."""
    return CliRunner().invoke(cli, ["simulate", *arguments])


@pytest.fixture
def small(tmp_path: Path) -> str:
    """The file of a short scenario."""
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    return str(file)


def test_it_lists_the_ready_scenarios() -> None:
    """Each with its title."""
    done = simulate("--list")
    assert "cold-start" in done.output
    assert "KIP-389" in done.output


def test_it_prints_a_table_and_writes_events(small: str, tmp_path: Path) -> None:
    """The other commands read the events."""
    out = tmp_path / "runs"
    done = simulate(small, "--seed", "3", "--out", str(out))
    assert not done.exit_code, done.output
    assert "partition-seconds without a reader" in done.output
    events = out / "small-3.jsonl"
    first = json.loads(events.read_text().splitlines()[0])
    assert first["labels"] == {"scenario": "small", "seed": "3"}
    measures = json.loads((out / "small-3.json").read_text())
    assert measures["rebalances"] == {"member_joined": 1}
    runner = CliRunner()
    why = runner.invoke(cli, ["why", "billing", "--events", str(events)])
    assert "billing-1 was the first to join" in why.output
    page = str(tmp_path / "page.html")
    made = runner.invoke(cli, ["timeline", str(events), "-o", page])
    assert not made.exit_code, made.output


def test_several_seeds(small: str, tmp_path: Path) -> None:
    """A run for each, in processes; the table has the range of each measure."""
    out = tmp_path / "runs"
    done = simulate(
        small, "--seeds", "0..1", "--set", "duration=30s", "--out", str(out)
    )
    assert not done.exit_code, done.output
    assert "2 runs" in done.output
    assert "(1 to 1)" in done.output
    assert sorted(path.name for path in out.glob("small*")) == [
        "small-0.json",
        "small-0.jsonl",
        "small-1.json",
        "small-1.jsonl",
    ]


def test_two_scenarios_are_compared(small: str, tmp_path: Path) -> None:
    """Their runs in pairs; their files in two folders."""
    out = tmp_path / "runs"
    changes = ("--set", "duration=20s", "--against", "groups.billing.members=2")
    done = simulate(small, *changes, "--seeds", "0..0", "--out", str(out))
    assert not done.exit_code, done.output
    assert "second: groups.billing.members=2" in done.output
    assert "members settled at the end                  3.0     2.0        -1.0" in (
        done.output
    )
    assert "too few seeds" in done.output
    assert (out / "first/small-0.jsonl").exists()
    assert (out / "second/small-0.jsonl").exists()


def test_a_recorded_group_is_played(small: str, tmp_path: Path) -> None:
    """Or its scenario is printed."""
    simulate(small, "--set", "duration=20s", "--out", str(tmp_path))
    events = str(tmp_path / "small-1.jsonl")
    printed = simulate("--from", events, "--print")
    assert "[groups.billing]\nmembers = 3\n" in printed.output
    played = simulate("--from", events, "--set", "duration=5s")
    assert "The group billing, as it was recorded: 1 run" in played.output
    wrong = simulate("--from", events, "--group", "orders")
    assert "no member of orders joined" in wrong.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "SCENARIO is missing"),
        (("nothing",), "ready scenarios are cold-start"),
        (("cold-start", "--from", "x"), "give one of SCENARIO, --from, --compare"),
        (("cold-start", "--group", "x"), "--group is an option of --from"),
        (("--compare", "a", "b", "--against", "c=d"), "exclude each other"),
        (("cold-start", "--seeds", "9..3"), "begins behind its end"),
        (("cold-start", "--seeds", "some"), "must be A..B"),
        (("cold-start", "--set", "duration"), "must be KEY=VALUE"),
        (("cold-start", "--set", "duration=ever"), "duration: 'ever': must be"),
    ],
)
def test_mistakes_end_the_command(arguments: tuple[str, ...], message: str) -> None:
    """With code 2 and one line."""
    done = simulate(*arguments)
    assert done.exit_code == 2
    assert message in done.output


def test_checks(small: str) -> None:
    """A run without a violation; the seeds are those of --seeds."""
    done = simulate(small, "--seeds", "0..1", "--set", "duration=30s", "--check")
    assert not done.exit_code, done.output
    assert "no violation in 2 runs" in done.output


def test_a_violation_ends_the_command(small: str) -> None:
    """With code 1, the smallest scenario, and the command that replays it."""
    remove = plant("unanswered_sync")
    try:
        done = simulate(small, "--set", "duration=30s", "--check")
    finally:
        remove()
    assert done.exit_code == 1
    assert "violated at " in done.output
    assert "a request without an answer waits in a group" in done.output
    assert "\nkohort simulate small-1.toml --seed 1 --check\n" in done.output
    assert "seed 1 violates an invariant" in done.output
