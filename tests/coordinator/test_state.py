"""The table of states."""

from __future__ import annotations

import itertools

import pytest

from kohort.broker.coordinator.classic.group import ClassicGroup
from kohort.broker.coordinator.classic.state import TRANSITIONS, check
from kohort.broker.coordinator.state import GroupState

LISTED = {
    ("Empty", "PreparingRebalance"),
    ("Empty", "Dead"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("PreparingRebalance", "Empty"),
    ("CompletingRebalance", "Stable"),
    ("CompletingRebalance", "PreparingRebalance"),
    ("Stable", "PreparingRebalance"),
}


@pytest.mark.parametrize(
    ("before", "after"), list(itertools.product(GroupState, GroupState))
)
def test_only_listed_transitions_pass(before: GroupState, after: GroupState) -> None:
    """A transition that is not in the table raises an error."""
    if (before, after) in LISTED:
        check(before, after)
    else:
        with pytest.raises(AssertionError, match="no transition"):
            check(before, after)


def test_every_state_is_in_the_table() -> None:
    """Every state of the protocol has its exits in the table, even the last one."""
    others = {GroupState.ASSIGNING, GroupState.RECONCILING}
    assert set(TRANSITIONS) == set(GroupState) - others


def test_a_group_refuses_what_the_table_refuses() -> None:
    """A group refuses a transition that is not in the table, and keeps its state."""
    group = ClassicGroup("g", 0.0)
    with pytest.raises(AssertionError):
        group.transition(GroupState.STABLE, 1.0)
    assert group.state is GroupState.EMPTY
