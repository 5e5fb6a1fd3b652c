"""Reads tables of a scenario; each mistake is an error that names its place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from kohort.simulation.world.randomness import Distribution, read

T = TypeVar("T")

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)").fullmatch
_SECONDS: Final[Mapping[str, float]] = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_MISSING: Final = object()


class ScenarioError(ValueError):
    """A scenario has a mistake; the message names its place and what is allowed."""


class Table:
    """A table of a scenario, whose keys are taken one by one.

    Args:
        place: its name, such as ``groups.billing``; "" for the whole scenario.
        values: as TOML has them.

    Raises:
        ScenarioError: from all methods.
    """

    def __init__(self, place: str, values: object) -> None:
        if not isinstance(values, Mapping):
            raise ScenarioError(f"{place}: must be a table, not {values!r}")
        self.place = place
        self._values = values
        self._known: list[str] = []

    def name(self, key: str) -> str:
        """The name of a key in errors."""
        return f"{self.place}.{key}" if self.place else key

    def take(self, key: str, check: Callable[[Any], T], default: Any = _MISSING) -> T:
        """The value of a key.

        Args:
            key: its name.
            check: returns the value, or raises `ValueError` with the reason.
            default: the value of a missing key; without one the key is needed.
        """
        self._known.append(key)
        value = self._values.get(key, _MISSING)
        if value is _MISSING:
            if default is _MISSING:
                raise ScenarioError(f"{self.name(key)}: is missing")
            return default  # type: ignore[no-any-return]  # it is a T
        try:
            return check(value)
        except ScenarioError:
            raise
        except ValueError as error:
            raise ScenarioError(f"{self.name(key)}: {error}") from None

    def table(self, key: str) -> Table:
        """A table within this one; an empty one if it is missing."""
        self._known.append(key)
        return Table(self.name(key), self._values.get(key, {}))

    def tables(self, key: str) -> list[Table]:
        """The tables of an array, each with its number."""
        self._known.append(key)
        rows = self._values.get(key, [])
        if not isinstance(rows, list):
            raise ScenarioError(f"{self.name(key)}: must be [[{self.name(key)}]]")
        return [Table(f"{self.name(key)}[{n}]", row) for n, row in enumerate(rows, 1)]

    def named(self) -> dict[str, Table]:
        """The tables of this one by name, such as those of all groups."""
        return {key: Table(self.name(key), self._values[key]) for key in self._values}

    def settings(self) -> dict[str, Any]:
        """All values, whose keys are not a scenario's but Kafka's."""
        return dict(self._values)

    def close(self) -> None:
        """Checks that no other keys are there."""
        for key in self._values:
            if key not in self._known:
                close = difflib.get_close_matches(key, self._known, 1)
                hint = f"did you mean {close[0]}?" if close else self._listed()
                raise ScenarioError(f"{self.name(key)}: is no key here; {hint}")

    def _listed(self) -> str:
        return f"there are {', '.join(sorted(self._known)) or 'none'}"


def _refused(value: object, wanted: str) -> ValueError:
    return ValueError(f"{value!r}: must be {wanted}")


def text(value: Any) -> str:
    """A non-empty text."""
    if not isinstance(value, str) or not value:
        raise _refused(value, "a text")
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise _refused(value, "true or false")
    return value


def count(least: int, most: int) -> Callable[[Any], int]:
    """A whole number in a range."""

    def check(value: Any) -> int:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number or not least <= value <= most:
            raise _refused(value, f"a whole number, {least} to {most}")
        return int(value)

    return check


def number(value: Any) -> float:
    """A number from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise _refused(value, "a number from 0 on")
    return float(value)


def word(*words: str) -> Callable[[Any], str]:
    """One of some words."""

    def check(value: Any) -> str:
        if value not in words:
            raise _refused(value, f"one of {', '.join(words)}")
        return str(value)

    return check


def texts(value: Any) -> list[str]:
    """A list of texts, or one of them."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise _refused(value, "a list of names")
    return found


def seconds(value: Any) -> float:
    """A duration: a number of seconds, or a text such as "500ms", "30s" or "5m"."""
    found = _DURATION(value) if isinstance(value, str) else None
    if found is not None:
        return float(found[1]) * _SECONDS[found[2]]
    if isinstance(value, str):
        raise _refused(value, 'seconds, or a text such as "30s" or "5m"')
    return number(value)


def distribution_ms(value: Any) -> Distribution:
    """A distribution of milliseconds, as one of seconds."""
    return read(value).scaled(0.001)


def distribution_s(value: Any) -> Distribution:
    """A distribution of seconds."""
    return read(value)


def seeds(value: Any) -> range:
    """The seeds of a range such as ``"0..99"``, both ends included."""
    first, dots, last = value.partition("..") if isinstance(value, str) else ("",) * 3
    if not dots or not first.isdecimal() or not last.isdecimal():
        raise _refused(value, "A..B, such as 0..9")
    if int(first) > int(last):
        raise ValueError(f"{value!r}: begins behind its end")
    return range(int(first), int(last) + 1)
