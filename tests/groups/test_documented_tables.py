"""Plays the tables of docs/reference/groups.md on the coordinator, row by row."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.groups.states import PLAYS, STATES
from tests.groups.triggers import NO_TRIGGERS, TRIGGERS

from kohort.broker.coordinator.classic.state import TRANSITIONS
from kohort.protocol.errors import ErrorCode

DOCUMENT = (Path(__file__).parents[2] / "docs" / "reference" / "groups.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its two head lines."""
    _, _, text = DOCUMENT.partition(f"## {heading}\n")
    lines = [
        line for line in text.partition("\n## ")[0].splitlines() if line[:1] == "|"
    ]
    assert lines, f"no table under {heading!r}"
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


def by_state_and_trigger(heading: str) -> dict[tuple[str, str], list[str]]:
    """The rows of a table of triggers; no two are equal."""
    table = {(row[0], row[1]): row[2:] for row in rows(heading)}
    assert len(table) == len(rows(heading))
    return table


DOCUMENTED = by_state_and_trigger("Transitions")
IGNORED = by_state_and_trigger("No transition")
ANSWERS = {row[0]: row[1:] for row in rows("Response to each request")}


def test_the_transitions_are_those_of_the_code() -> None:
    """The document and the coordinator's table have the same transitions."""
    documented = {(before, after) for (before, _), (after, _) in DOCUMENTED.items()}
    assert documented == {
        (str(before), str(after))
        for before, exits in TRANSITIONS.items()
        for after in exits
    }


def test_every_row_is_played() -> None:
    """Each row has its scene here, and each scene its row."""
    assert set(DOCUMENTED) == set(TRIGGERS)
    assert set(IGNORED) == set(NO_TRIGGERS)
    assert set(ANSWERS) == set(PLAYS)
    assert [row[0] for row in rows("The five states")] == STATES


@pytest.mark.parametrize(("state", "trigger"), list(TRIGGERS))
def test_trigger(state: str, trigger: str) -> None:
    """The trigger takes the group to the documented state, for the documented cause."""
    after, cause = DOCUMENTED[state, trigger]
    scene = TRIGGERS[state, trigger]()
    context = next(scene)
    assert context.state() == state
    seen = len(context.notices)
    assert next(scene, None) is None
    notices = context.notices[seen:]
    changes = [n.fields for n in notices if n.kind == "group_state"]
    causes = [n.fields["cause"] for n in notices if n.kind == "rebalance_started"]
    assert (changes[0]["previous_state"], changes[0]["state"]) == (state, after)
    assert causes[:1] == ([cause.strip("`")] if cause else [])


@pytest.mark.parametrize(("state", "what"), list(NO_TRIGGERS))
def test_no_trigger(state: str, what: str) -> None:
    """The group keeps its state and its generation."""
    scene = NO_TRIGGERS[state, what]()
    context = next(scene)
    assert context.state() == state
    generation_id = context.coordinator.groups["g"].generation_id
    seen = len(context.notices)
    assert next(scene, None) is None
    assert "group_state" not in {n.kind for n in context.notices[seen:]}
    assert context.coordinator.groups["g"].generation_id == generation_id


@pytest.mark.parametrize("request_name", list(PLAYS))
def test_answers(request_name: str) -> None:
    """In each state the request is answered as its row says."""
    played = [PLAYS[request_name](state) for state in STATES]
    assert played == ANSWERS[request_name]


def test_the_numbers_are_explained() -> None:
    """Each error code of the table is listed below it, with Kafka's name."""
    codes = {
        code
        for cells in ANSWERS.values()
        for cell in cells
        for code in cell.split(" / ")
        if code != "waits"
    }
    for code in codes:
        assert f"{code} {ErrorCode(int(code)).name}" in DOCUMENT
