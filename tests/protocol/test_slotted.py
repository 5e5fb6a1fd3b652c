"""Values: positional, equal by their fields, and frozen on request."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import subprocess
import sys

import pytest

from kohort.protocol.slotted import FROZEN, FrozenError, replace, slotted


@slotted
class Point:
    """A value with a default."""

    x: int
    y: int = 0


@slotted
class Pixel:
    """A value with the same fields."""

    x: int
    y: int = 0


def test_a_value_is_built_by_position_or_name() -> None:
    """Omitted fields have their defaults."""
    assert repr(Point(1)) == "Point(x=1, y=0)"
    assert Point(1, 2) == Point(y=2, x=1)
    with pytest.raises(TypeError, match="missing"):
        Point()  # type: ignore[call-arg]


def test_the_constructor_is_made_when_it_is_first_used() -> None:
    """Once for all values; tools that look at it see the fields and their defaults."""

    @slotted
    class Late:
        x: int
        y: int = 0

    assert not inspect.isfunction(vars(Late)["__init__"])
    assert Late(1).x == 1
    made = vars(Late)["__init__"]
    assert inspect.isfunction(made)
    assert Late(2).x == 2
    assert vars(Late)["__init__"] is made
    assert str(inspect.signature(Late)) == "(x, y=0)"
    assert str(inspect.signature(Pixel)) == "(x, y=0)"


def test_values_are_equal_by_type_and_fields() -> None:
    """Not by identity, and not across types."""
    assert Point(1, 2) == Point(1, 2)
    assert Point(1, 2) != Point(1, 3)
    other: object = Pixel(1, 2)
    assert Point(1, 2) != other
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1))


def test_values_match_by_position() -> None:
    """A match statement takes them apart."""
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_values_are_copied_pickled_and_replaced() -> None:
    """Frozen values can be copied, too."""
    point = Point(1, 2)
    assert copy.deepcopy(point) == point
    assert pickle.loads(pickle.dumps(point)) == point
    assert replace(point, y=5) == Point(1, 5)
    assert point == Point(1, 2)


def test_tests_run_with_frozen_values() -> None:
    """A frozen value allows no assignment of a field, and no new one."""
    assert FROZEN
    point = Point(1)
    for name in ("x", "z"):
        with pytest.raises(FrozenError, match=f"Point.{name} is read-only"):
            setattr(point, name, 2)
    with pytest.raises(FrozenError):
        del point.x
    assert point == Point(1)


def test_values_are_plain_slots_when_served() -> None:
    """Without the variable, there is no check."""
    code = (
        "from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest as H\n"
        "h = H('g', 1); h.generation_id = 2\n"
        "assert '__setattr__' not in vars(H) and not hasattr(h, '__dict__')\n"
        "print(h.generation_id)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "KOHORT_FROZEN"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.stdout == "2\n"
